//! Correlated subqueries that DataFusion does not make joins of, because they compare with more than `=`, compute
//! with columns of the query around them, take the first rows for each of them, or are scalar and have no aggregate.
//!
//! Such a subquery, in an expression or behind LATERAL, is computed at once for all that the rows outside ask of it (T.
//! Neumann and A. Kemper, "Unnesting Arbitrary Queries", BTW 2015):
//!
//! ```sql
//! SELECT (SELECT count(*) FROM u WHERE u.b > t.a) FROM t
//! -- becomes
//! SELECT coalesce(s.value, 0) FROM t LEFT JOIN (
//!   SELECT d.a, count(*) AS value FROM (SELECT DISTINCT a FROM t) AS d, u WHERE u.b > d.a GROUP BY d.a
//! ) AS s ON t.a IS NOT DISTINCT FROM s.a
//! ```
//!
//! The query outside is read more than once, so that nothing is done where its values may differ from one reading to the
//! next. What has no such form stays as it is, and DataFusion refuses it.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, Join, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, SkipType, Subquery, binary_expr, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::single::single_value;

/// Joins subqueries with what the rows around them ask.
#[derive(Debug)]
pub(super) struct JoinDependentSubqueries;

impl AnalyzerRule for JoinDependentSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = holds_dependent(node)?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        let joined = Cell::new(0);
        plan.transform_up_with_subqueries(|node| rewritten(node, &joined))
            .data()
    }

    fn name(&self) -> &str {
        "join_dependent_subqueries"
    }
}

/// Returns whether a node's own expressions hold a subquery that has to be joined, or it is such a LATERAL join.
fn holds_dependent(node: &LogicalPlan) -> Result<bool> {
    if let LogicalPlan::Join(join) = node
        && let Some(subquery) = lateral(&join.right)
    {
        return is_dependent(subquery);
    }
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Expr::ScalarSubquery(subquery) = part {
                found |= is_joined(subquery, &node.inputs())?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Returns whether a scalar subquery of a node with these inputs has to be joined: DataFusion wants an aggregate in it
/// besides, and no columns from further out.
fn is_joined(subquery: &Subquery, inputs: &[&LogicalPlan]) -> Result<bool> {
    let outer = columns_outside(subquery)?;
    let is_near = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
    if !outer.iter().all(is_near) {
        return Ok(true);
    }
    let has_groups = is_grouped(&subquery.subquery);
    Ok(match has_one_row(&subquery.subquery) {
        true => is_dependent(subquery)?,
        false => !outer.is_empty() && !has_groups,
    })
}

fn is_grouped(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_) => is_grouped(plan.inputs()[0]),
        _ => false,
    }
}

fn lateral(plan: &LogicalPlan) -> Option<&Subquery> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral(&alias.input),
        _ => None,
    }
}

