//! What Tab proposes: commands and their arguments, and within a statement whatever fits the word
//! under the cursor: settings after SET, a table's columns behind its name and a dot, paths within
//! quotes, and else columns of the tables that the statement names, tables, functions, keywords.

use rustyline::completion::Pair;
use tidegate::statements::{HighlightKind, KEYWORDS, highlight};
use tidegate::{Names, TableNames};

use crate::shell::{self, Argument};

/// What stands at the cursor.
pub(super) enum Completion {
    /// The byte where the word begins, and what could stand there.
    Words(usize, Vec<Pair>),
    /// A path.
    Path,
}

/// Proposes words for the text up to the cursor.
pub(super) fn complete(names: &Names, text: &str) -> Completion {
    if let Some(typed) = text.trim_start().strip_prefix(['\\', '.']) {
        return for_command(names, text, typed);
    }
    if in_quotes(text) {
        return Completion::Path;
    }
    let start = word_start(text);
    let word = &text[start..];
    let words = match word.rsplit_once('.') {
        Some((table, column)) => {
            let column_start = start + table.len() + 1;
            let behind = behind_dot(names, text, table, column);
            if !behind.is_empty() || !is_setting(text, start) {
                return Completion::Words(column_start, behind);
            }
            settings(names, word)
        }
        None if is_setting(text, start) => settings(names, word),
        None => anywhere(names, text, word),
    };
    Completion::Words(start, words)
}

fn for_command(names: &Names, text: &str, typed: &str) -> Completion {
    let Some((name, _)) = typed.split_once(char::is_whitespace) else {
        let start = text.len() - typed.len();
        let words = shell::names().filter(|name| name.starts_with(typed));
        return Completion::Words(start, words.map(|name| pair(name.to_string())).collect());
    };
    let start = text.len()
        - text
            .chars()
            .rev()
            .take_while(|c| !c.is_whitespace())
            .map(char::len_utf8)
            .sum::<usize>();
    let word = &text[start..];
    match shell::argument(name) {
        Argument::Table => Completion::Words(start, tables(names, word)),
        Argument::Path => Completion::Path,
        Argument::OneOf(words) => {
            let fitting = words.iter().filter(|known| known.starts_with(word));
            Completion::Words(
                start,
                fitting.map(|known| pair((*known).to_string())).collect(),
            )
        }
        Argument::Free => Completion::Words(start, Vec::new()),
    }
}

fn in_quotes(text: &str) -> bool {
    let last = highlight(text).pop();
    last.is_some_and(|span| {
        let text = &text[span.range];
        span.kind == HighlightKind::Text && (text.len() == 1 || !text.ends_with('\''))
    })
}

/// Returns where the word at the end begins; a dot is part of it.
fn word_start(text: &str) -> usize {
    let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"');
    let word: usize = text
        .chars()
        .rev()
        .take_while(is_part)
        .map(char::len_utf8)
        .sum();
    text.len() - word
}

/// Returns whether the word that begins there is what SET sets.
fn is_setting(text: &str, start: usize) -> bool {
    let before = text[..start].trim_end();
    let last = before.rsplit(|c: char| !c.is_alphanumeric()).next();
    last.is_some_and(|word| word.eq_ignore_ascii_case("SET"))
}

fn settings(names: &Names, word: &str) -> Vec<Pair> {
    let fitting = names.settings.iter().filter(|name| name.starts_with(word));
    fitting.map(|name| pair(name.clone())).collect()
}

/// Proposes the columns of a table or of its alias, or the tables of a schema.
fn behind_dot(names: &Names, text: &str, before: &str, word: &str) -> Vec<Pair> {
    let before = before.trim_matches('"');
    let table = aliased(text, before).unwrap_or(before);
    let columns = names
        .tables
        .iter()
        .filter(|known| known.table.eq_ignore_ascii_case(table))
        .flat_map(|known| &known.columns);
    let tables = names
        .tables
        .iter()
        .filter(|known| known.schema.eq_ignore_ascii_case(before))
        .map(|known| &known.table);
    let fitting = columns.chain(tables).filter(|name| begins(name, word));
    distinct(fitting.map(|name| quoted(name)))
}

/// Returns the table of which this is an alias in the text.
fn aliased<'a>(text: &'a str, alias: &str) -> Option<&'a str> {
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).enumerate().find_map(|(place, pair)| {
        let [first, second] = pair else { return None };
        if !second.eq_ignore_ascii_case(alias) {
            return None;
        }
        if first.eq_ignore_ascii_case("AS") {
            return place.checked_sub(1).map(|before| words[before]);
        }
        let is_name = KEYWORDS
            .binary_search(&first.to_ascii_uppercase().as_str())
            .is_err();
        is_name.then_some(*first)
    })
}

fn anywhere(names: &Names, text: &str, word: &str) -> Vec<Pair> {
    if word.is_empty() {
        return Vec::new();
    }
    let is_named = |table: &&TableNames| {
        let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.any(|word| word.eq_ignore_ascii_case(&table.table))
    };
    let columns = names
        .tables
        .iter()
        .filter(is_named)
        .flat_map(|table| &table.columns);
    let columns = columns
        .filter(|name| begins(name, word))
        .map(|name| quoted(name));
    let tables = tables(names, word).into_iter().map(|pair| pair.replacement);
    let functions = names.functions.iter().filter(|name| begins(name, word));
    let functions = functions.map(|name| format!("{name}("));
    // Keywords follow the case that was begun.
    let is_lower = word.starts_with(char::is_lowercase);
    let keywords = KEYWORDS
        .iter()
        .filter(|name| begins(name, word))
        .map(|name| match is_lower {
            true => name.to_ascii_lowercase(),
            false => (*name).to_string(),
        });
    distinct(columns.chain(tables).chain(keywords).chain(functions))
}

fn tables(names: &Names, word: &str) -> Vec<Pair> {
    let own = |table: &&TableNames| table.schema.is_empty() && begins(&table.table, word);
    let mut found: Vec<Pair> = names
        .tables
        .iter()
        .filter(own)
        .map(|table| pair(quoted(&table.table)))
        .collect();
    let schemas = names.tables.iter().map(|table| &table.schema);
    let schemas = schemas.filter(|schema| !schema.is_empty() && begins(schema, word));
    found.extend(distinct(
        schemas.map(|schema| format!("{}.", quoted(schema))),
    ));
    found
}

fn begins(name: &str, word: &str) -> bool {
    let word = word.trim_start_matches('"');
    name.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Writes a name so that it is read as it is.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && KEYWORDS
            .binary_search(&name.to_ascii_uppercase().as_str())
            .is_err();
    match is_plain {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<Pair> {
    let mut seen = std::collections::HashSet::new();
    words
        .filter(|word| seen.insert(word.clone()))
        .map(pair)
        .collect()
}

fn pair(word: String) -> Pair {
    Pair {
        display: word.clone(),
        replacement: word,
    }
}

#[cfg(test)]
mod tests;
