//! Commands of the prompt: `\name` or `.name`, and an argument. Each is defined once, in [`COMMANDS`].

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::args::{Format, MaxRows};

/// How often `\watch` runs a statement unless told otherwise.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// A command of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Quit,
    Help,
    /// Lists the tables, or the columns of one.
    Describe(Option<String>),
    /// Lists the functions whose names hold this.
    Functions(Option<String>),
    /// Without an argument, turns it on or off.
    Timing(Option<bool>),
    Placement(Option<bool>),
    Pager(Option<bool>),
    Progress(Option<bool>),
    Expanded(Option<Expansion>),
    /// Without an argument, tells.
    Format(Option<Format>),
    MaxRows(Option<MaxRows>),
    /// Writes results to a file, or to the screen again.
    Output(Option<PathBuf>),
    /// Runs the statements of a file.
    Include(PathBuf),
    /// Runs the last statement again and again.
    Watch(Duration),
    /// Edits the last statement, and runs it.
    Edit,
    /// Gives a name a value, or lists them.
    Set(Option<(String, String)>),
    Unset(String),
}

/// When rows are written as blocks of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expansion {
    On,
    Off,
    /// When they are wider than the terminal.
    Auto,
}

/// What a command takes, as far as Tab knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    /// The name of a table.
    Table,
    Path,
    OneOf(&'static [&'static str]),
    /// Nothing that could be proposed.
    Free,
}

/// A command's definition.
struct Definition {
    /// Its names, the first being the one that is listed and suggested.
    names: &'static [&'static str],
    argument: Argument,
    /// How it is typed, and what it does.
    usage: &'static str,
    help: &'static str,
    read: fn(&str, Option<&str>) -> Result<Command, String>,
}

const ON_OR_OFF: Argument = Argument::OneOf(&["on", "off"]);

const FORMATS: &[&str] = &[
    "table", "expanded", "csv", "tsv", "json", "ndjson", "markdown", "arrow", "parquet",
];

