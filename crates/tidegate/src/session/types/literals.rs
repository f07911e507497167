//! Timestamps that are written for a column of coarse units, and that nanoseconds cannot hold.
//!
//! DataFusion reads each `TIMESTAMP '…'` as nanoseconds, which hold the years 1677 to 2262, and then
//! casts it to the type of the column that it is for. Here such a literal is read in the column's unit
//! at once. Other literals stay as they are, and so do statements other than changes of rows.

use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Reads timestamps in the unit of the column that they are for.
#[derive(Debug)]
pub(in crate::session) struct TimestampsOfColumns;

impl AnalyzerRule for TimestampsOfColumns {
    fn name(&self) -> &str {
        "timestamps_of_columns"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !matches!(plan, LogicalPlan::Dml(_)) {
            return Ok(plan);
        }
        let rewritten = plan.transform_up(|plan| {
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(read_at_once(expr))))
        });
        Ok(rewritten?.data)
    }
}

/// Drops the inner of two casts if it cannot succeed.
fn read_at_once(expr: Expr) -> Transformed<Expr> {
    let Expr::Cast(outer) = expr else {
        return Transformed::no(expr);
    };
    let is_coarse = matches!(
        outer.field.data_type(),
        DataType::Timestamp(unit, None) if *unit != TimeUnit::Nanosecond
    );
    match *outer.expr {
        Expr::Cast(inner) if is_coarse && is_beyond_nanoseconds(&inner) => {
            Transformed::yes(Expr::Cast(Cast {
                expr: inner.expr,
                field: outer.field,
            }))
        }
        other => Transformed::no(Expr::Cast(Cast {
            expr: Box::new(other),
            field: outer.field,
        })),
    }
}

fn is_beyond_nanoseconds(cast: &Cast) -> bool {
    let to_nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let Expr::Literal(text, _) = cast.expr.as_ref() else {
        return false;
    };
    let text = text.try_as_str().flatten();
    *cast.field.data_type() == to_nanoseconds
        && text.is_some_and(|text| string_to_timestamp_nanos(text).is_err())
}
