//! Comparisons of dates, and of timestamps of another unit, with timestamps of nanoseconds, which hold the years 1677 to 2262
//! alone: `t < valid_to` where `valid_to` may be 9999-12-31.
//!
//! DataFusion casts them to nanoseconds, which is an error beyond these years. Here:
//!
//! - Beside a constant, a date is compared with the constant's day: `d <= E` is `d <= CAST(E AS DATE)`, and `d < E` is
//!   `d <= CAST(E - 1 ns AS DATE)`. Files are pruned by that, too.
//! - Where both are dates or timestamps of other units, they are compared in the finer one of these units.
//! - Elsewhere a date beyond is the first or the last nanosecond that there is, so that no other is before or behind it.
//!   So is a timestamp beyond that is compared with a column, but for `=`: joins find rows by it as it is.
//!
//! A constant within these years stays as it is, and so do values that differ each time, and subqueries.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Subquery, cast,
    try_cast,
};

use super::number_types::is_comparison;
use super::walk::{any_expression, change_parts};

/// The days before and behind 1970-01-01 of which nanoseconds hold the midnight.
const DAYS: i32 = 106_751;

/// Nanoseconds hold so many seconds.
const SECONDS: i64 = i64::MAX / 1_000_000_000;

/// Compares such values; comes after types are coerced.
pub(super) fn compare_far_dates(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    if !any_expression(&plan, |expr| of_nanoseconds(expr).is_some())? {
        return Ok(plan);
    }
    let keys = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => Ok(in_keys(join)),
        node => Ok(Transformed::no(node)),
    });
    change_parts(keys.data()?, in_part)
}

fn in_keys(mut join: Join) -> Transformed<LogicalPlan> {
    let mut has_changed = false;
    for (left, right) in &mut join.on {
        let (of_left, of_right) = (join.left.schema().as_ref(), join.right.schema().as_ref());
        if in_own_unit([(&mut *left, of_left), (&mut *right, of_right)]) {
            has_changed = true;
            continue;
        }
        has_changed |= bound(left, join.left.schema(), is_date);
        has_changed |= bound(right, join.right.schema(), is_date);
    }
    Transformed::new_transformed(LogicalPlan::Join(join), has_changed)
}

