//! Times of day of different units, and bytes of different widths, where BETWEEN, IN, CASE or the keys of a join compare
//! them or take them for one value.
//!
//! DataFusion finds no type that two of them have in common ([`common_type`]). Operators are planned so
//! ([`plan`](crate::functions::alike::plan)); the others get their casts before types are coerced.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery};
use datafusion::logical_expr::expr_schema::cast_subquery;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};

use super::walk::{any_expression, any_node, change_parts};
use crate::functions::alike::{common_type, is_such};

/// Casts such values to one type; it runs before types are coerced.
pub(super) fn cast_alike(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    let has_such = |node: &LogicalPlan| {
        let mut fields = node.schema().fields().iter();
        Ok(fields.any(|field| is_such(field.data_type())))
    };
    if !any_node(&plan, has_such)? {
        return Ok(plan);
    }
    let keys = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => keys_alike(join),
        node => Ok(Transformed::no(node)),
    });
    let plan = keys.data()?;
    match any_expression(&plan, may_change)? {
        true => change_parts(plan, in_part),
        false => Ok(plan),
    }
}

fn may_change(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Between(_) | Expr::InList(_) | Expr::Case(_) | Expr::InSubquery(_)
    )
}

fn keys_alike(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut has_changed = false;
    for (left, right) in &mut join.on {
        let of_left = left.get_type(join.left.schema());
        let of_right = right.get_type(join.right.schema());
        let (Ok(of_left), Ok(of_right)) = (of_left, of_right) else {
            continue;
        };
        let Some(common) = common_type([&of_left, &of_right]) else {
            continue;
        };
        for (key, given) in [(left, of_left), (right, of_right)] {
            if given != common {
                *key = cast(key.clone(), common.clone());
                has_changed = true;
            }
        }
    }
    let join = LogicalPlan::Join(join);
    Ok(Transformed::new_transformed(join, has_changed))
}

fn in_part(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (part, has_changed) = match part {
        Expr::Between(mut between) => {
            let Between {
                expr, low, high, ..
            } = &mut between;
            let has_changed = cast_all(vec![&mut **expr, &mut **low, &mut **high], schema);
            (Expr::Between(between), has_changed)
        }
        Expr::InList(mut list) => {
            let InList { expr, list: of, .. } = &mut list;
            let all = std::iter::once(&mut **expr).chain(of);
            let has_changed = cast_all(all.collect(), schema);
            (Expr::InList(list), has_changed)
        }
        Expr::Case(mut case) => {
            let has_changed = case_alike(&mut case, schema);
            (Expr::Case(case), has_changed)
        }
        Expr::InSubquery(within) => return in_subquery(within, schema),
        part => (part, false),
    };
    Ok(Transformed::new_transformed(part, has_changed))
}

fn case_alike(case: &mut Case, schema: &DFSchema) -> bool {
    let (mut compared, mut values) = (Vec::new(), Vec::new());
    for (when, then) in &mut case.when_then_expr {
        compared.push(&mut **when);
        values.push(&mut **then);
    }
    values.extend(case.else_expr.as_deref_mut());
    let mut has_changed = cast_all(values, schema);
    if let Some(expr) = case.expr.as_deref_mut() {
        compared.push(expr);
        has_changed |= cast_all(compared, schema);
    }
    has_changed
}

fn in_subquery(mut within: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let common = match within.expr.get_type(schema) {
        Ok(given) => {
            let columns = within.subquery.subquery.schema();
            let found = columns.fields().first().map(|field| field.data_type());
            found.and_then(|found| common_type([&given, found]).map(|common| (given, common)))
        }
        Err(_) => None,
    };
    let Some((given, common)) = common else {
        return Ok(Transformed::no(Expr::InSubquery(within)));
    };
    if given != common {
        *within.expr = cast((*within.expr).clone(), common.clone());
    }
    within.subquery = cast_subquery(within.subquery, &common)?;
    Ok(Transformed::yes(Expr::InSubquery(within)))
}

/// Casts values to the type that they have in common; returns whether there is one that they need.
fn cast_all(values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    // Columns of an outer query are of no schema that is known here, but know their type.
    let given = values.iter().map(|value| value.get_type(schema));
    let Ok(given) = given.collect::<Result<Vec<DataType>>>() else {
        return false;
    };
    let Some(common) = common_type(&given) else {
        return false;
    };
    for (value, given) in values.into_iter().zip(given) {
        if given != common && !given.is_null() {
            *value = cast(value.clone(), common.clone());
        }
    }
    true
}
