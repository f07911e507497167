//! One use of a function: its types, and what the call says beside its arguments.

use std::sync::Arc;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::ScalarEntry;
use crate::check::{Unsupported, boolean};
use crate::custom::CustomFunction;
use crate::expr::{CastFailure, DatePart, Expr, ExprKind};
use crate::scalar::Scalar;
use crate::types::is_string;

/// The types of a call, and its options.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The arguments' types.
    pub arguments: Vec<DataType>,
    /// The result's type.
    pub result: DataType,
    /// What else the call says.
    pub options: Options,
}

/// What a call says beside its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Options {
    /// Nothing.
    None,
    /// Of a cast: what a value without an image becomes.
    OnFailure(CastFailure),
    /// Of IN: whether the answer is turned.
    Negated(bool),
    /// Of LIKE.
    Like {
        /// Whether the answer is turned.
        negated: bool,
        /// ILIKE.
        case_insensitive: bool,
    },
    /// Of `date_part`: which.
    Part(DatePart),
    /// Of `substr`.
    Substring {
        /// The first character, counted from 1.
        start: i64,
        /// At most this many characters.
        length: Option<i64>,
    },
    /// Of a call of a function without syntax of its own: the arguments that are literals.
    Constants(Vec<Scalar>),
    /// A user's function.
    Custom(Arc<CustomFunction>),
}

impl Signature {
    /// Makes a signature without options.
    pub fn new(arguments: Vec<DataType>, result: DataType) -> Self {
        Self::with(arguments, result, Options::None)
    }

    /// Makes a signature.
    pub fn with(arguments: Vec<DataType>, result: DataType, options: Options) -> Self {
        Self {
            arguments,
            result,
            options,
        }
    }

    /// Returns the arguments that are literals of the call.
    pub fn constants(&self) -> &[Scalar] {
        match &self.options {
            Options::Constants(constants) => constants,
            _ => &[],
        }
    }

    /// Refuses a call whose declared type is not what it gives.
    pub(crate) fn gives(&self, what: &str, given: &DataType) -> Result<(), Unsupported> {
        if *given == self.result {
            return Ok(());
        }
        Err(Unsupported::new(format!(
            "{what} as {}: it gives {given}",
            self.result
        )))
    }

    /// Refuses a result that is no boolean.
    pub(crate) fn gives_boolean(&self, what: &str) -> Result<(), Unsupported> {
        boolean(what, &self.result)
    }

    /// Refuses an argument that is no boolean.
    pub(crate) fn takes_boolean(&self, what: &str, index: usize) -> Result<(), Unsupported> {
        boolean(what, &self.arguments[index])
    }

    /// Refuses an argument that is no string.
    pub(crate) fn takes_string(&self, what: &str, index: usize) -> Result<(), Unsupported> {
        let data_type = &self.arguments[index];
        if is_string(data_type) {
            return Ok(());
        }
        Err(Unsupported::new(format!("{what} of type {data_type}")))
    }

    /// Returns the function that a node of an expression calls, and how.
    pub(crate) fn of(expr: &Expr) -> Result<(&'static ScalarEntry, Self), Unsupported> {
        let ExprKind::Call {
            function,
            options,
            arguments,
        } = &expr.kind
        else {
            return Err(Unsupported::new(format!("a call in {:?}", expr.kind)));
        };
        let arguments = arguments.iter().map(|argument| argument.data_type.clone());
        let signature = Self::with(arguments.collect(), expr.data_type.clone(), options.clone());
        Ok((function.entry(), signature))
    }
}