fn in_part(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let compared = match &part {
        Expr::BinaryExpr(of) if is_comparison(of.op) => {
            compared(&of.left, of.op, &of.right, schema)
        }
        Expr::Between(between) => in_range(between, schema),
        _ => None,
    };
    if let Some(compared) = compared {
        return Ok(Transformed::yes(compared));
    }
    if let Expr::InSubquery(within) = &mut part {
        let mut has_changed = bound(&mut within.expr, schema, is_date);
        if let Some(subquery) = of_dates(&within.subquery)? {
            within.subquery = subquery;
            has_changed = true;
        }
        return Ok(Transformed::new_transformed(part, has_changed));
    }
    let mut values: Vec<&mut Expr> = match &mut part {
        Expr::InList(list) => std::iter::once(&mut *list.expr)
            .chain(&mut list.list)
            .collect(),
        Expr::Case(case) => match case.expr.as_deref_mut() {
            Some(value) => {
                let whens = case.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
                std::iter::once(value).chain(whens).collect()
            }
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    let mut has_changed = in_own_unit(values.iter_mut().map(|value| (&mut **value, schema)));
    if !has_changed {
        for value in values {
            has_changed |= bound(value, schema, is_date);
        }
    }
    Ok(Transformed::new_transformed(part, has_changed))
}

/// Returns a subquery whose column is such a date, which keeps its name.
fn of_dates(subquery: &Subquery) -> Result<Option<Subquery>> {
    let LogicalPlan::Projection(projection) = subquery.subquery.as_ref() else {
        return Ok(None);
    };
    let [column] = projection.expr.as_slice() else {
        return Ok(None);
    };
    let mut column = column.clone();
    if !bound(&mut column, projection.input.schema(), is_date) {
        return Ok(None);
    }
    let (qualifier, field) = projection.schema.qualified_field(0);
    let column = column.alias_qualified(qualifier.cloned(), field.name());
    let plan = Projection::try_new(vec![column], Arc::clone(&projection.input))?;
    Ok(Some(Subquery {
        subquery: Arc::new(LogicalPlan::Projection(plan)),
        ..subquery.clone()
    }))
}

/// Returns both comparisons of a BETWEEN with such a value.
fn in_range(between: &Between, schema: &DFSchema) -> Option<Expr> {
    let Between {
        expr,
        negated,
        low,
        high,
    } = between;
    let (from, to, both) = match negated {
        true => (Operator::Lt, Operator::Gt, Operator::Or),
        false => (Operator::GtEq, Operator::LtEq, Operator::And),
    };
    let of_low = compared(expr, from, low, schema);
    let of_high = compared(expr, to, high, schema);
    if !may_repeat(expr) || (of_low.is_none() && of_high.is_none()) {
        return None;
    }
    let plain = |op, other: &Expr| binary(expr.as_ref().clone(), op, other.clone());
    let of_low = of_low.unwrap_or_else(|| plain(from, low));
    let of_high = of_high.unwrap_or_else(|| plain(to, high));
    Some(binary(of_low, both, of_high))
}

/// Returns a comparison with such a value; `None` of any other.
fn compared(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    if let Some(by_day) = by_day(left, op, right, schema) {
        return Some(by_day);
    }
    if let Some(by_day) = op
        .swap()
        .and_then(|swapped| by_day(right, swapped, left, schema))
    {
        return Some(by_day);
    }
    let (mut of_left, mut of_right) = (left.clone(), right.clone());
    if in_own_unit([(&mut of_left, schema), (&mut of_right, schema)]) {
        return Some(binary(of_left, op, of_right));
    }
    let is_equal = op == Operator::Eq;
    let bound_beside = |one: &mut Expr, other: &Expr| {
        // DataFusion joins a subquery by `CAST(column AS …) = outer value`, and by no other expression of the column.
        let is_key = is_equal && other.contains_outer() && !one.contains_outer();
        // Beside a constant, DataFusion casts that to the unit of the timestamp.
        let may_be_time = !is_equal && !is_constant(other);
        !is_key && bound(one, schema, |kind| is_date(kind) || may_be_time)
    };
    let is_left = bound_beside(&mut of_left, right);
    let is_right = bound_beside(&mut of_right, left);
    (is_left || is_right).then(|| binary(of_left, op, of_right))
}

/// Compares a date that is cast with the day of a constant.
fn by_day(date: &Expr, op: Operator, constant: &Expr, schema: &DFSchema) -> Option<Expr> {
    use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let instant = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let (date, kind, None) = far_value(date, schema)? else {
        return None;
    };
    if !is_date(&kind)
        || is_constant(date)
        || !is_constant(constant)
        || !may_repeat(constant)
        || constant.get_type(schema).ok()? != instant
    {
        return None;
    }
    let with_day = |op, instant| binary(date.clone(), op, cast(instant, DataType::Date32));
    let with_own = |op| with_day(op, constant.clone());
    let with_before = |op| {
        let nanosecond = IntervalMonthDayNano::new(0, 0, 1);
        let nanosecond = ScalarValue::IntervalMonthDayNano(Some(nanosecond));
        let nanosecond = Expr::Literal(nanosecond, None);
        with_day(op, binary(constant.clone(), Operator::Minus, nanosecond))
    };
    Some(match op {
        LtEq => with_own(LtEq),
        Gt => with_own(Gt),
        Lt => with_before(LtEq),
        GtEq => with_before(Gt),
        Eq => binary(with_before(Gt), And, with_own(LtEq)),
        NotEq => binary(with_before(LtEq), Or, with_own(Gt)),
        _ => return None,
    })
}

/// Has dates and timestamps of other units be of the finest of these units, which holds them all; returns whether all
/// values are such, and one is a timestamp.
fn in_own_unit<'a>(values: impl IntoIterator<Item = (&'a mut Expr, &'a DFSchema)>) -> bool {
    let mut made = Vec::new();
    let mut finest = None;
    for (value, schema) in values {
        let of = of_nanoseconds(value).map(|(of, zone)| (of.clone(), zone.cloned()));
        let Some((of, zone)) = of else {
            return false;
        };
        match of.get_type(schema) {
            Ok(DataType::Date32) => {}
            Ok(DataType::Timestamp(unit, _)) if unit != TimeUnit::Nanosecond => {
                finest = finest.max(Some(unit));
            }
            _ => return false,
        }
        made.push((value, of, zone));
    }
    let Some(finest) = finest else {
        return false;
    };
    for (value, of, zone) in made {
        *value = cast(of, DataType::Timestamp(finest, zone));
    }
    true
}

/// Has such a value of a type that is asked for be within the years of nanoseconds; returns whether it is one.
fn bound(expr: &mut Expr, schema: &DFSchema, is_such: impl Fn(&DataType) -> bool) -> bool {
    let Some((value, kind, zone)) = far_value(expr, schema).filter(|(_, kind, _)| is_such(kind))
    else {
        return false;
    };
    let (Some(least), Some(greatest)) = (end_of(&kind, -1), end_of(&kind, 1)) else {
        return false;
    };
    let beyond = |op, end| Box::new(binary(value.clone(), op, Expr::Literal(end, None)));
    let end = |instant| {
        let instant = ScalarValue::TimestampNanosecond(Some(instant), zone.cloned());
        Box::new(Expr::Literal(instant, None))
    };
    let instant = DataType::Timestamp(TimeUnit::Nanosecond, zone.cloned());
    let within = match is_constant(value) {
        // The optimizer computes it, also where it is not asked for.
        true => try_cast(value.clone(), instant),
        false => cast(value.clone(), instant),
    };
    let ends = vec![
        (beyond(Operator::Gt, greatest), end(i64::MAX)),
        (beyond(Operator::Lt, least), end(i64::MIN)),
    ];
    *expr = Expr::Case(Case::new(None, ends, Some(Box::new(within))));
    true
}

fn is_date(kind: &DataType) -> bool {
    *kind == DataType::Date32
}

/// Returns the last value of a type of which nanoseconds hold the instant, or the first, for a sign of -1; `None` of types
/// whose values they all hold.
fn end_of(kind: &DataType, sign: i32) -> Option<ScalarValue> {
    let signed = i64::from(sign);
    Some(match kind {
        DataType::Date32 => ScalarValue::Date32(Some(sign * DAYS)),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            ScalarValue::TimestampSecond(Some(signed * SECONDS), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            ScalarValue::TimestampMillisecond(Some(signed * (i64::MAX / 1_000_000)), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(signed * (i64::MAX / 1_000)), zone.clone())
        }
        _ => return None,
    })
}

/// Returns the value that an expression makes a timestamp of nanoseconds of, its type and the timestamp's zone, if the
/// value may be far.
fn far_value<'a>(
    expr: &'a Expr,
    schema: &DFSchema,
) -> Option<(&'a Expr, DataType, Option<&'a Arc<str>>)> {
    let (value, zone) = of_nanoseconds(expr)?;
    // Columns of an outer query are of no schema that is known here, but know their type.
    let kind = value.get_type(schema).ok()?;
    let may_be_far = end_of(&kind, 1).is_some() && may_repeat(value) && !is_near(value);
    may_be_far.then_some((value, kind, zone))
}

