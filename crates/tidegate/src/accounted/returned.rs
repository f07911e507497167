//! `RETURNING`: the rows that a statement changes, as rows of a query.
//!
//! [`ReturnedRows`] is put above the statement, in the place of the table's scan in `SELECT … FROM t`. What changes the
//! rows keeps them, if they are asked for ([`Kept`]), and they are given once all of them are changed.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session as PlanSession;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchemaRef, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    DmlStatement, Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
    WriteOp,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;

use super::changes::ChangeSink;
use super::{AccountedSink, AccountedTable};
use crate::unary::{UnaryExec, UnaryOperator};

/// The rows that a statement has changed, if they are asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Mutex<Option<Vec<RecordBatch>>>>);

impl Kept {
    pub(super) fn is_asked(&self) -> bool {
        self.0.lock().is_some()
    }

    pub(super) fn keep(&self, rows: Vec<RecordBatch>) {
        if let Some(kept) = self.0.lock().as_mut() {
            kept.extend(rows);
        }
    }

    fn ask(&self) {
        *self.0.lock() = Some(Vec::new());
    }

    fn take(&self) -> Vec<RecordBatch> {
        self.0.lock().take().unwrap_or_default()
    }
}

/// The rows that a statement changes, among logical plans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReturnedRows {
    change: LogicalPlan,
    schema: DFSchemaRef,
}

impl ReturnedRows {
    /// Plans the rows that a statement changes, with the columns of its table.
    pub(crate) fn plan(change: LogicalPlan, schema: DFSchemaRef) -> LogicalPlan {
        let rows = Self { change, schema };
        LogicalPlan::Extension(Extension {
            node: Arc::new(rows),
        })
    }
}

/// Tells whether the rows that a statement changes can be given: they are those of a table in memory.
pub(crate) fn keeps_rows(change: &DmlStatement) -> bool {
    let Ok(table) = source_as_provider(&change.target) else {
        return false;
    };
    match change.op {
        WriteOp::Insert(_) => table.downcast_ref::<AccountedTable>().is_some(),
        WriteOp::Delete | WriteOp::Update => AccountedTable::memory_of(table.as_ref()).is_some(),
        _ => false,
    }
}

/// Tells whether a query gives the rows that a statement changes.
pub(crate) fn returns_rows(plan: &LogicalPlan) -> bool {
    let is_it = |node: &LogicalPlan| {
        Ok(matches!(node, LogicalPlan::Extension(extension)
            if extension.node.as_any().is::<ReturnedRows>()))
    };
    plan.exists(is_it).unwrap_or(true)
}

impl PartialOrd for ReturnedRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.change.partial_cmp(&other.change)
    }
}

impl UserDefinedLogicalNodeCore for ReturnedRows {
    fn name(&self) -> &str {
        "ReturnedRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.change]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReturnedRows")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (true, Ok([change])) = (exprs.is_empty(), <[_; 1]>::try_from(inputs)) else {
            return internal_err!("returned rows have one input and no expression");
        };
        let schema = Arc::clone(&self.schema);
        Ok(Self { change, schema })
    }
}

/// Plans [`ReturnedRows`].
#[derive(Debug)]
pub(crate) struct ReturnedPlanner;

#[async_trait]
impl ExtensionPlanner for ReturnedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn PlanSession,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(rows), [input]) = (node.as_any().downcast_ref::<ReturnedRows>(), inputs) else {
            return Ok(None);
        };
        let Some(kept) = kept_by(input) else {
            return internal_err!("a statement does not keep the rows that it changes");
        };
        kept.ask();
        let schema = Arc::clone(rows.schema.inner());
        let returned = Returned::new(Arc::clone(input), schema, kept);
        Ok(Some(Arc::new(UnaryExec(returned))))
    }
}

/// Returns where a sink keeps the rows that it changes.
fn kept_by(plan: &Arc<dyn ExecutionPlan>) -> Option<Kept> {
    let written = plan.downcast_ref::<DataSinkExec>()?;
    if let Some(added) = written.sink().downcast_ref::<AccountedSink>() {
        return Some(added.kept.clone());
    }
    let changed = written.sink().downcast_ref::<ChangeSink>()?;
    Some(changed.kept.clone())
}

/// The rows that a statement changes, among physical plans.
#[derive(Debug)]
struct Returned {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    kept: Kept,
    properties: Arc<PlanProperties>,
}

impl Returned {
    fn new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, kept: Kept) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            schema,
            kept,
            properties: Arc::new(properties),
        }
    }
}

impl UnaryOperator for Returned {
    const NAME: &'static str = "ReturnedRowsExec";
    const KEEPS_ORDER: bool = false;
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input, Arc::clone(&self.schema), self.kept.clone())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut counts = self.input.execute(partition, ctx)?;
        let (kept, schema) = (self.kept.clone(), Arc::clone(&self.schema));
        let rows = async move {
            while counts.try_next().await?.is_some() {}
            let declared = move |batch: RecordBatch| {
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let columns = batch.columns().to_vec();
                let schema = Arc::clone(&schema);
                let batch = RecordBatch::try_new_with_options(schema, columns, &options);
                batch.map_err(DataFusionError::from)
            };
            let rows = kept.take().into_iter().map(declared);
            Ok::<_, DataFusionError>(stream::iter(rows))
        };
        let rows = stream::once(rows).try_flatten();
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
