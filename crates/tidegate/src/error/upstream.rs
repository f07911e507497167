//! What DataFusion and its parser find wrong with a statement.
//!
//! A typed error is read by its type. For missing functions, types and for arguments there are only texts:
//! here, and nowhere else, these are read; the tests have DataFusion itself say them, so that a version
//! with other words fails there.

use datafusion::common::{Column, SchemaError, Span};
use datafusion::error::DataFusionError;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Location;

use super::{reworded, wording};

/// What is wrong with a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mistake {
    /// The parser expected something else; `at` is `None` at the end of the text.
    Syntax {
        message: String,
        at: Option<Location>,
    },
    /// There is no such column.
    Column { column: Column, known: Vec<Column> },
    /// Several tables have such a column.
    Ambiguous { column: Column },
    /// Two columns of a select list have this name.
    Repeated { name: String },
    /// There is no such table.
    Table { name: String },
    /// There is no such function.
    Function { name: String },
    /// There is no such function that gives a table.
    TableFunction { name: String },
    /// There is no such type.
    Type { name: String },
    /// A function does not take its arguments.
    Arguments {
        function: String,
        /// Their types, separated by commas, if they are known.
        given: Option<String>,
        /// How many it takes and how many it was given, if that is what is wrong.
        count: Option<(String, String)>,
        /// What it wants instead, if that is known.
        wanted: Option<String>,
        /// What the function itself says.
        said: Option<String>,
    },
    /// There is no such setting.
    Setting { name: String },
    /// The parser knows it, and the planner does not.
    Unsupported { what: String },
}

impl Mistake {
    /// Reads an error; `None` of one that is no such mistake.
    pub(crate) fn of(error: &DataFusionError) -> Option<Self> {
        match error.find_root() {
            DataFusionError::SQL(syntax, _) => Some(Self::of_parser(syntax)),
            DataFusionError::SchemaError(cause, _) => match cause.as_ref() {
                SchemaError::FieldNotFound {
                    field,
                    valid_fields,
                } => Some(Self::Column {
                    column: field.as_ref().clone(),
                    known: valid_fields.clone(),
                }),
                SchemaError::AmbiguousReference { field } => Some(Self::Ambiguous {
                    column: field.as_ref().clone(),
                }),
                _ => None,
            },
            // Its text is that of a plan.
            DataFusionError::NotImplemented(text) if text.starts_with(wording::LEFT) => None,
            DataFusionError::NotImplemented(text) if reworded::is_unchangeable(text) => None,
            DataFusionError::NotImplemented(text) => Some(unsupported(text)),
            DataFusionError::Plan(text) => missing(text)
                .or_else(|| repeated(text))
                .or_else(|| arguments(text)),
            DataFusionError::Internal(text) => arguments(text),
            DataFusionError::Configuration(text) => setting(text),
            _ => None,
        }
    }

