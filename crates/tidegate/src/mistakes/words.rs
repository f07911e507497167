//! The words and symbols of a statement that failed, to find the place of a mistake in them.

use datafusion::common::Span;
use datafusion::common::config::SqlParserOptions;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::error::SqlPlace;
use crate::statements::{redacted, words};

/// A statement's words and symbols, without space and comments.
pub(super) struct Words<'a> {
    sql: &'a str,
    words: Vec<TokenWithSpan>,
    /// Whether its text is not to be shown.
    has_secret: bool,
}

impl<'a> Words<'a> {
    /// Cuts a text, up to the first place where it cannot be cut.
    pub(super) fn new(sql: &'a str, options: &SqlParserOptions) -> Self {
        Self {
            sql,
            words: words(sql, options),
            has_secret: redacted(sql) != sql,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Writes the words and symbols from one index to another.
    pub(super) fn text(&self, first: usize, last: usize) -> Option<String> {
        let words = self.words.get(first..=last)?;
        let words: Vec<String> = words.iter().map(|word| word.token.to_string()).collect();
        let is_word = words
            .iter()
            .any(|word| word.starts_with(char::is_alphanumeric));
        Some(words.join(if is_word { " " } else { "" }))
    }

    /// Returns the name at an index, with its quote.
    pub(super) fn name(&self, index: usize) -> Option<(&str, Option<char>)> {
        match &self.words.get(index)?.token {
            Token::Word(word) => Some((&word.value, word.quote_style)),
            _ => None,
        }
    }

    /// Tells whether an unquoted word or a symbol stands at an index.
    pub(super) fn is(&self, index: usize, expected: &str) -> bool {
        let Some(word) = self.words.get(index) else {
            return false;
        };
        match &word.token {
            Token::Word(word) => {
                word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
            }
            Token::SingleQuotedString(_) => expected == "'_'",
            token => token.to_string() == expected,
        }
    }

    /// Tells whether one of these stands before an index.
    fn follows(&self, index: usize, expected: &[&str]) -> bool {
        let before = index.checked_sub(1);
        before.is_some_and(|before| expected.iter().any(|word| self.is(before, word)))
    }

    /// Returns the index of the word at a location, or behind it.
    pub(super) fn at(&self, location: Location) -> Option<usize> {
        self.words.iter().position(|word| word.span.end > location)
    }

    /// Returns the place of the words from one index to another, which is of the same line.
    pub(super) fn place(&self, first: usize, last: usize) -> Option<SqlPlace> {
        let (first, last) = (self.words.get(first)?, self.words.get(last)?);
        let (start, end) = (first.span.start, last.span.end);
        Some(self.place_of(start, Some(end)))
    }

    /// Returns the place behind the last word.
    pub(super) fn end(&self) -> Option<SqlPlace> {
        let end = self.words.last()?.span.end;
        Some(self.place_of(end, None))
    }

    /// Returns the place of what DataFusion's planner names.
    pub(super) fn spanned(&self, span: Span) -> SqlPlace {
        let start = Location::new(span.start.line, span.start.column);
        let end = Location::new(span.end.line, span.end.column);
        self.place_of(start, Some(end))
    }

    /// Returns the place from a location on.
    pub(super) fn place_of(&self, start: Location, end: Option<Location>) -> SqlPlace {
        let end = end.filter(|end| end.line == start.line);
        let characters = end.map_or(1, |end| end.column.saturating_sub(start.column));
        let place = SqlPlace::new(self.sql, start.line, start.column, characters);
        match self.has_secret {
            true => place.without_text(),
            false => place,
        }
    }

    /// Finds the name of a function that is called.
    pub(super) fn call(&self, is_it: impl Fn(&str) -> bool) -> Option<usize> {
        (0..self.len()).find(|index| {
            let name = self.name(*index);
            name.is_some_and(|(name, _)| is_it(name)) && self.is(index + 1, "(")
        })
    }

    /// Tells whether the call of a function whose name stands at an index has a window.
    pub(super) fn is_over(&self, name: usize) -> bool {
        let mut open = 0_usize;
        for index in name + 1..self.len() {
            if self.is(index, "(") {
                open += 1;
            } else if self.is(index, ")") {
                open = open.saturating_sub(1);
            }
            if open == 0 {
                return self.is(index + 1, "OVER");
            }
        }
        false
    }

    /// Returns the first argument of a call of three whose name stands at an index, if it is one word or string.
    pub(super) fn first_of_three(&self, name: usize) -> Option<String> {
        let mut open = 0_usize;
        let mut num_commas = 0;
        for index in name + 1..self.len() {
            match self.words.get(index)?.token {
                Token::LParen | Token::LBracket | Token::LBrace => open += 1,
                Token::RParen | Token::RBracket | Token::RBrace => open = open.checked_sub(1)?,
                Token::Comma if open == 1 => num_commas += 1,
                _ => {}
            }
            if open == 0 {
                break;
            }
        }
        let is_word = self.is(name + 1, "(") && self.is(name + 3, ",");
        (is_word && num_commas == 2).then(|| self.text(name + 2, name + 2))?
    }

    /// Finds a column, by its table's name if it has one.
    pub(super) fn column(&self, table: Option<&str>, column: &str) -> Option<(usize, usize)> {
        let is_name = |index: usize, expected: &str| {
            let name = self.name(index);
            name.is_some_and(|(name, quote)| match quote {
                Some(_) => name == expected,
                None => name.eq_ignore_ascii_case(expected),
            })
        };
        let mut all = (0..self.len()).filter(|index| is_name(*index, column));
        match table {
            Some(table) => all
                .find(|index| *index >= 2 && self.is(index - 1, ".") && is_name(index - 2, table))
                .map(|index| (index - 2, index)),
            None => {
                let found: Vec<usize> = all.collect();
                let alone = found.iter().find(|index| {
                    !self.is(**index + 1, "(") && !self.follows(**index, &[".", "AS"])
                });
                alone.or(found.first()).map(|index| (*index, *index))
            }
        }
    }

    /// Finds a table by the last part of its name.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        const BEFORE: [&str; 9] = [
            "FROM",
            "JOIN",
            "INTO",
            "UPDATE",
            "TABLE",
            "SUMMARIZE",
            ",",
            ".",
            "DESCRIBE",
        ];
        let is_it = |index: &usize| match &self.words[*index].token {
            Token::Word(word) => word.value.eq_ignore_ascii_case(name),
            Token::SingleQuotedString(text) => text == name,
            _ => false,
        };
        let found: Vec<usize> = (0..self.len()).filter(is_it).collect();
        let behind = found.iter().find(|index| self.follows(**index, &BEFORE));
        behind.or(found.first()).copied()
    }

