//! Admission of a statement: its permit of the gate, and its part of the memory.
//!
//! A statement is admitted with its first stream that is polled and leaves with the last one that ends. One
//! that reads only a few rows of memory, such as a system table or the answer of SET, does not wait:
//! it is how people find out why others wait.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use datafusion::common::stats::Precision;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use futures_timer::Delay;
use tidegate_scheduler::{
    AdmissionError, AdmissionGate, AdmissionRequest, Permit, Rates, ShapeKey,
};
use tokio::sync::Mutex;

use super::history::Record;
use crate::error::{Error, ErrorKind};
use crate::memory::QueryPool;
use crate::options::TidegateOptions;
use crate::region::PipelineExec;
use crate::runtime::Runtime;
use crate::task_context::copied_context;

/// Rows of memory that a statement may read without waiting.
const ROWS_OF_A_LOOK: usize = 4096;

/// How often, and how many times, it is checked whether a dropped plan has released its memory.
const RELEASE_LOOK_EVERY: Duration = Duration::from_millis(2);
const RELEASE_LOOKS: usize = 1000;

/// How a statement is admitted.
#[derive(Debug)]
pub(super) struct Admission {
    gate: Arc<AdmissionGate>,
    rates: Arc<Rates>,
    /// It was admitted elsewhere, or only reads a few rows of memory.
    is_admitted: bool,
    request: AdmissionRequest,
    shape: Option<ShapeKey>,
    memory_limit: Option<u64>,
    /// Its operators hold memory that is worth counting.
    counts_memory: bool,
    admitted: Mutex<Weak<Admitted>>,
}

/// A statement that was admitted; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) ctx: Arc<TaskContext>,
    pool: Option<Arc<QueryPool>>,
    record: Arc<Record>,
    rates: Arc<Rates>,
    shape: Option<ShapeKey>,
    _permit: Option<Permit>,
}

impl Admitted {
    /// Returns a context of the statement's with its own memory pool.
    pub(super) fn in_own_pool(&self, ctx: &Arc<TaskContext>) -> Arc<TaskContext> {
        match &self.pool {
            Some(pool) => with_pool(ctx, &ctx.runtime_env(), pool),
            None => Arc::clone(ctx),
        }
    }

    /// Waits, for a bounded time, until the statement's operators have released their memory.
    pub(super) async fn holds_nothing(&self) {
        let Some(pool) = &self.pool else {
            return;
        };
        for _ in 0..RELEASE_LOOKS {
            if pool.used() == 0 {
                return;
            }
            Delay::new(RELEASE_LOOK_EVERY).await;
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else {
            return;
        };
        self.record.held(pool.peak());
        if let Some(shape) = self.shape {
            self.rates.learn_peak(shape, pool.peak());
        }
    }
}

impl Admission {
    pub(super) fn new(
        runtime: &Runtime,
        plan: &Arc<dyn ExecutionPlan>,
        options: &TidegateOptions,
        is_client: bool,
    ) -> Self {
        let rates = Arc::clone(runtime.dispatch().rates());
        let looks_only = looks_only(plan);
        let region = plan.downcast_ref::<PipelineExec>();
        // What a device answers as a whole has no operators, and would take longer to watch than to
        // run.
        let is_answer = region.is_some_and(|region| region.atomic_region().is_some());
        let limit = options.query_memory_limit;
        let counts_memory = limit.is_some() || !(looks_only || is_answer);
        let shape = counts_memory.then(|| shape(plan)).flatten();
        let most = runtime.admission().limits().expected_bytes_max / 2;
        let expected_bytes = shape.map_or(0, |shape| rates.peak(shape));
        let request = AdmissionRequest {
            priority: options.priority,
            // Operators that spill take all that there is, and would do with less: two always run.
            expected_bytes: expected_bytes.min(most).min(limit.unwrap_or(u64::MAX)),
        };
        Self {
            gate: Arc::clone(runtime.admission()),
            rates,
            is_admitted: is_client || looks_only,
            request,
            shape,
            memory_limit: limit,
            counts_memory,
            admitted: Mutex::default(),
        }
    }

    /// Waits until the statement is admitted; later streams enter at once.
    pub(super) async fn enter(
        &self,
        ctx: &Arc<TaskContext>,
        record: &Arc<Record>,
    ) -> Result<Arc<Admitted>, Error> {
        let mut known = self.admitted.lock().await;
        if let Some(admitted) = known.upgrade() {
            return Ok(admitted);
        }
        let mut permit = None;
        if !self.is_admitted {
            let began = Instant::now();
            let permitted = self.gate.admit(self.request).await;
            record.waited(began.elapsed());
            permit = Some(permitted.map_err(refused)?);
        }
        let mut pool = None;
        let mut own = Arc::clone(ctx);
        if self.counts_memory {
            let environment = ctx.runtime_env();
            let counting = QueryPool::new(&environment.memory_pool, self.memory_limit);
            own = with_pool(ctx, &environment, &counting);
            pool = Some(counting);
        }
        let admitted = Arc::new(Admitted {
            ctx: own,
            pool,
            record: Arc::clone(record),
            rates: Arc::clone(&self.rates),
            shape: self.shape,
            _permit: permit,
        });
        *known = Arc::downgrade(&admitted);
        Ok(admitted)
    }
}

/// Describes why a statement was not admitted.
pub(crate) fn refused(refused: AdmissionError) -> Error {
    Error::with_source(ErrorKind::ResourcesExhausted, refused.to_string(), refused)
}

/// Returns the context with another memory pool.
fn with_pool(
    ctx: &Arc<TaskContext>,
    environment: &Arc<RuntimeEnv>,
    pool: &Arc<QueryPool>,
) -> Arc<TaskContext> {
    let environment = RuntimeEnv {
        memory_pool: Arc::clone(pool) as _,
        ..environment.as_ref().clone()
    };
    Arc::new(copied_context(ctx).with_runtime(Arc::new(environment)))
}

/// Returns whether a plan reads nothing but some rows of memory.
fn looks_only(plan: &Arc<dyn ExecutionPlan>) -> bool {
    fn rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        let children = plan.children();
        if !children.is_empty() {
            return children.into_iter().map(rows).sum();
        }
        if plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() {
            return Some(1);
        }
        let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
        source.downcast_ref::<MemorySourceConfig>()?;
        match source.partition_statistics(None).ok()?.num_rows {
            Precision::Exact(rows) => Some(rows),
            _ => None,
        }
    }
    rows(plan).is_some_and(|rows| rows <= ROWS_OF_A_LOOK)
}

/// Names what a plan does by its first region's program; `None` if none of it is said in one.
fn shape(plan: &Arc<dyn ExecutionPlan>) -> Option<ShapeKey> {
    let region = plan.downcast_ref::<PipelineExec>();
    let program = region.and_then(PipelineExec::program);
    let own = program.map(|program| ShapeKey::of(&program.pipeline));
    own.or_else(|| plan.children().into_iter().find_map(shape))
}
