//! Errors that help: where in a statement its mistake is, and what to write instead.
//!
//! DataFusion's errors have been put into our words before (`crate::error`). Here the statement's text and
//! what the session knows are at hand: the mistake is found in the text, and the way out is taken from the
//! table of what other systems write ([`rewrites`]), or is the most similar name in scope.

mod names;
mod rewrites;
mod words;

use std::error::Error as StdError;

use datafusion::common::{Column, Span};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Location;

use crate::error::{Error, ErrorKind, Mistake, SqlPlace, span};
use crate::statements::StatementError;
use names::{row, row_of_message};
use rewrites::STATEMENTS;
use words::Words;

/// Words that begin statements and clauses; one that is nearly such a word is taken for a slip.
const KEYWORDS: [&str; 32] = [
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "LEFT",
    "RIGHT", "INNER", "OUTER", "UNION", "INSERT", "UPDATE", "DELETE", "CREATE", "TABLE", "VALUES",
    "DESCRIBE", "EXPLAIN", "WITH", "DISTINCT", "BETWEEN", "PARTITION", "OVER", "QUALIFY", "WINDOW",
    "SUMMARIZE", "INTO", "DROP",
];

/// What a session knows, where a statement of it failed.
pub(crate) struct Known<'a> {
    pub(crate) state: &'a SessionState,
    /// The names of its own tables.
    pub(crate) tables: Vec<String>,
}

/// What is found out about a mistake.
#[derive(Default)]
struct Found {
    message: Option<String>,
    place: Option<SqlPlace>,
    help: Option<String>,
}

/// Adds to an error of a statement where the mistake is and what to write instead, as far as that is known.
pub(crate) fn explain(error: Error, sql: &str, known: &Known<'_>) -> Error {
    if error.place().is_some() || error.help().is_some() {
        return error;
    }
    let words = Words::new(sql, &known.state.config_options().sql_parser);
    let finder = Finder {
        words: &words,
        known,
    };
    let found = match Cause::of(&error) {
        Cause::Mistake(mistake, span) => finder.mistake(&mistake, span),
        Cause::Unread(message, at) => finder.syntax(&message, Some(at)),
        Cause::Diagnosed(error) => finder.diagnosed(error),
        Cause::Other => Found::default(),
    };
    let help = found.help.or_else(|| finder.general(&error));
    let error = match found.message {
        Some(message) => error.with_message(message),
        None => error,
    };
    error.at(found.place).with_help(help)
}

/// Returns the name of the table that a statement names and that there is not.
pub(crate) fn missing_table(error: &Error) -> Option<String> {
    match Cause::of(error) {
        Cause::Mistake(Mistake::Table { name }, _) => Some(name),
        _ => None,
    }
}

/// Returns where a statement names a table, or a file by its path.
pub(crate) fn place_of_table(name: &str, sql: &str, state: &SessionState) -> Option<SqlPlace> {
    let words = Words::new(sql, &state.config_options().sql_parser);
    let index = words.table(name)?;
    words.place(index, index)
}

/// Returns which of several names was meant by one that is like it.
pub(crate) use names::{listed, nearest};

/// What an error comes from.
enum Cause<'a> {
    /// What DataFusion or its parser found, and where.
    Mistake(Mistake, Option<Span>),
    /// What was found before anything was parsed.
    Unread(String, Location),
    /// An error of the planner with a place or a way out.
    Diagnosed(&'a DataFusionError),
    Other,
}

impl<'a> Cause<'a> {
    fn of(error: &'a Error) -> Self {
        let Some(source) = error.source() else {
            return Self::Other;
        };
        if let Some(StatementError::Syntax {
            message,
            line,
            column,
        }) = source.downcast_ref()
        {
            return Self::Unread(message.clone(), Location::new(*line, *column));
        }
        if let Some(error) = source.downcast_ref::<ParserError>() {
            return Self::Mistake(Mistake::of_parser(error), None);
        }
        let Some(error) = source.downcast_ref::<DataFusionError>() else {
            return Self::Other;
        };
        match Mistake::of(error) {
            Some(mistake) => Self::Mistake(mistake, span(error)),
            None if error.diagnostic().is_some() => Self::Diagnosed(error),
            None => Self::Other,
        }
    }
}

