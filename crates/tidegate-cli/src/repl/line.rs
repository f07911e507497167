//! When a typed line is complete.

use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Completer, Helper, Highlighter, Hinter};
use tidegate::statements;

use super::command;

/// Lets Enter go to the next line until there is a command or a whole statement.
#[derive(Completer, Helper, Highlighter, Hinter)]
pub(super) struct LineRules;

impl Validator for LineRules {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(typed.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

fn is_complete(text: &str) -> bool {
    command::parse(text).is_some() || statements::is_complete(text)
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn enter_runs_commands_and_whole_statements() {
        for text in [
            "",
            "\\d",
            ".timing",
            "\\nonsense",
            "quit",
            "SELECT 1;",
            "SELECT\n1;\n",
        ] {
            assert!(is_complete(text), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT 'a;",
            "SELECT (1;",
            "quit job",
            "SELECT\n\\d",
        ] {
            assert!(!is_complete(text), "{text}");
        }
    }
}
