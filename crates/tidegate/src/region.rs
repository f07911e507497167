//! Regions: the parts of a plan for which a [`PipelineExec`] stands.
//!
//! [`exec`] is the plan node; [`mixed`] runs an additive region on host and devices at once;
//! [`atomic`] lets one device answer all of a region; [`chain`] rebuilds a host chain over another
//! leaf; [`host`] runs the host's half as a row program; [`coalesce`] puts small batches together; [`promote`] brings what is read often to devices, [`spread`] over them; [`report`] tells afterwards what ran where.

pub(crate) mod atomic;
pub(crate) mod chain;
mod coalesce;
mod demote;
pub(crate) mod exec;
mod fold;
pub(crate) mod host;
pub(crate) mod join_keys;
pub(crate) mod mixed;
pub(crate) mod promote;
pub(crate) mod report;
pub(crate) mod spread;
pub(crate) mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use tidegate_kernels::PipelineDevice;
use tidegate_pipeline::Pipeline;
use tidegate_scheduler::{
    Choice, ClaimPolicy, ColumnCache, Dispatch, LoadError, MorselQueue, Place, PlacementMode,
    Reason, RecordedRegion, RegionCounters, RunFailure, RunSpec,
};

use crate::error::{Error, ErrorKind};
use crate::leaf::Leaf;
use crate::lower::{Binding, bind};

pub use exec::PipelineExec;
pub(crate) use fold::folds_without_rows;
pub(crate) use host::{HostEngine, HostFoldExec, HostGroupsExec, leaf_of};

/// How a region runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// On the host, as planned.
    Host,
    /// Host and devices share its morsels.
    Additive,
    /// A device answers all of it or nothing.
    Atomic,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Host => "host",
            Form::Additive => "additive",
            Form::Atomic => "atomic",
        })
    }
}

/// The device half of a region.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) bindings: Vec<Binding>,
}

/// What was decided about a region when the plan was made.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) form: Form,
    /// The program, if the region has one.
    pub(crate) program: Option<Program>,
    /// Why it has no program, or why the host runs it.
    pub(crate) reasons: Vec<Reason>,
    /// Whether the host's half runs as a row program.
    pub(crate) host_engine: HostEngine,
    pub(crate) devices: Vec<Arc<dyn PipelineDevice>>,
    pub(crate) mode: PlacementMode,
    /// Its float sums have the same bits on every run, or it fails.
    pub(crate) ordered: bool,
    pub(crate) choice: Choice,
    pub(crate) policy: ClaimPolicy,
    pub(crate) cache: Arc<ColumnCache>,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) counters: Arc<RegionCounters>,
    /// What it reads may come to a device to stay.
    pub(crate) promotes: bool,
    /// Folds that each device has in flight.
    pub(crate) device_slots: usize,
    /// How long finding and lowering it took.
    pub(crate) planned_in: Duration,
}

impl Region {
    /// Describes a region that runs on the host as planned.
    pub(crate) fn on_host(
        program: Option<Program>,
        host_engine: HostEngine,
        reasons: Vec<Reason>,
    ) -> Self {
        Self {
            form: Form::Host,
            program,
            reasons,
            host_engine,
            devices: Vec::new(),
            mode: PlacementMode::Host,
            ordered: false,
            choice: Choice::Always(Reason::HostRequested),
            policy: ClaimPolicy::Shared,
            cache: Arc::default(),
            dispatch: Arc::default(),
            counters: Arc::default(),
            promotes: false,
            device_slots: 1,
            planned_in: Duration::ZERO,
        }
    }

    /// Makes what a run of this region needs.
    pub(crate) fn run_spec(&self, leaf: &dyn Leaf, ctx: &Arc<TaskContext>) -> Result<RunSpec> {
        let Some(program) = &self.program else {
            return datafusion::common::internal_err!("a region without a program was run");
        };
        Ok(RunSpec {
            pipeline: bind(&program.pipeline, &program.bindings)?,
            devices: self.devices.clone(),
            queue: Arc::new(MorselQueue::new(self.policy.clone(), leaf.pieces())),
            loader: leaf.loader(ctx)?,
            cache: Arc::clone(&self.cache),
            counters: Arc::clone(&self.counters),
            choice: self.choice.clone(),
            host_engine: self.host_engine.runs(),
            host_partitions: host_partitions(),
            strict: self.mode == PlacementMode::Strict,
            device_slots: self.device_slots,
            dispatch: Arc::clone(&self.dispatch),
        })
    }

    /// Returns how it ran, so that it can be run again in the same way; `None` if it did not come to
    /// its end, or went to and fro too often to be remembered.
    pub(crate) fn recorded(&self) -> Option<RecordedRegion> {
        if self.form == Form::Additive {
            return self.counters.recorded().map(RecordedRegion::Shared);
        }
        let stats = self.counters.place_stats();
        // Only what a device did not answer is counted for the host.
        let on_host = self.form == Form::Host || stats.iter().any(|at| at.place == Place::Host);
        let places = on_host.then_some(Place::Host);
        let device = stats.iter().find(|at| at.morsels > 0);
        let place = places.or(device.map(|at| at.place));
        place.map(RecordedRegion::Whole)
    }

    /// Names a place as reports do: a device with what it is.
    pub(crate) fn place_name(&self, place: Place) -> String {
        let named = self
            .devices
            .iter()
            .map(|device| device.info())
            .find(|info| Place::Device(info.id) == place);
        named.map_or_else(|| place.to_string(), ToString::to_string)
    }
}

/// Turns a run's failure into the error that the host would have raised, or one that says why the
/// placement that was asked for could not be had.
pub(crate) fn failure(failure: RunFailure) -> DataFusionError {
    match failure {
        RunFailure::Load(error) => load_error(error),
        RunFailure::Eval(error) => DataFusionError::from(Error::with_source(
            if error.is_arithmetic() {
                ErrorKind::Sql
            } else {
                ErrorKind::Internal
            },
            error.to_string(),
            error,
        )),
        RunFailure::Fallback(reason) => DataFusionError::from(Error::new(
            ErrorKind::Device,
            format!(
                "tidegate.placement = 'strict': part of a region would fall back to the host: \
                 {reason}; SET tidegate.placement = 'device' to let it"
            ),
        )),
        RunFailure::Feeder(error) => DataFusionError::from(Error::with_source(
            ErrorKind::Internal,
            "a device feeder stopped",
            error,
        )),
    }
}

fn load_error(error: LoadError) -> DataFusionError {
    match error.downcast::<DataFusionError>() {
        Ok(error) => *error,
        Err(error) => DataFusionError::External(error),
    }
}

/// Returns how many partitions the host is taken to work on at once.
pub(crate) fn host_partitions() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
