//! Typed row expressions.
//!
//! Every [`Expr`] carries its Arrow type, already coerced: no rule here ever guesses a type. Build
//! them with the functions of [`crate::check`], which refuse what the IR cannot say.

use std::sync::Arc;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::catalogue::Function;
use crate::custom::CustomFunction;
use crate::scalar::Scalar;

/// An expression over one input row, with the Arrow type of its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// What is computed.
    pub kind: ExprKind,
    /// The Arrow type of the result.
    pub data_type: DataType,
}

/// What an [`Expr`] computes. NULL in, NULL out unless a variant says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprKind {
    /// The column of the step's input at this index.
    Column(usize),
    /// The pipeline's parameter at this index.
    Parameter(usize),
    /// `left op right` on numbers of one family, or on a date or timestamp and an interval.
    Arithmetic {
        /// The operator.
        op: ArithmeticOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `left op right` on two values of one type; strings of any layout compare by bytes.
    Compare {
        /// The operator.
        op: CompareOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// Three-valued AND: FALSE wins over NULL.
    And(Box<Expr>, Box<Expr>),
    /// Three-valued OR: TRUE wins over NULL.
    Or(Box<Expr>, Box<Expr>),
    /// Three-valued NOT.
    Not(Box<Expr>),
    /// Arithmetic negation; integers wrap.
    Negate(Box<Expr>),
    /// TRUE for NULL, else FALSE; never NULL.
    IsNull(Box<Expr>),
    /// FALSE for NULL, else TRUE; never NULL.
    IsNotNull(Box<Expr>),
    /// The value of the first branch whose condition is TRUE, else `otherwise`, else NULL. Only the
    /// value that is taken is evaluated.
    Case {
        /// (condition, value) in order.
        branches: Vec<(Expr, Expr)>,
        /// The ELSE value.
        otherwise: Option<Box<Expr>>,
    },
    /// `expr [NOT] IN (list)`: NULL if there is no match and a NULL in the list or on the left.
    InList {
        /// The needle.
        expr: Box<Expr>,
        /// The haystack, each of the needle's type.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// A conversion to `data_type`.
    Cast {
        /// What is converted.
        expr: Box<Expr>,
        /// What a value without an image becomes.
        on_failure: CastFailure,
    },
    /// A calendar field of a date or timestamp.
    DatePart {
        /// Which field.
        part: DatePart,
        /// A date, or a timestamp without a time zone.
        expr: Box<Expr>,
    },
    /// SQL LIKE with `%`, `_` and the escape character `\`.
    Like {
        /// The string tested.
        expr: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// NOT LIKE.
        negated: bool,
        /// ILIKE.
        case_insensitive: bool,
    },
    /// `substr(expr, start[, length])` in characters, counted from 1.
    Substring {
        /// The string.
        expr: Box<Expr>,
        /// First character; values below 1 eat into the length.
        start: i64,
        /// At most this many characters.
        length: Option<i64>,
    },
    /// A call of a function of the catalogue that has no syntax of its own.
    Call {
        /// Which.
        function: Function,
        /// Those arguments that are literals, in order: they decide on types, or on what is computed.
        constants: Vec<Scalar>,
        /// The other arguments, in order.
        arguments: Vec<Expr>,
    },
    /// A call of a function that a user defined.
    Custom {
        /// The function, with its bodies.
        function: Arc<CustomFunction>,
        /// Its arguments, in order.
        args: Vec<Expr>,
    },
}

/// Arithmetic operators. Integer `+ - *` wrap; `/` and `%` raise on zero, `/` also on MIN / −1, while
/// MIN % −1 is 0; decimals raise on overflow; floats follow IEEE 754.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

/// Comparison operators. Floats: −0.0 equals 0.0; every NaN equals every NaN and is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
    /// `IS DISTINCT FROM`: NULL is a value like any other; never NULL.
    IsDistinctFrom,
    /// `IS NOT DISTINCT FROM`; never NULL.
    IsNotDistinctFrom,
}

/// What a cast makes of a value that the target type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CastFailure {
    /// The query fails: `CAST`.
    Raise,
    /// The result is NULL: `TRY_CAST`.
    Null,
}

/// Calendar fields, as in `date_part('year', d)`; every one is an `Int32` in DataFusion, save
/// [`DatePart::Epoch`], a `Float64`, and [`DatePart::Nanosecond`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DatePart {
    /// Calendar year.
    Year,
    /// 1 to 4.
    Quarter,
    /// 1 to 12.
    Month,
    /// ISO 8601 week, 1 to 53.
    Week,
    /// Day of the month, 1 to 31.
    Day,
    /// Day of the year, 1 to 366.
    DayOfYear,
    /// Day of the week, Sunday is 0.
    DayOfWeek,
    /// 0 to 23.
    Hour,
    /// 0 to 59.
    Minute,
    /// Whole seconds, 0 to 59.
    Second,
    /// Seconds since 1970-01-01 00:00:00.
    Epoch,
    /// The year of the ISO 8601 week.
    IsoYear,
    /// Day of the week, Monday is 1 and Sunday 7.
    IsoDayOfWeek,
    /// Milliseconds since the minute began, whole ones.
    Millisecond,
    /// Microseconds since the minute began.
    Microsecond,
    /// Nanoseconds since the minute began: an `Int64`.
    Nanosecond,
}

impl DatePart {
    /// Returns the type of the field.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Epoch => DataType::Float64,
            Self::Nanosecond => DataType::Int64,
            _ => DataType::Int32,
        }
    }
}
