//! The fast path of a prepared statement: past planning, to the device that holds its table.
//!
//! What is kept is a program whose parameters are the statement's, the device, and the table that the
//! device holds. It is good while nothing has changed that the statement depends on; otherwise it is
//! stale and made anew, or the statement is planned as any other.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session as CatalogSession;
use datafusion::common::ScalarValue;
use datafusion::physical_planner::PhysicalPlanner;
use futures::FutureExt;
use parking_lot::Mutex;
use tidegate_scheduler::{
    AdmissionRequest, CachedTable, Choice, MorselLoader, Reason, RegionCounters, ResidentFailure,
    ResidentScan, RunFailure, ScanKey, ShapeKey,
};

use super::Planned;
use crate::clients::Client;
use crate::error::Error;
use crate::lower::parameter::{are_parameters, bind_values, symbolic};
use crate::mapping::planner;
use crate::options::TidegateOptions;
use crate::query::{
    Asked, CancelHandle, History, Record, Regions, Snapshot, cancelled, flatten_panic,
    on_large_stack, refused,
};
use crate::region::{PipelineExec, Program, Region, failure, host_partitions};
use crate::session::Session;
use crate::session::cache::within;
use crate::session::dependencies::Dependencies;
use crate::session::plan_cache::state_for;

/// The fast path of a statement, if it has one.
#[derive(Debug, Default)]
pub(super) struct FastPath(Mutex<Entry>);

#[derive(Debug, Default)]
enum Entry {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// There was none, with the tables that were on devices at this version of the column cache.
    None(u64),
    Some(Arc<DevicePlan>),
}

/// All that it takes to run a statement on a device without planning it.
#[derive(Debug)]
struct DevicePlan {
    snapshot: Snapshot,
    /// The columns of the table that the program reads.
    columns: Vec<usize>,
    program: Program,
    shape: ShapeKey,
    region: Arc<Region>,
    reason: Reason,
    /// What tells whether the table's files are what they were.
    files: Option<Arc<dyn MorselLoader>>,
    table: Weak<CachedTable>,
    timeout: Option<Duration>,
    /// The values that came last, with the program that has them.
    bound: Mutex<Option<(Vec<ScalarValue>, Program)>>,
}

/// Runs the statement on the device that holds its table; `None` if it must be planned.
pub(super) async fn answer(
    session: &Session,
    statement: &Planned,
    text: &Arc<str>,
    values: &[ScalarValue],
) -> Result<Option<Vec<RecordBatch>>, Error> {
    // Whether there is one is looked up twice at the most: what was kept may be stale.
    for _ in 0..2 {
        let Some(plan) = find(session, statement).await else {
            return Ok(None);
        };
        if let Some(scan) = plan.scan(session) {
            let Ok(program) = plan.bind(values) else {
                // As planned it raises the same, or it does not.
                return Ok(None);
            };
            match run(session, (statement, &plan), scan, program, text).await? {
                Outcome::Rows(rows) => return Ok(Some(rows)),
                Outcome::ToBePlanned => return Ok(None),
                Outcome::Stale => {}
            }
        }
        statement.fast_path.forget(&plan);
    }
    Ok(None)
}

/// What came of a run.
enum Outcome {
    Rows(Vec<RecordBatch>),
    /// The device does not answer this time.
    ToBePlanned,
    /// Something has changed that the statement depends on.
    Stale,
}

async fn find(session: &Session, statement: &Planned) -> Option<Arc<DevicePlan>> {
    let cache = session.runtime.cache();
    let version = cache.version();
    if cache.is_empty() {
        return None;
    }
    match &*statement.fast_path.0.lock() {
        Entry::Some(plan) => return Some(Arc::clone(plan)),
        Entry::None(before) if *before == version => return None,
        Entry::None(_) | Entry::Unknown => {}
    }
    let made = on_large_stack(DevicePlan::make(session, statement)).await;
    let made = made.map(Arc::new);
    *statement.fast_path.0.lock() = match &made {
        Some(plan) => Entry::Some(Arc::clone(plan)),
        None => Entry::None(version),
    };
    made
}

