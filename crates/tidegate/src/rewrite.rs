//! Rewrites of plans that DataFusion would not plan, or would answer otherwise than SQL says.
//!
//! [`filtered_aggregates`] guards arguments of aggregates by their FILTER, [`filtered_frames`] has such over frames merge
//! states. [`intervals`] keeps filters from bounds of columns
//! that are not true. [`grouping_sets`] hides what is not true of the rows of grouping
//! sets from the physical optimizer. [`lazy_logic`] has AND and OR go from left to right.
//! [`set_copies`] counts duplicates in INTERSECT ALL and
//! EXCEPT ALL, [`windows`] mends sort keys. [`null_safe_joins`] and [`repeated_names`] keep two of DataFusion's rules
//! from plans that they would give another meaning. `docs/upstream.md` has a minimal reproduction of each bug.
//! [`predicate_subqueries`] counts the rows of subqueries that cannot be joined, [`dependent_subqueries`] joins those that
//! compare with more than `=`.
//! [`value_lists`] keeps lists of IN apart that the optimizer would join as if there were no NULL.
//! [`calls`] has calls and casts of other meaning. [`column_types`] names types of columns. [`recursion`] refuses recursive
//! queries that read themselves in a value.
//! [`number_types`] brings numbers together without a loss, [`lossy_casts`] keeps casts that the optimizer would take away,
//! [`text_casts`] reads nested values and bytes of text.
//! [`far_dates`] compares dates beyond the years of nanoseconds with timestamps.
//! [`null_partitions`] keeps claims of NULL folders from it.
//! [`date_frames`] has RANGE over dates know of hours. [`empty_subqueries`] has those without a row be NULL.
//! [`self_equalities`] turns `abs(c) = c`, which the physical planner takes for another order.
//! [`time_means`] tells means of times from those of numbers. [`bounded_values`] refuses types of large values. [`exact_sums`] has float sums not depend on the order of rows.
//! [`distinct_pairs`] refuses DISTINCT that would not be obeyed.
//! [`lateral_lists`] unnests lists of a table in its own FROM.
//! [`nested_order`] orders lists, and takes their extremes, with NULL last. [`alike`] casts times of different units to one. [`dictionary_keys`] has joins by dictionaries of integers be joins by integers. [`distinct_arguments`] makes groups where DataFusion would keep sets of values. [`walk`] has what they share.

mod alike;
pub(crate) mod bounded_values;
mod calls;
mod column_types;
mod copied_spans;
mod date_frames;
mod dependent_subqueries;
mod dictionary_keys;
mod distinct_arguments;
pub(crate) mod distinct_pairs;
mod empty_subqueries;
pub(crate) mod exact_sums;
mod far_dates;
mod filtered_aggregates;
mod filtered_frames;
mod grouping_sets;
pub(crate) mod intervals;
mod lateral_lists;
pub(crate) mod lazy_logic;
mod lossy_casts;
mod nested_order;
mod null_partitions;
mod null_safe_joins;
mod number_types;
mod predicate_subqueries;
mod raising;
pub(crate) mod recursion;
mod repeated_names;
mod self_equalities;
mod set_copies;
mod text_casts;
mod time_means;
mod value_lists;
pub(crate) mod walk;
mod windows;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use crate::accounted::changes::change_named_rows;
use crate::node_rule::{LogicalRule, NodeRule, PlanRule};
use alike::cast_alike;
use bounded_values::bound_values;
use calls::rewrite_calls;
use column_types::name_types;
use copied_spans::write_copied_spans;
use date_frames::range_over_dates;
use dependent_subqueries::join_dependent_subqueries;
use dictionary_keys::decode_join_keys;
use distinct_arguments::split_distinct_arguments;
use empty_subqueries::null_of_no_row;
use far_dates::compare_far_dates;
use filtered_aggregates::guard_filtered_aggregates;
use filtered_frames::merge_filtered_frames;
use grouping_sets::hide_grouping_set_claims;
use intervals::distrust_intervals;
use lateral_lists::unnest_beside_rows;
use lazy_logic::{make_logic_lazy, make_projections_lazy};
use lossy_casts::keep_lossy_casts;
use nested_order::order_nested;
use null_partitions::forget_null_partitions;
use null_safe_joins::{Kept, has_null_safe_join, is_null_safe_join};
use number_types::type_numbers;
use predicate_subqueries::count_subqueries;
use repeated_names::PushByUniqueNames;
use self_equalities::turn_self_equalities;
use set_copies::number_copies;
pub(crate) use set_copies::with_number;
use text_casts::read_cast_texts;
use time_means::decide_means;
use value_lists::separate_lists;
use windows::{compute_window_keys, drop_repeated_keys};

