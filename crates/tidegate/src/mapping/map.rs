//! The plan nodes of `map_partitions`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tidegate_device::panic_text;
use tokio::sync::Semaphore;

use super::MapOptions;
use super::device::{DeviceBody, DeviceShare};
use crate::accounted::returned::ReturnedPlanner;
use crate::error::{Error, ErrorKind};
use crate::files::present::PresentPlanner;
use crate::unary::{UnaryExec, UnaryOperator};

type HostBody = dyn Fn(RecordBatch) -> std::result::Result<RecordBatch, ArrowError> + Send + Sync;

/// What a mapping does.
pub(crate) enum Body {
    Host(Box<HostBody>),
    Device(DeviceBody),
}

/// A closure over batches, with what it takes.
pub(crate) struct Mapping {
    name: String,
    memory_bytes: u64,
    turns: Option<Arc<Semaphore>>,
    body: Body,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("name", &self.name)
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}

impl Mapping {
    pub(crate) fn new(options: MapOptions, body: Body) -> Self {
        Self {
            name: options.name.unwrap_or_else(|| "closure".into()),
            memory_bytes: options.memory_bytes,
            turns: options
                .concurrency
                .map(|most| Arc::new(Semaphore::new(most.max(1)))),
            body,
        }
    }

    /// Maps a batch, once it has its turn and its memory.
    async fn map(
        &self,
        batch: RecordBatch,
        schema: &SchemaRef,
        context: &TaskContext,
        share: &DeviceShare,
    ) -> Result<RecordBatch> {
        let _turn = match &self.turns {
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        };
        let body = match &self.body {
            Body::Host(body) => body,
            Body::Device(body) => {
                let mapped = body.map(&self.name, &batch, schema, self.memory_bytes, share);
                return Ok(mapped.await?);
            }
        };
        let consumer = MemoryConsumer::new(format!("map_partitions({})", self.name));
        let reservation = consumer.register(context.memory_pool());
        reservation.try_grow(usize::try_from(self.memory_bytes).unwrap_or(usize::MAX))?;
        let failed = |why: String| {
            let message = format!("map_partitions({}): {why}", self.name);
            Error::new(ErrorKind::Sql, message)
        };
        let mapped = match catch_unwind(AssertUnwindSafe(|| body(batch))) {
            Ok(mapped) => mapped.map_err(|error| {
                let why = match &error {
                    ArrowError::ExternalError(cause) => cause.to_string(),
                    other => other.to_string(),
                };
                let message = format!("map_partitions({}): {why}", self.name);
                Error::with_source(ErrorKind::Sql, message, error)
            })?,
            Err(panic) => {
                let text = panic_text(&*panic);
                return Err(failed(format!("the closure panicked: {text}")).into());
            }
        };
        let declared = schema.fields().iter().map(|field| field.data_type());
        if !mapped
            .columns()
            .iter()
            .map(|column| column.data_type())
            .eq(declared)
        {
            let given = mapped.schema();
            return Err(failed(format!(
                "the closure gave the columns {given}, and {schema} was declared"
            ))
            .into());
        }
        // The names are the declared ones, and a NULL where none may be is an error.
        RecordBatch::try_new(Arc::clone(schema), mapped.columns().to_vec())
            .map_err(|error| failed(error.to_string()).into())
    }
}

/// `map_partitions` among logical plans.
#[derive(Clone, Debug)]
pub(crate) struct MapPartitions {
    input: LogicalPlan,
    schema: DFSchemaRef,
    mapping: Arc<Mapping>,
}

impl MapPartitions {
    pub(crate) fn new(
        input: LogicalPlan,
        schema: SchemaRef,
        mapping: Mapping,
    ) -> std::result::Result<Self, Error> {
        Ok(Self {
            input,
            schema: Arc::new(DFSchema::try_from(schema)?),
            mapping: Arc::new(mapping),
        })
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.mapping).addr()
    }
}

impl PartialEq for MapPartitions {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address() && self.input == other.input
    }
}

impl Eq for MapPartitions {}

impl PartialOrd for MapPartitions {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.address().cmp(&other.address()) {
            Ordering::Equal => self.input.partial_cmp(&other.input),
            unequal => Some(unequal),
        }
    }
}

impl Hash for MapPartitions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for MapPartitions {
    fn name(&self) -> &str {
        "MapPartitions"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MapPartitions: {}", self.mapping.name)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (true, Ok([input])) = (exprs.is_empty(), <[_; 1]>::try_from(inputs)) else {
            return internal_err!("map_partitions has one input and no expression");
        };
        Ok(Self {
            input,
            ..self.clone()
        })
    }
}

/// Returns the planner of physical plans, which knows the nodes of this crate, and refuses tables of
/// which the files were deleted or emptied.
pub(crate) fn planner() -> PresentPlanner {
    let planners: Vec<Arc<dyn ExtensionPlanner + Send + Sync>> =
        vec![Arc::new(MapPlanner), Arc::new(ReturnedPlanner)];
    PresentPlanner(DefaultPhysicalPlanner::with_extension_planners(planners))
}

/// Returns whether a node of a plan runs a closure of the program.
pub(crate) fn is_mapping(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<UnaryExec<Map>>()
}

#[derive(Debug)]
struct MapPlanner;

#[async_trait]
impl ExtensionPlanner for MapPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(map), [input]) = (node.as_any().downcast_ref::<MapPartitions>(), inputs) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(UnaryExec(Map::new(
            Arc::clone(input),
            Arc::clone(map.schema.inner()),
            Arc::clone(&map.mapping),
        )))))
    }
}

/// `map_partitions` among physical plans.
#[derive(Debug)]
struct Map {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    mapping: Arc<Mapping>,
    properties: Arc<PlanProperties>,
    /// What its streams that run have of the devices together.
    share: Mutex<Weak<DeviceShare>>,
}

impl Map {
    fn new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, mapping: Arc<Mapping>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            schema,
            mapping,
            properties: Arc::new(properties),
            share: Mutex::default(),
        }
    }

    /// Joins the other streams of the same run.
    fn share(&self) -> Arc<DeviceShare> {
        let mut share = self.share.lock();
        share.upgrade().unwrap_or_else(|| {
            let made = Arc::new(match &self.mapping.body {
                Body::Host(_) => DeviceShare::default(),
                Body::Device(body) => body.share(),
            });
            *share = Arc::downgrade(&made);
            made
        })
    }
}

impl UnaryOperator for Map {
    const NAME: &'static str = "MapExec";
    const KEEPS_ORDER: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input, Arc::clone(&self.schema), Arc::clone(&self.mapping))
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn detail(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": {}", self.mapping.name)
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&ctx))?;
        let (mapping, schema) = (Arc::clone(&self.mapping), Arc::clone(&self.schema));
        let share = self.share();
        let mapped = stream::unfold(Some(input), move |input| {
            let (mapping, schema, ctx) =
                (Arc::clone(&mapping), Arc::clone(&schema), Arc::clone(&ctx));
            let share = Arc::clone(&share);
            async move {
                let mut input = input?;
                match input.next().await? {
                    Ok(batch) => match mapping.map(batch, &schema, &ctx, &share).await {
                        Ok(batch) => Some((Ok(batch), Some(input))),
                        Err(error) => Some((Err(error), None)),
                    },
                    Err(error) => Some((Err(error), None)),
                }
            }
        });
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, mapped)))
    }
}
