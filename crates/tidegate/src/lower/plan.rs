//! Chains of plan nodes to pipelines.
//!
//! The grammar of a chain, from its root down:
//!
//! ```text
//! additive: [Aggregate(Partial)] (Filter | Projection | RoundRobin | Cooperative)* leaf
//! atomic:   (Sort | Merge | Filter | Projection)* Aggregate(Final | Single) exchange* [Aggregate(Partial)] …additive
//! ```
//!
//! where an exchange is a hash repartition, a merge or a coalesce between the two halves of an
//! aggregate. An atomic region may stack several aggregates. The leaf is a node without inputs.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, InputOrderMode, Partitioning,
};
use tidegate_pipeline::{
    Aggregate, AggregateOutput, Expr, NamedExpr, Pipeline, Sort, SortKey, Step,
};

use super::aggregate::lower_call;
use super::expr::ExprLowering;
use super::{Binding, Reasons};
use crate::rewrite::intervals::without_marks;
use crate::rewrite::lazy_logic::LazyLogic;

/// A chain in the IR, and the leaf that it reads.
#[derive(Clone, Debug)]
pub(crate) struct Lowered {
    pub(crate) pipeline: Pipeline,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) leaf: Arc<dyn ExecutionPlan>,
}

/// Lowers an additive region with this root.
pub(crate) fn lower_additive(root: &Arc<dyn ExecutionPlan>) -> Result<Lowered, Reasons> {
    lower(root, false)
}

/// Lowers an atomic region with this root; a region without an aggregate is no atomic region.
pub(crate) fn lower_atomic(root: &Arc<dyn ExecutionPlan>) -> Result<Lowered, Reasons> {
    lower(root, true)
}

fn lower(root: &Arc<dyn ExecutionPlan>, atomic: bool) -> Result<Lowered, Reasons> {
    let mut chain = Chain {
        exprs: ExprLowering::default(),
        atomic,
        bounds: Vec::new(),
        below_aggregate: false,
    };
    let lowered = chain.lower(root);
    let ExprLowering {
        parameters,
        bindings,
        mut reasons,
    } = chain.exprs;
    let Some((steps, leaf)) = lowered else {
        return Err(reasons);
    };
    let pipeline = Pipeline {
        input: leaf.schema(),
        parameters,
        steps,
        output: root.schema(),
    };
    reasons.keep(pipeline.validate());
    if reasons.is_empty() {
        Ok(Lowered {
            pipeline,
            bindings,
            leaf,
        })
    } else {
        Err(reasons)
    }
}

struct Chain {
    exprs: ExprLowering,
    atomic: bool,
    /// Dynamic filters that aggregates of the chain feed.
    bounds: Vec<u64>,
    /// An aggregate stands above, so that the order and partitioning of rows no longer matter.
    below_aggregate: bool,
}

type Steps = (Vec<Step>, Arc<dyn ExecutionPlan>);

