//! Pipelines, written so that they read like the query.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, IntervalUnit, SchemaRef};
use tidegate_pipeline::catalogue::{self, CallTypes};
use tidegate_pipeline::types::{Decimal, DecimalWidth};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, CastFailure,
    CompareOp, Expr, NamedExpr, Pipeline, Scalar, ScalarValue, Sort, SortKey, Step,
};

/// A pipeline in the making.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    input: SchemaRef,
    parameters: Vec<Scalar>,
    steps: Vec<Step>,
}

impl Plan {
    /// Starts with the columns of a batch.
    pub(crate) fn over(batch: &RecordBatch) -> Self {
        Self {
            input: batch.schema(),
            parameters: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Returns the types of the columns as the next step sees them.
    pub(crate) fn types(&self) -> Vec<DataType> {
        let fields = self.output();
        fields
            .fields()
            .iter()
            .map(|field| field.data_type().clone())
            .collect()
    }

    /// Returns a column of the next step.
    pub(crate) fn col(&self, index: usize) -> Expr {
        Expr::column(index, self.types()[index].clone()).unwrap()
    }

    /// Returns all columns of the next step.
    pub(crate) fn cols(&self) -> Vec<Expr> {
        (0..self.types().len())
            .map(|index| self.col(index))
            .collect()
    }

    /// Makes a literal.
    pub(crate) fn literal(&mut self, data_type: DataType, value: ScalarValue) -> Expr {
        self.parameters.push(Scalar {
            data_type: data_type.clone(),
            value,
        });
        Expr::parameter(self.parameters.len() - 1, data_type).unwrap()
    }

    /// Makes an integer literal, of whatever type has integers beneath.
    pub(crate) fn int(&mut self, data_type: DataType, value: i128) -> Expr {
        let value = match &data_type {
            DataType::Boolean => ScalarValue::Boolean(value != 0),
            other if other.is_unsigned_integer() => ScalarValue::UInt(value as u64),
            other if other.is_floating() => ScalarValue::Float(value as f64),
            other if Decimal::of(other).is_some() => ScalarValue::Decimal(value),
            _ => ScalarValue::Int(value as i64),
        };
        self.literal(data_type, value)
    }

    pub(crate) fn float(&mut self, value: f64) -> Expr {
        self.literal(DataType::Float64, ScalarValue::Float(value))
    }

    pub(crate) fn text(&mut self, value: &str) -> Expr {
        self.literal(DataType::Utf8, ScalarValue::Utf8(value.into()))
    }

    pub(crate) fn interval(&mut self, months: i32, days: i32, nanoseconds: i64) -> Expr {
        let value = ScalarValue::Interval {
            months,
            days,
            nanoseconds,
        };
        self.literal(DataType::Interval(IntervalUnit::MonthDayNano), value)
    }

    pub(crate) fn null(&mut self, data_type: DataType) -> Expr {
        self.literal(data_type, ScalarValue::Null)
    }

    pub(crate) fn filter(mut self, predicate: Expr) -> Self {
        self.steps.push(Step::Filter(predicate));
        self
    }

    pub(crate) fn project(mut self, columns: Vec<Expr>) -> Self {
        self.steps.push(Step::Project(named(columns)));
        self
    }

    pub(crate) fn group(self, keys: Vec<Expr>, calls: Vec<AggregateCall>) -> Self {
        self.aggregate(keys, calls, AggregateOutput::Value)
    }

    pub(crate) fn partial(self, keys: Vec<Expr>, calls: Vec<AggregateCall>) -> Self {
        self.aggregate(keys, calls, AggregateOutput::State)
    }

    fn aggregate(
        mut self,
        keys: Vec<Expr>,
        calls: Vec<AggregateCall>,
        output: AggregateOutput,
    ) -> Self {
        let keys = named(keys);
        self.steps.push(Step::Aggregate(Aggregate {
            keys,
            calls,
            output,
        }));
        self
    }

    pub(crate) fn sort(mut self, by: Expr, fetch: Option<usize>) -> Self {
        let keys = vec![SortKey {
            expr: by,
            descending: true,
            nulls_first: false,
        }];
        self.steps.push(Step::Sort(Sort { keys, fetch }));
        self
    }

    /// Adds a step as it is.
    pub(crate) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn output(&self) -> arrow_schema::Schema {
        self.steps
            .iter()
            .fold(self.input.as_ref().clone(), |schema, step| {
                step.output_schema(&schema)
            })
    }

    pub(crate) fn build(self) -> Pipeline {
        let output = Arc::new(self.output());
        Pipeline {
            input: self.input,
            parameters: self.parameters,
            steps: self.steps,
            output,
        }
    }
}

fn named(columns: Vec<Expr>) -> Vec<NamedExpr> {
    let name = |(index, expr)| NamedExpr {
        expr,
        name: format!("c{index}"),
    };
    columns.into_iter().enumerate().map(name).collect()
}

/// Builds `left op right`, of the type that it has.
pub(crate) fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    try_arithmetic(op, left, right).unwrap()
}

pub(crate) fn try_arithmetic(
    op: ArithmeticOp,
    left: Expr,
    right: Expr,
) -> Result<Expr, tidegate_pipeline::Unsupported> {
    use DataType::{Date32, Date64, Duration, Int64, Interval, Timestamp};

    let decimals = (Decimal::of(&left.data_type), Decimal::of(&right.data_type));
    let data_type = match (decimals, &left.data_type, &right.data_type) {
        ((Some(left), Some(right)), ..) => tidegate_pipeline::check::decimal_rule(op, left, right)?
            .result
            .data_type(),
        (_, Date32, Date32) | (_, Date64, Date64) => Int64,
        (_, Timestamp(unit, _), Timestamp(_, _)) => Duration(*unit),
        (_, Duration(_) | Interval(_), Date32 | Date64 | Timestamp(_, _)) => {
            right.data_type.clone()
        }
        _ => left.data_type.clone(),
    };
    Expr::arithmetic(op, left, right, data_type)
}

pub(crate) fn add(left: Expr, right: Expr) -> Expr {
    arithmetic(ArithmeticOp::Add, left, right)
}

pub(crate) fn divide(left: Expr, right: Expr) -> Expr {
    arithmetic(ArithmeticOp::Divide, left, right)
}

pub(crate) fn multiply(left: Expr, right: Expr) -> Expr {
    arithmetic(ArithmeticOp::Multiply, left, right)
}

pub(crate) fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
    Expr::compare(op, left, right).unwrap()
}

