//! Expressions whose answer depends on which floats are equal, or which is greater.
//!
//! An operand is wrapped unless its values are canonical anyway. NULLIF, which DataFusion answers by
//! bits, becomes a CASE, so that the value that it returns keeps its bits.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Alias, Between, BinaryExpr, Case, InList,
    InSubquery, ScalarFunction, SetComparison, Sort, WindowFunction, WindowFunctionDefinition,
};
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Subquery,
};

use super::canonical::{canonical, holds_floats, is_canonical, is_canonical_value};
use super::correlated::is_key_column;
use super::extremes;

/// Aggregates that compare or tell apart the values of their first argument.
const ORDERED_AGGREGATES: [&str; 6] = [
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "median",
    "percentile_cont",
];

/// Scalar functions that compare their arguments or elements of them.
const COMPARING_FUNCTIONS: [&str; 14] = [
    "array_distinct",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_max",
    "array_min",
    "array_position",
    "array_positions",
    "array_sort",
    "array_union",
    "greatest",
    "least",
];

/// Rewrites an expression and everything in it, but not the plans of its subqueries.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    // Most expressions compare no floats: find out before any is taken apart.
    match compares_floats(&expr, schema)? {
        true => expr.transform_up(|node| rewrite_node(node, schema)),
        false => Ok(Transformed::no(expr)),
    }
}

/// Returns whether a part of an expression compares floats or puts them in order.
pub(super) fn compares_floats(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    expr.exists(|node| {
        Ok(operands(node)
            .iter()
            .any(|operand| is_float(operand, schema)))
    })
}

