//! Casts between timestamps with and without a zone mean what they mean in PostgreSQL: a timestamp
//! without a zone is one that clocks of the session's time zone show.
//!
//! Arrow's casts read such a timestamp in the zone of the type that it is cast to, and cast an instant
//! to what clocks in UTC show. DataFusion moreover moves casts of a column in a comparison to the
//! literal, as if no zone were there. [`in_session_zone`] puts `timezone(session zone, t)` in the place of
//! a cast of which that changes the value; where the session's time zone is UTC, most casts stay. Of a date it is
//! midnight that clocks show, of a text what clocks show ([`text_instants`]). Sums of instants and intervals become those of [`instants`], their minutes those of
//! [`instant_minutes`].

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, TryCast, lit,
};

use crate::functions::zones::{TimeZoneFunction, is_utc, session_zone};
use crate::functions::{instant_minutes, instants, text_instants};
use crate::rewrite::walk::{change_named, holds_any};

/// Has casts between timestamps with and without a zone use the session's time zone. It stands after
/// type coercion, whose casts it changes too.
pub(super) fn in_session_zone(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    let zone = session_zone(config);
    let rewrite = |plan: LogicalPlan| in_plan(plan, &zone);
    Ok(plan.transform_up_with_subqueries(rewrite)?.data)
}

fn in_plan(plan: LogicalPlan, zone: &Arc<str>) -> Result<Transformed<LogicalPlan>> {
    if !holds_any(&plan, may_change)? {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source = scan.source.schema();
        schema.merge(&DFSchema::try_from_qualified_schema(
            scan.table_name.clone(),
            &source,
        )?);
    }
    let rewritten = change_named(plan, |expr| {
        expr.transform_up(|expr| in_expr(expr, &schema, zone))
    })?;
    match rewritten.transformed {
        true => rewritten.map_data(LogicalPlan::recompute_schema),
        false => Ok(rewritten),
    }
}

/// Tells, without looking for types, whether an expression may be a cast, a sum or a call that has to do with zones.
fn may_change(expr: &Expr) -> bool {
    if let Expr::BinaryExpr(sum) = expr {
        let is_sum = matches!(sum.op, Operator::Plus | Operator::Minus);
        return is_sum && !is_number(&sum.left) && !is_number(&sum.right);
    }
    if let Expr::ScalarFunction(call) = expr {
        return instant_minutes::may_cut(call);
    }
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expr else {
        return false;
    };
    match field.data_type() {
        DataType::Timestamp(..) => true,
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
            !matches!(**expr, Expr::Literal(ref value, _) if value.data_type().is_string())
        }
        _ => false,
    }
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.data_type().is_numeric())
}

fn in_expr(expr: Expr, schema: &DFSchema, zone: &Arc<str>) -> Result<Transformed<Expr>> {
    if !may_change(&expr) {
        return Ok(Transformed::no(expr));
    }
    let other = match &expr {
        Expr::BinaryExpr(sum) => Some(instants::sum(sum, schema)),
        Expr::ScalarFunction(call) => Some(instant_minutes::cut(call, schema)),
        _ => None,
    };
    if let Some(other) = other {
        return Ok(match other {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(expr),
        });
    }
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) =
        &expr
    else {
        return Ok(Transformed::no(expr));
    };
    // Columns of an outer query are of no schema that is known here, but know their type.
    let Ok(from) = inner.get_type(schema) else {
        return Ok(Transformed::no(expr));
    };
    let to = field.data_type();
    let Some(step) = step_between(&from, to, zone) else {
        return Ok(Transformed::no(expr));
    };
    let (inner, reached) = match step {
        Step::Through(between) => (cast_as(&expr, inner.as_ref().clone(), &between), between),
        Step::Shift(reached) => (at_time_zone(inner.as_ref().clone(), zone), reached),
        Step::Text(reached) => {
            let is_strict = matches!(expr, Expr::Cast(_));
            let text = inner.as_ref().clone();
            (text_instants::call(text, &reached, is_strict)?, reached)
        }
        Step::Midnight(shown, reached) => {
            let shown = cast_as(&expr, inner.as_ref().clone(), &shown);
            (at_time_zone(shown, zone), reached)
        }
    };
    Ok(Transformed::yes(match reached == *to {
        true => inner,
        false => cast_as(&expr, inner, to),
    }))
}

/// What comes first in the place of a cast; a cast follows, if the type is not reached.
#[derive(Debug, PartialEq)]
enum Step {
    /// A cast to this type.
    Through(DataType),
    /// `timezone(session zone, …)`, which gives this type.
    Shift(DataType),
    /// [`text_instants`], which give this type.
    Text(DataType),
    /// A cast to the first type, and `timezone(session zone, …)` of it, which gives the second.
    Midnight(DataType, DataType),
}

/// Says what must come first for a cast to mean what it should; `None` if the cast does.
fn step_between(from: &DataType, to: &DataType, zone: &Arc<str>) -> Option<Step> {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    let in_session = |unit: &TimeUnit| Timestamp(*unit, Some(Arc::clone(zone)));
    match (from, to) {
        (Timestamp(unit, None), Timestamp(_, Some(of))) => match is_utc(zone) {
            true if is_utc(of) => None,
            true => Some(Step::Through(in_session(unit))),
            false => Some(Step::Shift(in_session(unit))),
        },
        (Timestamp(unit, Some(_)), Timestamp(_, None)) => match is_utc(zone) {
            // The value of an instant is the time that clocks in UTC show.
            true => None,
            false => Some(Step::Shift(Timestamp(*unit, None))),
        },
        (Timestamp(unit, Some(of)), Date32 | Date64 | Time32(_) | Time64(_)) if of != zone => {
            Some(Step::Through(in_session(unit)))
        }
        (Date32 | Date64, Timestamp(unit, Some(_))) if !is_utc(zone) => {
            // Arrow has none where clocks do not show midnight, or show it twice.
            Some(Step::Midnight(Timestamp(*unit, None), in_session(unit)))
        }
        (Date32 | Date64, Timestamp(unit, Some(of))) if of != zone => {
            Some(Step::Through(in_session(unit)))
        }
        (text, Timestamp(unit, Some(_))) if text.is_string() && !is_utc(zone) => {
            Some(Step::Text(in_session(unit)))
        }
        (text, Timestamp(unit, Some(of))) if text.is_string() && of != zone => {
            Some(Step::Through(in_session(unit)))
        }
        _ => None,
    }
}

/// Casts to a type, with an error or NULL for what cannot be cast as the cast does that it replaces.
fn cast_as(replaced: &Expr, inner: Expr, to: &DataType) -> Expr {
    match replaced {
        Expr::TryCast(_) => Expr::TryCast(TryCast::new(Box::new(inner), to.clone())),
        _ => Expr::Cast(Cast::new(Box::new(inner), to.clone())),
    }
}

fn at_time_zone(inner: Expr, zone: &Arc<str>) -> Expr {
    let function = ScalarUDF::from(TimeZoneFunction::new(Arc::clone(zone)));
    let args = vec![lit(zone.as_ref()), inner];
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}