    /// Reads an error of the parser.
    fn of_parser(error: &ParserError) -> Self {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
            ParserError::RecursionLimitExceeded => "it is nested too deep",
        };
        let (text, at) = match text.rsplit_once(" at Line: ") {
            Some((text, at)) => (text, location(at)),
            None => (text, None),
        };
        Self::Syntax {
            message: in_lower_case(text),
            at,
        }
    }

    /// Says what is wrong.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Syntax { message, at } => match at {
                Some(at) => format!(
                    "syntax error: {message}, at line {}, column {}",
                    at.line, at.column
                ),
                None => format!("syntax error: {message}"),
            },
            Self::Column { column, .. } => match &column.relation {
                Some(table) => format!("column '{}' not found in {table}", column.name),
                None => format!("column '{}' not found", column.name),
            },
            Self::Ambiguous { column } => {
                format!(
                    "column '{}' is ambiguous: several tables have it",
                    column.name
                )
            }
            Self::Repeated { name } => format!("the select list has two columns '{name}'"),
            Self::Table { name } => format!("table '{name}' not found"),
            Self::Function { name } => format!("function '{name}' not found"),
            Self::TableFunction { name } => format!("table function '{name}' not found"),
            Self::Type { name } => format!("type {name} not found"),
            Self::Arguments {
                function,
                said: Some(said),
                ..
            } => match said.contains(function.as_str()) {
                true => said.clone(),
                false => format!("{function}: {said}"),
            },
            Self::Arguments {
                count: Some((wanted, given)),
                function,
                ..
            } if wanted.is_empty() => format!("{function} takes arguments, and {given} were given"),
            Self::Arguments {
                count: Some((wanted, given)),
                function,
                ..
            } => {
                let s = if wanted == "1" { "" } else { "s" };
                format!("{function} takes {wanted} argument{s}, and {given} were given")
                    .replace("and 1 were", "and 1 was")
            }
            Self::Arguments {
                function, given, ..
            } => match given {
                Some(given) if given.contains(',') => {
                    format!("{function} does not take arguments of the types {given}")
                }
                Some(given) => format!("{function} does not take {given}"),
                None => format!("{function} does not take these arguments"),
            },
            Self::Setting { name } => format!("unknown setting {name}"),
            Self::Unsupported { what } if what.is_empty() => "this is not supported".to_string(),
            Self::Unsupported { what } => match what.contains("not ") || what.contains("n't ") {
                true => what.clone(),
                false => format!("{what} is not supported"),
            },
        }
    }
}

/// Returns where DataFusion's planner saw an error, if it keeps that.
pub(crate) fn span(error: &DataFusionError) -> Option<Span> {
    error.diagnostic()?.span
}

/// Reads `18, Column: 3` of a parser's message.
fn location(text: &str) -> Option<Location> {
    let (line, column) = text.split_once(", Column: ")?;
    let column = column.trim_end_matches(|c: char| !c.is_ascii_digit());
    Some(Location::new(line.parse().ok()?, column.parse().ok()?))
}

/// Writes a parser's message as the rest of a sentence.
fn in_lower_case(text: &str) -> String {
    let text = text.strip_prefix("sql parser error: ").unwrap_or(text);
    let text = wording::without_tree(text);
    let text = text.replace("found: EOF", "found the end");
    let text = text.replace(", found: ", ", found ");
    match text.strip_prefix("Expected: ") {
        Some(rest) => format!("expected {rest}"),
        None if text.starts_with("No infix parser") => "this is no operator here".to_string(),
        None => text,
    }
}

/// Reads what says that something is not there.
fn missing(text: &str) -> Option<Mistake> {
    let text = text.trim();
    let quoted = |prefix: &str| {
        let rest = text.strip_prefix(prefix)?;
        rest.split_once('\'')
    };
    if let Some((name, _)) = quoted("Invalid function '") {
        let name = name.to_string();
        return Some(Mistake::Function { name });
    }
    if let Some((name, " not found")) = quoted("table '") {
        let name = name.to_string();
        return Some(Mistake::Table { name });
    }
    if let Some((name, " not found")) = quoted("table function '") {
        let name = name.to_string();
        return Some(Mistake::TableFunction { name });
    }
    None
}

/// Reads what says that two columns have one name.
fn repeated(text: &str) -> Option<Mistake> {
    if !text.starts_with("Projections require unique expression names") {
        return None;
    }
    let column = between(text, "the expression \"", "\" at position")?;
    let name = match column.rsplit_once(" AS ") {
        Some((_, alias)) => alias.to_string(),
        None if column.contains(['(', ' ']) => wording::in_sql(column),
        None => column.rsplit('.').next().unwrap_or(column).to_string(),
    };
    Some(Mistake::Repeated { name })
}

