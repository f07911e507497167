//! The type rules: what the IR can say, and what it cannot.
//!
//! Every [`Expr`] is built by one of the constructors here. Each puts the node together and then
//! holds it against the one rule for its kind, which [`Pipeline::validate`] applies again to trees
//! that came over a wire. The rules are those of DataFusion's planner and Arrow's kernels: a node
//! whose declared type is not what they would give is refused, never reinterpreted.
//!
//! [`Pipeline::validate`]: crate::Pipeline::validate

mod aggregate;
mod cast;
mod decimal;
mod node;
mod pipeline;

use pipeline::check_scalar;

pub use cast::{CastRule, Number, cast_rule};
pub use decimal::{DecimalRule, decimal_rule};
pub(crate) use node::{boolean, check_node};

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};

use crate::catalogue::{Function, Options};
use crate::custom::CustomFunction;
use crate::expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr, ExprKind};
use crate::scalar::Scalar;

/// Says what the IR cannot express. It is never an error of the query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Unsupported {
    /// The construct and the limit, in lower case: `function median`, `type List(Int64)`.
    pub what: String,
}

impl Unsupported {
    /// Names a construct.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

/// Checks that the IR has values of this type.
///
/// Decimals of a negative scale are refused: DataFusion's own rules differ between operators there.
pub fn supported_type(data_type: &DataType) -> Result<(), Unsupported> {
    let supported = match data_type {
        DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond)
        | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Interval(_) => true,
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => {
            if *scale < 0 {
                return Err(Unsupported::new(format!(
                    "type {data_type}: a negative scale"
                )));
            }
            true
        }
        DataType::Dictionary(key, value) => key.is_integer() && value.is_string(),
        other => other.is_integer() || other.is_string(),
    };
    if supported {
        Ok(())
    } else {
        Err(Unsupported::new(format!("type {data_type}")))
    }
}

/// Holds a new node against its rule.
fn checked(kind: ExprKind, data_type: DataType) -> Result<Expr, Unsupported> {
    let expr = Expr { kind, data_type };
    check_node(&expr)?;
    Ok(expr)
}

impl Expr {
    /// Builds a reference to the column at `index` of the step's input.
    pub fn column(index: usize, data_type: DataType) -> Result<Self, Unsupported> {
        checked(ExprKind::Column(index), data_type)
    }

    /// Builds a reference to the pipeline's parameter at `index`.
    pub fn parameter(index: usize, data_type: DataType) -> Result<Self, Unsupported> {
        checked(ExprKind::Parameter(index), data_type)
    }

    /// Builds `left op right`; `data_type` is what the planner declares and has to be what Arrow's
    /// kernels give.
    pub fn arithmetic(
        op: ArithmeticOp,
        left: Self,
        right: Self,
        data_type: DataType,
    ) -> Result<Self, Unsupported> {
        calling(op.name(), Options::None, vec![left, right], data_type)
    }

    /// Builds a comparison of two values of one type, or of two strings of any layout.
    pub fn compare(op: CompareOp, left: Self, right: Self) -> Result<Self, Unsupported> {
        truth(op.name(), Options::None, vec![left, right])
    }

    /// Builds `left AND right`.
    pub fn and(left: Self, right: Self) -> Result<Self, Unsupported> {
        truth("and", Options::None, vec![left, right])
    }

    /// Builds `left OR right`.
    pub fn or(left: Self, right: Self) -> Result<Self, Unsupported> {
        truth("or", Options::None, vec![left, right])
    }

