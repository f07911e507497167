//! Where in a statement a mistake is, with the line that shows it.

use std::fmt;

use unicode_width::UnicodeWidthChar;

/// Columns of a terminal that a shown line takes at most.
const SHOWN_MAX: usize = 100;

/// Columns that are shown before the mistake where a line is cut.
const BEFORE_MAX: usize = 40;

/// What stands where a line is cut.
const CUT: char = '…';

/// A place in a statement's text; lines and columns are counted from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlPlace {
    line: u64,
    column: u64,
    characters: u64,
    /// The text of the line; `None` if it is not to be shown.
    text: Option<String>,
}

impl SqlPlace {
    /// Makes the place of `characters` characters of a text.
    pub(crate) fn new(sql: &str, line: u64, column: u64, characters: u64) -> Self {
        let (line, column) = (line.max(1), column.max(1));
        let nth = usize::try_from(line - 1).unwrap_or(usize::MAX);
        let text = sql.lines().nth(nth).map(str::to_owned);
        Self {
            line,
            column,
            characters: characters.max(1),
            text,
        }
    }

    /// Keeps the line from being shown, for it holds a secret.
    pub(crate) fn without_text(self) -> Self {
        Self { text: None, ..self }
    }

    /// Returns the line.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the column.
    pub fn column(&self) -> u64 {
        self.column
    }

    /// Returns the number of characters.
    pub fn characters(&self) -> u64 {
        self.characters
    }
}

/// Writes the line, and under it carets below the place.
impl fmt::Display for SqlPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(text) = &self.text else {
            return write!(f, "  at line {}, column {}", self.line, self.column);
        };
        let column = usize::try_from(self.column - 1).unwrap_or(usize::MAX);
        let count = usize::try_from(self.characters).unwrap_or(usize::MAX);
        let (shown, before, under) = cut(text, column, count);
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "  {number} | {shown}")?;
        write!(
            f,
            "  {margin} | {}{}",
            " ".repeat(before),
            "^".repeat(under)
        )
    }
}

/// Cuts a line to what is shown; returns it with the width before the place and that of the place.
fn cut(text: &str, column: usize, count: usize) -> (String, usize, usize) {
    // Tabs and control characters would move what stands below.
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let width = |chars: &[char]| chars.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let chars: Vec<char> = text.trim_end().chars().map(plain).collect();
    let column = column.min(chars.len());
    let first = match width(&chars) > SHOWN_MAX {
        true => column.saturating_sub(BEFORE_MAX),
        false => 0,
    };
    let mut shown: Vec<char> = Vec::new();
    if first > 0 {
        shown.push(CUT);
    }
    let before = width(&shown) + width(&chars[first..column]);
    for (index, c) in chars.iter().enumerate().skip(first) {
        if width(&shown) >= SHOWN_MAX && index > column {
            shown.push(CUT);
            break;
        }
        shown.push(*c);
    }
    let end = column.saturating_add(count).min(chars.len());
    let left = SHOWN_MAX.saturating_sub(before).max(1);
    let under = width(&chars[column..end]).clamp(1, left);
    (shown.into_iter().collect(), before, under)
}

#[cfg(test)]
mod tests;
