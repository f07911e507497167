//! What the rows outside ask of a correlated subquery, and the plan of the subquery for all of it.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, Join, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, SkipType, Subquery, binary_expr, lit, when,
};

use super::{columns_outside, is_used_within};
use crate::functions::single::single_value;

/// Returns whether these columns of a plan have the same values each time it is read: no limit takes any rows, no window
/// numbers equal ones, no function is volatile, no aggregate depends on the order of its rows.
fn is_repeatable(plan: &LogicalPlan, columns: &[Column]) -> Result<bool> {
    const ORDERLESS: [&str; 6] = ["avg", "bool_and", "bool_or", "max", "min", "sum"];
    let has_float = columns.iter().any(|column| {
        let found = plan.schema().qualified_field_from_column(column);
        found.is_ok_and(|(_, field)| field.data_type().is_floating())
    });
    let is_orderless = |expr: &Expr| match expr.clone().unalias_nested().data {
        Expr::AggregateFunction(call) => {
            let name = call.func.name();
            name == "count" || (ORDERLESS.contains(&name) && !has_float)
        }
        _ => false,
    };
    let mut is_repeatable = true;
    plan.apply_with_subqueries(|node| {
        is_repeatable &= !node.expressions().iter().any(Expr::is_volatile);
        is_repeatable &= match node {
            LogicalPlan::Limit(_) | LogicalPlan::Window(_) => false,
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().all(is_orderless),
            _ => true,
        };
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_repeatable)
}

/// What the rows outside ask of a subquery.
pub(super) struct Domain {
    pub(super) id: usize,
    /// The columns outside.
    outer: Vec<Column>,
    /// What they are called in `rows`.
    pub(super) keys: Vec<Column>,
    /// Their values, each once.
    rows: LogicalPlan,
}

impl Domain {
    /// Returns `None` where the query outside has other rows each time. Columns from further out stay as they are, until its
    /// turn comes.
    pub(super) fn of(
        subquery: &Subquery,
        outside: &LogicalPlan,
        joined: &Cell<usize>,
    ) -> Result<Option<Self>> {
        let mut outer = columns_outside(subquery)?;
        outer.retain(|column| outside.schema().has_column(column));
        if !is_repeatable(outside, &outer)? {
            return Ok(None);
        }
        let id = joined.replace(joined.get() + 1);
        let key = |place: usize| Column::new_unqualified(format!("__outer_{id}_{place}"));
        let keys: Vec<Column> = (0..outer.len()).map(key).collect();
        let columns = outer.iter().zip(&keys);
        let columns =
            columns.map(|(column, key)| Expr::Column(column.clone()).alias(key.name.clone()));
        let rows = match keys.is_empty() {
            true => LogicalPlanBuilder::empty(true).build()?,
            false => LogicalPlanBuilder::from(outside.clone())
                .project(columns)?
                .distinct()?
                .build()?,
        };
        Ok(Some(Self {
            id,
            outer,
            keys,
            rows,
        }))
    }

    pub(super) fn keys_and(&self, exprs: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
        let keys = self.keys.iter().cloned().map(Expr::Column);
        keys.chain(exprs).collect()
    }

    /// Makes sure that there is a row at most for each of the values outside.
    pub(super) fn checked(
        &self,
        values: LogicalPlan,
        value: Column,
        column: &str,
    ) -> Result<LogicalPlan> {
        let (first, count) = (
            format!("__first_{}", self.id),
            format!("__count_{}", self.id),
        );
        let found = first_value(Expr::Column(value), Vec::new()).alias(&first);
        let found = vec![found, count_all().alias(&count)];
        let named = |name: String| Expr::Column(Column::new_unqualified(name));
        let value = single_value(named(first), named(count)).alias(column);
        LogicalPlanBuilder::from(values)
            .aggregate(self.keys_and([]), found)?
            .project(self.keys_and([value]))?
            .build()
    }

    /// Joins the query outside with a plan that begins with the keys.
    pub(super) fn joined(
        &self,
        outside: LogicalPlan,
        values: LogicalPlan,
        join_type: JoinType,
        filter: Option<Expr>,
    ) -> Result<LogicalPlan> {
        if self.keys.is_empty() {
            return LogicalPlanBuilder::from(outside)
                .cross_join(values)?
                .build();
        }
        let keys = (self.outer.clone(), self.keys.clone());
        let nulls = NullEquality::NullEqualsNull;
        LogicalPlanBuilder::from(outside)
            .join_detailed(values, join_type, keys, filter, nulls)?
            .build()
    }

    /// Returns a plan whose rows are those of `plan` for each of these, which stand before its columns; `None` for a
    /// plan that has no such form.
    pub(super) fn lifted(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if self.keys.is_empty() {
            return Ok(Some(plan.clone()));
        }
        if !is_used_within(plan, &self.outer)? {
            let rows = LogicalPlanBuilder::from(self.rows.clone());
            return rows.cross_join(plan.clone())?.build().map(Some);
        }
        if self.is_used_by_subqueries(plan)? {
            return Ok(None);
        }
        if let LogicalPlan::Subquery(subquery) = plan {
            return self.lifted(&subquery.subquery);
        }
        if let LogicalPlan::Join(join) = plan {
            return self.lifted_join(join);
        }
        if let LogicalPlan::Limit(limit) = plan {
            return self.lifted_limit(limit);
        }
        let [below] = plan.inputs()[..] else {
            return Ok(None);
        };
        let Some(input) = self.lifted(below)? else {
            return Ok(None);
        };
        let input = LogicalPlanBuilder::from(input);
        let lifted = match plan {
            LogicalPlan::Filter(filter) => {
                input.filter(self.replaced(filter.predicate.clone())?)?
            }
            LogicalPlan::Projection(projection) => {
                let exprs = projection.expr.iter().zip(projection.schema.iter());
                let exprs = exprs.map(|(expr, (table, field))| {
                    let replaced = self.replaced(expr.clone())?;
                    Ok(match replaced == *expr {
                        true => replaced,
                        false => replaced.alias_qualified(table.cloned(), field.name()),
                    })
                });
                input.project(self.keys_and(exprs.collect::<Result<Vec<_>>>()?))?
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = below.schema().columns().into_iter();
                let columns = columns
                    .zip(alias.schema.iter())
                    .map(|(column, (table, field))| {
                        Expr::Column(column).alias_qualified(table.cloned(), field.name())
                    });
                input.project(self.keys_and(columns))?
            }
            // An order is lost at the join.
            LogicalPlan::Sort(_) => input,
            LogicalPlan::Distinct(Distinct::All(_)) => input.distinct()?,
            LogicalPlan::Aggregate(aggregate) => return self.lifted_aggregate(input, aggregate),
            _ => return Ok(None),
        };
        lifted.build().map(Some)
    }

    /// Joins a side that uses the columns outside, or the left one.
    fn lifted_join(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let is_left_used = is_used_within(&join.left, &self.outer)?;
        let is_right_used = is_used_within(&join.right, &self.outer)?;
        let (left, right) = match (is_left_used, is_right_used, join.join_type) {
            (true, true, JoinType::Inner) | (_, true, JoinType::Left) => {
                return self.lifted_sides(join);
            }
            (_, false, JoinType::Inner | JoinType::Left) => (
                self.lifted(&join.left)?,
                Some(LogicalPlan::clone(&join.right)),
            ),
            (false, true, JoinType::Inner) => (
                Some(LogicalPlan::clone(&join.left)),
                self.lifted(&join.right)?,
            ),
            _ => (None, None),
        };
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(None);
        };
        let filter = join.filter.clone().map(|filter| self.replaced(filter));
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            join.on.clone(),
            filter.transpose()?,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Some(LogicalPlan::Join(join)))
    }

    /// Joins two sides that use the columns outside, for equal values of these.
    fn lifted_sides(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let (Some(left), Some(right)) = (self.lifted(&join.left)?, self.lifted(&join.right)?)
        else {
            return Ok(None);
        };
        let of_right = |key: &Column| Column::new_unqualified(format!("{}_right", key.name));
        let renamed = self.keys.iter();
        let renamed = renamed.map(|key| Expr::Column(key.clone()).alias(of_right(key).name));
        let columns = join.right.schema().columns().into_iter();
        let right = LogicalPlanBuilder::from(right)
            .project(renamed.chain(columns.map(Expr::Column)))?
            .build()?;
        let operator = match join.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        };
        let pairs = join.on.iter().cloned();
        let equal = pairs.map(|(left, right)| Ok(binary_expr(left, operator, right)));
        let filter = join.filter.clone().map(|filter| self.replaced(filter));
        let conditions = equal.chain(filter).collect::<Result<Vec<_>>>()?;
        let keys = (self.keys.clone(), self.keys.iter().map(of_right).collect());
        let nulls = NullEquality::NullEqualsNull;
        let columns = join.schema.columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(left)
            .join_detailed(right, join.join_type, keys, conjunction(conditions), nulls)?
            .project(self.keys_and(columns))?
            .build()
            .map(Some)
    }

    /// Numbers the rows for each of the values outside.
    fn lifted_limit(&self, limit: &Limit) -> Result<Option<LogicalPlan>> {
        let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(Some(fetch)))) =
            (limit.get_skip_type(), limit.get_fetch_type())
        else {
            return Ok(None);
        };
        if let LogicalPlan::Projection(projection) = limit.input.as_ref()
            && matches!(projection.input.as_ref(), LogicalPlan::Sort(_))
        {
            let below = LogicalPlan::Limit(Limit {
                skip: limit.skip.clone(),
                fetch: limit.fetch.clone(),
                input: Arc::clone(&projection.input),
            });
            let above = limit
                .input
                .with_new_exprs(projection.expr.clone(), vec![below])?;
            return self.lifted(&above);
        }
        let (order, below) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let keys = sort.expr.iter().map(|key| {
                    let expr = self.replaced(key.expr.clone())?;
                    Ok(SortKey {
                        expr,
                        ..key.clone()
                    })
                });
                (keys.collect::<Result<Vec<_>>>()?, sort.input.as_ref())
            }
            other => (Vec::new(), other),
        };
        let Some(input) = self.lifted(below)? else {
            return Ok(None);
        };
        let number = row_number().partition_by(self.keys_and([])).order_by(order);
        let number = number.build()?;
        let column = Expr::Column(Column::new_unqualified(number.schema_name().to_string()));
        let (skip, end) = (skip as u64, skip.saturating_add(fetch) as u64);
        let is_taken = column.clone().gt(lit(skip)).and(column.lt_eq(lit(end)));
        let columns = below.schema().columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(input)
            .window([number])?
            .filter(is_taken)?
            .project(self.keys_and(columns))?
            .build()
            .map(Some)
    }

    /// Groups by the values outside as well. An aggregate without groups has a row for each of them.
    fn lifted_aggregate(
        &self,
        input: LogicalPlanBuilder,
        aggregate: &Aggregate,
    ) -> Result<Option<LogicalPlan>> {
        let has_sets = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
        if aggregate.group_expr.iter().any(has_sets) {
            return Ok(None);
        }
        let names = NamePreserver::new_for_projection();
        let replaced = |expr: &Expr| {
            let name = names.save(expr);
            Ok(name.restore(self.replaced(expr.clone())?))
        };
        let groups = aggregate.group_expr.iter().map(replaced);
        let groups = self.keys_and(groups.collect::<Result<Vec<_>>>()?);
        let aggregates = aggregate.aggr_expr.iter().map(replaced);
        let grouped = input.aggregate(groups, aggregates.collect::<Result<Vec<_>>>()?)?;
        if !aggregate.group_expr.is_empty() {
            return grouped.build().map(Some);
        }
        let is_there = format!("__is_there_{}", self.id);
        let found = |key: &Column| Column::new_unqualified(format!("{}_found", key.name));
        let names = self.keys.iter();
        let renamed = names.map(|key| Expr::Column(key.clone()).alias(found(key).name));
        let columns = aggregate.schema.columns();
        let values = columns.iter().cloned().map(Expr::Column);
        let exprs = renamed.chain(values).chain([lit(true).alias(&is_there)]);
        let grouped = grouped.project(exprs)?.build()?;
        let keys = (self.keys.clone(), self.keys.iter().map(found).collect());
        let nulls = NullEquality::NullEqualsNull;
        let all = LogicalPlanBuilder::from(self.rows.clone()).join_detailed(
            grouped,
            JoinType::Left,
            keys,
            None,
            nulls,
        )?;
        let mut exprs = Vec::with_capacity(columns.len());
        for (column, value) in columns.iter().zip(&aggregate.aggr_expr) {
            let (table, field) = aggregate.schema.qualified_field_from_column(column)?;
            let call = match value.clone().unalias_nested().data {
                Expr::AggregateFunction(call) => call,
                _ => return Ok(None),
            };
            let default = call.func.default_value(field.data_type())?;
            let value = Expr::Column(column.clone());
            exprs.push(match default.is_null() {
                true => value,
                false => {
                    let is_there = Expr::Column(Column::new_unqualified(&is_there));
                    when(is_there.is_null(), lit(default))
                        .otherwise(value)?
                        .alias_qualified(table.cloned(), field.name())
                }
            });
        }
        all.project(self.keys_and(exprs))?.build().map(Some)
    }

    /// Puts the keys in the place of the columns outside.
    fn replaced(&self, expr: Expr) -> Result<Expr> {
        let replaced = expr.transform_up(|part| {
            let place = match &part {
                Expr::OuterReferenceColumn(_, column) => {
                    self.outer.iter().position(|outer| outer == column)
                }
                _ => None,
            };
            Ok(match place {
                Some(place) => Transformed::yes(Expr::Column(self.keys[place].clone())),
                None => Transformed::no(part),
            })
        });
        replaced.data()
    }

    /// Returns whether a subquery within a node's own expressions uses the columns outside.
    fn is_used_by_subqueries(&self, node: &LogicalPlan) -> Result<bool> {
        let mut found = false;
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let subquery = match part {
                    Expr::ScalarSubquery(subquery) => Some(subquery),
                    Expr::Exists(exists) => Some(&exists.subquery),
                    Expr::InSubquery(within) => Some(&within.subquery),
                    Expr::SetComparison(set) => Some(&set.subquery),
                    _ => None,
                };
                if let Some(subquery) = subquery {
                    found |= is_used_within(&subquery.subquery, &self.outer)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(found)
    }
}