/// Reads what says that something is not implemented.
fn unsupported(text: &str) -> Mistake {
    let text = wording::without_tree(text.trim());
    if let Some(name) = text.strip_prefix("Unsupported SQL type ") {
        let name = name.to_string();
        return Mistake::Type { name };
    }
    if text.starts_with("Unsupported logical plan: ") {
        let what = String::new();
        return Mistake::Unsupported { what };
    }
    const NAMED: [&str; 7] = [
        "Unsupported SQL statement: ",
        "Unsupported SQL unary operator ",
        "Unsupported binary operator: ",
        "Unsupported ast node in sqltorel: ",
        "Unsupported ast node ",
        "Unsupported JOIN operator ",
        "Unsupported ",
    ];
    let named = NAMED.iter().find_map(|prefix| text.strip_prefix(prefix));
    let what = named.unwrap_or(text);
    let what = what.trim_end_matches(" clause is not supported yet");
    Mistake::Unsupported {
        what: what.trim_end_matches('.').to_string(),
    }
}

/// Reads what says that a setting is not there.
fn setting(text: &str) -> Option<Mistake> {
    if let Some(rest) = text.strip_prefix("Could not find config namespace \"") {
        let name = rest.split('"').next()?.to_string();
        return Some(Mistake::Setting { name });
    }
    let rest = text.strip_prefix("could not find config namespace ")?;
    let (_, name) = rest.split_once("key \"")?;
    let name = name.split('"').next()?.to_string();
    Some(Mistake::Setting { name })
}

/// Reads what says that a function does not take its arguments.
fn arguments(text: &str) -> Option<Mistake> {
    let function = called(text)?;
    let given = between(text, "argument types '", "'")
        .and_then(|call| call.split_once('('))
        .map(|(_, types)| types.strip_suffix(')').unwrap_or(types))
        .or_else(|| between(text, "coercion from ", " to the signature"))
        .or_else(|| between(text, "(DataType: ", ")."))
        .filter(|types| !types.is_empty());
    let count = between(text, "' expects ", " arguments but received ").zip(
        text.split_once(" arguments but received ")
            .and_then(|(_, rest)| rest.split('.').next()),
    );
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let count = count
        .map(|(wanted, given)| (wanted.to_string(), given.trim().to_string()))
        .filter(|(wanted, given)| is_number(wanted) && is_number(given));
    let none = text.contains("' does not support zero arguments");
    let requires = between(text, "' requires ", ", but received");
    let wanted = requires.or_else(|| between(text, "' expects ", " but received"));
    let wanted = match wanted {
        Some("Decimal" | "Numeric" | "Integer" | "Float") => Some("a number".to_string()),
        Some("String") => Some("a string".to_string()),
        Some("Timestamp" | "Date" | "Time") => Some("a date or timestamp".to_string()),
        _ => None,
    };
    Some(Mistake::Arguments {
        function: function.to_string(),
        given: given.map(wording::in_sql),
        count: count.or_else(|| none.then(|| (String::new(), "0".to_string()))),
        wanted,
        said: own_words(text),
    })
}

/// Returns what a function says of arguments that it checks itself.
fn own_words(text: &str) -> Option<String> {
    let (_, said) = text.split_once("user-defined coercion failed with: ")?;
    let said = [
        "Error during planning: ",
        "Internal error: ",
        "Execution error: ",
    ]
    .iter()
    .find_map(|prefix| said.strip_prefix(prefix))
    .unwrap_or(said);
    let ends = ["This issue was likely", "No function matches"];
    let end = ends.iter().filter_map(|end| said.find(end)).min();
    let said = said[..end.unwrap_or(said.len())]
        .trim()
        .trim_end_matches('.');
    (!said.is_empty()).then(|| wording::in_sql(said))
}

/// Returns the name of the function whose arguments an error is about.
fn called(text: &str) -> Option<&str> {
    const PHRASES: [(&str, &str); 6] = [
        ("Function '", "' failed to match any signature"),
        ("Function '", "' expects "),
        ("Function '", "' requires "),
        ("Function '", "' user-defined coercion failed"),
        ("call to '", "' function"),
        ("'", "' does not support zero arguments"),
    ];
    let by_phrase = PHRASES.iter().find_map(|(before, after)| {
        let (head, _) = text.split_once(after)?;
        let (_, name) = head.rsplit_once(before)?;
        is_name(name).then_some(name)
    });
    by_phrase.or_else(|| {
        let call = between(text, "the given name and argument types '", "'")?;
        call.split('(').next().filter(|name| is_name(name))
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests;
