//! What every device that runs pipelines promises, whatever stands behind it.

use std::fmt::Debug;
use std::ops::AddAssign;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use futures::future::BoxFuture;
use serde::Serialize;
use thiserror::Error;
use tidegate_device::{
    Cost, DeviceError, DeviceId, DeviceInfo, FaultPlan, MemoryBudget, Reservation,
};
use tidegate_pipeline::{EvalError, Pipeline};

use crate::compiling::Waiting;
use crate::generated::GeneratedRun;
use crate::program::Generated;
use crate::stored::{ColumnDictionary, PinnedColumn, Promoted, StoredColumn, StoredRun};
use crate::stream::{StreamKernel, StreamWork, UnderWay};

/// A device that can run pipelines.
///
/// # Contract
/// - No method blocks for the device's work; what takes time is a future.
/// - A run whose kernels are not there does not keep the device from other runs while they are compiled.
/// - [`refusals`](Self::refusals) depends on the pipeline and on the device's life only, so a
///   pipeline without refusals opens unless the device is lost in between.
/// - Nothing is folded without a [`Reservation`] of this device's [`budget`](Self::budget) for its
///   input. The state that grows from it is reserved by the run itself.
/// - A lost device stays lost: everything fails with [`DeviceError::Lost`], nothing hangs.
pub trait PipelineDevice: Send + Sync + Debug {
    /// Returns what the device is called and how fast it is taken to be.
    fn info(&self) -> &DeviceInfo;

    /// Returns the device's memory budget.
    fn budget(&self) -> &Arc<MemoryBudget>;

    /// Returns every reason for which this device cannot run the pipeline; empty if it can.
    fn refusals(&self, pipeline: &Pipeline) -> Vec<String>;

    /// Promises memory for a fold's input, at once or not at all.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], or [`DeviceError::Lost`].
    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError>;

    /// Begins a run of the pipeline with empty state.
    ///
    /// # Errors
    /// [`RunError::Device`] if the device is lost, [`RunError::Eval`] if it refuses the pipeline.
    fn open(&self, pipeline: Arc<Pipeline>) -> Result<Box<dyn PipelineRun>, RunError>;

    /// Returns whether kernels are compiled here when they are first needed, which takes longer than a
    /// device's work for a morsel.
    fn compiles(&self) -> bool {
        false
    }

    /// Compiles and loads the kernels that a run over such rows needs, its end included; folds
    /// nothing. What was begun is done whether or not the future is polled or kept.
    ///
    /// # Errors
    /// As folds of these rows.
    fn compile(
        &self,
        pipeline: Arc<Pipeline>,
        sample: Sample,
    ) -> BoxFuture<'static, Result<(), RunError>> {
        drop((pipeline, sample));
        Box::pin(futures::future::ready(Ok(())))
    }

    /// Returns this device with float sums that have the same bits whatever the order of rows and
    /// folds, and fail for values for which it cannot; `None` if it has none.
    fn ordered(&self) -> Option<Arc<dyn PipelineDevice>> {
        None
    }

    /// Encodes one column of a morsel and keeps it on the device: arrays of one type, one after
    /// another. `dictionary` is the table column's own, shared by all of its chunks; only strings
    /// use it. Encoding happens as the future is polled and may take milliseconds of the thread.
    ///
    /// The memory is reserved first, at once or not at all.
    ///
    /// # Errors
    /// [`RunError::Device`] with [`DeviceError::OutOfMemory`] if the column does not fit,
    /// [`RunError::Eval`] for a type that the device does not hold.
    fn store(
        &self,
        arrays: Vec<ArrayRef>,
        dictionary: Arc<ColumnDictionary>,
    ) -> BoxFuture<'static, Result<StoredColumn, RunError>>;

    /// Copies a column of this device, as it is encoded, to pinned memory of the host; the column stays.
    /// It is held until the copy is done, also if the future is dropped meanwhile.
    ///
    /// # Errors
    /// [`RunError::Device`] with [`DeviceError::Refused`] if the device has no such memory, or the
    /// column is another device's; or it is lost.
    fn demote(
        &self,
        stored: Arc<StoredColumn>,
    ) -> BoxFuture<'static, Result<PinnedColumn, RunError>> {
        drop(stored);
        let refused = self.has_no_tier("demote a column");
        Box::pin(futures::future::ready(Err(refused.into())))
    }

    /// Copies a column from pinned memory to this device, whichever it came from: its values, codes and
    /// dictionary are the same. The memory is reserved first, at once or not at all. What is folded
    /// after this finds the column there, even if the copy is still under way.
    ///
    /// # Errors
    /// [`RunError::Device`] with [`DeviceError::OutOfMemory`] if the column does not fit, with
    /// [`DeviceError::Refused`] if it is none that this kind of device can hold; or it is lost.
    fn promote(&self, pinned: Arc<PinnedColumn>) -> BoxFuture<'static, Result<Promoted, RunError>> {
        drop(pinned);
        let refused = self.has_no_tier("promote a column");
        Box::pin(futures::future::ready(Err(refused.into())))
    }

    /// Says that the device cannot do what takes pinned columns.
    fn has_no_tier(&self, what: &str) -> DeviceError {
        DeviceError::Refused {
            device: self.info().id,
            what: what.into(),
            why: "it keeps nothing in pinned memory".into(),
        }
    }

    /// Returns whether the device makes the columns of an array itself for a pipeline that it does not
    /// refuse, so that [`PipelineRun::fold_generated`] takes parts of it.
    fn generates(&self, pipeline: &Arc<Pipeline>, source: &Arc<Generated>) -> bool;

    /// Runs work of a user on the device's thread, after all that was asked for before, with the
    /// device's stream. It may take as much memory as `memory` promises, which is held until the work
    /// has ended, whether or not the future is polled or kept. The kernels that it may launch are compiled
    /// before it begins. `cost` is what a simulated device models.
    ///
    /// # Errors
    /// [`DeviceError::LaunchFailed`] if the work panics or a kernel does not compile,
    /// [`DeviceError::Refused`] if the device does not run such work, or it is lost.
    fn with_stream(
        &self,
        cost: Cost,
        memory: Reservation,
        kernels: Vec<StreamKernel>,
        work: StreamWork,
    ) -> UnderWay {
        drop((cost, memory, kernels, work));
        let refused = DeviceError::Refused {
            device: self.info().id,
            what: "run work of a user".into(),
            why: "it has no stream".into(),
        };
        UnderWay {
            done: Box::pin(futures::future::ready(Err(refused))),
            waiting: None,
        }
    }

    /// Returns whether the device is gone for good.
    fn is_lost(&self) -> bool;

    /// Plans these faults in place of those planned before, for tests of whoever uses the device; what
    /// it does from now on is counted from 1.
    fn plan_faults(&self, plan: FaultPlan);

    /// Returns how many planned faults happened.
    fn planned_faults_met(&self) -> u64;
}

