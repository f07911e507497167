//! Keeps filters from columns that have another one's name.
//!
//! DataFusion pushes filters down by the names of columns: over rows with two columns `s`, a filter of the second one
//! becomes one of the first. While a rule pushes filters, such rows are behind a [`Gate`] that turns back what
//! reads a column of a repeated name.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// A rule that pushes filters down, kept from columns of repeated names.
#[derive(Debug)]
pub(super) struct PushByUniqueNames(pub(super) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for PushByUniqueNames {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        without_gates(self.0.optimize(with_gates(plan)?, config)?)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        without_gates(self.0.optimize_with_context(with_gates(plan)?, context)?)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn with_gates(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let schema = node.schema();
        // A filter of the rows may be taken in above the input, by its names.
        let mut names = repeated(&schema);
        for input in node.children() {
            names.extend(repeated(&input.schema()));
        }
        let unique: HashSet<usize> = schema
            .fields()
            .iter()
            .enumerate()
            .filter_map(|(index, field)| (!names.contains(field.name())).then_some(index))
            .collect();
        Ok(match unique.len() == schema.fields().len() {
            true => Transformed::no(node),
            false => Transformed::yes(Arc::new(Gate {
                input: node,
                unique: Arc::new(unique),
            })),
        })
    })
    .data()
}

fn without_gates(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_down(|node| {
        Ok(match node.downcast_ref::<Gate>() {
            Some(gate) => Transformed::yes(Arc::clone(&gate.input)),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// Returns the names that several columns have.
fn repeated(schema: &Schema) -> HashSet<String> {
    let mut names = HashSet::new();
    let columns = schema.fields().iter();
    let again = columns.filter(|field| !names.insert(field.name().as_str()));
    again.map(|field| field.name().clone()).collect()
}

/// Rows of which some columns share a name, or those below them.
#[derive(Debug)]
struct Gate {
    input: Arc<dyn ExecutionPlan>,
    /// The columns that do not.
    unique: Arc<HashSet<usize>>,
}

impl DisplayAs for Gate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Gate {
    fn name(&self) -> &str {
        "Gate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self {
                input,
                unique: Arc::clone(&self.unique),
            })),
            Err(_) => internal_err!("Gate has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, ctx)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let unique = self.unique.as_ref().clone();
        let child =
            ChildFilterDescription::from_child_with_allowed_indices(&filters, unique, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }
}