impl Chain {
    /// Lowers a node and what is below it; goes on after a failure to gather all reasons.
    fn lower(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Option<Steps> {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(aggregate);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return self.filter(filter);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let step = self.projection(projection);
            let (mut steps, leaf) = self.lower(projection.input())?;
            steps.push(step?);
            return Some((steps, leaf));
        }
        if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
            return self.lower(cooperative.input());
        }
        if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
            return self.repartition(exchange);
        }
        if self.atomic && !self.below_aggregate {
            if let Some(sort) = plan.downcast_ref::<SortExec>() {
                return self.sort(sort);
            }
            if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
                return self.merge(merge);
            }
        }
        if self.atomic
            && let Some(merge) = plan.downcast_ref::<CoalescePartitionsExec>()
        {
            if merge.fetch().is_some() {
                self.exprs.reasons.push("LIMIT inside the region");
            }
            return self.lower(merge.input());
        }
        self.leaf(plan)
    }

    fn leaf(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Option<Steps> {
        if !plan.children().is_empty() {
            self.exprs.reasons.push(format!(
                "its input is {}, and a region begins with a scan",
                plan.name()
            ));
            return None;
        }
        if plan.fetch().is_some() {
            self.exprs.reasons.push("LIMIT inside the region");
        }
        if self.reads_own_bound(plan) {
            // A replay would prune by the bound that the first run left behind.
            self.exprs
                .reasons
                .push("an aggregate that feeds its scan's dynamic filter");
        }
        Some((Vec::new(), Arc::clone(plan)))
    }

    /// Returns whether the leaf filters by what an aggregate of this chain has seen.
    fn reads_own_bound(&self, leaf: &Arc<dyn ExecutionPlan>) -> bool {
        let mut found = false;
        let walked = leaf.apply_expressions(&mut |expr| {
            expr.apply(|node| {
                found |= node
                    .expression_id()
                    .is_some_and(|id| self.bounds.contains(&id));
                Ok(TreeNodeRecursion::Continue)
            })
        });
        found || walked.is_err()
    }

    fn filter(&mut self, filter: &FilterExec) -> Option<Steps> {
        if filter.fetch().is_some() {
            self.exprs.reasons.push("LIMIT inside the region");
        }
        let input = filter.input().schema();
        let (predicate, below) = conditions(filter);
        let predicate = self.exprs.lower(&predicate, &input);
        let projection = match filter.projection() {
            Some(columns) => self.columns(columns, &input).map(Some),
            None => Some(None),
        };
        let (mut steps, leaf) = self.lower(below)?;
        steps.push(Step::Filter(predicate?));
        steps.extend(projection?);
        Some((steps, leaf))
    }

    fn columns(&mut self, columns: &[usize], input: &Schema) -> Option<Step> {
        let column = |&index: &usize| {
            let field = input.field(index);
            let expr = Expr::column(index, field.data_type().clone());
            let expr = self.exprs.reasons.keep(expr)?;
            Some(NamedExpr {
                expr,
                name: field.name().clone(),
            })
        };
        let lowered: Vec<Option<NamedExpr>> = columns.iter().map(column).collect();
        lowered
            .into_iter()
            .collect::<Option<_>>()
            .map(Step::Project)
    }

    fn projection(&mut self, projection: &ProjectionExec) -> Option<Step> {
        let input = projection.input().schema();
        let lowered: Vec<Option<NamedExpr>> = projection
            .expr()
            .iter()
            .map(|named| {
                let expr = self.exprs.lower(&named.expr, &input)?;
                Some(NamedExpr {
                    expr,
                    name: named.alias.clone(),
                })
            })
            .collect();
        lowered
            .into_iter()
            .collect::<Option<_>>()
            .map(Step::Project)
    }

    fn repartition(&mut self, exchange: &RepartitionExec) -> Option<Steps> {
        if exchange.preserve_order() {
            self.exprs.reasons.push("a repartition that keeps an order");
        }
        let allowed = match exchange.partitioning() {
            Partitioning::RoundRobinBatch(_) => true,
            Partitioning::Hash(..) => self.atomic,
            _ => false,
        };
        if !allowed {
            self.exprs
                .reasons
                .push(format!("RepartitionExec({})", exchange.partitioning()));
        }
        self.lower(exchange.input())
    }

    fn sort(&mut self, sort: &SortExec) -> Option<Steps> {
        let keys = self.sort_keys(sort.expr().iter(), &sort.input().schema());
        let (mut steps, leaf) = self.lower(sort.input())?;
        steps.push(Step::Sort(Sort {
            keys: keys?,
            fetch: sort.fetch(),
        }));
        Some((steps, leaf))
    }

    /// A merge of sorted partitions is a sort of the whole. A sort below it, with nothing but projections in
    /// between, has sorted the whole already: only the fetch of the merge is left to do.
    fn merge(&mut self, merge: &SortPreservingMergeExec) -> Option<Steps> {
        let keys = self.sort_keys(merge.expr().iter(), &merge.input().schema());
        let (mut steps, leaf) = self.lower(merge.input())?;
        let keys = keys?;
        let below = steps
            .iter_mut()
            .rev()
            .find(|step| !matches!(step, Step::Project(_)));
        match below {
            Some(Step::Sort(sort)) => sort.fetch = merge.fetch().or(sort.fetch),
            _ => steps.push(Step::Sort(Sort {
                keys,
                fetch: merge.fetch(),
            })),
        }
        Some((steps, leaf))
    }

    fn sort_keys<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a datafusion::physical_expr::PhysicalSortExpr>,
        input: &Schema,
    ) -> Option<Vec<SortKey>> {
        let lowered: Vec<Option<SortKey>> = keys
            .map(|key| {
                let expr = self.exprs.lower_operand(&key.expr, input)?;
                let (descending, nulls_first) = (key.options.descending, key.options.nulls_first);
                Some(SortKey {
                    expr,
                    descending,
                    nulls_first,
                })
            })
            .collect();
        lowered.into_iter().collect()
    }

    fn aggregate(&mut self, aggregate: &AggregateExec) -> Option<Steps> {
        match aggregate.mode() {
            AggregateMode::Partial if !self.atomic => {
                self.grouping(aggregate, AggregateOutput::State)
            }
            AggregateMode::Single | AggregateMode::SinglePartitioned if self.atomic => {
                self.grouping(aggregate, AggregateOutput::Value)
            }
            AggregateMode::Final | AggregateMode::FinalPartitioned if self.atomic => {
                let partial = find_partial(aggregate.input());
                match partial
                    .as_ref()
                    .and_then(|plan| plan.downcast_ref::<AggregateExec>())
                {
                    Some(partial) => self.grouping(partial, AggregateOutput::Value),
                    None => {
                        self.exprs
                            .reasons
                            .push("a final aggregate without its partial one");
                        None
                    }
                }
            }
            mode => {
                self.exprs
                    .reasons
                    .push(format!("aggregate in mode {mode:?}"));
                None
            }
        }
    }

    fn grouping(&mut self, aggregate: &AggregateExec, output: AggregateOutput) -> Option<Steps> {
        self.below_aggregate = true;
        self.refuse_special_aggregates(aggregate);
        let input = aggregate.input().schema();
        let keys: Vec<Option<NamedExpr>> = aggregate
            .group_expr()
            .expr()
            .iter()
            .map(|(expr, name)| {
                let expr = self.exprs.lower_operand(expr, &input)?;
                Some(NamedExpr {
                    expr,
                    name: name.clone(),
                })
            })
            .collect();
        let filters = aggregate.filter_expr();
        let calls: Vec<_> = aggregate
            .aggr_expr()
            .iter()
            .zip(filters)
            .map(|(call, filter)| lower_call(&mut self.exprs, call, filter.as_ref(), &input))
            .collect();
        let (mut steps, leaf) = self.lower(aggregate.input())?;
        let keys = keys.into_iter().collect::<Option<_>>()?;
        let calls = calls.into_iter().collect::<Option<_>>()?;
        steps.push(Step::Aggregate(Aggregate {
            keys,
            calls,
            output,
        }));
        Some((steps, leaf))
    }

    fn refuse_special_aggregates(&mut self, aggregate: &AggregateExec) {
        let reasons = &mut self.exprs.reasons;
        if aggregate.group_expr().has_grouping_set()
            || !aggregate.group_expr().null_expr().is_empty()
        {
            reasons.push("GROUPING SETS");
        }
        if *aggregate.input_order_mode() != InputOrderMode::Linear {
            reasons.push("an aggregate over ordered input");
        }
        let produced = aggregate.dynamic_expressions_produced();
        self.bounds
            .extend(produced.iter().filter_map(|expr| expr.expression_id()));
    }
}

