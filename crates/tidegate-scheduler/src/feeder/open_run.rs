//! A run on the device under way: what was folded into it, from where, and what is in flight.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use futures::{FutureExt, TryFutureExt};
use tidegate_device::Reservation;
use tidegate_kernels::{
    FoldReport, GeneratedRun, PipelineRun, RunError, StoredColumn, StoredMorsel, StoredRun,
};
use tidegate_pipeline::Pipeline;

use crate::admission::Turn;
use crate::cache::pinned::PinnedMorsel;
use crate::ladder::Ladder;
use crate::place::Estimate;
use crate::queue::{Morsel, MorselSize};
use crate::residency::{Origin, ResidentRows};

/// What a claim was expected to take, and when it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) estimate: Estimate,
    pub(super) since: f64,
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
}

/// A fold that has ended.
pub(super) struct Settled {
    pub(super) morsels: Vec<Morsel>,
    /// Where they came from; `None` if they were loaded.
    pub(super) origin: Option<Origin>,
    pub(super) promise: Promise,
    pub(super) folded: Result<FoldReport, RunError>,
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
    pub(super) fn new(run: Box<dyn PipelineRun>) -> Self {
        Self {
            run,
            origin: None,
            folded: Vec::new(),
            compile_seconds: 0.0,
            in_flight: FuturesOrdered::new(),
        }
    }

    /// Waits for the oldest fold; `None` if there is none.
    pub(super) async fn next_settled(&mut self) -> Option<Settled> {
        self.in_flight.next().await
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

    /// Folds a morsel whose columns were brought to the device for this fold, which took so many
    /// seconds.
    pub(super) fn fold_promoted(
        &mut self,
        work: PinnedWork,
        columns: Vec<Arc<StoredColumn>>,
        seconds: f64,
        turn: Turn,
    ) {
        let (size, codes) = (work.size(), work.rows.codes);
        let stored = StoredMorsel {
            num_rows: size.num_rows,
            columns,
        };
        let fold = self.run.fold_stored(StoredRun::new(vec![stored]));
        let fold = fold.map_ok(move |mut report| {
            report.phases.upload += seconds;
            report
        });
        let id = work.morsel.id;
        let morsels = vec![Morsel { id, size }];
        let origin = Some(Origin::Pinned(codes));
        self.push(morsels, origin, work.promise, fold.boxed(), turn);
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
        let waiting = self.run.waiting();
        let fold = tokio::spawn(async move {
            let folded = turn.work(fold, waiting).await;
            if let Ok(report) = &folded {
                turn.took(report.device_seconds);
            }
            folded
        });
        let settled = fold.map(move |folded| Settled {
            morsels,
            origin,
            promise,
            folded: folded.unwrap_or(Err(RunError::Void)),
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
