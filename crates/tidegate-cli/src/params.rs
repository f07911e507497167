//! Values that are given by name, `--param day="DATE '2024-01-31'"`, and stand in statements as `$day`.
//!
//! A value that reads as a literal of SQL is one: a number, a string in quotes, TRUE, FALSE, NULL, or
//! a DATE, TIME, TIMESTAMP or INTERVAL with its string. Anything else is a string as it stands. It
//! takes the place of the name as a whole, so no value can be more than a value.

use std::collections::BTreeMap;
use std::fmt;

use tidegate::statements;

/// Words that may stand before a string and say its type.
const TYPES: [&str; 5] = ["DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL"];

/// Values by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads `NAME=VALUE`.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub(crate) fn read(assignments: &[String]) -> Result<Self, String> {
        let mut params = Self::default();
        for assignment in assignments {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(format!(
                    "--param {assignment}: expected NAME=VALUE, such as day=3"
                ));
            };
            params.set(name.trim(), value)?;
        }
        Ok(params)
    }

    /// Gives a name a value.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let name = name.trim_start_matches('$');
        let is_letter = |c: char| c.is_alphabetic() || c == '_';
        let is_name =
            name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_numeric());
        if !is_name {
            return Err(format!(
                "'{name}' is not a parameter name: it begins with a letter, and has letters, \
                 digits and _"
            ));
        }
        self.0.insert(name.to_string(), literal(value));
        Ok(())
    }

    /// Takes a name's value away; false if it has none.
    pub(crate) fn unset(&mut self, name: &str) -> bool {
        self.0.remove(name.trim_start_matches('$')).is_some()
    }

    /// Puts the values into a statement.
    pub(crate) fn fill(&self, sql: &str) -> String {
        if self.0.is_empty() {
            return sql.to_string();
        }
        statements::with_values(sql, |name| self.0.get(name).map(String::as_str))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self
            .0
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        f.write_str(&lines.by_ref().collect::<Vec<_>>().join("\n"))
    }
}

/// Writes a value as a literal of SQL.
pub(crate) fn literal(value: &str) -> String {
    let text = value.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let upper = word.to_ascii_uppercase();
    let is_typed = TYPES.contains(&upper.as_str()) && is_string(rest.trim());
    let is_word = ["TRUE", "FALSE", "NULL"].contains(&text.to_ascii_uppercase().as_str());
    if is_typed || is_word || is_string(text) || is_number(text) {
        return text.to_string();
    }
    format!("'{}'", value.replace('\'', "''"))
}

/// Tells whether a text is one string in quotes.
fn is_string(text: &str) -> bool {
    let inner = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''));
    inner.is_some_and(|inner| !inner.replace("''", "").contains('\''))
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_mantissa = !(whole.is_empty() && part.is_empty());
    is_mantissa
        && !exponent.is_empty()
        && all_digits(whole)
        && all_digits(part)
        && all_digits(exponent)
}

#[cfg(test)]
mod tests;
