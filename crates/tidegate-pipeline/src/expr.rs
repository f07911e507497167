//! Typed row expressions.
//!
//! Every [`Expr`] carries its Arrow type, already coerced: no rule here ever guesses a type. Build
//! them with the functions of [`crate::check`], which refuse what the IR cannot say.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Function, Options};

/// An expression over one input row, with the Arrow type of its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// What is computed.
    pub kind: ExprKind,
    /// The Arrow type of the result.
    pub data_type: DataType,
}

/// What an [`Expr`] computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprKind {
    /// The column of the step's input at this index.
    Column(usize),
    /// The pipeline's parameter at this index.
    Parameter(usize),
    /// A call of a function of the catalogue; operators are functions too.
    Call {
        /// Which.
        function: Function,
        /// What the call says beside its arguments.
        options: Options,
        /// The arguments, in the order in which they are written.
        arguments: Vec<Expr>,
    },
}

impl Expr {
    /// Returns the expressions directly beneath, in the order in which they are written.
    pub fn children(&self) -> &[Self] {
        match &self.kind {
            ExprKind::Column(_) | ExprKind::Parameter(_) => &[],
            ExprKind::Call { arguments, .. } => arguments,
        }
    }

    /// Returns the expressions directly beneath, in the same order, to be replaced.
    pub fn children_mut(&mut self) -> &mut [Self] {
        match &mut self.kind {
            ExprKind::Column(_) | ExprKind::Parameter(_) => &mut [],
            ExprKind::Call { arguments, .. } => arguments,
        }
    }
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

impl ArithmeticOp {
    /// Returns the catalogue's name of the function.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Divide => "divide",
            Self::Modulo => "modulo",
        }
    }
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

impl CompareOp {
    /// Every operator.
    pub const ALL: [Self; 8] = [
        Self::Eq,
        Self::NotEq,
        Self::Lt,
        Self::LtEq,
        Self::Gt,
        Self::GtEq,
        Self::IsDistinctFrom,
        Self::IsNotDistinctFrom,
    ];

    /// Returns the catalogue's name of the function.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Eq => "equal",
            Self::NotEq => "not_equal",
            Self::Lt => "less",
            Self::LtEq => "less_or_equal",
            Self::Gt => "greater",
            Self::GtEq => "greater_or_equal",
            Self::IsDistinctFrom => "is_distinct_from",
            Self::IsNotDistinctFrom => "is_not_distinct_from",
        }
    }
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