impl FastPath {
    fn forget(&self, plan: &Arc<DevicePlan>) {
        let mut entry = self.0.lock();
        if matches!(&*entry, Entry::Some(kept) if Arc::ptr_eq(kept, plan)) {
            *entry = Entry::Unknown;
        }
    }
}

impl DevicePlan {
    /// Plans the statement with parameters that have no value yet; `None` if a device does not
    /// answer all of it from a table that it holds.
    async fn make(session: &Session, statement: &Planned) -> Option<Self> {
        let types = statement.types.iter().cloned();
        let types = types.collect::<Option<Vec<DataType>>>()?;
        let snapshot = Snapshot::of(&statement.plan)?;
        let dependencies = &statement.dependencies;
        if !dependencies.are_all_of(&snapshot) {
            return None;
        }
        let state = session.ctx.state();
        let optimized = state.optimize(&statement.plan).ok()?;
        let expected: Vec<String> = names_of(optimized.schema().as_arrow());
        let symbolic = symbolic(optimized, &types).ok()?;
        let planner = planner();
        let plan = planner.create_physical_plan(&symbolic, &state).await.ok()?;
        // A column may be called after the parameters that it is computed of.
        if names_of(&plan.schema()) != expected {
            return None;
        }
        let (region, leaf) = plan.downcast_ref::<PipelineExec>()?.atomic_region()?;
        let program = region.program.clone()?;
        if !are_parameters(&program.bindings) {
            return None;
        }
        let Choice::Always(reason) = &region.choice else {
            return None;
        };
        let reads_all_of = |scan: &ScanKey| leaf.reads_all_of(scan);
        let device = region.devices.first()?.info().id;
        let cache = session.runtime.cache();
        let resident = ResidentScan::find(cache, device, &program.pipeline, &reads_all_of)?;
        let files = match snapshot.is_of_files() {
            true => Some(leaf.loader(&state.task_ctx()).ok()?),
            false => None,
        };
        Some(Self {
            snapshot,
            files,
            columns: leaf.scan_key()?.columns().to_vec(),
            shape: ShapeKey::of(&program.pipeline),
            region: Arc::clone(region),
            reason: reason.clone(),
            table: Arc::downgrade(&resident.table),
            timeout: TidegateOptions::of(dependencies.options()).statement_timeout,
            program,
            bound: Mutex::default(),
        })
    }

    /// Returns what the device folds, if all is as it was of what is told at once.
    fn scan(&self, session: &Session) -> Option<ResidentScan> {
        let table = self.table.upgrade()?;
        let is_lost = self.region.devices.iter().any(|device| device.is_lost());
        if is_lost || !session.runtime.cache().holds(&table) {
            return None;
        }
        let reads_all_of = |scan: &ScanKey| scan.positions(&self.columns);
        ResidentScan::of(table, &reads_all_of)
    }

    /// Returns whether the name of the table still stands for the rows that the device folds.
    async fn is_current(
        &self,
        session: &Session,
        dependencies: &Dependencies,
        scan: &ResidentScan,
    ) -> bool {
        if !dependencies.hold(&session.ctx).await {
            return false;
        }
        let Some(rows) = scan.table.scan() else {
            return false;
        };
        let state = state_for(session, &self.snapshot);
        let state = state.as_ref().map(|state| state as &dyn CatalogSession);
        if !self
            .snapshot
            .has_the_rows_of(rows, &self.columns, state)
            .await
        {
            return false;
        }
        match &self.files {
            Some(files) => files.is_as_planned().await.is_ok_and(|same| same),
            None => true,
        }
    }

    fn bind(&self, values: &[ScalarValue]) -> datafusion::error::Result<Program> {
        if let Some((bound, program)) = &*self.bound.lock()
            && bound.as_slice() == values
        {
            return Ok(program.clone());
        }
        let Program { pipeline, bindings } = &self.program;
        let program = Program {
            pipeline: bind_values(pipeline, bindings, values)?,
            bindings: Vec::new(),
        };
        *self.bound.lock() = Some((values.to_vec(), program.clone()));
        Ok(program)
    }
}

