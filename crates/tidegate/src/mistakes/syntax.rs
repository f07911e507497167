//! Syntax errors: keywords with a slip of the pen, and what other systems write.

use sqlparser::tokenizer::Location;

use super::rewrites::STATEMENTS;
use super::{Finder, Found};
use crate::statements::STRING_HELP;

/// Words that begin statements and clauses; one that is nearly such a word is taken for a slip.
const KEYWORDS: [&str; 32] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "OUTER",
    "UNION",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "TABLE",
    "VALUES",
    "DESCRIBE",
    "EXPLAIN",
    "WITH",
    "DISTINCT",
    "BETWEEN",
    "PARTITION",
    "OVER",
    "QUALIFY",
    "WINDOW",
    "SUMMARIZE",
    "INTO",
    "DROP",
];

impl Finder<'_> {
    /// Explains what the parser did not expect, at the word `at` or at the end of the text.
    pub(super) fn syntax(&self, message: &str, at: Option<Location>) -> Found {
        let words = self.words;
        let index = at.map_or(Some(words.len()), |at| words.at(at));
        let mut found = Found {
            message: Some(message.to_string()),
            place: match at {
                // Behind a quote that is not closed there are no words.
                Some(at) => index
                    .and_then(|index| words.place(index, index))
                    .or_else(|| Some(words.place_of(at, None))),
                None => words.end(),
            },
            help: None,
        };
        let Some(index) = index else {
            found.help = self.unclosed(message);
            return found;
        };
        let unread = message.to_ascii_uppercase();
        if let Some(word) = ["PIVOT", "UNPIVOT"]
            .into_iter()
            .find(|word| words.is(index, word) && unread.ends_with(*word))
        {
            found.message = Some(format!("this form of {word} is not supported"));
        }
        if let Some((_, help)) = self.statement(Some(index)) {
            found.help = Some(help.to_string());
        } else if let Some((slip, keyword)) = self.slip(index) {
            found.place = words.place(slip, slip);
            found.help = Some(format!("did you mean {keyword}?"));
        } else if let (0, Some((name, _))) = (index, words.name(0))
            && self.known.tables.iter().any(|table| table == name)
        {
            found.help = Some(format!("SELECT * FROM {name}"));
        }
        found
    }

    /// Says what to do about a quote that is not closed.
    fn unclosed(&self, message: &str) -> Option<String> {
        let is_string = message.contains("string literal");
        is_string.then(|| STRING_HELP.to_string())
    }

    /// Finds a keyword with a slip of the pen, at a word that was not expected or before it.
    fn slip(&self, index: usize) -> Option<(usize, &'static str)> {
        let before = [Some(index), index.checked_sub(1), index.checked_sub(2)];
        before.into_iter().flatten().find_map(|index| {
            let (word, None) = self.words.name(index)? else {
                return None;
            };
            let word = word.to_ascii_uppercase();
            let is_table = |table: &String| table.eq_ignore_ascii_case(&word);
            if KEYWORDS.contains(&word.as_str())
                || word.len() < 4
                || self.known.tables.iter().any(is_table)
            {
                return None;
            }
            let near = |keyword: &&&str| strsim::osa_distance(keyword, &word) == 1;
            let keyword = KEYWORDS.iter().find(near)?;
            Some((index, *keyword))
        })
    }

    /// Finds what other systems write, at the word where the mistake is; anywhere if that is not known.
    pub(super) fn statement(&self, index: Option<usize>) -> Option<((usize, usize), &'static str)> {
        STATEMENTS.iter().find_map(|(pattern, help)| {
            let found = self.words.find(pattern, index)?;
            Some((found, *help))
        })
    }

    pub(super) fn unsupported(&self) -> Found {
        let Some(((first, last), help)) = self.statement(None) else {
            return Found::default();
        };
        Found {
            message: self
                .words
                .text(first, last)
                .map(|text| format!("{text} is not supported")),
            place: self.words.place(first, last),
            help: Some(help.to_string()),
        }
    }
}