    /// Finds the name of a type.
    pub(super) fn type_name(&self, name: &str) -> Option<usize> {
        let is_it = |index: &usize| {
            let word = self.name(*index);
            word.is_some_and(|(word, _)| word.eq_ignore_ascii_case(name))
        };
        let found: Vec<usize> = (0..self.len()).filter(is_it).collect();
        let behind = found
            .iter()
            .find(|index| self.follows(**index, &["AS", "::"]));
        behind.or(found.last()).copied()
    }

    /// Finds the only word or string that is this one.
    pub(super) fn only(&self, text: &str) -> Option<usize> {
        let is_it = |index: &usize| match &self.words[*index].token {
            Token::Word(word) => word.value.eq_ignore_ascii_case(text),
            Token::SingleQuotedString(value) => value == text,
            _ => false,
        };
        let mut found = (0..self.len()).filter(is_it);
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    /// Finds a pattern of words and symbols near an index, or anywhere; returns its first and last index.
    pub(super) fn find(&self, pattern: &str, near: Option<usize>) -> Option<(usize, usize)> {
        let (pattern, is_anchored) = match pattern.strip_prefix("^ ") {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let parts: Vec<&str> = pattern.split(' ').collect();
        let last = self.len().checked_sub(parts.len())?;
        let last = if is_anchored { 0 } else { last };
        let fits = |first: &usize| {
            let mut parts = parts.iter().enumerate();
            parts.all(|(index, part)| match part.strip_prefix('!') {
                _ if *part == "_" => true,
                Some(other) if !other.is_empty() => !self.is(first + index, other),
                _ => self.is(first + index, part),
            })
        };
        let is_near = |first: &usize| {
            let last = first + parts.len() - 1;
            let near = near.filter(|_| !is_anchored);
            near.is_none_or(|index| *first <= index + 1 && index <= last + 2)
        };
        let first = (0..=last).filter(is_near).find(fits)?;
        Some((first, first + parts.len() - 1))
    }
}