pub(crate) fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::cast(expr, to, CastFailure::Raise).unwrap()
}

pub(crate) fn try_cast(expr: Expr, to: DataType) -> Expr {
    Expr::cast(expr, to, CastFailure::Null).unwrap()
}

/// Returns the types of a call's value and of its state.
fn call_types(function: AggregateFunction, argument: &DataType) -> (DataType, Vec<DataType>) {
    use AggregateFunction::{Avg, Count, Max, Min, Sum};

    let decimal = Decimal::of(argument);
    match (function, decimal) {
        (Count, _) => (DataType::Int64, vec![DataType::Int64]),
        (Sum, Some(decimal)) => {
            let most = decimal.width.max_precision();
            let sum = Decimal {
                precision: (decimal.precision + 10).min(most),
                ..decimal
            };
            (sum.data_type(), vec![sum.data_type()])
        }
        (Avg, Some(decimal)) => {
            let most = decimal.width.max_precision();
            let width = if decimal.precision.saturating_add(13).max(most) <= 18 {
                DecimalWidth::W64
            } else {
                DecimalWidth::W128
            };
            let sum = Decimal {
                width,
                precision: width.max_precision(),
                scale: decimal.scale,
            };
            let value = Decimal {
                width: decimal.width,
                precision: (decimal.precision + 4).min(most),
                scale: (decimal.scale + 4).min(most as i8),
            };
            (value.data_type(), vec![DataType::UInt64, sum.data_type()])
        }
        (Avg, None) => (argument.clone(), vec![DataType::UInt64, argument.clone()]),
        (Sum | Min | Max, _) => (argument.clone(), vec![argument.clone()]),
        _ => (
            DataType::Float64,
            vec![DataType::UInt64, DataType::Float64, DataType::Float64],
        ),
    }
}

fn call(function: AggregateFunction, argument: Option<Expr>) -> AggregateCall {
    let of = argument
        .as_ref()
        .map_or(DataType::Int64, |expr| expr.data_type.clone());
    let (value, state) = call_types(function, &of);
    let state = state.into_iter().enumerate();
    let state = state.map(|(index, data_type)| Field::new(format!("s{index}"), data_type, true));
    AggregateCall::new(function, argument, None, value, state.collect(), "v").unwrap()
}

/// Builds a call of an aggregate that only the catalogue knows.
pub(crate) fn of_catalogue(name: &str, arguments: Vec<Expr>) -> AggregateCall {
    let function = catalogue::aggregate_of_datafusion(name).unwrap();
    let types: Vec<DataType> = arguments.iter().map(|of| of.data_type.clone()).collect();
    let CallTypes { value, state } =
        (catalogue::aggregate(function).types)(&types, &types[0]).unwrap();
    let state = state.into_iter().enumerate();
    let state = state.map(|(index, data_type)| Field::new(format!("s{index}"), data_type, true));
    AggregateCall::with_arguments(function, arguments, None, value, state.collect(), "v").unwrap()
}

pub(crate) fn count() -> AggregateCall {
    call(AggregateFunction::Count, None)
}

pub(crate) fn count_of(expr: Expr) -> AggregateCall {
    call(AggregateFunction::Count, Some(expr))
}

pub(crate) fn sum(expr: Expr) -> AggregateCall {
    call(AggregateFunction::Sum, Some(expr))
}

pub(crate) fn min(expr: Expr) -> AggregateCall {
    call(AggregateFunction::Min, Some(expr))
}

pub(crate) fn max(expr: Expr) -> AggregateCall {
    call(AggregateFunction::Max, Some(expr))
}

/// Builds a mean; integers are cast to floats first, as the planner does.
pub(crate) fn avg(expr: Expr) -> AggregateCall {
    let expr = if expr.data_type.is_integer() {
        cast(expr, DataType::Float64)
    } else {
        expr
    };
    call(AggregateFunction::Avg, Some(expr))
}

/// Builds a variance or a standard deviation; numbers are cast to floats first, as the planner does.
pub(crate) fn variance(function: AggregateFunction, expr: Expr) -> AggregateCall {
    let expr = if expr.data_type == DataType::Float64 {
        expr
    } else {
        cast(expr, DataType::Float64)
    };
    call(function, Some(expr))
}

/// Lets the call see only rows for which the filter is TRUE.
pub(crate) fn filtered(mut call: AggregateCall, filter: Expr) -> AggregateCall {
    call.filter = Some(filter);
    call
}
