//! `IN`, `EXISTS`, `ANY` and `ALL` of subqueries where DataFusion makes no join of them, or one that takes NULL for FALSE.
//!
//! As conditions of WHERE and HAVING they become joins. Anywhere else, as in a list of SELECT, they would have no plan;
//! and below NOT, CASE or IS NULL a join's mark is FALSE where `x IN (…)` is NULL, which are other rows. There
//! the rows of the subquery are counted, which is a scalar subquery:
//!
//! ```sql
//! x IN (SELECT y FROM s)
//! -- becomes
//! CASE WHEN (SELECT count(*) FROM s WHERE y = x) > 0 THEN true
//!      WHEN (SELECT count(*) FROM s) = 0 THEN false
//!      WHEN x IS NULL OR (SELECT count(*) FROM s WHERE y IS NULL) > 0 THEN NULL
//!      ELSE false END
//! ```
//!
//! `x < ANY (…)` is the same with another comparison, and `x >= ALL (…)` is its negation: DataFusion's own forms of these
//! compare columns by names that both sides may have.
//!
//! Where neither side can be NULL, the first count decides. The subquery is read up to three times, so that one whose
//! rows change from one reading to the next (`random()`, LIMIT without an order) may contradict itself.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Result, ScalarValue, not_impl_err};
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    binary_expr, lit, when,
};

use super::walk::{any_expression, change_computed, change_named, holds_any};

/// Counts the rows of subqueries that cannot be joined.
pub(super) fn count_subqueries(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    match any_expression(&plan, is_predicate)? {
        true => plan.transform_up_with_subqueries(rewritten).data(),
        false => Ok(plan),
    }
}

fn is_predicate(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
    )
}

fn rewritten(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !holds_any(&node, is_predicate)? {
        return Ok(Transformed::no(node));
    }
    match node {
        LogicalPlan::Filter(filter) => {
            let schema = Arc::clone(filter.input.schema());
            let parts = split_conjunction_owned(filter.predicate);
            let parts = parts.into_iter().map(|part| condition(part, &schema));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let predicate = conjunction(parts).unwrap_or_else(|| lit(true));
            let filter = Filter::try_new(predicate, filter.input)?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Projection(_) => {
            let schema = Arc::clone(node.inputs()[0].schema());
            let counted = change_named(node, |expr| counted(expr, &schema))?;
            counted.map_data(LogicalPlan::recompute_schema)
        }
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
            computed_below(node).map(Transformed::yes)
        }
        LogicalPlan::Join(ref join) if join.join_type != JoinType::Inner => {
            computed_below(node).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    }
}

/// Rewrites what a conjunct of a filter holds and no join answers.
fn condition(expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    match as_membership(expr) {
        Expr::Not(operand) => match *operand {
            Expr::InSubquery(within) => {
                let negated = !within.negated;
                condition(Expr::InSubquery(InSubquery { negated, ..within }), schema)
            }
            operand => Ok(below_or(Expr::Not(Box::new(operand)), schema)?),
        },
        // DataFusion's join that knows of NULLs has one key, which is a column.
        Expr::InSubquery(within) => {
            let is_correlated = !within.subquery.outer_ref_columns.is_empty();
            match within.negated && (is_correlated || !is_column(&within.expr)) {
                true => membership(within, schema),
                false => joined(within, schema),
            }
        }
        expr => below_or(expr, schema),
    }
}

/// Rewrites what must not be FALSE for NULL. Below AND and OR alone it may be: neither is true of a row then.
fn below_or(expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(mut binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            *binary.left = below_or(*binary.left, schema)?;
            *binary.right = below_or(*binary.right, schema)?;
            Ok(Expr::BinaryExpr(binary))
        }
        Expr::InSubquery(within) if !within.negated => joined(within, schema),
        expr => expr
            .transform_up(|part| match part {
                Expr::InSubquery(within) => membership(within, schema).map(Transformed::yes),
                Expr::SetComparison(set) => compared(set, schema).map(Transformed::yes),
                part => Ok(Transformed::no(part)),
            })
            .data(),
    }
}

