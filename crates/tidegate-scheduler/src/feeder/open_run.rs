//! A run on the device under way: what was folded into it, from where, and what is in flight.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use tidegate_device::{DeviceId, Reservation};
use tidegate_kernels::{
    FoldReport, GeneratedRun, PipelineRun, Promoted, RunError, StoredMorsel, StoredRun,
};
use tidegate_pipeline::Pipeline;

use crate::admission::Turn;
use crate::cache::pinned::PinnedMorsel;
use crate::ladder::Ladder;
use crate::place::{Estimate, WorkerStates};
use crate::queue::{Morsel, MorselSize};
use crate::residency::{Origin, ResidentRows};

/// What a claim was expected to take, and when it was made, in seconds on the region's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) estimate: Estimate,
    pub(super) since: f64,
}

/// Hears that folds end, at once: while its feeder loads the next morsel a device must not seem late
/// with what it has done.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) workers: Arc<WorkerStates>,
    pub(super) device: DeviceId,
    /// When the region's clock began.
    pub(super) started: Instant,
}

impl Ends {
    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

impl Promise {
    /// Expects nothing.
    pub(super) fn nothing(now: f64) -> Self {
        Self {
            estimate: Estimate::default(),
            since: now,
        }
    }
}

/// Claimed morsels that one fold takes.
#[derive(Debug)]
pub(super) enum Work {
    /// One that must be loaded.
    Load(Morsel, Promise),
    /// One that was loaded.
    Loaded(LoadedMorsel),
    /// Some that are resident.
    Run(ResidentRun),
    /// One that is moved to the device as it is encoded.
    Pinned(PinnedWork),
}

/// A morsel whose rows wait to be folded.
#[derive(Debug)]
pub(super) struct LoadedMorsel {
    pub(super) morsel: Morsel,
    pub(super) promise: Promise,
    pub(super) batches: Vec<RecordBatch>,
    /// The room for them on the device, once there is any.
    pub(super) input: Option<Reservation>,
    /// What was tried to get it.
    pub(super) ladder: Ladder,
}

/// Resident morsels, all of one origin.
#[derive(Debug)]
pub(super) struct ResidentRun {
    pub(super) origin: Origin,
    pub(super) morsels: Vec<Morsel>,
    /// What each of the morsels is.
    pub(super) rows: Vec<ResidentRows>,
    pub(super) promise: Promise,
}

impl ResidentRun {
    pub(super) fn num_rows(&self) -> u64 {
        self.rows.iter().map(ResidentRows::num_rows).sum()
    }
}

/// A morsel in pinned memory.
#[derive(Debug)]
pub(super) struct PinnedWork {
    pub(super) morsel: Morsel,
    pub(super) rows: PinnedMorsel,
    pub(super) promise: Promise,
}

impl PinnedWork {
    pub(super) fn size(&self) -> MorselSize {
        self.rows.size()
    }
}

/// A run under way, with the books of what it holds.
pub(super) struct OpenRun {
    pub(super) run: Box<dyn PipelineRun>,
    /// Where its rows come from, `None` if they are loaded; unknown before the first fold.
    origin: Option<Option<Origin>>,
    pub(super) folded: Vec<Morsel>,
    /// Seconds that its folds have waited for kernels.
    pub(super) compile_seconds: f64,
    pub(super) in_flight: FuturesOrdered<BoxFuture<'static, Settled>>,
    /// Bytes of the loaded morsels among them, as they were claimed.
    pub(super) bytes_in_flight: u64,
    /// Gone with the run, and with it whoever would want to hear.
    ends: Arc<Ends>,
    /// When the last claim that is booked ended, in seconds on the region's clock; before the first
    /// when the run was opened.
    booked_until: f64,
}

/// A fold that has ended.
pub(super) struct Settled {
    pub(super) morsels: Vec<Morsel>,
    /// Bytes of loaded rows.
    bytes: u64,
    /// Where they came from; `None` if they were loaded.
    pub(super) origin: Option<Origin>,
    pub(super) promise: Promise,
    pub(super) folded: Result<FoldReport, RunError>,
    /// When the fold ended, in seconds on the region's clock.
    pub(super) ended: f64,
}

impl Work {
    pub(super) fn into_morsels(self) -> Vec<Morsel> {
        match self {
            Work::Load(morsel, _) => vec![morsel],
            Work::Loaded(loaded) => vec![loaded.morsel],
            Work::Run(run) => run.morsels,
            Work::Pinned(work) => vec![work.morsel],
        }
    }
}

impl OpenRun {
    pub(super) fn new(run: Box<dyn PipelineRun>, ends: Ends) -> Self {
        Self {
            booked_until: ends.now(),
            ends: Arc::new(ends),
            run,
            origin: None,
            folded: Vec::new(),
            compile_seconds: 0.0,
            in_flight: FuturesOrdered::new(),
            bytes_in_flight: 0,
        }
    }

    /// Returns the seconds that the device was busy with a claim until now, which is booked next: from
    /// the end of the claim before it, or since it was made.
    pub(super) fn book_until(&mut self, ended: f64, promise: Promise) -> f64 {
        let since = promise.since.max(self.booked_until);
        self.booked_until = ended.max(self.booked_until);
        (ended - since).max(0.0)
    }