const COMMANDS: [Definition; 17] = [
    Definition {
        names: &["d", "d+", "dt", "dt+", "dv", "describe", "tables", "schema"],
        argument: Argument::Table,
        usage: "\\d [TABLE]",
        help: "list your tables, or the columns of one",
        read: |_, argument| Ok(Command::Describe(argument.map(str::to_string))),
    },
    Definition {
        names: &["df", "functions"],
        argument: Argument::Free,
        usage: "\\df [TEXT]",
        help: "list the functions whose names contain a text",
        read: |_, argument| Ok(Command::Functions(argument.map(str::to_string))),
    },
    Definition {
        names: &["timing", "timer"],
        argument: ON_OR_OFF,
        usage: "\\timing [on|off]",
        help: "print how long statements take",
        read: |name, argument| Ok(Command::Timing(switch(name, argument)?)),
    },
    Definition {
        names: &["placement"],
        argument: ON_OR_OFF,
        usage: "\\placement [on|off]",
        help: "print where each query ran, and why",
        read: |name, argument| Ok(Command::Placement(switch(name, argument)?)),
    },
    Definition {
        names: &["x", "expanded"],
        argument: Argument::OneOf(&["on", "off", "auto"]),
        usage: "\\x [on|off|auto]",
        help: "write each row as a block of lines; auto: where it is wider than the terminal",
        read: |name, argument| match argument {
            None => Ok(Command::Expanded(None)),
            Some("on") => Ok(Command::Expanded(Some(Expansion::On))),
            Some("off") => Ok(Command::Expanded(Some(Expansion::Off))),
            Some("auto") => Ok(Command::Expanded(Some(Expansion::Auto))),
            Some(_) => Err(format!("\\{name} takes on, off, auto or nothing")),
        },
    },
    Definition {
        names: &["format", "mode"],
        argument: Argument::OneOf(FORMATS),
        usage: "\\format [NAME]",
        help: "write results as table, expanded, csv, tsv, json, ndjson, markdown, arrow, parquet",
        read: |name, argument| {
            let format = argument.map(|argument| Format::from_str(argument, true));
            let wrong = |_| format!("\\{name} takes one of {}", FORMATS.join(", "));
            Ok(Command::Format(format.transpose().map_err(wrong)?))
        },
    },
    Definition {
        names: &["maxrows"],
        argument: Argument::OneOf(&["all"]),
        usage: "\\maxrows [N|all]",
        help: "set the maximum number of rows of a table to show",
        read: |name, argument| {
            let rows = argument.map(str::parse).transpose();
            let rows = rows.map_err(|error| format!("\\{name}: {error}"))?;
            Ok(Command::MaxRows(rows))
        },
    },
    Definition {
        names: &["pager"],
        argument: ON_OR_OFF,
        usage: "\\pager [on|off]",
        help: "show results taller than the screen with $PAGER",
        read: |name, argument| Ok(Command::Pager(switch(name, argument)?)),
    },
    Definition {
        names: &["progress", "progress_bar"],
        argument: ON_OR_OFF,
        usage: "\\progress [on|off]",
        help: "show the progress of long queries on a terminal",
        read: |name, argument| Ok(Command::Progress(switch(name, argument)?)),
    },
    Definition {
        names: &["o", "output"],
        argument: Argument::Path,
        usage: "\\o [FILE]",
        help: "write results to a file; without one, to the screen again",
        read: |_, argument| Ok(Command::Output(argument.map(path))),
    },
    Definition {
        names: &["i", "read", "include"],
        argument: Argument::Path,
        usage: "\\i FILE",
        help: "run the statements of a file",
        read: |name, argument| match argument {
            Some(file) => Ok(Command::Include(path(file))),
            None => Err(format!("\\{name} takes the name of a file")),
        },
    },
    Definition {
        names: &["watch"],
        argument: Argument::Free,
        usage: "\\watch [SECONDS]",
        help: "run the last statement every 2 s, or every SECONDS, until Ctrl-C",
        read: |name, argument| {
            let Some(argument) = argument else {
                return Ok(Command::Watch(WATCH_INTERVAL));
            };
            match argument.parse::<f64>() {
                Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => {
                    Ok(Command::Watch(Duration::from_secs_f64(seconds)))
                }
                _ => Err(format!("\\{name} takes seconds, from 0.1 to 86400")),
            }
        },
    },
    Definition {
        names: &["e", "edit"],
        argument: Argument::Free,
        usage: "\\e",
        help: "edit the last statement with $EDITOR, then run it",
        read: |_, _| Ok(Command::Edit),
    },
    Definition {
        names: &["set", "param", "parameter"],
        argument: Argument::Free,
        usage: "\\set [NAME VALUE]",
        help: "set a value for $NAME in statements, or list the values",
        read: |name, argument| {
            let Some(argument) = argument else {
                return Ok(Command::Set(None));
            };
            // As in PostgreSQL's shell, and as on the command line.
            let parts = argument.split_once([' ', '\t', '=']);
            match parts {
                Some((key, value)) if !value.trim().is_empty() => {
                    Ok(Command::Set(Some((key.into(), value.trim().into()))))
                }
                _ => Err(format!("\\{name} takes a name and a value")),
            }
        },
    },
    Definition {
        names: &["unset"],
        argument: Argument::Free,
        usage: "\\unset NAME",
        help: "remove a value",
        read: |name, argument| match argument {
            Some(key) => Ok(Command::Unset(key.to_string())),
            None => Err(format!("\\{name} takes a name")),
        },
    },
    Definition {
        names: &["?", "h", "help"],
        argument: Argument::Free,
        usage: "\\?, \\h",
        help: "this list",
        read: |_, _| Ok(Command::Help),
    },
    Definition {
        names: &["q", "quit", "exit"],
        argument: Argument::Free,
        usage: "\\q",
        help: "leave; so does Ctrl-D",
        read: |_, _| Ok(Command::Quit),
    },
];

