//! Timestamps in statements that DataFusion does not read: beyond the years of nanoseconds, and without seconds.
//!
//! DataFusion reads each `TIMESTAMP '…'` as nanoseconds, which hold the years 1677 to 2262, and then
//! casts it to the type of the column that it is for. Where rows are changed, [`TimestampsOfColumns`] reads
//! such a literal in the column's unit at once. [`TimestampsWithoutSeconds`] writes `2024-03-01 12:00` as
//! `2024-03-01 12:00:00`, in whatever is cast to a timestamp.

use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TryCast};
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

/// Reads timestamps that end with their minutes; comes after types are coerced.
#[derive(Debug)]
pub(in crate::session) struct TimestampsWithoutSeconds;

impl AnalyzerRule for TimestampsWithoutSeconds {
    fn name(&self) -> &str {
        "timestamps_without_seconds"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_any(&plan)? {
            return Ok(plan);
        }
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|part| Ok(add_seconds(part)))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        });
        rewritten.data()
    }
}

/// Tells whether a plan has such a timestamp, as most have not.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = expr.exists(|part| Ok(completed(part).is_some()))?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })
    })?;
    Ok(found)
}

fn add_seconds(expr: Expr) -> Transformed<Expr> {
    let Some(text) = completed(&expr) else {
        return Transformed::no(expr);
    };
    let text = Box::new(Expr::Literal(ScalarValue::from(text), None));
    Transformed::yes(match expr {
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr: text, field }),
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr: text, field }),
        other => other,
    })
}

/// Returns the text of a timestamp with its seconds, if it is written without.
fn completed(expr: &Expr) -> Option<String> {
    let (inner, field) = match expr {
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        _ => return None,
    };
    match (inner.as_ref(), field.data_type()) {
        (Expr::Literal(text, _), DataType::Timestamp(..)) => {
            with_seconds(text.try_as_str().flatten()?)
        }
        _ => None,
    }
}

/// Writes `:00` behind the minutes of a timestamp that has none; `None` for any other text.
fn with_seconds(text: &str) -> Option<String> {
    const SHAPE: &[u8] = b"0000-00-00 00:00";
    let (minutes, zone) = text.split_at_checked(SHAPE.len())?;
    let fits = |(given, shape): (u8, &u8)| match shape {
        b'0' => given.is_ascii_digit(),
        b' ' => matches!(given, b' ' | b'T' | b't'),
        shape => given == *shape,
    };
    let is_it = minutes.bytes().zip(SHAPE).all(fits)
        && (zone.is_empty() || zone.starts_with(['Z', 'z', '+', '-', ' ']));
    is_it.then(|| format!("{minutes}:00{zone}"))
}

#[cfg(test)]
mod tests {
    use super::with_seconds;

    #[test]
    fn only_timestamps_without_seconds_get_some() {
        for (text, expect) in [
            ("2024-03-01 12:00", Some("2024-03-01 12:00:00")),
            ("2024-03-01T12:00Z", Some("2024-03-01T12:00:00Z")),
            ("2024-03-01 12:00+02", Some("2024-03-01 12:00:00+02")),
            (
                "2024-03-01 12:00 Europe/Berlin",
                Some("2024-03-01 12:00:00 Europe/Berlin"),
            ),
            ("2024-03-01 12:00:00", None),
            ("2024-03-01 12:0", None),
            ("2024-03-01", None),
            ("01.03.2024 12:00", None),
            ("2024-03-01 12:00 ", Some("2024-03-01 12:00:00 ")),
            ("äöü4-03-01 12:00", None),
        ] {
            assert_eq!(with_seconds(text).as_deref(), expect, "{text}");
        }
    }
}
