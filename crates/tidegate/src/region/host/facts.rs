//! What the statistics of a scan say about its columns.
//!
//! They are assumptions: a run checks every block against them, and a block outside of them is folded by a
//! program that assumes nothing.

use std::sync::Arc;

use datafusion::common::{ColumnStatistics, ScalarValue, Statistics, stats::Precision};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use tidegate_pipeline::{Facts, Interval, ScalarValue as Value};

use crate::lower::expr::scalar;

/// Returns what holds of each column of a plan's rows if its statistics are right.
pub(super) fn assumed(plan: &Arc<dyn ExecutionPlan>) -> Vec<Facts> {
    let computed = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let schema = plan.schema();
    let statistics = computed.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&schema)));
    let columns = schema.fields().iter().enumerate();
    columns
        .map(|(index, field)| {
            let mut facts = Facts::declared(field.data_type());
            if let Some(column) = statistics.column_statistics.get(index) {
                narrow(&mut facts, column);
            }
            facts.nullable &= field.is_nullable();
            facts
        })
        .collect()
}

/// Returns what holds of each column of a plan's rows whatever they are.
pub(super) fn declared(plan: &Arc<dyn ExecutionPlan>) -> Vec<Facts> {
    let fields = plan.schema();
    let fields = fields.fields().iter();
    fields
        .map(|field| Facts::declared(field.data_type()))
        .collect()
}

fn narrow(facts: &mut Facts, column: &ColumnStatistics) {
    if matches!(column.null_count, Precision::Exact(0)) {
        facts.nullable = false;
    }
    let (least, greatest) = (integer(&column.min_value), integer(&column.max_value));
    if let (Some(low), Some(high)) = (least, greatest)
        && low <= high
        && facts.interval.contains(low)
        && facts.interval.contains(high)
    {
        facts.interval = Interval::new(low, high);
    }
}

/// Returns a bound as the integer that the IR has for it.
fn integer(bound: &Precision<ScalarValue>) -> Option<i128> {
    match scalar(bound.get_value()?)?.value {
        Value::Boolean(value) => Some(value.into()),
        Value::Int(value) => Some(value.into()),
        Value::UInt(value) => Some(value.into()),
        Value::Decimal(value) => Some(value),
        Value::Null | Value::Float(_) | Value::Utf8(_) | Value::Interval { .. } => None,
    }
}