struct Finder<'a> {
    words: &'a Words<'a>,
    known: &'a Known<'a>,
}

impl Finder<'_> {
    fn mistake(&self, mistake: &Mistake, span: Option<Span>) -> Found {
        match mistake {
            Mistake::Syntax { message, at } => self.syntax(&format!("syntax error: {message}"), *at),
            Mistake::Column { column, known } => self.column(column, known, span),
            Mistake::Ambiguous { column } => Found {
                place: self.place_of_column(column, span),
                help: Some(format!("write its table before it, as in t.{}", column.name)),
                ..Found::default()
            },
            Mistake::Table { name } => self.table(name),
            Mistake::Function { name } => self.function(name),
            Mistake::TableFunction { name } => self.table_function(name),
            Mistake::Type { name } => self.type_name(name),
            Mistake::Arguments {
                function, wanted, ..
            } => self.arguments(function, wanted.as_deref()),
            Mistake::Setting { name } => self.setting(name),
            Mistake::Unsupported { .. } => self.unsupported(),
        }
    }

    /// Explains what the parser did not expect, at the word `at` or at the end of the text.
    fn syntax(&self, message: &str, at: Option<Location>) -> Found {
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
        if let Some((slip, keyword)) = self.slip(index) {
            found.place = words.place(slip, slip);
            found.help = Some(format!("did you mean {keyword}?"));
            return found;
        }
        found.help = self
            .statement(Some(index))
            .map(|(_, help)| format!("write {help}"));
        found
    }

    /// Says what to do about a quote that is not closed.
    fn unclosed(&self, message: &str) -> Option<String> {
        let is_string = message.contains("string literal");
        is_string.then(|| "a string ends with '; a ' in it is written twice: 'it''s'".to_string())
    }

    /// Finds a keyword with a slip of the pen, at a word that was not expected or before it.
    fn slip(&self, index: usize) -> Option<(usize, &'static str)> {
        let before = [Some(index), index.checked_sub(1), index.checked_sub(2)];
        before.into_iter().flatten().find_map(|index| {
            let (word, None) = self.words.name(index)? else {
                return None;
            };
            let word = word.to_ascii_uppercase();
            if KEYWORDS.contains(&word.as_str()) || word.len() < 4 {
                return None;
            }
            let near = |keyword: &&&str| strsim::osa_distance(keyword, &word) == 1;
            let keyword = KEYWORDS.iter().find(near)?;
            Some((index, *keyword))
        })
    }

    /// Finds what other systems write, at the word where the mistake is; anywhere if that is not known.
    fn statement(&self, index: Option<usize>) -> Option<((usize, usize), &'static str)> {
        STATEMENTS.iter().find_map(|(pattern, help)| {
            let (first, last) = self.words.find(pattern)?;
            let is_near = |index: usize| first <= index + 1 && index <= last + 1;
            let is_it = pattern.starts_with('^') || index.is_none_or(is_near);
            is_it.then_some(((first, last), *help))
        })
    }

    fn unsupported(&self) -> Found {
        let Some(((first, last), help)) = self.statement(None) else {
            return Found::default();
        };
        Found {
            message: self.words.text(first, last).map(|text| format!("{text} is not supported")),
            place: self.words.place(first, last),
            help: Some(format!("write {help}")),
        }
    }

    fn place_of_column(&self, column: &Column, span: Option<Span>) -> Option<SqlPlace> {
        if let Some(span) = span {
            return Some(self.words.spanned(span));
        }
        let table = column.relation.as_ref().map(|table| table.table());
        let found = self.words.column(table, &column.name);
        found.and_then(|(first, last)| self.words.place(first, last))
    }

    fn column(&self, column: &Column, known: &[Column], span: Option<Span>) -> Found {
        let name = column.name.as_str();
        let is_quoted = (0..self.words.len())
            .any(|index| self.words.name(index) == Some((name, Some('"'))));
        Found {
            message: None,
            place: self.place_of_column(column, span),
            help: self.way_to_column(column, known, is_quoted),
        }
    }

    fn way_to_column(&self, column: &Column, known: &[Column], is_quoted: bool) -> Option<String> {
        let name = column.name.as_str();
        let table = column.relation.as_ref().map(|table| table.table());
        let of_table: Vec<&Column> = match table {
            Some(table) => known
                .iter()
                .filter(|known| known.relation.as_ref().is_some_and(|t| t.table() == table))
                .collect(),
            None => known.iter().collect(),
        };
        if let (Some(table), true) = (table, of_table.is_empty()) {
            return Some(names::tables_in_scope(table, name, known));
        }
        let mut written: Vec<String> = of_table.iter().map(|c| names::written(c, table)).collect();
        written.dedup();
        if let Some(near) = nearest(written.iter().map(String::as_str), name) {
            return Some(format!("did you mean {near}?"));
        }
        if let (false, Some(help)) = (is_quoted, row(rewrites::COLUMNS, name)) {
            return Some(format!("write {help}"));
        }
        if is_quoted {
            return Some(format!("\"…\" quotes names; a string is '{name}'"));
        }
        if self.words.find(&format!("AS {name}")).is_some() {
            return Some(format!(
                "{name} is a name of the SELECT list, which this clause does not see: repeat its \
                 expression, or select from a subquery"
            ));
        }
        if written.is_empty() {
            return Some("there is no FROM; a string stands in single quotes".to_string());
        }
        Some(format!("columns are {}", listed(written.iter().map(String::as_str), name)))
    }

    fn table(&self, name: &str) -> Found {
        let parts: Vec<&str> = name.split('.').collect();
        let last = parts.last().copied().unwrap_or(name);
        let index = self.words.table(last);
        let message = Some(format!("table '{last}' not found"));
        let place = index.and_then(|index| self.words.place(index, index));
        let schema = parts.len().checked_sub(2).map(|index| parts[index]);
        let help = match row(rewrites::TABLES, last).or_else(|| row(rewrites::TABLES, schema?)) {
            Some(help) => format!("write {help}"),
            None => self.way_to_table(schema, last),
        };
        Found {
            message,
            place,
            help: Some(help),
        }
    }

    fn way_to_table(&self, schema: Option<&str>, name: &str) -> String {
        let tables = names::tables(self.known, schema);
        if self.known.tables.iter().any(|table| table == name) {
            return format!("there is a table {name} in another schema: SHOW TABLES lists all");
        }
        match nearest(tables.iter().map(String::as_str), name) {
            Some(near) => format!("did you mean '{near}'?"),
            None if tables.is_empty() => {
                "there are no tables yet: CREATE EXTERNAL TABLE, or a table function such as \
                 tpch('lineitem', 0.1)"
                    .to_string()
            }
            None => format!("there are {}", listed(tables.iter().map(String::as_str), name)),
        }
    }

    fn function(&self, name: &str) -> Found {
        let index = self.words.call(|word| word.eq_ignore_ascii_case(name));
        let state = self.known.state;
        let place = index.and_then(|index| self.words.place(index, index));
        if state.window_functions().contains_key(name) {
            return Found {
                message: Some(format!("{name} is a window function, and OVER is missing")),
                place,
                help: Some(format!("write {name}(…) OVER (ORDER BY x)")),
            };
        }
        let functions = names::functions(state);
        let help = match row(rewrites::FUNCTIONS, name) {
            Some(help) => format!("write {help}"),
            None if state.table_functions().contains_key(name) => {
                format!("{name} gives a table: SELECT * FROM {name}(…)")
            }
            None => match nearest(functions.iter().map(String::as_str), name) {
                Some(near) => format!("did you mean {near}?"),
                None => "SHOW FUNCTIONS lists all".to_string(),
            },
        };
        Found {
            message: None,
            place,
            help: Some(help),
        }
    }

    fn table_function(&self, name: &str) -> Found {
        let index = self.words.call(|word| word.eq_ignore_ascii_case(name));
        let known = self.known.state.table_functions();
        let mut functions: Vec<&str> = known.keys().map(String::as_str).collect();
        functions.sort_unstable();
        let help = match nearest(functions.iter().copied(), name) {
            Some(near) => format!("did you mean {near}?"),
            None => match row(rewrites::TABLE_FUNCTIONS, name) {
                Some(help) => format!("write {help}"),
                None => format!("there are {}", listed(functions.iter().copied(), name)),
            },
        };
        Found {
            message: None,
            place: index.and_then(|index| self.words.place(index, index)),
            help: Some(help),
        }
    }

    fn type_name(&self, name: &str) -> Found {
        let word = name.split(['(', '<', ' ', '[']).next().unwrap_or(name);
        let index = self.words.type_name(word);
        let help = match row(rewrites::TYPES, word) {
            Some(help) => format!("write {help}"),
            None => match nearest(names::TYPES.iter().copied(), word) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("types are {}", names::TYPES.join(", ")),
            },
        };
        Found {
            message: None,
            place: index.and_then(|index| self.words.place(index, index)),
            help: Some(help),
        }
    }

    fn arguments(&self, function: &str, wanted: Option<&str>) -> Found {
        let state = self.known.state;
        // It may be called by another of its names.
        let index = self.words.call(|word| {
            let word = word.to_ascii_lowercase();
            word == function || names::canonical(state, &word).as_deref() == Some(function)
        });
        let example = names::example(state, function);
        let help = match (wanted, example) {
            (Some(wanted), Some(example)) => Some(format!("it takes {wanted}: {example}")),
            (None, Some(example)) => Some(format!("write {example}")),
            (Some(wanted), None) => Some(format!("it takes {wanted}")),
            (None, None) => None,
        };
        Found {
            message: None,
            place: index.and_then(|index| self.words.place(index, index)),
            help,
        }
    }

    fn setting(&self, name: &str) -> Found {
        let entries = self.known.state.config_options().entries();
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        let last = |key: &&&str| key.rsplit('.').next() == Some(name);
        let help = match row(rewrites::SETTINGS, name) {
            Some(help) => format!("write {help}"),
            None => match keys.iter().find(last).copied().or_else(|| {
                nearest(keys.iter().copied(), name)
            }) {
                Some(near) => format!("did you mean {near}?"),
                None => "SHOW ALL lists all".to_string(),
            },
        };
        let word = name.split('.').next().unwrap_or(name);
        let found = self.words.column(None, word);
        Found {
            message: None,
            place: found.and_then(|(first, _)| self.words.place(first, first)),
            help: Some(help),
        }
    }

    /// Uses what the planner says of an error beside its text.
    fn diagnosed(&self, error: &DataFusionError) -> Found {
        let Some(diagnostic) = error.diagnostic() else {
            return Found::default();
        };
        let help = diagnostic.helps.first().map(|help| help.message.as_str());
        let span = diagnostic.span.or_else(|| {
            let mut notes = diagnostic.notes.iter();
            notes.find_map(|note| note.span)
        });
        Found {
            message: help.map(|_| diagnostic.message.clone()),
            place: span.map(|span| self.words.spanned(span)),
            help: help.map(str::to_owned),
        }
    }

    /// Finds a way out by the beginning of the message, or by the statement of what is not supported.
    fn general(&self, error: &Error) -> Option<String> {
        if let Some(help) = row_of_message(error.message()) {
            return Some(help.to_string());
        }
        let is_unknown = error.kind() == ErrorKind::NotSupported && error.help().is_none();
        let (_, help) = self.statement(None).filter(|_| is_unknown)?;
        // Our own texts have their way out.
        (!error.message().contains(": ")).then(|| format!("write {help}"))
    }
}

#[cfg(test)]
mod tests;