fn names_of(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter();
    fields.map(|field| field.name().clone()).collect()
}

/// Runs a program over a resident scan, in the books of the session's history.
async fn run(
    session: &Session,
    (statement, plan): (&Planned, &DevicePlan),
    scan: ResidentScan,
    program: Program,
    text: &Arc<str>,
) -> Result<Outcome, Error> {
    let Some(device) = plan.region.devices.first() else {
        return Ok(Outcome::ToBePlanned);
    };
    let dispatch = session.runtime.dispatch();
    let pipeline = Arc::clone(&program.pipeline);
    let is_free = plan.reason == Reason::Resident;
    let shaped = (&pipeline, plan.shape);
    if is_free && scan.is_left_to_host(dispatch, shaped, device, host_partitions()) {
        return Ok(Outcome::ToBePlanned);
    }
    let counters = Arc::new(RegionCounters::default());
    let region = Arc::new(Region {
        program: Some(program),
        counters: Arc::clone(&counters),
        planned_in: Duration::ZERO,
        ..Region::clone(&plan.region)
    });
    let history = History::of(&session.runtime);
    let client = Client::of(&session.ctx.copied_config());
    let is_client = client.is_some();
    let asked = Asked {
        sql: Some(Arc::clone(text)),
        owner: client.map(|client| client.asks()),
        cancel: CancelHandle::default(),
    };
    let record = history.planned(asked, Duration::ZERO, None);
    record.begin(1);
    let guard = Guard {
        record: Some(Arc::clone(&record)),
        region: Arc::clone(&region),
    };
    let work = async {
        // Whether the rows are still those of the table is found out while the device folds them.
        let begun = scan.begin(device, pipeline)?;
        if !plan
            .is_current(session, &statement.dependencies, &scan)
            .await
        {
            return Ok(None);
        }
        let reason = plan.reason.clone();
        begun.end(dispatch, &counters, reason).await.map(Some)
    };
    let caught = AssertUnwindSafe(work).catch_unwind();
    // Whoever serves a client has entered for it.
    let _permit = match is_client {
        true => None,
        false => {
            let request = AdmissionRequest {
                priority: TidegateOptions::of(statement.dependencies.options()).priority,
                expected_bytes: 0,
            };
            let admitted = session.runtime.admission().admit(request);
            Some(admitted.await.map_err(refused)?)
        }
    };
    let answered = within(plan.timeout, async {
        tokio::select! {
            caught = caught => Ok(caught),
            () = record.cancel().cancelled() => Err(cancelled()),
        }
    })
    .await;
    let answered = answered.and_then(|caught| Ok(flatten_panic(caught.map(Ok))?));
    let ended = || Regions::Only(region);
    let error = match answered {
        Ok(Ok(Some(rows))) => {
            record.count(rows.iter().map(RecordBatch::num_rows).sum());
            guard.disarm();
            record.end_stream(ended);
            return Ok(Outcome::Rows(rows));
        }
        Ok(Ok(None)) => {
            guard.disarm();
            history.forget(&record);
            return Ok(Outcome::Stale);
        }
        // A plan has a host's half, which raises with the values.
        Ok(Err(ResidentFailure::Eval(error))) if error.is_arithmetic() => {
            guard.disarm();
            history.forget(&record);
            return Ok(Outcome::ToBePlanned);
        }
        Ok(Err(ResidentFailure::Eval(error))) => Error::from(failure(RunFailure::Eval(error))),
        // The plan decides what becomes of it, and keeps the books.
        Ok(Err(ResidentFailure::NotAsStored | ResidentFailure::Device(_))) => {
            guard.disarm();
            history.forget(&record);
            return Ok(Outcome::ToBePlanned);
        }
        Err(error) => error,
    };
    guard.disarm();
    record.fail(error.clone(), ended);
    Err(error)
}

/// Writes a statement down as cancelled that is dropped before its end.
struct Guard {
    record: Option<Arc<Record>>,
    region: Arc<Region>,
}

impl Guard {
    fn disarm(mut self) {
        self.record = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record.drop_stream(|| Regions::Only(Arc::clone(&self.region)));
        }
    }
}
