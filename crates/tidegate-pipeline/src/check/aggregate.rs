//! The types of aggregates and of their partial states.
//!
//! Coercion is the planner's: an `Int32` is already cast when it reaches `sum`, so an argument that
//! DataFusion's accumulators do not take as it is, is refused. What each takes and gives is in the catalogue.

use arrow_schema::{DataType, Field};

use super::node::boolean;
use super::{Unsupported, supported_type};
use crate::catalogue::{self, CallTypes};
use crate::expr::Expr;
use crate::pipeline::{AggregateCall, AggregateFunction};

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
            more: Vec::new(),
            filter,
            data_type,
            state,
            name: name.into(),
        };
        check_call(&call)?;
        Ok(call)
    }

    /// Builds a call of any number of arguments.
    pub fn with_arguments(
        function: AggregateFunction,
        arguments: Vec<Expr>,
        filter: Option<Expr>,
        data_type: DataType,
        state: Vec<Field>,
        name: impl Into<String>,
    ) -> Result<Self, Unsupported> {
        let mut arguments = arguments.into_iter();
        let call = Self {
            function,
            argument: arguments.next(),
            more: arguments.collect(),
            filter,
            data_type,
            state,
            name: name.into(),
        };
        check_call(&call)?;
        Ok(call)
    }
}

/// Checks a call against its argument's type.
pub(super) fn check_call(call: &AggregateCall) -> Result<(), Unsupported> {
    if let Some(filter) = &call.filter {
        boolean("the filter of an aggregate", &filter.data_type)?;
    }
    let function = call.function;
    let entry = catalogue::aggregate(function);
    let types = match &call.argument {
        Some(argument) => {
            let arguments = std::iter::once(argument).chain(&call.more);
            let arguments: Vec<_> = arguments
                .map(|argument| argument.data_type.clone())
                .collect();
            arguments.iter().try_for_each(supported_type)?;
            if arguments.len() != entry.arity {
                let num = arguments.len();
                return Err(Unsupported::new(format!("{function} of {num} arguments")));
            }
            (entry.types)(&arguments, &call.data_type)?
        }
        None if function == AggregateFunction::Count => CallTypes::of_value(DataType::Int64),
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
