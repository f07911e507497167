//! One use of a function: its types, and what the call says beside its arguments.

use std::sync::Arc;

use arrow_schema::DataType;

use super::ScalarEntry;
use crate::check::{Unsupported, boolean};
use crate::custom::CustomFunction;
use crate::expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr, ExprKind};
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
#[derive(Clone, Debug)]
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
        let (name, options) = called(&expr.kind)
            .ok_or_else(|| Unsupported::new(format!("a call in {:?}", expr.kind)))?;
        let mut entries = super::functions();
        let entry = entries
            .find(|entry| entry.name == name)
            .ok_or_else(|| Unsupported::new(format!("function {name}")))?;
        let children = expr.children().into_iter();
        let arguments = children.map(|child| child.data_type.clone()).collect();
        Ok((
            entry,
            Self::with(arguments, expr.data_type.clone(), options),
        ))
    }
}

/// Returns the catalogue's name of a node and its options; `None` for references.
fn called(kind: &ExprKind) -> Option<(&'static str, Options)> {
    let name = match kind {
        ExprKind::Column(_) | ExprKind::Parameter(_) => return None,
        ExprKind::Arithmetic { op, .. } => match op {
            ArithmeticOp::Add => "add",
            ArithmeticOp::Subtract => "subtract",
            ArithmeticOp::Multiply => "multiply",
            ArithmeticOp::Divide => "divide",
            ArithmeticOp::Modulo => "modulo",
        },
        ExprKind::Compare { op, .. } => match op {
            CompareOp::Eq => "equal",
            CompareOp::NotEq => "not_equal",
            CompareOp::Lt => "less",
            CompareOp::LtEq => "less_or_equal",
            CompareOp::Gt => "greater",
            CompareOp::GtEq => "greater_or_equal",
            CompareOp::IsDistinctFrom => "is_distinct_from",
            CompareOp::IsNotDistinctFrom => "is_not_distinct_from",
        },
        ExprKind::And(..) => "and",
        ExprKind::Or(..) => "or",
        ExprKind::Not(_) => "not",
        ExprKind::Negate(_) => "negate",
        ExprKind::IsNull(_) => "is_null",
        ExprKind::IsNotNull(_) => "is_not_null",
        ExprKind::Case { .. } => "case",
        ExprKind::InList { negated, .. } => return Some(("in", Options::Negated(*negated))),
        ExprKind::Cast { on_failure, .. } => {
            return Some(("cast", Options::OnFailure(*on_failure)));
        }
        ExprKind::DatePart { part, .. } => return Some(("date_part", Options::Part(*part))),
        ExprKind::Like {
            negated,
            case_insensitive,
            ..
        } => {
            let options = Options::Like {
                negated: *negated,
                case_insensitive: *case_insensitive,
            };
            return Some(("like", options));
        }
        ExprKind::Substring { start, length, .. } => {
            let options = Options::Substring {
                start: *start,
                length: *length,
            };
            return Some(("substr", options));
        }
        ExprKind::Call {
            function,
            constants,
            ..
        } => {
            let options = Options::Constants(constants.clone());
            return Some((function.entry().name, options));
        }
        ExprKind::Custom { function, .. } => {
            return Some(("custom", Options::Custom(Arc::clone(function))));
        }
    };
    Some((name, Options::None))
}
