//! Arguments of a call, by place and by name: literals, lists and structs of them.

use std::fmt;

use sqlparser::ast::{
    Array, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, TableFunctionArgs, UnaryOperator,
    Value as Literal,
};

use super::functions::wrong;
use crate::error::Error;
use crate::suggest::nearest;

/// A value that an argument has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Text(String),
    Number(String),
    Boolean(bool),
    List(Vec<Value>),
    /// Keys and values, in order.
    Struct(Vec<(String, Value)>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Number(number) => f.write_str(number),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::List(_) => f.write_str("a list"),
            Self::Struct(_) => f.write_str("a struct"),
        }
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    function: &'static str,
    by_place: Vec<Value>,
    /// By the names that are documented.
    by_name: Vec<(&'static str, Value)>,
}

/// An argument that a function has: its name, and others for it.
pub(super) type Known = (&'static str, &'static [&'static str]);

impl Arguments {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// Fails for an argument that is no literal, that the function does not have, or that is given twice.
    pub(super) fn read(
        function: &'static str,
        args: &TableFunctionArgs,
        known: &[Known],
    ) -> Result<Self, Error> {
        let mut read = Self {
            function,
            ..Self::default()
        };
        for arg in &args.args {
            let (name, value) = match arg {
                FunctionArg::Named { name, arg, .. } => (Some(name.value.clone()), arg),
                FunctionArg::ExprNamed { name, arg, .. } => (Some(name.to_string()), arg),
                FunctionArg::Unnamed(arg) => (None, arg),
            };
            let FunctionArgExpr::Expr(expr) = value else {
                return Err(wrong(function, format!("{value} is not a value")));
            };
            // `delim = ';'` is an argument by name too.
            let (name, expr) = match (name, expr) {
                (None, Expr::BinaryOp { left, op, right }) if *op == BinaryOperator::Eq => {
                    match left.as_ref() {
                        Expr::Identifier(name) => (Some(name.value.clone()), right.as_ref()),
                        _ => (None, expr),
                    }
                }
                (name, expr) => (name, expr),
            };
            let value = value_of(expr).ok_or_else(|| {
                let what = match expr {
                    Expr::Value(value) if matches!(value.value, Literal::Placeholder(_)) => format!(
                        "{expr} has no value yet: a file is looked at when a statement is planned: write the value itself"
                    ),
                    _ => format!(
                        "{expr} is not a literal: write a value, a list or a struct of them"
                    ),
                };
                wrong(function, what)
            })?;
            match name {
                None if read.by_name.is_empty() => read.by_place.push(value),
                None => {
                    let what = "an argument without a name stands behind one with a name";
                    return Err(wrong(function, what));
                }
                Some(name) => read.add(&name, value, known)?,
            }
        }
        Ok(read)
    }

    fn add(&mut self, name: &str, value: Value, known: &[Known]) -> Result<(), Error> {
        let lower = name.to_ascii_lowercase();
        let is_it = |(name, others): &&Known| *name == lower || others.contains(&lower.as_str());
        let Some((name, _)) = known.iter().find(is_it) else {
            let all = known.iter().flat_map(|(name, others)| {
                std::iter::once(name)
                    .chain(others.iter())
                    .map(ToString::to_string)
            });
            let all: Vec<String> = all.collect();
            let hint = match nearest(&all, &lower) {
                Some(near) => format!("did you mean {near}? "),
                None => String::new(),
            };
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let what = format!(
                "there is no argument {name}: {hint}it has {}",
                names.join(", ")
            );
            return Err(wrong(self.function, what));
        };
        if self.by_name.iter().any(|(given, _)| given == name) {
            return Err(wrong(
                self.function,
                format!("the argument {name} is given twice"),
            ));
        }
        self.by_name.push((name, value));
        Ok(())
    }

    /// Returns the arguments by place.
    pub(super) fn by_place(&self) -> &[Value] {
        &self.by_place
    }

    /// Returns what an argument was given; `None` for nothing and for NULL.
    pub(super) fn given(&self, name: &str) -> Option<&Value> {
        let given = self.by_name.iter().find(|(given, _)| *given == name);
        given
            .map(|(_, value)| value)
            .filter(|value| **value != Value::Null)
    }

    /// Says that an argument takes something else.
    pub(super) fn mismatch<T>(&self, name: &str, takes: &str) -> Result<T, Error> {
        let given = self
            .given(name)
            .map_or("nothing".into(), ToString::to_string);
        Err(wrong(
            self.function,
            format!("{name} takes {takes}, and was given {given}"),
        ))
    }

    /// Returns whether something is so.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::Boolean(value)) => Ok(Some(*value)),
            Some(Value::Number(number)) if number == "0" || number == "1" => {
                Ok(Some(number == "1"))
            }
            Some(_) => self.mismatch(name, "true or false"),
        }
    }

    /// Returns a text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => self.mismatch(name, "a text, as in 'x'"),
        }
    }

    /// Returns a whole number.
    pub(super) fn whole(&self, name: &str) -> Result<Option<i64>, Error> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::Number(number)) => match number.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => self.mismatch(name, "a whole number"),
            },
            Some(_) => self.mismatch(name, "a whole number"),
        }
    }

    /// Returns one text or several.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        match self.given(name).map(texts_of) {
            None => Ok(None),
            Some(Some(texts)) => Ok(Some(texts)),
            Some(None) => self.mismatch(name, "a text or a list of texts, as in ['x', 'y']"),
        }
    }

    /// Returns a single byte; `Some(None)` for an empty text.
    pub(super) fn byte(&self, name: &str) -> Result<Option<Option<u8>>, Error> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match (text, text.as_bytes()) {
            (_, []) => Ok(Some(None)),
            ("\\t", _) => Ok(Some(Some(b'\t'))),
            (_, [byte]) if byte.is_ascii() => Ok(Some(Some(*byte))),
            _ => self.mismatch(name, "a single character of ASCII"),
        }
    }
}

/// Returns one text or several.
pub(super) fn texts_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(text) => Some(vec![text.clone()]),
        Value::List(values) => {
            let text = |value: &Value| match value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            };
            values.iter().map(text).collect()
        }
        _ => None,
    }
}

fn value_of(expr: &Expr) -> Option<Value> {
    Some(match expr {
        Expr::Value(literal) => match &literal.value {
            Literal::Null => Value::Null,
            Literal::Boolean(value) => Value::Boolean(*value),
            Literal::Number(number, _) => Value::Number(number.to_string()),
            Literal::SingleQuotedString(text)
            | Literal::DoubleQuotedString(text)
            | Literal::EscapedStringLiteral(text)
            | Literal::UnicodeStringLiteral(text) => Value::Text(text.clone()),
            Literal::DollarQuotedString(text) => Value::Text(text.value.clone()),
            _ => return None,
        },
        Expr::Nested(inner) => return value_of(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match value_of(expr)? {
            Value::Number(number) => Value::Number(format!("-{number}")),
            _ => return None,
        },
        Expr::Array(Array { elem, .. }) => {
            Value::List(elem.iter().map(value_of).collect::<Option<_>>()?)
        }
        Expr::Dictionary(fields) => {
            let field = |field: &sqlparser::ast::DictionaryField| {
                Some((field.key.value.clone(), value_of(&field.value)?))
            };
            Value::Struct(fields.iter().map(field).collect::<Option<_>>()?)
        }
        // DuckDB has words such as `auto` stand for themselves.
        Expr::Identifier(word) => Value::Text(word.value.clone()),
        _ => return None,
    })
}