/// Returns what is cast to a timestamp of nanoseconds, and the zone.
fn of_nanoseconds(expr: &Expr) -> Option<(&Expr, Option<&Arc<str>>)> {
    let Expr::Cast(Cast { expr, field }) = expr else {
        return None;
    };
    match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => Some((expr.as_ref(), zone.as_ref())),
        _ => None,
    }
}

/// Tells whether a value is a literal of which nanoseconds hold the instant, or NULL.
fn is_near(value: &Expr) -> bool {
    let instant = DataType::Timestamp(TimeUnit::Nanosecond, None);
    literal(value).is_some_and(|value| value.cast_to(&instant).is_ok())
}

fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(Cast { expr, field }) => literal(expr)?.cast_to(field.data_type()).ok(),
        _ => None,
    }
}

/// Tells whether an expression has one value for all rows, which the optimizer knows.
fn is_constant(expr: &Expr) -> bool {
    let varies = |part: &Expr| {
        !matches!(
            part,
            Expr::Literal(..)
                | Expr::Alias(_)
                | Expr::BinaryExpr(_)
                | Expr::Cast(_)
                | Expr::TryCast(_)
                | Expr::Negative(_)
                | Expr::Placeholder(_)
                | Expr::ScalarFunction(_)
        )
    };
    !expr.exists(|part| Ok(varies(part))).unwrap_or(true)
}

/// Tells whether an expression has the same value wherever it is repeated, at no cost.
fn may_repeat(expr: &Expr) -> bool {
    let is_subquery = |part: &Expr| {
        matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        )
    };
    let has_subquery = expr.exists(|part| Ok(is_subquery(part))).unwrap_or(true);
    !has_subquery && !expr.is_volatile()
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}