/// Returns what `\?` prints.
pub(crate) fn help() -> String {
    let width = COMMANDS.iter().map(|command| command.usage.len()).max();
    let width = width.unwrap_or(0);
    let mut text: String = COMMANDS
        .iter()
        .map(|command| format!("{:width$}  {}\n", command.usage, command.help))
        .collect();
    text.push_str(
        "A dot works as well as a backslash. A statement ends with a semicolon and may take several \
         lines.\nTab completes; Ctrl-R searches the history; Ctrl-C clears what is typed, or cancels \
         the statement that runs.",
    );
    text
}

/// Returns all names of commands.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.names[0])
}

/// Returns what a command takes.
pub(crate) fn argument(name: &str) -> Argument {
    definition(name).map_or(Argument::Free, |command| command.argument)
}

fn definition(name: &str) -> Option<&'static Definition> {
    COMMANDS
        .iter()
        .find(|command| command.names.contains(&name))
}

/// Reads a command; `None` if `text` is none, an error if it is one that does not exist.
pub(crate) fn parse(text: &str) -> Option<Result<Command, String>> {
    let text = text.trim();
    let line = text.trim_end_matches(';').trim_end();
    if matches!(line.to_ascii_lowercase().as_str(), "quit" | "exit") {
        return Some(Ok(Command::Quit));
    }
    if line.eq_ignore_ascii_case("help") {
        return Some(Ok(Command::Help));
    }
    let command = line.strip_prefix(['\\', '.'])?;
    let (name, argument) = command
        .split_once(char::is_whitespace)
        .unwrap_or((command, ""));
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    let lower = name.to_ascii_lowercase();
    Some(match definition(&lower) {
        Some(command) => (command.read)(name, argument),
        None => Err(unknown(&lower)),
    })
}

/// Reads a path as it is typed, in quotes or not.
fn path(text: &str) -> PathBuf {
    let inner = ['\'', '"'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?;
        inner.strip_suffix(*quote)
    });
    PathBuf::from(inner.unwrap_or(text))
}

fn switch(name: &str, argument: Option<&str>) -> Result<Option<bool>, String> {
    match argument {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(_) => Err(format!("\\{name} takes on, off or nothing")),
    }
}

/// Commands of other prompts, and what to write here.
const ELSEWHERE: [(&[&str], &str); 14] = [
    (&["import"], "CREATE TABLE t AS SELECT * FROM 'x.csv'"),
    (
        &["open"],
        "there are no database files; SELECT * FROM 'x.parquet', and \\i FILE",
    ),
    (
        &["nullvalue", "pset"],
        "coalesce(x, 'none') gives another text for NULL",
    ),
    (&["dump", "save", "backup"], "COPY t TO 't.parquet'"),
    (&["once"], "\\o FILE, and \\o to go back to the screen"),
    (
        &["databases", "l", "dn"],
        "SHOW TABLES has the schema of each table",
    ),
    (&["show"], "SHOW ALL"),
    (&["c", "connect"], "tidegate --connect grpc://HOST:PORT"),
    (
        &["cd", "shell", "system", "!"],
        "leave the prompt with \\q first",
    ),
    (
        &["headers", "header"],
        "results have the names of their columns; \\format chooses how they are written",
    ),
    (&["echo", "print"], "SELECT 'text'"),
    (
        &["copy"],
        "COPY t TO 'x.csv' writes a file, CREATE TABLE t AS SELECT * FROM 'x.csv' reads one",
    ),
    (&["excel"], "\\format csv and \\o x.csv"),
    (
        &["g", "gx"],
        "a statement ends with a semicolon; \\x shows each row as a block",
    ),
];

fn unknown(name: &str) -> String {
    let other = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, instead)) = other {
        return format!("there is no command \\{name}: {instead}");
    }
    let near = COMMANDS
        .iter()
        .flat_map(|command| command.names)
        .map(|known| (distance(name, known), known))
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance);
    let first = near
        .and_then(|(_, known)| definition(known))
        .map(|command| command.names[0]);
    match first {
        Some(first) => format!("there is no command \\{name}; did you mean \\{first}?"),
        None => format!("there is no command \\{name}; \\? lists them"),
    }
}

/// Counts the letters to insert, drop or change that turn `a` into `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
