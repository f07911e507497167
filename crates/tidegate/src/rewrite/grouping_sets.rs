//! What a plan claims of the rows of grouping sets.
//!
//! A grouping set replaces keys by NULL. DataFusion's aggregate passes on what holds of its input's
//! keys nevertheless: that a key is constant, equals another one, or has an order. Believing that, its
//! optimizer drops sort keys, and a final aggregate emits a group as soon as the "ordered" key changes,
//! so that groups come twice. [`GroupingSetsExec`] stands above such an aggregate and claims nothing.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    Partitioning, PlanProperties, ReplaceChildrenOptions,
};

use crate::node_rule::Replaced;

/// Puts a [`GroupingSetsExec`] above an aggregate that computes grouping sets. Must come before the rules
/// that believe what a plan claims.
pub(super) fn hide_grouping_set_claims(
    node: &Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Replaced {
    let computes_sets = node
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| aggregate.group_expr().has_grouping_set());
    Ok(match computes_sets {
        true => Some(Arc::new(GroupingSetsExec::new(Arc::clone(node)))),
        false => None,
    })
}

/// Passes the rows of grouping sets on and claims nothing of them.
#[derive(Debug)]
struct GroupingSetsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GroupingSetsExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let num_partitions = input.output_partitioning().partition_count();
        let of_input = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(num_partitions),
            of_input.emission_type,
            of_input.boundedness,
        )
        .with_evaluation_type(of_input.evaluation_type)
        .with_scheduling_type(of_input.scheduling_type);
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for GroupingSetsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupingSetsExec")
    }
}

impl ExecutionPlan for GroupingSetsExec {
    fn name(&self) -> &str {
        "GroupingSetsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input))),
            Err(_) => internal_err!("GroupingSetsExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, ctx)
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input_stats {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("GroupingSetsExec has one input"),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
