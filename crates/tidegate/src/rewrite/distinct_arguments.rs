//! Aggregates over the distinct values of several arguments.
//!
//! DataFusion makes groups of the values of one DISTINCT argument. Where there are more of them, or where
//! other aggregates stand beside one, it keeps a set of values for each group, which is slow, cannot spill, and
//! runs on no engine of ours. Here each argument becomes an aggregate of its own, and so do the aggregates
//! without DISTINCT; the rows of a group, one from each, are put together:
//!
//! ```sql
//! SELECT g, count(DISTINCT a), sum(DISTINCT b), avg(c) FROM t GROUP BY g
//! -- becomes
//! SELECT g, max(x), max(y), max(z) FROM (
//!     SELECT g, count(DISTINCT a) AS x, NULL AS y, NULL AS z FROM t GROUP BY g
//!     UNION ALL SELECT g, NULL, sum(DISTINCT b), NULL FROM t GROUP BY g
//!     UNION ALL SELECT g, NULL, NULL, avg(c) FROM t GROUP BY g) GROUP BY g
//! ```
//!
//! The input is read once for each, of which every one needs other columns. So it is done over filtered and
//! projected scans alone, and at most [`ARMS_MAX`] times.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::min_max::max_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit};

use crate::floats::{canonical, extremes};

/// The most aggregates that one becomes.
const ARMS_MAX: usize = 6;

/// Makes an aggregate for each DISTINCT argument.
pub(super) fn split_distinct_arguments(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else {
        return Ok(Transformed::no(plan));
    };
    match arms_of(aggregate) {
        Some(arms) => Ok(Transformed::yes(split(aggregate, &arms)?)),
        None => Ok(Transformed::no(plan)),
    }
}

/// The aggregates, by number, that one arm computes.
type Arm = Vec<usize>;

/// Returns which aggregates are computed together; `None` if all of them are, or the input cannot be read
/// several times.
fn arms_of(aggregate: &Aggregate) -> Option<Vec<Arm>> {
    let is_plain = |expr: &Expr| !matches!(expr, Expr::GroupingSet(_)) && !expr.is_volatile();
    if !aggregate.group_expr.iter().all(is_plain) {
        return None;
    }
    let mut plain = Arm::new();
    let mut adds_up = true;
    let mut distinct: Vec<(&Expr, Arm)> = Vec::new();
    for (number, expr) in aggregate.aggr_expr.iter().enumerate() {
        let function = function_of(expr)?;
        if expr.is_volatile() || !is_combined(result_of(aggregate, number).data_type()) {
            return None;
        }
        match distinct_argument(function) {
            Some(argument) => match distinct.iter_mut().find(|(of, _)| *of == argument) {
                Some((_, arm)) => arm.push(number),
                None => distinct.push((argument, vec![number])),
            },
            None => {
                adds_up &= adds_up_in_groups(function);
                plain.push(number);
            }
        }
    }
    // DataFusion makes groups of one argument beside sums and extremes.
    let is_split = match distinct.len() {
        0 => false,
        1 => !plain.is_empty() && !adds_up,
        _ => true,
    };
    let mut arms: Vec<Arm> = distinct.into_iter().map(|(_, arm)| arm).collect();
    if !plain.is_empty() {
        arms.push(plain);
    }
    let is_split = is_split && arms.len() <= ARMS_MAX && can_be_read_again(&aggregate.input);
    is_split.then_some(arms)
}

fn function_of(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::AggregateFunction(function) => Some(function),
        Expr::Alias(alias) => function_of(&alias.expr),
        _ => None,
    }
}

/// Returns the argument of whose distinct values DataFusion can make groups.
fn distinct_argument(function: &AggregateFunction) -> Option<&Expr> {
    let params = &function.params;
    let is_alone = params.distinct && params.filter.is_none() && params.order_by.is_empty();
    let is_known = matches!(function.func.name(), "count" | "sum" | "avg");
    match params.args.as_slice() {
        [argument] if is_alone && is_known => Some(argument),
        _ => None,
    }
}

/// Returns whether DataFusion computes an aggregate beside the groups of a DISTINCT argument.
fn adds_up_in_groups(function: &AggregateFunction) -> bool {
    let params = &function.params;
    let is_alone = !params.distinct && params.filter.is_none() && params.order_by.is_empty();
    is_alone && matches!(function.func.name(), "sum" | "min" | "max")
}

fn result_of(aggregate: &Aggregate, number: usize) -> &Arc<Field> {
    let (_, field) = aggregate
        .schema
        .qualified_field(aggregate.group_expr.len() + number);
    field
}

