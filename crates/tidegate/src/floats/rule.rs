//! The analyzer rule: where a plan compares, orders or groups floats.
//!
//! It runs after the coercion of types and before the optimizer, so that constants are folded,
//! filters pushed and subqueries unnested as the rule has it. Running it again changes no answer.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, JoinConstraint};
use datafusion::error::Result;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::DistinctOn;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Filter, Join, LogicalPlan, Projection, RecursiveQuery, Sort,
};
use datafusion::optimizer::AnalyzerRule;

use super::correlated::with_key_columns;
use super::expressions::{
    canonical_columns, canonical_rows, compares_floats, done, has_floats, rewrite, wrap, wrap_all,
    wrap_sorts,
};
use super::predicates::rewrite_predicate;

/// Makes every NaN one value, the greatest, and −0.0 equal to 0.0, wherever a plan compares, orders
/// or groups floats. Add it after DataFusion's own analyzer rules.
#[derive(Debug, Default)]
pub struct CanonicalFloats;

impl AnalyzerRule for CanonicalFloats {
    fn name(&self) -> &'static str {
        "canonical_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) => rewrite_filter(filter),
            LogicalPlan::Join(join) => rewrite_join(join),
            LogicalPlan::Aggregate(aggregate) => rewrite_aggregate(aggregate),
            LogicalPlan::Sort(sort) => rewrite_sort(sort),
            LogicalPlan::Distinct(distinct) => rewrite_distinct(distinct),
            LogicalPlan::RecursiveQuery(query) => rewrite_recursion(query),
            other => rewrite_expressions(other),
        })?;
        Ok(rewritten.data)
    }
}

fn rewrite_expressions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let inputs = plan.inputs();
    let schema = match inputs.as_slice() {
        [] => Arc::clone(plan.schema()),
        [input] => Arc::clone(input.schema()),
        inputs => Arc::new(merge_schema(inputs)),
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| rewrite_named(expr, &schema, &names))
}

/// Rewrites an expression, which keeps its name.
fn rewrite_named(
    expr: Expr,
    schema: &DFSchema,
    names: &NamePreserver,
) -> Result<Transformed<Expr>> {
    if !compares_floats(&expr, schema)? {
        return Ok(Transformed::no(expr));
    }
    let name = names.save(&expr);
    Ok(rewrite(expr, schema)?.update_data(|expr| name.restore(expr)))
}

fn rewrite_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Filter {
        predicate, input, ..
    } = &filter;
    if !compares_floats(predicate, input.schema())? {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let predicate = rewrite_predicate(filter.predicate, filter.input.schema())?;
    let changed = predicate.transformed;
    let filter = with_key_columns(Filter::try_new(predicate.data, filter.input)?)?;
    Ok(done(LogicalPlan::Filter(filter), changed))
}

fn rewrite_join(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut keys_changed = false;
    let (left, right) = (join.left.schema(), join.right.schema());
    let on = std::mem::take(&mut join.on).into_iter();
    join.on = on
        .map(|(of_left, of_right)| {
            let of_left = wrap(of_left, left);
            let of_right = wrap(of_right, right);
            keys_changed |= of_left.transformed || of_right.transformed;
            (of_left.data, of_right.data)
        })
        .collect();
    if keys_changed {
        // What USING names are columns; by now every reference to them has been resolved.
        join.join_constraint = JoinConstraint::On;
    }
    let mut filter_changed = false;
    if let Some(filter) = join.filter.take() {
        let mut schema = left.as_ref().clone();
        schema.merge(right);
        let filter = rewrite_predicate(filter, &schema)?;
        filter_changed = filter.transformed;
        join.filter = Some(filter.data);
    }
    Ok(done(
        LogicalPlan::Join(join),
        keys_changed || filter_changed,
    ))
}

fn rewrite_sort(mut sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(sort.input.schema());
    let mut changed = false;
    for key in &mut sort.expr {
        let inner = rewrite(std::mem::take(&mut key.expr), &schema)?;
        changed |= inner.transformed;
        key.expr = inner.data;
    }
    let keys = wrap_sorts(sort.expr, &schema);
    changed |= keys.transformed;
    sort.expr = keys.data;
    Ok(done(LogicalPlan::Sort(sort), changed))
}

fn rewrite_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(aggregate.input.schema());
    let names = NamePreserver::new_for_projection();
    let mut changed = false;
    let mut keys = Vec::with_capacity(aggregate.group_expr.len());
    for key in aggregate.group_expr {
        let key = rewrite_key(key, &schema, &names)?;
        changed |= key.transformed;
        keys.push(key.data);
    }
    // Calls stay calls, not aliases of calls, which DataFusion's rules about aggregates pass over.
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    for call in aggregate.aggr_expr {
        let call = rewrite(call, &schema)?;
        changed |= call.transformed;
        calls.push(call.data);
    }
    let before = aggregate.schema;
    if !changed {
        let same = Aggregate::try_new_with_schema(aggregate.input, keys, calls, before)?;
        return Ok(Transformed::no(LogicalPlan::Aggregate(same)));
    }
    let rewritten = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, keys, calls)?);
    under_names_of(rewritten, &before).map(Transformed::yes)
}