    /// Builds `NOT expr`.
    #[expect(
        clippy::should_implement_trait,
        reason = "a constructor like the others, which can refuse"
    )]
    pub fn not(expr: Self) -> Result<Self, Unsupported> {
        truth("not", Options::None, vec![expr])
    }

    /// Builds `-expr`, of `expr`'s type.
    pub fn negate(expr: Self) -> Result<Self, Unsupported> {
        let data_type = expr.data_type.clone();
        calling("negate", Options::None, vec![expr], data_type)
    }

    /// Builds `expr IS NULL`.
    pub fn is_null(expr: Self) -> Result<Self, Unsupported> {
        truth("is_null", Options::None, vec![expr])
    }

    /// Builds `expr IS NOT NULL`.
    pub fn is_not_null(expr: Self) -> Result<Self, Unsupported> {
        truth("is_not_null", Options::None, vec![expr])
    }

    /// Builds `CASE WHEN … THEN … [ELSE …] END`; every value has the type `data_type`.
    pub fn case(
        branches: Vec<(Self, Self)>,
        otherwise: Option<Self>,
        data_type: DataType,
    ) -> Result<Self, Unsupported> {
        let branches = branches.into_iter().flat_map(|(when, then)| [when, then]);
        let arguments = branches.chain(otherwise).collect();
        calling("case", Options::None, arguments, data_type)
    }

    /// Builds `expr [NOT] IN (list)`, which compares as `=` does.
    pub fn in_list(expr: Self, mut list: Vec<Self>, negated: bool) -> Result<Self, Unsupported> {
        list.insert(0, expr);
        truth("in", Options::Negated(negated), list)
    }

    /// Builds a conversion to `to`.
    pub fn cast(expr: Self, to: DataType, on_failure: CastFailure) -> Result<Self, Unsupported> {
        calling("cast", Options::OnFailure(on_failure), vec![expr], to)
    }

    /// Builds `date_part(part, expr)`.
    pub fn date_part(part: DatePart, expr: Self) -> Result<Self, Unsupported> {
        calling(
            "date_part",
            Options::Part(part),
            vec![expr],
            part.data_type(),
        )
    }

    /// Builds `expr [NOT] LIKE pattern`, or ILIKE.
    pub fn like(
        expr: Self,
        pattern: Self,
        negated: bool,
        case_insensitive: bool,
    ) -> Result<Self, Unsupported> {
        let options = Options::Like {
            negated,
            case_insensitive,
        };
        truth("like", options, vec![expr, pattern])
    }

    /// Builds a call of a function of the catalogue. `constants` are those of its arguments that have to be
    /// literals, `arguments` the others; `data_type` has to be what it gives.
    pub fn call(
        function: Function,
        constants: Vec<Scalar>,
        arguments: Vec<Self>,
        data_type: DataType,
    ) -> Result<Self, Unsupported> {
        let options = match constants.is_empty() {
            true => Options::None,
            false => Options::Constants(constants),
        };
        let call = ExprKind::Call {
            function,
            options,
            arguments,
        };
        checked(call, data_type)
    }

    /// Builds a call of a function that a user defined.
    pub fn custom(function: Arc<CustomFunction>, args: Vec<Self>) -> Result<Self, Unsupported> {
        let data_type = function.returns.clone();
        calling("custom", Options::Custom(function), args, data_type)
    }

    /// Builds `substr(expr, start[, length])` in characters, counted from 1; a start below 1 eats into the
    /// length. `data_type` is a string type.
    pub fn substring(
        expr: Self,
        start: i64,
        length: Option<i64>,
        data_type: DataType,
    ) -> Result<Self, Unsupported> {
        let options = Options::Substring { start, length };
        calling("substr", options, vec![expr], data_type)
    }
}

/// Builds a call by the catalogue's name.
fn calling(
    name: &str,
    options: Options,
    arguments: Vec<Expr>,
    data_type: DataType,
) -> Result<Expr, Unsupported> {
    let function = Function::named(name);
    let function = function.ok_or_else(|| Unsupported::new(format!("function {name}")))?;
    let call = ExprKind::Call {
        function,
        options,
        arguments,
    };
    checked(call, data_type)
}

fn truth(name: &str, options: Options, arguments: Vec<Expr>) -> Result<Expr, Unsupported> {
    calling(name, options, arguments, DataType::Boolean)
}

#[cfg(test)]
mod tests;