/// Leaves `x IN (…)` to become a join, in which x cannot be a subquery: that is counted.
fn joined(within: InSubquery, schema: &DFSchemaRef) -> Result<Expr> {
    if within.expr.exists(|part| Ok(is_predicate(part)))? {
        return of_subquery();
    }
    let is_scalar = |part: &Expr| Ok(matches!(part, Expr::ScalarSubquery(_)));
    match within.expr.exists(is_scalar)? {
        true => membership(within, schema),
        false => Ok(Expr::InSubquery(within)),
    }
}

fn of_subquery<T>() -> Result<T> {
    not_impl_err!(
        "IN, ANY or ALL of a subquery, for a value that is a correlated subquery or a column of a query further out: \
         compute the value in a subquery of FROM"
    )
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

/// Rewrites all of an expression.
fn counted(expr: Expr, schema: &DFSchemaRef) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| match part {
        Expr::InSubquery(within) => membership(within, schema).map(Transformed::yes),
        Expr::SetComparison(set) => compared(set, schema).map(Transformed::yes),
        Expr::Exists(Exists { subquery, negated }) => {
            let is_there = count_of(subquery, None)?.gt(lit(0_i64));
            Ok(Transformed::yes(negated_if(negated, is_there)))
        }
        part => Ok(Transformed::no(part)),
    })
}

/// Has the input compute what a node's expressions ask of subqueries.
fn computed_below(node: LogicalPlan) -> Result<LogicalPlan> {
    let output = node.schema().columns();
    let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    let mut computed: Vec<Vec<Expr>> = vec![Vec::new(); inputs.len()];
    let replace = |expr: Expr| {
        expr.transform_down(|part| {
            if !is_predicate(&part) {
                return Ok(Transformed::no(part));
            }
            let Some(side) = side_of(&part, &inputs)? else {
                return not_impl_err!(
                    "IN and EXISTS of a subquery that uses columns of both sides of an outer join, in its ON: \
                     compute it in a subquery of one side"
                );
            };
            let value = counted(part, inputs[side].schema())?.data;
            let exprs = &mut computed[side];
            let column = format!("__subquery_{side}_{}", exprs.len());
            exprs.push(value.alias(&column));
            let column = Expr::Column(Column::new_unqualified(column));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })
    };
    let replaced = change_computed(node, replace)?;
    let with_computed = inputs.into_iter().zip(computed).map(|(input, computed)| {
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let exprs: Vec<Expr> = columns.chain(computed).collect();
        LogicalPlanBuilder::from(input).project(exprs)?.build()
    });
    let with_computed = with_computed.collect::<Result<Vec<_>>>()?;
    let exprs = replaced.data.expressions();
    let node = replaced.data.with_new_exprs(exprs, with_computed)?;
    if node.schema().fields().len() == output.len() {
        return Ok(node);
    }
    let columns = output.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(node).project(columns)?.build()
}

/// Returns which input has all columns that an expression and its subqueries use.
fn side_of(expr: &Expr, inputs: &[LogicalPlan]) -> Result<Option<usize>> {
    let mut used = expr.column_refs().into_iter().cloned().collect::<Vec<_>>();
    let (Expr::InSubquery(InSubquery { subquery, .. })
    | Expr::Exists(Exists { subquery, .. })
    | Expr::SetComparison(SetComparison { subquery, .. })) = expr
    else {
        return Ok(None);
    };
    for outer in &subquery.outer_ref_columns {
        if let Expr::OuterReferenceColumn(_, column) = outer {
            used.push(column.clone());
        }
    }
    let has_all = |input: &LogicalPlan| used.iter().all(|column| input.schema().has_column(column));
    Ok(inputs.iter().position(has_all))
}

