//! Commands of the prompt: `\name` or `.name`, and an argument.

use clap::ValueEnum;

use crate::args::{Format, MaxRows};

/// A command of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Help,
    /// Lists the tables, or the columns of one.
    Describe(Option<String>),
    /// Without an argument, turns it on or off.
    Timing(Option<bool>),
    Placement(Option<bool>),
    /// Without an argument, tells.
    Format(Option<Format>),
    MaxRows(Option<MaxRows>),
}

/// What `\?` prints.
pub(super) const HELP: &str = "\
\\d [TABLE]         list the tables, or the columns of one
\\timing [on|off]   print how long statements take
\\placement [on|off] print where each query ran, and why
\\format [NAME]     write results as table, csv, json or ndjson
\\maxrows [N|all]   show so many rows of a table
\\h, \\?             this list
\\q                 leave; so does Ctrl-D
A dot does as well as a backslash. A statement ends with a semicolon and may take several lines.
Ctrl-C clears what is typed, or cancels the statement that runs.";

/// The names of the commands, the first of each being the one that is suggested.
const NAMES: [(&str, &[&str]); 7] = [
    ("q", &["q", "quit", "exit"]),
    ("?", &["?", "h", "help"]),
    ("d", &["d", "describe", "tables", "schema"]),
    ("timing", &["timing", "timer"]),
    ("placement", &["placement"]),
    ("format", &["format", "mode"]),
    ("maxrows", &["maxrows"]),
];

/// Reads a command; `None` if `text` is none, an error if it is one that does not exist.
pub(super) fn parse(text: &str) -> Option<Result<Command, String>> {
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
    Some(named(
        name,
        Some(argument.trim()).filter(|argument| !argument.is_empty()),
    ))
}

fn named(name: &str, argument: Option<&str>) -> Result<Command, String> {
    let lower = name.to_ascii_lowercase();
    let Some((command, _)) = NAMES
        .iter()
        .find(|(_, names)| names.contains(&lower.as_str()))
    else {
        return Err(unknown(&lower));
    };
    let command = match *command {
        "q" => Command::Quit,
        "d" => Command::Describe(argument.map(str::to_string)),
        "timing" => Command::Timing(switch(name, argument)?),
        "placement" => Command::Placement(switch(name, argument)?),
        "format" => {
            let format = argument.map(|argument| Format::from_str(argument, true));
            let wrong = |_| format!("\\{name} takes table, csv, json or ndjson");
            Command::Format(format.transpose().map_err(wrong)?)
        }
        "maxrows" => {
            let rows = argument.map(str::parse).transpose();
            Command::MaxRows(rows.map_err(|error| format!("\\{name}: {error}"))?)
        }
        _ => Command::Help,
    };
    Ok(command)
}

fn switch(name: &str, argument: Option<&str>) -> Result<Option<bool>, String> {
    match argument {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(_) => Err(format!("\\{name} takes on, off or nothing")),
    }
}

fn unknown(name: &str) -> String {
    let names = NAMES
        .iter()
        .flat_map(|(first, names)| names.iter().map(move |name| (name, first)));
    let near = names
        .map(|(known, first)| (distance(name, known), first))
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance);
    match near {
        Some((_, first)) => format!("there is no command \\{name}; did you mean \\{first}?"),
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
mod tests {
    use super::{Command, parse};
    use crate::args::{Format, MaxRows};

    fn check(text: &str, expect: Command) {
        assert_eq!(parse(text), Some(Ok(expect)), "{text}");
    }

    #[test]
    fn commands_have_two_prefixes_and_some_names() {
        for text in ["\\q", ".q", ".quit", "\\EXIT", "quit", "exit;", " quit ; "] {
            check(text, Command::Quit);
        }
        for text in ["\\h", "\\?", ".help", "help"] {
            check(text, Command::Help);
        }
        check("\\d", Command::Describe(None));
        check(".tables", Command::Describe(None));
        check(
            "\\d  \"My table\" ;",
            Command::Describe(Some("\"My table\"".into())),
        );
        check("\\timing", Command::Timing(None));
        check(".timer on", Command::Timing(Some(true)));
        check("\\placement off", Command::Placement(Some(false)));
        check("\\format JSON", Command::Format(Some(Format::Json)));
        check(".mode", Command::Format(None));
        check("\\maxrows all", Command::MaxRows(Some(MaxRows(None))));
        check("\\maxrows 7", Command::MaxRows(Some(MaxRows(Some(7)))));
    }

    #[test]
    fn sql_is_no_command() {
        for text in ["", "SELECT 1", "quit job;", "SELECT '\\d'", "-- \\d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn mistakes_get_a_way_out() {
        let check = |text: &str, expect: &str| assert_eq!(parse(text), Some(Err(expect.into())));
        check(
            "\\formt csv",
            "there is no command \\formt; did you mean \\format?",
        );
        check(
            ".timings",
            "there is no command \\timings; did you mean \\timing?",
        );
        check("\\table", "there is no command \\table; did you mean \\d?");
        check("\\xyzzy", "there is no command \\xyzzy; \\? lists them");
        check("\\timing maybe", "\\timing takes on, off or nothing");
        check("\\format xml", "\\format takes table, csv, json or ndjson");
        check(
            "\\maxrows x",
            "\\maxrows: expected a number of rows or 'all'",
        );
    }
}