/// Rewrites a group key, or each one of grouping sets.
fn rewrite_key(key: Expr, schema: &DFSchema, names: &NamePreserver) -> Result<Transformed<Expr>> {
    let all = |keys: Vec<Expr>| -> Result<Transformed<Vec<Expr>>> {
        let mut changed = false;
        let keys = keys.into_iter().map(|key| {
            let key = rewrite_key(key, schema, names)?;
            changed |= key.transformed;
            Ok(key.data)
        });
        let keys = keys.collect::<Result<_>>()?;
        Ok(done(keys, changed))
    };
    match key {
        Expr::GroupingSet(GroupingSet::Rollup(keys)) => {
            let keys = all(keys)?;
            Ok(keys.update_data(|keys| Expr::GroupingSet(GroupingSet::Rollup(keys))))
        }
        Expr::GroupingSet(GroupingSet::Cube(keys)) => {
            let keys = all(keys)?;
            Ok(keys.update_data(|keys| Expr::GroupingSet(GroupingSet::Cube(keys))))
        }
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
            let mut changed = false;
            let mut rewritten = Vec::with_capacity(sets.len());
            for set in sets {
                let set = all(set)?;
                changed |= set.transformed;
                rewritten.push(set.data);
            }
            let sets = Expr::GroupingSet(GroupingSet::GroupingSets(rewritten));
            Ok(done(sets, changed))
        }
        key => {
            let name = names.save(&key);
            let inner = rewrite(key, schema)?;
            let key = wrap(inner.data, schema);
            let changed = inner.transformed || key.transformed;
            let key = match changed {
                true => name.restore(key.data),
                false => key.data,
            };
            Ok(done(key, changed))
        }
    }
}

/// Gives the columns of an aggregate the names that they had.
fn under_names_of(plan: LogicalPlan, before: &DFSchema) -> Result<LogicalPlan> {
    let renamed = plan.schema().iter().zip(before.iter()).any(
        |((qualifier, field), (old_qualifier, old_field))| {
            qualifier != old_qualifier || field.name() != old_field.name()
        },
    );
    if !renamed {
        return Ok(plan);
    }
    let columns = plan.schema().iter().zip(before.iter());
    let columns = columns.map(|(column, (qualifier, field))| {
        let is_same = column.0 == qualifier && column.1.name() == field.name();
        let column = Expr::from(column);
        match is_same {
            true => column,
            false => column.alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    let columns = columns.collect();
    let projection = Projection::try_new(columns, Arc::new(plan))?;
    Ok(LogicalPlan::Projection(projection))
}

fn rewrite_distinct(distinct: Distinct) -> Result<Transformed<LogicalPlan>> {
    match distinct {
        Distinct::All(input) if has_floats(input.schema()) => {
            let keys = canonical_columns(input.schema());
            let aggregate = Aggregate::try_new(input, keys, Vec::new())?;
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        Distinct::On(on) => rewrite_distinct_on(on),
        all @ Distinct::All(_) => Ok(Transformed::no(LogicalPlan::Distinct(all))),
    }
}

fn rewrite_distinct_on(mut distinct: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(distinct.input.schema());
    let names = NamePreserver::new_for_projection();
    let mut changed = false;
    for column in &mut distinct.select_expr {
        let rewritten = rewrite_named(std::mem::take(column), &schema, &names)?;
        changed |= rewritten.transformed;
        *column = rewritten.data;
    }
    for key in &mut distinct.on_expr {
        let rewritten = rewrite(std::mem::take(key), &schema)?;
        changed |= rewritten.transformed;
        *key = rewritten.data;
    }
    let keys = wrap_all(distinct.on_expr, &schema);
    changed |= keys.transformed;
    distinct.on_expr = keys.data;
    if let Some(mut sorts) = distinct.sort_expr.take() {
        for sort in &mut sorts {
            let rewritten = rewrite(std::mem::take(&mut sort.expr), &schema)?;
            changed |= rewritten.transformed;
            sort.expr = rewritten.data;
        }
        let sorts = wrap_sorts(sorts, &schema);
        changed |= sorts.transformed;
        distinct.sort_expr = Some(sorts.data);
    }
    let distinct = LogicalPlan::Distinct(Distinct::On(distinct));
    Ok(done(distinct, changed))
}

/// A recursion that drops duplicates compares whole rows.
fn rewrite_recursion(mut query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    if !query.is_distinct {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let first = canonical_rows(query.static_term)?;
    let next = canonical_rows(query.recursive_term)?;
    let changed = first.transformed || next.transformed;
    (query.static_term, query.recursive_term) = (first.data, next.data);
    Ok(done(LogicalPlan::RecursiveQuery(query), changed))
}

#[cfg(test)]
mod tests;