/// Returns whether `max` returns the one value of such a type that is not NULL.
fn is_combined(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, LargeUtf8, Timestamp, Utf8, Utf8View};
    let is_other = matches!(
        data_type,
        Boolean | Date32 | Date64 | LargeUtf8 | Timestamp(..) | Utf8 | Utf8View
    );
    data_type.is_numeric() || is_other
}

/// Returns whether a plan gives the same rows each time, at the cost of a scan.
fn can_be_read_again(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let filter = conjunction(scan.filters.iter().cloned());
            scan.fetch.is_none() && !filter.is_some_and(|filter| filter.is_volatile())
        }
        LogicalPlan::Projection(projection) => {
            !projection.expr.iter().any(Expr::is_volatile) && can_be_read_again(&projection.input)
        }
        LogicalPlan::Filter(filter) => {
            !filter.predicate.is_volatile() && can_be_read_again(&filter.input)
        }
        LogicalPlan::SubqueryAlias(alias) => can_be_read_again(&alias.input),
        _ => false,
    }
}

fn key(number: usize) -> String {
    format!("distinct_key_{number}")
}

fn value(number: usize) -> String {
    format!("distinct_value_{number}")
}

fn column(name: String) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Returns the aggregates of all arms, put together.
fn split(aggregate: &Aggregate, arms: &[Arm]) -> Result<LogicalPlan> {
    let num_keys = aggregate.group_expr.len();
    let mut all: Option<LogicalPlanBuilder> = None;
    for arm in arms {
        let rows = arm_of(aggregate, arm)?;
        all = Some(match all {
            Some(all) => all.union(rows)?,
            None => LogicalPlanBuilder::new(rows),
        });
    }
    let Some(all) = all else {
        return Ok(LogicalPlan::Aggregate(aggregate.clone()));
    };
    let mut finals = Vec::new();
    let mut output: Vec<Expr> = (0..num_keys).map(|number| column(key(number))).collect();
    for number in 0..aggregate.aggr_expr.len() {
        let result = result_of(aggregate, number);
        let [_, of_floats] = extremes::both();
        let max = match result.data_type().is_floating() {
            true => of_floats.call(vec![canonical::canonical(column(value(number)))]),
            false => max_udaf().call(vec![column(value(number))]),
        };
        finals.push(max.alias(value(number)));
        // A count is never NULL, which `max` does not know.
        output.push(match result.is_nullable() {
            true => column(value(number)),
            false => {
                let zero = ScalarValue::new_zero(result.data_type())?;
                coalesce(vec![column(value(number)), lit(zero)])
            }
        });
    }
    let keys: Vec<Expr> = (0..num_keys).map(|number| column(key(number))).collect();
    let names = aggregate.schema.iter();
    let output = output
        .into_iter()
        .zip(names)
        .map(|(expr, (table, field))| expr.alias_qualified(table.cloned(), field.name()));
    all.aggregate(keys, finals)?
        .project(output.collect::<Vec<_>>())?
        .build()
}

/// Returns the value that a column has in the arms which do not compute it, and which `max` passes over: NULL, or the
/// least value of a result that is never NULL, so that the column has the same type in all arms.
fn nothing(result: &Field) -> Result<ScalarValue> {
    let least = (!result.is_nullable()).then(|| ScalarValue::min(result.data_type()));
    match least.flatten() {
        Some(least) => Ok(least),
        None => ScalarValue::try_new_null(result.data_type()),
    }
}

/// Returns one arm's aggregates by the keys, and nothing in the columns of the others.
fn arm_of(aggregate: &Aggregate, arm: &Arm) -> Result<LogicalPlan> {
    let exprs = arm
        .iter()
        .map(|number| aggregate.aggr_expr[*number].clone());
    let computed = Aggregate::try_new(
        Arc::clone(&aggregate.input),
        aggregate.group_expr.clone(),
        exprs.collect(),
    )?;
    let num_keys = aggregate.group_expr.len();
    let mut output = Vec::new();
    for (at, (table, field)) in computed.schema.iter().enumerate().take(num_keys) {
        let of_key = Expr::Column(Column::new(table.cloned(), field.name()));
        output.push(of_key.alias(key(at)));
    }
    for number in 0..aggregate.aggr_expr.len() {
        let expr = match arm.iter().position(|of_arm| *of_arm == number) {
            Some(at) => {
                let (table, field) = computed.schema.qualified_field(num_keys + at);
                Expr::Column(Column::new(table.cloned(), field.name()))
            }
            None => lit(nothing(result_of(aggregate, number))?),
        };
        output.push(expr.alias(value(number)));
    }
    LogicalPlanBuilder::new(LogicalPlan::Aggregate(computed))
        .project(output)?
        .build()
}
