//! Text with statements and commands, cut into the steps that run one after the other.

use std::fs;
use std::io::{self, Read};
use std::panic;

use tidegate::statements::{self, Statement, StatementError};

use crate::args::Source;
use crate::failure::Failure;
use crate::panics;

/// Text with statements, and what to call it.
#[derive(Debug)]
pub(crate) struct Script {
    name: Option<String>,
    text: Result<String, String>,
}

impl Script {
    /// Takes text as it was typed.
    pub(crate) fn typed(text: &str) -> Self {
        Self {
            name: None,
            text: Ok(text.to_string()),
        }
    }

    /// Reads a source to its end.
    pub(crate) fn read(source: &Source) -> Self {
        match source {
            Source::Text(text) => Self::typed(text),
            Source::File(path) => {
                let name = path.display().to_string();
                let text = fs::read(path)
                    .map_err(|error| format!("cannot read {name}: {error}"))
                    .and_then(|bytes| decode(&name, bytes));
                Self {
                    name: Some(name),
                    text,
                }
            }
            Source::Stdin => {
                let name = "standard input";
                let mut bytes = Vec::new();
                let text = match io::stdin().lock().read_to_end(&mut bytes) {
                    Ok(_) => decode(name, bytes),
                    Err(error) => Err(format!("cannot read {name}: {error}")),
                };
                Self {
                    name: Some(name.to_string()),
                    text,
                }
            }
        }
    }

    /// Cuts the text into steps: at its semicolons, and at lines that are commands.
    ///
    /// # Errors
    /// Why the text could not be read or cut, with the name of the script.
    pub(crate) fn steps(&self) -> Result<Vec<Step>, String> {
        let text = self.text.as_ref().map_err(String::clone)?;
        // On this thread a panic would end the prompt.
        let cut = panic::catch_unwind(|| cut(text));
        let steps = cut.unwrap_or_else(|_| Err(Failure::Panic(panics::take()).to_string()));
        steps.map_err(|error| match &self.name {
            Some(name) => format!("{name}: {error}"),
            None => error,
        })
    }

    /// Says where a step stands.
    pub(crate) fn place(&self, step: &Step) -> String {
        let excerpt = match &step.what {
            What::Statement(statement) => statements::redacted(&statement.excerpt()).into_owned(),
            What::Command(line) => line.clone(),
        };
        match &self.name {
            Some(name) => format!("in {name}, line {}: {excerpt}", step.line),
            None => format!("in: {excerpt}"),
        }
    }
}

/// A part of a script that runs by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) what: What,
    /// Its line in the script, from 1.
    pub(crate) line: u64,
}

/// What a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Statement(Statement),
    /// A line such as `\\timing on`, or `exit`.
    Command(String),
}

/// Cuts text into steps. A command begins a line on which no statement is open.
fn cut(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut begun = 0;
    let mut first_line = 1;
    let mut offset = 0;
    for (line, number) in text.split_inclusive('\n').zip(1_u64..) {
        let open = &text[begun..offset];
        offset += line.len();
        if !(is_command(line) || is_leave(line))
            || !(open.trim().is_empty() || statements::is_complete(open))
        {
            continue;
        }
        append(open, first_line, text, &mut steps)?;
        steps.push(Step {
            what: What::Command(line.trim().to_string()),
            line: number,
        });
        begun = offset;
        first_line = number + 1;
    }
    append(&text[begun..], first_line, text, &mut steps)?;
    Ok(steps)
}

/// Tells whether a line reads as a command wherever no statement is open. A number such as `.5` does
/// not.
fn is_command(line: &str) -> bool {
    let mut letters = line.trim_start().chars();
    let prefix = matches!(letters.next(), Some('\\' | '.'));
    prefix
        && letters
            .next()
            .is_some_and(|letter| letter.is_alphabetic() || letter == '?')
}

/// Tells whether a statement is one of the words by which people leave other shells.
pub(crate) fn is_leave(text: &str) -> bool {
    let word = text.trim().trim_end_matches(';').trim_end();
    ["exit", "quit"]
        .iter()
        .any(|leave| word.eq_ignore_ascii_case(leave))
}

/// Adds the statements of a part of a text, which begins on a line of it.
fn append(part: &str, first_line: u64, text: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let located = statements::locate(part).map_err(|error| {
        let error = match error {
            StatementError::Syntax {
                message,
                line,
                column,
            } => StatementError::Syntax {
                message,
                line: line + first_line - 1,
                column,
            },
            other => other,
        };
        format!("{:#}", error.in_text(text))
    })?;
    steps.extend(located.into_iter().map(|statement| Step {
        line: statement.line() + first_line - 1,
        what: What::Statement(statement),
    }));
    Ok(())
}

fn decode(name: &str, bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text: byte {place} begins no character")
    })?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or_else(|| text.clone(), str::to_string))
}

#[cfg(test)]
mod tests;
