//! Lists of a table that stand in its FROM: `FROM t, unnest(t.l) AS u(x)`.
//!
//! DataFusion plans a join with a subquery of the outer columns there, and has no node that runs it. A subquery that
//! reads no table, and computes on the columns of the row beside it, is computed on these rows themselves:
//! projections, filters and lists of the subquery go above the other side of the join, with its columns besides.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, NullHandling, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::strip_outer_reference;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, Projection, Unnest,
};

/// Computes such subqueries beside the rows whose columns they read.
pub(super) fn unnest_beside_rows(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    let rewrite = |node| match &node {
        LogicalPlan::Join(join) => Ok(match computed(join) {
            Some(computed) => Transformed::yes(computed),
            None => Transformed::no(node),
        }),
        _ => Ok(Transformed::no(node)),
    };
    plan.transform_up_with_subqueries(rewrite).data()
}

/// Returns what computes the right side of a join on the rows of the left one; `None` for a join of another kind.
fn computed(join: &Join) -> Option<LogicalPlan> {
    if !is_lateral(&join.right) {
        return None;
    }
    let on = join.on.iter();
    let mut conditions: Vec<Expr> = on.map(|(a, b)| a.clone().eq(b.clone())).collect();
    conditions.extend(join.filter.clone().filter(|filter| !is_true(filter)));
    let keeps_rows = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left if conditions.is_empty() => true,
        _ => return None,
    };
    let beside = Beside {
        left: &join.left,
        keeps_rows,
    };
    // What cannot be made keeps DataFusion's error.
    let plan = beside.plan(&join.right, None).ok()??;
    match conjunction(conditions) {
        None => Some(plan),
        Some(condition) => {
            let filter = Filter::try_new(condition, Arc::new(plan)).ok()?;
            Some(LogicalPlan::Filter(filter))
        }
    }
}

/// Returns whether a side of a join reads columns of the other side.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        LogicalPlan::Subquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        _ => false,
    }
}

fn is_true(filter: &Expr) -> bool {
    matches!(filter, Expr::Literal(value, _) if *value == true.into())
}

/// The rows beside which a subquery is computed.
struct Beside<'a> {
    left: &'a Arc<LogicalPlan>,
    /// Whether a row stays for which the subquery has none.
    keeps_rows: bool,
}

impl Beside<'_> {
    /// Returns a plan of the columns of the rows, and behind them those of a part of the subquery, which belong to a
    /// table if one is given; `None` if the part is of another kind.
    fn plan(
        &self,
        part: &LogicalPlan,
        table: Option<&TableReference>,
    ) -> Result<Option<LogicalPlan>> {
        let plan = match part {
            LogicalPlan::SubqueryAlias(alias) => {
                return self.plan(&alias.input, Some(&alias.alias));
            }
            LogicalPlan::Subquery(subquery) => return self.plan(&subquery.subquery, table),
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.plan(&projection.input, None)? else {
                    return Ok(None);
                };
                if projection.expr.iter().any(has_subquery) {
                    return Ok(None);
                }
                // A row that stays without an element has NULL there, whatever would be computed of it.
                if self.keeps_rows
                    && projection.input.exists(is_unnest)?
                    && !projection.expr.iter().all(is_column)
                {
                    return Ok(None);
                }
                let fields = projection.schema.fields().iter();
                let own = projection.expr.iter().zip(fields).map(|(expr, field)| {
                    let expr = strip_outer_reference(expr.clone()).unalias();
                    expr.alias_qualified(table.cloned(), field.name())
                });
                return self.projected(own, input).map(Some);
            }
            LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: true,
                ..
            }) => return Ok(Some(self.left.as_ref().clone())),
            LogicalPlan::Unnest(unnest) => {
                let Some(input) = self.plan(&unnest.input, None)? else {
                    return Ok(None);
                };
                let mut options = unnest.options.clone();
                if self.keeps_rows {
                    options.null_handling = NullHandling::PreserveAndExpandEmpty;
                }
                let columns = unnest.exec_columns.clone();
                LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), columns, options)?)
            }
            LogicalPlan::Filter(filter) if !self.keeps_rows => {
                let Some(input) = self.plan(&filter.input, None)? else {
                    return Ok(None);
                };
                if has_subquery(&filter.predicate) {
                    return Ok(None);
                }
                let predicate = strip_outer_reference(filter.predicate.clone());
                LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)
            }
            _ => return Ok(None),
        };
        let Some(table) = table else {
            return Ok(Some(plan));
        };
        let own = part.schema().iter().map(|(qualifier, field)| {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            column.alias_qualified(Some(table.clone()), field.name())
        });
        self.projected(own, plan).map(Some)
    }

    /// Puts the columns of the rows before others.
    fn projected(
        &self,
        others: impl Iterator<Item = Expr>,
        input: LogicalPlan,
    ) -> Result<LogicalPlan> {
        let columns = self.left.schema().iter();
        let columns = columns
            .map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name())));
        let exprs = columns.chain(others).collect();
        Projection::try_new(exprs, Arc::new(input)).map(LogicalPlan::Projection)
    }
}

fn is_unnest(plan: &LogicalPlan) -> Result<bool> {
    Ok(matches!(plan, LogicalPlan::Unnest(_)))
}

/// Returns whether an expression is a column, or a field of one, under whatever name.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr),
        Expr::Column(_) => true,
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
            call.args.first().is_some_and(is_column)
        }
        _ => false,
    }
}

/// Returns whether an expression has a subquery, whose outer columns may be those of another one.
fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    });
    found.unwrap_or(true)
}
