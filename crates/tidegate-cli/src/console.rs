//! What is said beside the results: notes and errors, on standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::environment;

/// Writes lines to standard error. If nobody reads them, there is nobody to tell.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes an error and where it happened to standard error.
pub(crate) fn error(message: impl Display, place: Option<&str>) {
    let red = io::stderr().is_terminal() && environment::colours();
    let label = if red {
        "\x1b[1;31merror:\x1b[0m"
    } else {
        "error:"
    };
    note(format_args!("{label} {message}"));
    if let Some(place) = place {
        note(format_args!("  {place}"));
    }
}

/// Writes a number with its thousands apart.
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number of rows with its noun.
pub(crate) fn rows(number: usize) -> String {
    match number {
        1 => "1 row".to_string(),
        number => format!("{} rows", count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, rows};

    #[test]
    fn numbers_have_their_thousands_apart() {
        let table = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ];
        for (number, text) in table {
            assert_eq!(count(number), text);
        }
        assert_eq!(
            (rows(0), rows(1), rows(2)),
            ("0 rows".into(), "1 row".into(), "2 rows".into())
        );
    }
}