/// Rows for which kernels are compiled before any are folded: what is known of their values decides
/// which kernels these are.
#[derive(Clone, Debug)]
pub enum Sample {
    /// Rows like those that will be loaded.
    Loaded(Vec<RecordBatch>),
    /// Columns that are on the device.
    Stored(Arc<StoredRun>),
    /// Parts of an array that the device makes.
    Generated(Arc<Generated>),
}

/// One execution of a pipeline on one device: state that rows are folded into.
///
/// # Contract
/// - Folds run in the order in which [`fold`](Self::fold) was called, each from the call on, whether
///   or not its future is polled or kept.
/// - A fold happens wholly, or not at all. After one that fails the run is void: whatever is asked
///   of it then fails too. Drop it and fold all of its rows elsewhere, those of earlier folds
///   included.
/// - Nothing has left the device before [`finish`](Self::finish) gives rows: until then every folded
///   row is uncommitted.
/// - Dropping the run abandons it: folds still queued are skipped, their futures fail.
pub trait PipelineRun: Send {
    /// Folds rows (columns are `pipeline.input`, in order) into the run's state.
    ///
    /// `input` is held until the fold is done and then released.
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>>;

    /// Folds morsels that are on the device already, in one launch where the device can. All
    /// columns of one input share a dictionary. What the device finds out about the run it keeps in
    /// it, for the next fold of the same one.
    fn fold_stored(
        &mut self,
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>>;

    /// Folds parts of an array that the device makes itself, as [`PipelineDevice::generates`] tells:
    /// nothing is moved or stored.
    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>>;

    /// Tells when what was asked of the run waits for kernels: the device does nothing for it meanwhile,
    /// and others may have its time. `None` if that never happens.
    fn waiting(&self) -> Option<Arc<Waiting>> {
        None
    }

    /// Ends the run and brings its rows back to the host, in batches of `pipeline.output`; after all
    /// folds called before.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>>;
}

/// What a finished run gives.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Its rows.
    pub batches: Vec<RecordBatch>,
    /// What bringing them back took.
    pub phases: Phases,
}

/// Where the seconds of a device's work went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Writing the kernel, and compiling and loading it where that had not been done; waiting for whoever
    /// was compiling it.
    pub compile: f64,
    /// Encoding rows and copying them to the device; of rows that came from pinned memory for a fold the
    /// copy alone.
    pub upload: f64,
    /// Waiting for what the device was doing.
    pub queue: f64,
    /// The kernels.
    pub kernel: f64,
    /// Bringing rows back to the host, the steps after the last kernel included.
    pub download: f64,
}

impl AddAssign for Phases {
    fn add_assign(&mut self, other: Self) {
        self.compile += other.compile;
        self.upload += other.upload;
        self.queue += other.queue;
        self.kernel += other.kernel;
        self.download += other.download;
    }
}

/// What a fold took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FoldReport {
    /// Rows folded, before any filter.
    pub rows: u64,
    /// Bytes moved to the device for it.
    pub bytes: u64,
    /// How long the device was busy with it, the transfer included; not with compiling.
    pub device_seconds: f64,
    /// Where the time went.
    pub phases: Phases,
    /// Bytes of the run's state after it.
    pub state_bytes: u64,
    /// Whether the budget covers the state. If not, the run should be finished now, so that its rows
    /// leave and make room; by at most one fold's growth the state exceeds what was promised.
    pub state_fits: bool,
}

/// Why a run did not go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// The device failed; the same rows can run elsewhere.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The rows' values do not suit the kernel; the same rows can run elsewhere.
    #[error("a run on {device} failed: {why}; its rows were not folded and can run elsewhere")]
    Unsuited {
        /// Where.
        device: DeviceId,
        /// What does not suit it.
        why: Unsuited,
    },
    /// The rows' values must raise, or the pipeline cannot be run here.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// An earlier fold of this run failed, or the run was dropped before it was finished.
    #[error(
        "this run is void: a fold of it failed or it was dropped; fold its rows again elsewhere"
    )]
    Void,
}

/// For what values a kernel was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsuited {
    /// A float beyond its sum's digits; NaN and infinities are such floats.
    #[error("a float is outside of the fixed point of its sum")]
    FloatRange,
    /// A key beyond what was known of its column.
    #[error("a group key is outside of its column's range")]
    KeyRange,
    /// Two keys under one word of a table, whose groups are void.
    #[error("two group keys of more than 64 bits have the same hash")]
    KeysMet,
}
