//! The invariants of a whole pipeline.

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, Schema};

use super::aggregate::check_call;
use super::node::{boolean, check_node};
use super::{Unsupported, supported_type};
use crate::expr::{Expr, ExprKind};
use crate::pipeline::{Aggregate, AggregateOutput, Pipeline, Step};
use crate::scalar::{Scalar, ScalarValue};
use crate::types::{Decimal, integer_bits, is_string};

impl Pipeline {
    /// Checks the invariants that [`Pipeline`] documents and the type rule of every node.
    pub fn validate(&self) -> Result<(), Unsupported> {
        for field in self.input.fields() {
            supported_type(field.data_type())?;
        }
        for parameter in &self.parameters {
            check_scalar(parameter)?;
        }
        let mut schema = self.input.as_ref().clone();
        for step in &self.steps {
            self.check_step(step, &schema)?;
            schema = step.output_schema(&schema);
        }
        let given = schema.fields().iter().map(|field| field.data_type());
        let declared = self.output.fields().iter().map(|field| field.data_type());
        if !given.eq(declared) {
            return Err(Unsupported::new(format!(
                "an output of {}: the steps give {}",
                type_names(&self.output),
                type_names(&schema)
            )));
        }
        Ok(())
    }

    fn check_step(&self, step: &Step, input: &Schema) -> Result<(), Unsupported> {
        match step {
            Step::Filter(predicate) => {
                self.check_tree(predicate, input)?;
                boolean("a filter", &predicate.data_type)
            }
            Step::Project(columns) => columns
                .iter()
                .try_for_each(|column| self.check_tree(&column.expr, input)),
            Step::Aggregate(aggregate) => self.check_aggregate(aggregate, input),
            Step::Sort(sort) => sort
                .keys
                .iter()
                .try_for_each(|key| self.check_tree(&key.expr, input)),
        }
    }

    fn check_aggregate(&self, aggregate: &Aggregate, input: &Schema) -> Result<(), Unsupported> {
        for key in &aggregate.keys {
            self.check_tree(&key.expr, input)?;
        }
        for call in &aggregate.calls {
            for expr in call.argument.iter().chain(&call.more).chain(&call.filter) {
                self.check_tree(expr, input)?;
            }
            check_call(call)?;
        }
        Ok(())
    }

    fn check_tree(&self, expr: &Expr, input: &Schema) -> Result<(), Unsupported> {
        let found = match &expr.kind {
            ExprKind::Column(index) => input.fields().get(*index).map(|field| field.data_type()),
            ExprKind::Parameter(index) => self
                .parameters
                .get(*index)
                .map(|parameter| &parameter.data_type),
            _ => Some(&expr.data_type),
        };
        match found {
            Some(found) if *found == expr.data_type => {}
            Some(found) => {
                return Err(Unsupported::new(format!(
                    "a reference as {} to {found}",
                    expr.data_type
                )));
            }
            None => {
                return Err(Unsupported::new(
                    "a reference to a column or parameter that is not there",
                ));
            }
        }
        for child in expr.children() {
            self.check_tree(child, input)?;
        }
        check_node(expr)
    }
}

impl Step {
    /// Returns the names and types of the step's output, given its input's. Every column that the
    /// step makes is nullable here; the pipeline's `output` has the last word on that.
    pub fn output_schema(&self, input: &Schema) -> Schema {
        let nullable = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), true);
        let fields: Vec<Field> = match self {
            Self::Filter(_) | Self::Sort(_) => return input.clone(),
            Self::Project(columns) => columns
                .iter()
                .map(|column| nullable(&column.name, &column.expr.data_type))
                .collect(),
            Self::Aggregate(aggregate) => {
                let keys = aggregate
                    .keys
                    .iter()
                    .map(|key| nullable(&key.name, &key.expr.data_type));
                let calls = aggregate
                    .calls
                    .iter()
                    .flat_map(|call| match aggregate.output {
                        AggregateOutput::State => call.state.clone(),
                        AggregateOutput::Value => vec![nullable(&call.name, &call.data_type)],
                    });
                keys.chain(calls).collect()
            }
        };
        Schema::new(fields)
    }
}

/// Checks that a scalar is in the representation of its type.
pub(super) fn check_scalar(scalar: &Scalar) -> Result<(), Unsupported> {
    let data_type = &scalar.data_type;
    supported_type(data_type)?;
    let held = match &scalar.value {
        ScalarValue::Null => true,
        ScalarValue::Boolean(_) => *data_type == DataType::Boolean,
        ScalarValue::Int(value) => match data_type {
            DataType::Date32 | DataType::Time32(_) => i32::try_from(*value).is_ok(),
            DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => true,
            other => integer_bits(other).is_some_and(|(bits, signed)| {
                signed && (*value << (64 - bits)) >> (64 - bits) == *value
            }),
        },
        ScalarValue::UInt(value) => integer_bits(data_type).is_some_and(|(bits, signed)| {
            !signed && (*value << (64 - bits)) >> (64 - bits) == *value
        }),
        ScalarValue::Float(value) => match data_type {
            DataType::Float64 => true,
            DataType::Float32 => value.is_nan() || f64::from(*value as f32) == *value,
            _ => false,
        },
        ScalarValue::Decimal(value) => {
            Decimal::of(data_type).is_some_and(|decimal| decimal.width.fit(*value).is_some())
        }
        ScalarValue::Utf8(_) => is_string(data_type),
        ScalarValue::Interval {
            months,
            days,
            nanoseconds,
        } => match data_type {
            DataType::Interval(IntervalUnit::YearMonth) => *days == 0 && *nanoseconds == 0,
            DataType::Interval(IntervalUnit::DayTime) => {
                *months == 0
                    && nanoseconds % 1_000_000 == 0
                    && i32::try_from(nanoseconds / 1_000_000).is_ok()
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => true,
            _ => false,
        },
    };
    if held {
        return Ok(());
    }
    Err(Unsupported::new(format!(
        "a parameter of {data_type} held as {:?}",
        scalar.value
    )))
}

fn type_names(schema: &Schema) -> String {
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field: &Arc<Field>| field.data_type().to_string())
        .collect();
    format!("({})", names.join(", "))
}

#[cfg(test)]
mod tests;