/// Writes `x IN (subquery)` by counts.
fn membership(within: InSubquery, schema: &DFSchemaRef) -> Result<Expr> {
    let found = any_of(*within.expr, Operator::Eq, within.subquery, schema)?;
    Ok(negated_if(within.negated, found))
}

/// Writes `x = ANY (subquery)` and `x <> ALL (subquery)` as IN, which may become a join.
fn as_membership(expr: Expr) -> Expr {
    match expr {
        Expr::SetComparison(set)
            if matches!(
                (set.op, &set.quantifier),
                (Operator::Eq, SetQuantifier::Any) | (Operator::NotEq, SetQuantifier::All)
            ) =>
        {
            let negated = set.op == Operator::NotEq;
            Expr::InSubquery(InSubquery::new(set.expr, set.subquery, negated))
        }
        expr => expr,
    }
}

/// Writes `x < ANY (subquery)` and `x < ALL (subquery)` by counts.
fn compared(set: SetComparison, schema: &DFSchemaRef) -> Result<Expr> {
    let (is_all, op) = match set.quantifier {
        SetQuantifier::Any => (false, Some(set.op)),
        SetQuantifier::All => (true, set.op.negate()),
    };
    let Some(op) = op else {
        return not_impl_err!("{} ALL (subquery)", set.op);
    };
    let found = any_of(*set.expr, op, set.subquery, schema)?;
    Ok(negated_if(is_all, found))
}

/// Writes by counts whether a value compares so with any row of a subquery.
fn any_of(value: Expr, op: Operator, subquery: Subquery, schema: &DFSchemaRef) -> Result<Expr> {
    let outer = value.clone().transform_up(|part| match part {
        Expr::Column(column) => {
            let (_, field) = schema.qualified_field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(
                Arc::clone(field),
                column,
            )))
        }
        // One that uses no other columns is the same inside.
        Expr::ScalarSubquery(scalar) if scalar.outer_ref_columns.is_empty() => {
            Ok(Transformed::no(Expr::ScalarSubquery(scalar)))
        }
        Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) => of_subquery(),
        part => Ok(Transformed::no(part)),
    })?;
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    let member = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let is_nullable = value.nullable(schema)? || field.is_nullable();
    let compares = binary_expr(outer.data, op, member.clone());
    let is_found = count_of(subquery.clone(), Some((compares, &value, schema)))?.gt(lit(0_i64));
    Ok(match is_nullable {
        false => is_found,
        true => {
            let is_empty = count_of(subquery.clone(), None)?.eq(lit(0_i64));
            let has_null = member.is_null();
            let nulls = Some((has_null, &lit(true), schema));
            let is_unknown = value
                .clone()
                .is_null()
                .or(count_of(subquery, nulls)?.gt(lit(0_i64)));
            when(is_found, lit(true))
                .when(is_empty, lit(false))
                .when(is_unknown, lit(ScalarValue::Boolean(None)))
                .otherwise(lit(false))?
        }
    })
}

/// Counts a subquery's rows: all, or those of a condition that uses the columns of a value outside.
fn count_of(subquery: Subquery, condition: Option<(Expr, &Expr, &DFSchemaRef)>) -> Result<Expr> {
    let Subquery {
        subquery,
        mut outer_ref_columns,
        spans,
    } = subquery;
    let mut rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery));
    if let Some((condition, value, schema)) = condition {
        for column in value.column_refs() {
            let (_, field) = schema.qualified_field_from_column(column)?;
            let outer = Expr::OuterReferenceColumn(Arc::clone(field), column.clone());
            if !outer_ref_columns.contains(&outer) {
                outer_ref_columns.push(outer);
            }
        }
        rows = rows.filter(condition)?;
    }
    let counted = rows
        .aggregate(Vec::<Expr>::new(), vec![count_all()])?
        .build()?;
    Ok(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(counted),
        outer_ref_columns,
        spans,
    }))
}

fn negated_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    }
}