/// Returns whether a subquery uses columns outside in another way than by conditions of equality.
fn is_dependent(subquery: &Subquery) -> Result<bool> {
    let outer = columns_outside(subquery)?;
    if outer.is_empty() {
        return Ok(false);
    }
    let mut found = false;
    subquery.subquery.apply(|node| {
        found = match node {
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate)
                .into_iter()
                .any(|part| uses_any(part, &outer) && !is_equality(part, &outer)),
            // DataFusion loses the columns of conditions there.
            LogicalPlan::Limit(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) => {
                is_used_within(node, &outer)?
            }
            node => node.expressions().iter().any(|expr| uses_any(expr, &outer)),
        };
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Lists the columns of queries further out that a subquery uses, with those that came into it from subqueries of its own.
fn columns_outside(subquery: &Subquery) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    let mut add = |expr: &Expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && !columns.contains(column)
        {
            columns.push(column.clone());
        }
    };
    subquery.outer_ref_columns.iter().for_each(&mut add);
    subquery.subquery.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                add(part);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// Returns whether an expression uses any of these columns of the query outside, its own subqueries left out.
fn uses_any(expr: &Expr, outer: &[Column]) -> bool {
    let is_any = |part: &Expr| matches!(part, Expr::OuterReferenceColumn(_, column) if outer.contains(column));
    expr.exists(|part| Ok(is_any(part))).unwrap_or(false)
}

/// Returns whether a condition compares a value outside with one of the subquery.
fn is_equality(condition: &Expr, outer: &[Column]) -> bool {
    let Expr::BinaryExpr(binary) = condition else {
        return false;
    };
    let (left, right) = (&binary.left, &binary.right);
    let is_side = |one: &Expr, other: &Expr| {
        uses_any(one, outer) && one.column_refs().is_empty() && !uses_any(other, outer)
    };
    binary.op == Operator::Eq && (is_side(left, right) || is_side(right, left))
}

/// Returns whether a plan, or a subquery of its expressions, uses any of these columns of the query outside.
fn is_used_within(plan: &LogicalPlan, outer: &[Column]) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = node.expressions().iter().any(|expr| uses_any(expr, outer));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

fn rewritten(node: LogicalPlan, joined: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    if !holds_dependent(&node)? {
        return Ok(Transformed::no(node));
    }
    match node {
        LogicalPlan::Join(join) => joined_lateral(join, joined),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => joined_input(node, joined),
        node => Ok(Transformed::no(node)),
    }
}

/// Joins a node's input with the subqueries of its expressions.
fn joined_input(node: LogicalPlan, joined: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let output = node.schema().columns();
    let outside = node.inputs()[0].clone();
    let mut input = outside.clone();
    let names = NamePreserver::new(&node);
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let replaced = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|part| {
            let Expr::ScalarSubquery(subquery) = &part else {
                return Ok(Transformed::no(part));
            };
            if !is_joined(subquery, &[&outside])? {
                return Ok(Transformed::no(part));
            }
            let Some(domain) = Domain::of(subquery, &outside, joined)? else {
                return Ok(Transformed::no(part));
            };
            let Some(values) = domain.lifted(&subquery.subquery)? else {
                return Ok(Transformed::no(part));
            };
            let value = subquery.subquery.schema().columns().swap_remove(0);
            let column = format!("__value_{}", domain.id);
            let is_single = has_one_row(&subquery.subquery) && !domain.keys.is_empty();
            let values = match is_single {
                true => LogicalPlanBuilder::from(values)
                    .project(domain.keys_and([Expr::Column(value).alias(&column)]))?
                    .build()?,
                false => domain.checked(values, value, &column)?,
            };
            input = domain.joined(input.clone(), values, JoinType::Left, None)?;
            let column = Expr::Column(Column::new_unqualified(column));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })?;
        // The keys of a sort have no names.
        Ok(match is_sort {
            true => replaced,
            false => replaced.update_data(|expr| name.restore(expr)),
        })
    })?;
    if !replaced.transformed {
        return Ok(replaced);
    }
    let exprs = replaced.data.expressions();
    let node = replaced.data.with_new_exprs(exprs, vec![input])?;
    if node.schema().fields().len() == output.len() {
        return Ok(Transformed::yes(node));
    }
    let columns = output.into_iter().map(Expr::Column);
    let node = LogicalPlanBuilder::from(node).project(columns)?.build()?;
    Ok(Transformed::yes(node))
}

/// Joins the right side of a LATERAL join with what the left side asks of it.
fn joined_lateral(join: Join, joined: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let is_known = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    let domain = match lateral(&join.right) {
        Some(subquery) if is_known => Domain::of(subquery, &join.left, joined)?,
        _ => None,
    };
    let Some(domain) = domain.filter(|domain| !domain.keys.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let Some(right) = domain.lifted(&join.right)? else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let keys = join.on.into_iter().map(|(left, right)| left.eq(right));
    let filter = conjunction(keys.chain(join.filter));
    let left = Arc::unwrap_or_clone(join.left);
    let node = domain.joined(left, right, join.join_type, filter)?;
    let columns = join.schema.columns().into_iter().map(Expr::Column);
    let node = LogicalPlanBuilder::from(node).project(columns)?.build()?;
    Ok(Transformed::yes(node))
}

/// Returns whether a plan has one row at most, whatever is in its tables.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
                || has_one_row(&limit.input)
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => has_one_row(plan.inputs()[0]),
        _ => false,
    }
}

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
struct Domain {
    id: usize,
    /// The columns outside.
    outer: Vec<Column>,
    /// What they are called in `rows`.
    keys: Vec<Column>,
    /// Their values, each once.
    rows: LogicalPlan,
}

impl Domain {
    /// Returns `None` where the query outside has other rows each time. Columns from further out stay as they are, until its
    /// turn comes.
    fn of(
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

    fn keys_and(&self, exprs: impl IntoIterator<Item = Expr>) -> Vec<Expr> {
        let keys = self.keys.iter().cloned().map(Expr::Column);
        keys.chain(exprs).collect()
    }

    /// Makes sure that there is a row at most for each of the values outside.
    fn checked(&self, values: LogicalPlan, value: Column, column: &str) -> Result<LogicalPlan> {
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
    fn joined(
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
    fn lifted(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
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
