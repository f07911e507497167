//! Rewrites of plans that DataFusion would not plan, or would answer otherwise than SQL says.
//!
//! [`filtered_aggregates`] guards arguments of aggregates by their FILTER. [`intervals`] keeps filters from bounds of columns
//! that are not true. [`grouping_sets`] hides what is not true of the rows of grouping
//! sets from the physical optimizer. [`lazy_logic`] has AND and OR go from left to right.
//! [`set_comparison`] names the subqueries of ALL and ANY, [`set_copies`] counts duplicates in INTERSECT ALL and
//! EXCEPT ALL, [`windows`] mends sort keys. [`null_safe_joins`] and [`repeated_names`] keep two of DataFusion's rules
//! from plans that they would give another meaning. `docs/upstream.md` has a minimal reproduction of each bug.
//! [`predicate_subqueries`] counts the rows of subqueries that cannot be joined, [`dependent_subqueries`] joins those that
//! compare with more than `=`.
//! [`value_lists`] keeps lists of IN apart that the optimizer would join as if there were no NULL.
//! [`bounded_values`] refuses types of large values. [`exact_sums`] has float sums not depend on the order of rows.
//! [`distinct_arguments`] makes groups where DataFusion would keep sets of values.

pub(crate) mod bounded_values;
mod dependent_subqueries;
mod distinct_arguments;
pub(crate) mod exact_sums;
mod filtered_aggregates;
mod grouping_sets;
pub(crate) mod intervals;
pub(crate) mod lazy_logic;
mod null_safe_joins;
mod predicate_subqueries;
mod raising;
mod repeated_names;
mod set_comparison;
mod set_copies;
mod value_lists;
mod windows;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use crate::node_rule::NodeRule;
use bounded_values::BoundValues;
use dependent_subqueries::JoinDependentSubqueries;
use distinct_arguments::SplitDistinctArguments;
use filtered_aggregates::GuardFilteredAggregates;
use grouping_sets::hide_grouping_set_claims;
use intervals::distrust_intervals;
use lazy_logic::{make_logic_lazy, make_projections_lazy};
use null_safe_joins::{KeepFilters, KeepOrder};
use predicate_subqueries::CountSubqueries;
use repeated_names::PushByUniqueNames;
use set_comparison::NameSetComparisons;
use set_copies::NumberCopies;
use value_lists::SeparateLists;
use windows::{ComputeKeys, DropRepeatedKeys};

/// Returns whether an expression of a plan, or a part of one, is such; most plans have nothing to rewrite.
fn any_expression(plan: &LogicalPlan, is_such: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = expr.exists(|part| Ok(is_such(part)))?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })
    })?;
    Ok(found)
}

/// Changes parts of the expressions of a plan, its subqueries included, from the leaves up; `change` is also given the
/// columns that an expression reads. Expressions keep their names.
fn change_parts(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let change_node = |node: LogicalPlan| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| match expr {
            // Its members are read by their names, which they cannot keep within it.
            Expr::GroupingSet(_) => Ok(Transformed::no(expr)),
            expr => {
                let name = names.save(&expr);
                let changed = expr.transform_up(|part| change(part, &schema))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            }
        })?;
        changed.data.recompute_schema().map(Transformed::yes)
    };
    plan.transform_up_with_subqueries(change_node).data()
}

/// Keeps a rule that pushes filters down from columns of repeated names.
pub(crate) fn by_unique_names(
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    Arc::new(PushByUniqueNames(rule))
}

/// Adds the rewrites to a session state: the logical ones after DataFusion's analyzer rules, those of
/// claims and projections before its physical optimizer rules, those of predicates behind them.
pub(crate) fn add_to(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = builder
        .with_analyzer_rule(Arc::new(BoundValues))
        .with_analyzer_rule(Arc::new(SeparateLists))
        .with_analyzer_rule(Arc::new(GuardFilteredAggregates))
        .with_analyzer_rule(Arc::new(NameSetComparisons))
        .with_analyzer_rule(Arc::new(CountSubqueries))
        .with_analyzer_rule(Arc::new(JoinDependentSubqueries))
        .with_analyzer_rule(Arc::new(NumberCopies))
        .with_analyzer_rule(Arc::new(DropRepeatedKeys))
        .with_optimizer_rule(Arc::new(SplitDistinctArguments))
        .with_optimizer_rule(Arc::new(ComputeKeys));
    let logical = builder.optimizer().get_or_insert_default();
    for rule in &mut logical.rules {
        match rule.name() {
            "eliminate_cross_join" => *rule = Arc::new(KeepOrder(Arc::clone(rule))),
            "extract_equijoin_predicate" => *rule = Arc::new(KeepFilters(Arc::clone(rule))),
            _ => {}
        }
    }
    let physical = builder.physical_optimizers().get_or_insert_default();
    for rule in &mut physical.rules {
        if rule.name().starts_with("FilterPushdown") {
            *rule = by_unique_names(Arc::clone(rule));
        }
    }
    let hide = NodeRule("hide_grouping_set_claims", hide_grouping_set_claims);
    physical.rules.insert(0, Arc::new(hide));
    let lazy = NodeRule("make_projections_lazy", make_projections_lazy);
    physical.rules.insert(1, Arc::new(lazy));
    let distrust = NodeRule("distrust_intervals", distrust_intervals);
    physical.rules.insert(2, Arc::new(distrust));
    builder.with_physical_optimizer_rule(Arc::new(NodeRule("make_logic_lazy", make_logic_lazy)))
}