/// Returns what a node itself compares or puts in order.
fn operands(node: &Expr) -> Vec<&Expr> {
    match node {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => vec![&binary.left, &binary.right],
        Expr::Between(between) => vec![&between.expr, &between.low, &between.high],
        Expr::InList(within) => std::iter::once(within.expr.as_ref())
            .chain(&within.list)
            .collect(),
        Expr::InSubquery(within) => vec![&within.expr],
        Expr::SetComparison(compared) => vec![&compared.expr],
        Expr::Case(case) => {
            let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
            let operand = case.expr.as_deref().into_iter();
            operand.chain(whens).collect()
        }
        Expr::ScalarFunction(call)
            if call.name() == "nullif" || COMPARING_FUNCTIONS.contains(&call.name()) =>
        {
            call.args.iter().collect()
        }
        Expr::AggregateFunction(call) => {
            let order = call.params.order_by.iter().map(|sort| &sort.expr);
            call.params.args.iter().chain(order).collect()
        }
        Expr::WindowFunction(call) => {
            let params = &call.params;
            let order = params.order_by.iter().map(|sort| &sort.expr);
            let keys = params.args.iter().chain(&params.partition_by);
            keys.chain(order).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether an operator's answer depends on which values are equal or greater.
pub(super) fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn rewrite_node(node: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match node {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right) = (wrap_boxed(*left, schema), wrap_boxed(*right, schema));
            let changed = left.transformed || right.transformed;
            let compared = BinaryExpr::new(left.data, op, right.data);
            Ok(done(Expr::BinaryExpr(compared), changed))
        }
        Expr::Between(between) => {
            let expr = wrap_boxed(*between.expr, schema);
            let low = wrap_boxed(*between.low, schema);
            let high = wrap_boxed(*between.high, schema);
            let changed = expr.transformed || low.transformed || high.transformed;
            let between = Between::new(expr.data, between.negated, low.data, high.data);
            Ok(done(Expr::Between(between), changed))
        }
        Expr::InList(InList {
            expr,
            list,
            negated,
        }) => {
            let (expr, list) = (wrap_boxed(*expr, schema), wrap_all(list, schema));
            let changed = expr.transformed || list.transformed;
            let within = InList::new(expr.data, list.data, negated);
            Ok(done(Expr::InList(within), changed))
        }
        Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        }) => {
            let (expr, subquery) = (wrap_boxed(*expr, schema), wrap_subquery(subquery)?);
            let changed = expr.transformed || subquery.transformed;
            let within = InSubquery::new(expr.data, subquery.data, negated);
            Ok(done(Expr::InSubquery(within), changed))
        }
        Expr::SetComparison(SetComparison {
            expr,
            subquery,
            op,
            quantifier,
        }) => {
            let (expr, subquery) = (wrap_boxed(*expr, schema), wrap_subquery(subquery)?);
            let changed = expr.transformed || subquery.transformed;
            let compared = SetComparison::new(expr.data, subquery.data, op, quantifier);
            Ok(done(Expr::SetComparison(compared), changed))
        }
        Expr::Case(Case {
            expr: Some(operand),
            when_then_expr,
            else_expr,
        }) => {
            let operand = wrap_boxed(*operand, schema);
            let mut changed = operand.transformed;
            let mut branches = Vec::with_capacity(when_then_expr.len());
            for (when, then) in when_then_expr {
                let when = wrap_boxed(*when, schema);
                changed |= when.transformed;
                branches.push((when.data, then));
            }
            let case = Case::new(Some(operand.data), branches, else_expr);
            Ok(done(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(call) => Ok(rewrite_function(call, schema)),
        Expr::AggregateFunction(call) => Ok(rewrite_aggregate(call, schema)),
        Expr::WindowFunction(call) => Ok(rewrite_window(*call, schema)),
        other => Ok(Transformed::no(other)),
    }
}

fn rewrite_function(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    if call.name() == "nullif"
        && let [value, other] = call.args.as_slice()
        && is_float(value, schema)
    {
        let equal = wrap(value.clone(), schema)
            .data
            .eq(wrap(other.clone(), schema).data);
        let null = null_like(value, schema);
        let branches = vec![(Box::new(equal), Box::new(null))];
        let case = Case::new(None, branches, Some(Box::new(value.clone())));
        return Transformed::yes(Expr::Case(case));
    }
    if !COMPARING_FUNCTIONS.contains(&call.name()) {
        return Transformed::no(Expr::ScalarFunction(call));
    }
    let args = wrap_all(call.args, schema);
    let changed = args.transformed;
    done(
        Expr::ScalarFunction(ScalarFunction::new_udf(call.func, args.data)),
        changed,
    )
}

fn null_like(expr: &Expr, schema: &DFSchema) -> Expr {
    let data_type = expr.get_type(schema).ok();
    let null = data_type.and_then(|data_type| ScalarValue::try_from(&data_type).ok());
    Expr::Literal(null.unwrap_or(ScalarValue::Null), None)
}

fn rewrite_aggregate(call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let AggregateFunctionParams {
        args,
        distinct,
        filter,
        order_by,
        null_treatment,
    } = call.params;
    let (mut func, mut changed) = (call.func, false);
    let args = if let Some(replacement) = extremes::replacement(&func)
        && args.first().is_some_and(|arg| is_plain_float(arg, schema))
    {
        (func, changed) = (Arc::clone(replacement), true);
        wrap_all(args, schema)
    } else if extremes::replacement(&func).is_some()
        || distinct
        || ORDERED_AGGREGATES.contains(&func.name())
    {
        wrap_all(args, schema)
    } else {
        Transformed::no(args)
    };
    let order_by = wrap_sorts(order_by, schema);
    changed |= args.transformed || order_by.transformed;
    let call = AggregateFunction::new_udf(
        func,
        args.data,
        distinct,
        filter,
        order_by.data,
        null_treatment,
    );
    done(Expr::AggregateFunction(call), changed)
}

fn rewrite_window(mut call: WindowFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let WindowFunctionDefinition::AggregateUDF(func) = &call.fun {
        let compares = extremes::replacement(func).is_some()
            || call.params.distinct
            || ORDERED_AGGREGATES.contains(&func.name());
        if compares {
            let args = wrap_all(std::mem::take(&mut call.params.args), schema);
            changed |= args.transformed;
            call.params.args = args.data;
        }
    }
    let keys = wrap_all(std::mem::take(&mut call.params.partition_by), schema);
    let order = wrap_sorts(std::mem::take(&mut call.params.order_by), schema);
    changed |= keys.transformed || order.transformed;
    (call.params.partition_by, call.params.order_by) = (keys.data, order.data);
    done(Expr::WindowFunction(Box::new(call)), changed)
}

/// Wraps the keys of a sort.
pub(super) fn wrap_sorts(sorts: Vec<Sort>, schema: &DFSchema) -> Transformed<Vec<Sort>> {
    let mut changed = false;
    let sorts = sorts.into_iter().map(|sort| {
        let key = wrap(sort.expr, schema);
        changed |= key.transformed;
        Sort::new(key.data, sort.asc, sort.nulls_first)
    });
    let sorts = sorts.collect();
    done(sorts, changed)
}

/// Wraps each expression that needs it.
pub(super) fn wrap_all(exprs: Vec<Expr>, schema: &DFSchema) -> Transformed<Vec<Expr>> {
    let mut changed = false;
    let exprs = exprs.into_iter().map(|expr| {
        let wrapped = wrap(expr, schema);
        changed |= wrapped.transformed;
        wrapped.data
    });
    let exprs = exprs.collect();
    done(exprs, changed)
}

fn wrap_boxed(expr: Expr, schema: &DFSchema) -> Transformed<Box<Expr>> {
    let wrapped = wrap(expr, schema);
    done(Box::new(wrapped.data), wrapped.transformed)
}

/// Makes an expression's value canonical, if it has floats that may be anything else. An alias stays
/// outside.
pub(super) fn wrap(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if let Expr::Alias(alias) = expr {
        let wrapped = wrap(*alias.expr, schema);
        let changed = wrapped.transformed;
        let expr = Box::new(wrapped.data);
        return done(Expr::Alias(Alias { expr, ..alias }), changed);
    }
    match is_float(&expr, schema) && !has_canonical_values(&expr, schema) {
        true => Transformed::yes(canonical(expr)),
        false => Transformed::no(expr),
    }
}

/// Returns whether an expression's values are floats or hold floats.
pub(super) fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    // What has no type here, such as a variable of a lambda, is left as it is.
    expr.get_type(schema)
        .is_ok_and(|data_type| holds_floats(&data_type))
}

fn is_plain_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema)
        .is_ok_and(|data_type| data_type.is_floating())
}

