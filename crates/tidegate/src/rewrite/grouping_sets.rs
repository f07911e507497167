//! What a plan claims of the rows of grouping sets.
//!
//! A grouping set replaces keys by NULL. DataFusion's aggregate passes on what holds of its input's
//! keys nevertheless: that a key is constant, equals another one, or has an order. Believing that, its
//! optimizer drops sort keys, and a final aggregate emits a group as soon as the "ordered" key changes,
//! so that groups come twice. [`GroupingSets`] stands above such an aggregate and claims nothing.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use crate::node_rule::Replaced;
use crate::unary::{UnaryExec, UnaryOperator};

/// Puts a [`GroupingSets`] above an aggregate that computes grouping sets. Must come before the rules
/// that believe what a plan claims.
pub(super) fn hide_grouping_set_claims(
    node: &Arc<dyn ExecutionPlan>,
    _: &ConfigOptions,
) -> Replaced {
    let computes_sets = node
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| aggregate.group_expr().has_grouping_set());
    Ok(match computes_sets {
        true => Some(Arc::new(UnaryExec(GroupingSets::new(Arc::clone(node))))),
        false => None,
    })
}

/// Passes the rows of grouping sets on and claims nothing of them.
#[derive(Debug)]
struct GroupingSets {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GroupingSets {
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

impl UnaryOperator for GroupingSets {
    const NAME: &'static str = "GroupingSetsExec";
    const KEEPS_ORDER: bool = false;
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
}