/// Keeps a rule that pushes filters down from columns of repeated names.
pub(crate) fn by_unique_names(
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    Arc::new(PushByUniqueNames(rule))
}

/// Adds the rewrites to a session state: the logical ones after DataFusion's analyzer rules, those of
/// claims and projections before its physical optimizer rules, those of predicates behind them.
pub(crate) fn add_to(builder: SessionStateBuilder) -> SessionStateBuilder {
    let guard = PlanRule("guard_filtered_aggregates", guard_filtered_aggregates);
    let join = PlanRule("join_dependent_subqueries", join_dependent_subqueries);
    let spans = PlanRule("write_copied_spans", write_copied_spans);
    let far_dates = PlanRule("compare_far_dates", compare_far_dates);
    let (down, up) = (ApplyOrder::TopDown, ApplyOrder::BottomUp);
    let split = LogicalRule("split_distinct_arguments", down, split_distinct_arguments);
    let keys = LogicalRule("compute_window_keys", up, compute_window_keys);
    let decode = LogicalRule("decode_join_keys", up, decode_join_keys);
    let turn = LogicalRule("turn_self_equalities", up, turn_self_equalities);
    let frames = LogicalRule("merge_filtered_frames", up, merge_filtered_frames);
    let mut builder = builder
        // Before the others: what they put above a scan hides its rows.
        .with_analyzer_rule(Arc::new(PlanRule("change_named_rows", change_named_rows)))
        .with_analyzer_rule(Arc::new(PlanRule("decide_means", decide_means)))
        .with_analyzer_rule(Arc::new(PlanRule("rewrite_calls", rewrite_calls)))
        .with_analyzer_rule(Arc::new(PlanRule("order_nested", order_nested)))
        .with_analyzer_rule(Arc::new(PlanRule("name_types", name_types)))
        .with_analyzer_rule(Arc::new(spans))
        .with_analyzer_rule(Arc::new(PlanRule("null_of_no_row", null_of_no_row)))
        .with_analyzer_rule(Arc::new(PlanRule("unnest_beside_rows", unnest_beside_rows)))
        .with_analyzer_rule(Arc::new(PlanRule("bound_values", bound_values)))
        .with_analyzer_rule(Arc::new(PlanRule("separate_lists", separate_lists)))
        .with_analyzer_rule(Arc::new(PlanRule("keep_lossy_casts", keep_lossy_casts)))
        .with_analyzer_rule(Arc::new(far_dates))
        .with_analyzer_rule(Arc::new(guard))
        .with_analyzer_rule(Arc::new(PlanRule("count_subqueries", count_subqueries)))
        .with_analyzer_rule(Arc::new(join))
        .with_analyzer_rule(Arc::new(PlanRule("number_copies", number_copies)))
        .with_analyzer_rule(Arc::new(PlanRule("drop_repeated_keys", drop_repeated_keys)))
        .with_optimizer_rule(Arc::new(split))
        .with_optimizer_rule(Arc::new(keys))
        .with_optimizer_rule(Arc::new(decode))
        .with_optimizer_rule(Arc::new(turn))
        .with_optimizer_rule(Arc::new(frames));
    let before_types = PlanRule("range_over_dates", range_over_dates);
    let analyzer = builder.analyzer().get_or_insert_default();
    analyzer.rules.insert(0, Arc::new(before_types));
    let numbers = PlanRule("type_numbers", type_numbers);
    analyzer.rules.insert(1, Arc::new(numbers));
    let cast_alike = PlanRule("cast_alike", cast_alike);
    analyzer.rules.insert(0, Arc::new(cast_alike));
    let of_texts = PlanRule("read_cast_texts", read_cast_texts);
    analyzer.rules.insert(0, Arc::new(of_texts));
    let logical = builder.optimizer().get_or_insert_default();
    for rule in &mut logical.rules {
        let from: fn(&LogicalPlan) -> Result<bool> = match rule.name() {
            "eliminate_cross_join" => has_null_safe_join,
            "extract_equijoin_predicate" => is_null_safe_join,
            _ => continue,
        };
        let inner = Arc::clone(rule);
        *rule = Arc::new(Kept { rule: inner, from });
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
    let forget = NodeRule("forget_null_partitions", forget_null_partitions);
    physical.rules.insert(3, Arc::new(forget));
    builder.with_physical_optimizer_rule(Arc::new(NodeRule("make_logic_lazy", make_logic_lazy)))
}