/// Returns whether an expression never gives −0.0 nor any NaN but the one.
fn has_canonical_values(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(value, _) => is_canonical_value(value),
        Expr::Column(column) => is_key_column(column),
        Expr::Cast(Cast { expr, .. }) => expr
            .get_type(schema)
            .is_ok_and(|from| from.is_integer() || from.is_decimal()),
        other => is_canonical(other),
    }
}

/// Makes the only column of a subquery canonical.
fn wrap_subquery(subquery: Subquery) -> Result<Transformed<Subquery>> {
    let projected = canonical_rows(Arc::clone(&subquery.subquery))?;
    let changed = projected.transformed;
    let subquery = Subquery {
        subquery: projected.data,
        ..subquery
    };
    Ok(done(subquery, changed))
}

/// Makes all columns of a plan canonical, under their names.
pub(super) fn canonical_rows(plan: Arc<LogicalPlan>) -> Result<Transformed<Arc<LogicalPlan>>> {
    let schema = plan.schema();
    if !has_floats(schema) || is_canonical_projection(&plan) {
        return Ok(Transformed::no(plan));
    }
    let exprs = canonical_columns(schema);
    let projection = Projection::try_new(exprs, plan)?;
    Ok(Transformed::yes(Arc::new(LogicalPlan::Projection(
        projection,
    ))))
}

fn is_canonical_projection(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = plan else {
        return false;
    };
    let schema = projection.input.schema();
    projection.expr.iter().all(|expr| match expr {
        Expr::Alias(alias) => {
            !is_float(&alias.expr, schema) || has_canonical_values(&alias.expr, schema)
        }
        expr => !is_float(expr, schema) || has_canonical_values(expr, schema),
    })
}

/// Returns whether a column has floats.
pub(super) fn has_floats(schema: &DFSchema) -> bool {
    let fields = schema.fields();
    fields.iter().any(|field| holds_floats(field.data_type()))
}

/// Returns all columns of a schema in canonical form, under their names.
pub(super) fn canonical_columns(schema: &DFSchema) -> Vec<Expr> {
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        match holds_floats(field.data_type()) {
            true => canonical(column).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    columns.collect()
}

/// Returns a value as changed or not.
pub(super) fn done<T>(data: T, changed: bool) -> Transformed<T> {
    match changed {
        true => Transformed::yes(data),
        false => Transformed::no(data),
    }
}
