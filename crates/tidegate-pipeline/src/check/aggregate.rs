//! The types of aggregates and of their partial states.
//!
//! Coercion is the planner's: an `Int32` is already cast when it reaches `sum`, so an argument that
//! DataFusion's accumulators do not take as it is, is refused.

use arrow_schema::{DataType, Field};

use super::node::boolean;
use super::{Unsupported, supported_type};
use crate::expr::Expr;
use crate::pipeline::{AggregateCall, AggregateFunction};
use crate::types::{Decimal, DecimalWidth};

impl AggregateCall {
    /// Builds a call, holding the declared types of value and state against DataFusion's.
    pub fn new(
        function: AggregateFunction,
        argument: Option<Expr>,
        filter: Option<Expr>,
        data_type: DataType,
        state: Vec<Field>,
        name: impl Into<String>,
    ) -> Result<Self, Unsupported> {
        let call = Self {
            function,
            argument,
            filter,
            data_type,
            state,
            name: name.into(),
        };
        check_call(&call)?;
        Ok(call)
    }
}

/// The types that a call gives.
struct CallTypes {
    value: DataType,
    state: Vec<DataType>,
}

/// Checks a call against its argument's type.
pub(super) fn check_call(call: &AggregateCall) -> Result<(), Unsupported> {
    if let Some(filter) = &call.filter {
        boolean("the filter of an aggregate", &filter.data_type)?;
    }
    let function = call.function;
    let types = match &call.argument {
        Some(argument) => call_types(function, &argument.data_type, &call.data_type)?,
        None if function == AggregateFunction::Count => count_types(),
        None => return Err(Unsupported::new(format!("{function} without an argument"))),
    };
    if types.value != call.data_type {
        return Err(Unsupported::new(format!(
            "{function} as {}: it gives {}",
            call.data_type, types.value
        )));
    }
    let declared: Vec<_> = call.state.iter().map(Field::data_type).collect();
    if !declared.iter().copied().eq(types.state.iter()) {
        return Err(Unsupported::new(format!(
            "{function} with the state {}: it is {}",
            listed(declared),
            listed(&types.state)
        )));
    }
    Ok(())
}

fn listed<'a>(types: impl IntoIterator<Item = &'a DataType>) -> String {
    let names: Vec<_> = types.into_iter().map(ToString::to_string).collect();
    format!("({})", names.join(", "))
}

fn count_types() -> CallTypes {
    CallTypes {
        value: DataType::Int64,
        state: vec![DataType::Int64],
    }
}

fn call_types(
    function: AggregateFunction,
    argument: &DataType,
    declared: &DataType,
) -> Result<CallTypes, Unsupported> {
    supported_type(argument)?;
    match function {
        AggregateFunction::Count => Ok(count_types()),
        AggregateFunction::Sum => sum_types(argument),
        AggregateFunction::Avg => avg_types(argument),
        AggregateFunction::Min | AggregateFunction::Max => min_max_types(argument, declared),
        AggregateFunction::VarPop
        | AggregateFunction::VarSamp
        | AggregateFunction::StddevPop
        | AggregateFunction::StddevSamp => {
            if *argument != DataType::Float64 {
                return Err(Unsupported::new(format!("{function} of {argument}")));
            }
            Ok(CallTypes {
                value: DataType::Float64,
                state: vec![DataType::UInt64, DataType::Float64, DataType::Float64],
            })
        }
    }
}

fn sum_types(argument: &DataType) -> Result<CallTypes, Unsupported> {
    let value = match (argument, Decimal::of(argument)) {
        (_, Some(decimal)) => {
            let most = decimal.width.max_precision();
            Decimal {
                precision: decimal.precision.saturating_add(10).min(most),
                ..decimal
            }
            .data_type()
        }
        (DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Duration(_), None) => {
            argument.clone()
        }
        _ => return Err(Unsupported::new(format!("sum of {argument}"))),
    };
    Ok(CallTypes {
        state: vec![value.clone()],
        value,
    })
}

/// DataFusion sums for `avg` in the narrowest decimal with 13 digits to spare, never below the
/// width of the argument, and gives four more digits after the point.
fn avg_types(argument: &DataType) -> Result<CallTypes, Unsupported> {
    let (value, sum) = match (argument, Decimal::of(argument)) {
        (_, Some(decimal)) => {
            let most = decimal.width.max_precision();
            let needed = decimal.precision.saturating_add(13).max(most);
            let sum_width = [DecimalWidth::W64, DecimalWidth::W128]
                .into_iter()
                .find(|width| needed <= width.max_precision())
                .ok_or_else(|| {
                    Unsupported::new(format!("avg of {argument}: its sum is a Decimal256"))
                })?;
            let sum = Decimal {
                width: sum_width,
                precision: sum_width.max_precision(),
                scale: decimal.scale,
            };
            let most_scale = i8::try_from(most).unwrap_or(i8::MAX);
            let value = Decimal {
                width: decimal.width,
                precision: decimal.precision.saturating_add(4).min(most),
                scale: decimal.scale.saturating_add(4).min(most_scale),
            };
            (value.data_type(), sum.data_type())
        }
        (DataType::Float64 | DataType::Duration(_), None) => (argument.clone(), argument.clone()),
        _ => return Err(Unsupported::new(format!("avg of {argument}"))),
    };
    Ok(CallTypes {
        value,
        state: vec![DataType::UInt64, sum],
    })
}

/// A dictionary's least string leaves as a plain string, whether or not the planner said so by a
/// cast.
fn min_max_types(argument: &DataType, declared: &DataType) -> Result<CallTypes, Unsupported> {
    let value = match argument {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    if matches!(declared, DataType::Dictionary(_, _)) {
        return Err(Unsupported::new(format!("min or max as {declared}")));
    }
    Ok(CallTypes {
        state: vec![value.clone()],
        value,
    })
}