    /// Waits for the oldest fold; `None` if there is none.
    pub(super) async fn next_settled(&mut self) -> Option<Settled> {
        let settled = self.in_flight.next().await?;
        self.bytes_in_flight -= settled.bytes;
        Some(settled)
    }

    /// Returns whether the work may join what was folded: the codes of one string column come from
    /// one dictionary.
    pub(super) fn may_fold(&self, work: &Work, pipeline: &Pipeline) -> bool {
        let joins = match (&self.origin, work) {
            (None, _) | (Some(None), Work::Load(..) | Work::Loaded(_)) => true,
            (Some(Some(origin)), Work::Run(run)) => origin.is(&run.origin),
            (Some(Some(origin)), Work::Pinned(work)) => origin.is(&Origin::Pinned(work.rows.codes)),
            _ => false,
        };
        joins
            || !pipeline
                .input
                .fields()
                .iter()
                .any(|field| is_string(field.data_type()))
    }

    pub(super) fn fold(&mut self, loaded: LoadedMorsel, input: Reservation, turn: Turn) {
        let fold = self.run.fold(loaded.batches, input);
        let morsels = vec![loaded.morsel];
        self.push(morsels, None, loaded.promise, fold, turn);
    }

    /// Folds a morsel whose columns were brought to the device for this fold.
    pub(super) fn fold_promoted(&mut self, work: PinnedWork, columns: Vec<Promoted>, turn: Turn) {
        let (size, codes) = (work.size(), work.rows.codes);
        let columns = columns.into_iter();
        let (columns, moving) = columns.map(|it| (Arc::new(it.column), it.moving)).unzip();
        let stored = StoredMorsel {
            num_rows: size.num_rows,
            columns,
        };
        let fold = self.run.fold_stored(StoredRun::moved(vec![stored], moving));
        let id = work.morsel.id;
        let morsels = vec![Morsel { id, size }];
        let origin = Some(Origin::Pinned(codes));
        self.push(morsels, origin, work.promise, fold, turn);
    }

    pub(super) fn fold_resident(&mut self, run: ResidentRun, turn: Turn) {
        let exact = run.morsels.iter().zip(&run.rows);
        let exact = exact.map(|(morsel, rows)| Morsel {
            id: morsel.id,
            size: MorselSize {
                num_rows: rows.num_rows(),
                num_bytes: 0,
            },
        });
        let morsels = exact.collect();
        let fold = match &run.origin {
            Origin::Table(_) | Origin::Pinned(_) => {
                let stored = run.rows.into_iter().filter_map(|rows| match rows {
                    ResidentRows::Stored(stored) => Some(stored),
                    ResidentRows::Part(_) => None,
                });
                self.run.fold_stored(StoredRun::new(stored.collect()))
            }
            Origin::Array(array) => {
                let parts = run.rows.into_iter().filter_map(|rows| match rows {
                    ResidentRows::Part(part) => Some(part),
                    ResidentRows::Stored(_) => None,
                });
                self.run.fold_generated(GeneratedRun {
                    source: Arc::clone(&array.source),
                    parts: parts.collect(),
                })
            }
        };
        self.push(morsels, Some(run.origin), run.promise, fold, turn);
    }

    fn push(
        &mut self,
        morsels: Vec<Morsel>,
        origin: Option<Origin>,
        promise: Promise,
        fold: BoxFuture<'static, Result<FoldReport, RunError>>,
        mut turn: Turn,
    ) {
        self.origin.get_or_insert_with(|| origin.clone());
        // A task of its own, so that the turn ends with the fold and not when it is looked at.
        let (waiting, ends) = (self.run.waiting(), Arc::downgrade(&self.ends));
        let started = self.ends.started;
        let fold = tokio::spawn(async move {
            let folded = turn.work(fold, waiting).await;
            if let Ok(report) = &folded {
                turn.took(report.device_seconds);
            }
            let ended = started.elapsed().as_secs_f64();
            if let Some(ends) = ends.upgrade() {
                ends.workers.end(ends.device, ended);
            }
            (folded, ended)
        });
        let bytes = match origin {
            Some(_) => 0,
            None => morsels.iter().map(|morsel| morsel.size.num_bytes).sum(),
        };
        self.bytes_in_flight += bytes;
        let ends = Arc::clone(&self.ends);
        let settled = fold.map(move |done| {
            let (folded, ended) = done.unwrap_or_else(|_| {
                let now = ends.now();
                ends.workers.end(ends.device, now);
                (Err(RunError::Void), now)
            });
            Settled {
                morsels,
                bytes,
                origin,
                promise,
                folded,
                ended,
            }
        });
        self.in_flight.push_back(settled.boxed());
    }
}

fn is_string(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(_, _)
    )
}

/// Gives a loaded morsel the size that its fold has told.
pub(super) fn loaded(morsels: &[Morsel], report: &FoldReport) -> Vec<Morsel> {
    let size = MorselSize {
        num_rows: report.rows,
        num_bytes: report.bytes,
    };
    let told = morsels.iter().map(|morsel| Morsel {
        id: morsel.id,
        size,
    });
    told.collect()
}
