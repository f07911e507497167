//! Errors that help: where in a statement its mistake is, and what to write instead.
//!
//! DataFusion's errors have been put into our words before (`crate::error`). Here the statement's text and
//! what the session knows are at hand: the mistake is found in the text, and the way out is taken from the
//! table of what other systems write ([`rewrites`]), or is the most similar name in scope.

mod names;
mod rewrites;
mod syntax;
mod words;

use std::error::Error as StdError;

use datafusion::common::{Column, Span};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use sqlparser::tokenizer::Location;

use crate::error::{Error, ErrorKind, Mistake, SqlPlace, in_sql, span, without_path};
use crate::functions::forms;
use crate::statements::StatementError;
use names::{row, row_of_message};
use words::Words;

/// How the error begins of an aggregate in WHERE, also of a subquery that has one of the query around it.
const AGGREGATE_IN_WHERE: &str = "Aggregate functions are not allowed in the WHERE";

/// How the planner begins to say that an operand has a wrong type, and what to do about it.
const CAST: &str = "perhaps you need to cast ";
const NOT_HELP: &str = "NOT takes a condition: compare the value, as in NOT x = 1, or x <> 1";
const NUMBER_HELP: &str = "CAST it to a number: CAST(x AS DOUBLE)";

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
        Cause::Other => finder.misleading(error.message()),
    };
    let error = match found.message {
        Some(message) => error.with_message(message),
        None => error,
    };
    let help = found.help.or_else(|| finder.general(&error));
    let place = found.place.or_else(|| finder.quoted(error.message()));
    error.at(place).with_help(help)
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
        let source = error.source().and_then(|source| source.downcast_ref());
        if let Some(StatementError::Syntax {
            message,
            line,
            column,
        }) = source
        {
            return Self::Unread(message.clone(), Location::new(*line, *column));
        }
        let Some(error) = error.upstream() else {
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
            Mistake::Syntax { message, at } => {
                self.syntax(&format!("syntax error: {message}"), *at)
            }
            Mistake::Column { column, known } => self.column(column, known, span),
            Mistake::Ambiguous { column } => self.ambiguous(column, span),
            Mistake::Repeated { name } => self.repeated(name),
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
        let is_quoted =
            (0..self.words.len()).any(|index| self.words.name(index) == Some((name, Some('"'))));
        if known.iter().any(is_of_subquery) {
            return Found {
                message: Some(format!(
                    "a subquery uses {column} of a query further out than the one around it, which is not \
                     supported"
                )),
                place: self.place_of_column(column, span),
                help: Some("join the tables instead of nesting subqueries".into()),
            };
        }
        Found {
            message: None,
            place: self.place_of_column(column, span),
            help: self.way_to_column(column, known, is_quoted),
        }
    }

    fn ambiguous(&self, column: &Column, span: Option<Span>) -> Found {
        let name = &column.name;
        let stands = |pattern: &str| self.words.find(pattern, None).is_some();
        if stands(&format!("AS {name}")) && (stands("SELECT *") || stands(", *") || stands(". *")) {
            return Found {
                message: Some(format!("the select list has two columns '{name}'")),
                ..self.repeated(name)
            };
        }
        Found {
            place: self.place_of_column(column, span),
            help: Some(format!("write its table before it, as in t.{name}")),
            ..Found::default()
        }
    }

    fn repeated(&self, name: &str) -> Found {
        let found = self.words.column(None, name);
        Found {
            message: None,
            place: found.and_then(|(first, last)| self.words.place(first, last)),
            help: Some(format!(
                "give one of them another name with AS; of all columns, * EXCLUDE ({name}) leaves one out"
            )),
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
            return Some(help.to_string());
        }
        if is_quoted {
            return Some(format!("\"…\" quotes names; a string is '{name}'"));
        }
        let is_insert = self.words.find("INSERT", None).is_some();
        if !is_insert && self.words.find(&format!("AS {name}"), None).is_some() {
            return Some(format!(
                "{name} is a name of the SELECT list, which this clause does not see: repeat its \
                 expression, or select from a subquery"
            ));
        }
        if written.is_empty() {
            return Some("there is no FROM; a string stands in single quotes".to_string());
        }
        Some(format!(
            "columns are {}",
            listed(written.iter().map(String::as_str), name)
        ))
    }

    fn table(&self, name: &str) -> Found {
        let parts: Vec<&str> = name.split('.').collect();
        let last = parts.last().copied().unwrap_or(name);
        let index = self.words.table(last);
        let message = Some(format!("table '{last}' not found"));
        let place = index.and_then(|index| self.words.place(index, index));
        let schema = parts.len().checked_sub(2).map(|index| parts[index]);
        let help = match row(rewrites::TABLES, last).or_else(|| row(rewrites::TABLES, schema?)) {
            Some(help) => help.to_string(),
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
        if tables.iter().any(|table| table == name) {
            return "DROP TABLE drops a table, DROP VIEW a view".to_string();
        }
        if self.known.tables.iter().any(|table| table == name) {
            return format!("there is a table {name} in another schema: SHOW TABLES lists all");
        }
        match nearest(tables.iter().map(String::as_str), name) {
            Some(near) => format!("did you mean '{near}'?"),
            None if tables.is_empty() => {
                "there are no tables yet: FROM 'x.csv' reads a file, CREATE TABLE t AS SELECT … makes one"
                    .to_string()
            }
            None => format!(
                "there are {}",
                listed(tables.iter().map(String::as_str), name)
            ),
        }
    }

    fn function(&self, name: &str) -> Found {
        let index = self.words.call(|word| word.eq_ignore_ascii_case(name));
        let state = self.known.state;
        let place = index.and_then(|index| self.words.place(index, index));
        if let Some(found) = self.windowed(name, index) {
            return found;
        }
        if let Some(call) = forms::call_of(name) {
            return Found {
                message: Some(format!("{name} does not take these arguments")),
                place,
                help: Some(format!("it is written {call}")),
            };
        }
        let functions = names::functions(state);
        let unit = self.unknown_unit(name);
        let place = match unit {
            Some((index, _)) => self.words.place(index, index),
            None => place,
        };
        let help = match row(rewrites::FUNCTIONS, name) {
            Some(help) => help.to_string(),
            None if state.table_functions().contains_key(name) => {
                format!("{name} gives a table: SELECT * FROM {name}(…)")
            }
            None => match nearest(functions.iter().map(String::as_str), name) {
                Some(near) => format!("did you mean {near}?"),
                None => "SHOW FUNCTIONS lists all".to_string(),
            },
        };
        Found {
            message: unit.map(|(_, unit)| format!("{name} has no unit {unit}")),
            place,
            help: Some(help),
        }
    }

    /// Says what is wrong with the window of a call, or that it has none.
    fn windowed(&self, name: &str, index: Option<usize>) -> Option<Found> {
        let is_over = index.is_some_and(|index| self.words.is_over(index));
        let is_window = self.known.state.window_functions().contains_key(name);
        let has_form = forms::call_of(name).is_some();
        let (message, help) = match (is_window, is_over) {
            (true, false) => (
                "is a window function, and OVER is missing",
                format!("{name}(…) OVER (ORDER BY x)"),
            ),
            (true, true) => (
                "is over a window whose name does not count here",
                "write the window out: OVER (PARTITION BY x ORDER BY y)".to_string(),
            ),
            (false, true) if has_form => (
                "is no window function, and has no OVER",
                row(rewrites::WINDOWS, name)
                    .unwrap_or(rewrites::GROUPS_AROUND)
                    .to_string(),
            ),
            (false, _) => return None,
        };
        Some(Found {
            message: Some(format!("{name} {message}")),
            place: index.and_then(|index| self.words.place(index, index)),
            help: Some(help),
        })
    }

    /// Finds a call of a function of a unit and two times whose unit is none, and the unit.
    fn unknown_unit(&self, name: &str) -> Option<(usize, String)> {
        let is_it = |index: &usize| forms::takes_unit(name) && self.words.is(*index, name);
        let mut calls = (0..self.words.len()).filter(is_it);
        calls.find_map(|index| {
            let unit = self.words.first_of_three(index)?;
            (!forms::is_unit(&unit)).then_some((index, unit))
        })
    }

    fn table_function(&self, name: &str) -> Found {
        let index = self.words.call(|word| word.eq_ignore_ascii_case(name));
        let known = self.known.state.table_functions();
        let mut functions: Vec<&str> = known.keys().map(String::as_str).collect();
        functions.sort_unstable();
        let help = match row(rewrites::TABLE_FUNCTIONS, name) {
            Some(help) => help.to_string(),
            None => match nearest(functions.iter().copied(), name) {
                Some(near) => format!("did you mean {near}?"),
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
            Some(help) => help.to_string(),
            None => match nearest(
                names::TYPES.iter().chain(&names::OTHER_TYPES).copied(),
                word,
            ) {
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
            let word = forms::renamed(&word).unwrap_or(&word);
            word == function || names::canonical(state, word).as_deref() == Some(function)
        });
        // The planner writes comparisons with the elements of a list as calls.
        let quantified = ["ANY (", "ALL ("]
            .into_iter()
            .find_map(|words| self.words.find(words, None));
        if let (None, Some((first, last))) = (index, quantified) {
            return Found {
                message: Some("ANY and ALL take a list or a subquery".to_string()),
                place: self.words.place(first, last),
                help: Some("x = ANY([1, 2]), or x = ANY (SELECT y FROM t)".to_string()),
            };
        }
        let example = names::example(state, function);
        let help = match (wanted, example) {
            (Some(wanted), Some(example)) => Some(format!("it takes {wanted}: {example}")),
            (None, Some(example)) => Some(format!("it is written {example}")),
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
            Some(help) => help.to_string(),
            None => match keys
                .iter()
                .find(last)
                .copied()
                .or_else(|| nearest(keys.iter().copied(), name))
            {
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
        let message = diagnostic.message.as_str();
        let help = diagnostic.helps.first();
        let help = help.map(|help| match help.message.strip_prefix(CAST) {
            Some(_) if message.starts_with("NOT ") => NOT_HELP.to_string(),
            Some(_) => NUMBER_HELP.to_string(),
            None => help.message.replacen("Either add", "either add", 1),
        });
        // A file is called by its path, which no other clause may name.
        let column = quoted_words(message).next().unwrap_or_default();
        let in_words = |text: &str| in_sql(&text.replace(column, without_path(column)));
        let help = match without_path(column) == column {
            true => help,
            false => help.map(|help| in_words(&help)),
        };
        let span = diagnostic.span.or_else(|| {
            let mut notes = diagnostic.notes.iter();
            notes.find_map(|note| note.span)
        });
        Found {
            message: help.as_ref().map(|_| match column.is_empty() {
                true => in_sql(message),
                false => in_words(message),
            }),
            place: span.map(|span| self.words.spanned(span)),
            help,
        }
    }

    /// Finds the place of what a message quotes, if only one word of the statement is that.
    fn quoted(&self, message: &str) -> Option<SqlPlace> {
        let index = quoted_words(message).find_map(|text| self.words.only(text))?;
        self.words.place(index, index)
    }

    /// Says in other words what the planner says of another mistake, or by the names of its code.
    fn misleading(&self, message: &str) -> Found {
        let find = |words: &str| self.words.find(words, None);
        if let Some((having, _)) = find("HAVING")
            && message.starts_with(AGGREGATE_IN_WHERE)
            && (having..self.words.len()).any(|index| self.words.is(index, "SELECT"))
        {
            return Found {
                message: Some(
                    "a subquery of HAVING computes an aggregate in its WHERE, which has none"
                        .to_string(),
                ),
                place: self.words.place(having, having),
                help: Some(rewrites::AGGREGATES_AROUND.to_string()),
            };
        }
        if message.starts_with("Argument #") && message.contains("got Column(") {
            let found = ["generate_series", "range"].into_iter().find_map(|name| {
                let index = self.words.call(|word| word.eq_ignore_ascii_case(name))?;
                Some((name, index))
            });
            let name = found.map_or("a table function", |(name, _)| name);
            return Found {
                message: Some(format!("{name} in FROM takes no columns of other tables")),
                place: found.and_then(|(_, index)| self.words.place(index, index)),
                help: Some(rewrites::SERIES_OF_COLUMNS.to_string()),
            };
        }
        Found::default()
    }

    /// Finds a way out by the beginning of the message, or by the statement of what is not supported.
    fn general(&self, error: &Error) -> Option<String> {
        if let Some(help) = row_of_message(error.message()) {
            return Some(help.to_string());
        }
        if error.kind() == ErrorKind::NotFound
            && let Some(name) = quoted_words(error.message()).next()
            && !name.contains(['/', '*', '?', '['])
        {
            return Some(self.way_to_table(None, name));
        }
        let is_unknown = error.kind() == ErrorKind::NotSupported && error.help().is_none();
        let (_, help) = self.statement(None).filter(|_| is_unknown)?;
        // Our own texts have their way out.
        (!error.message().contains(": ")).then(|| help.to_string())
    }
}

/// Returns what a message quotes.
fn quoted_words(message: &str) -> impl Iterator<Item = &str> {
    message.split('\'').skip(1).step_by(2)
}

/// Tells whether a column is one of the names that the optimizer gives to subqueries.
fn is_of_subquery(column: &Column) -> bool {
    const NAMES: [&str; 2] = ["__correlated_sq_", "__scalar_sq_"];
    let table = column.relation.as_ref().map(|table| table.table());
    table.is_some_and(|table| NAMES.iter().any(|name| table.starts_with(name)))
}

#[cfg(test)]
mod tests;