/// Returns the condition of a filter and those of filters right below it, from the lowest up, and what they read.
fn conditions(filter: &FilterExec) -> (Arc<dyn PhysicalExpr>, &Arc<dyn ExecutionPlan>) {
    let predicate = without_marks(filter.predicate());
    match filter.input().downcast_ref::<FilterExec>() {
        Some(below) if below.projection().is_none() && below.fetch().is_none() => {
            let (first, input) = conditions(below);
            (LazyLogic::and(first, predicate), input)
        }
        _ => (predicate, filter.input()),
    }
}

/// Finds the partial half of a final aggregate through the exchanges between them.
fn find_partial(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return (*aggregate.mode() == AggregateMode::Partial).then(|| Arc::clone(plan));
    }
    let passes = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<SortPreservingMergeExec>();
    match plan.children().as_slice() {
        [input] if passes && plan.fetch().is_none() => find_partial(input),
        _ => None,
    }
}

/// Returns why a region with this root must not reorder or repartition its rows, if so.
pub(crate) fn claims_order(root: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    if root.output_ordering().is_some() {
        return Some("the region claims an order");
    }
    match root.output_partitioning() {
        Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_) => None,
        _ => Some("the region claims a partitioning by value"),
    }
}

/// Reduces a list of expressions to column indices, if they are nothing else.
pub(crate) fn plain_columns<'a>(
    exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
) -> Option<Vec<usize>> {
    exprs
        .map(|expr| expr.downcast_ref::<Column>().map(Column::index))
        .collect()
}
