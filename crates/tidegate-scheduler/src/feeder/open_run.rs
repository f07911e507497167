//! A run on the device under way: what was folded into it, from where, and what is in flight.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use tidegate_device::Reservation;
use tidegate_kernels::{FoldReport, PipelineRun, RunError, StoredMorsel};
use tidegate_pipeline::Pipeline;

use crate::cache::CachedTable;
use crate::queue::{Morsel, MorselSize};

/// Claimed morsels that one fold takes.
#[derive(Debug)]
pub(super) enum Work {
    /// One that must be loaded.
    Load(Morsel),
    /// Some that are resident.
    Run(ResidentRun),
}

/// Resident morsels, all of one table.
#[derive(Debug)]
pub(super) struct ResidentRun {
    pub(super) table: Arc<CachedTable>,
    pub(super) morsels: Vec<Morsel>,
    pub(super) stored: Vec<StoredMorsel>,
}

/// Where the columns of a fold came from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Loaded,
    Cached(Arc<CachedTable>),
}

/// A run under way, with the books of what it holds.
pub(super) struct OpenRun {
    pub(super) run: Box<dyn PipelineRun>,
    /// Where its rows come from; unknown before the first fold.
    pub(super) origin: Option<Origin>,
    pub(super) folded: Vec<Morsel>,
    pub(super) in_flight: FuturesOrdered<BoxFuture<'static, Settled>>,
    pub(super) rows_in_flight: u64,
}

/// A fold that has ended.
pub(super) struct Settled {
    pub(super) morsels: Vec<Morsel>,
    pub(super) origin: Origin,
    pub(super) folded: Result<FoldReport, RunError>,
}

/// What a device still has to do.
#[derive(Clone, Copy)]
pub(super) struct Backlog {
    pub(super) rows: u64,
    pub(super) idle: bool,
    pub(super) seconds_per_row: f64,
}

impl Work {
    pub(super) fn into_morsels(self) -> Vec<Morsel> {
        match self {
            Work::Load(morsel) => vec![morsel],
            Work::Run(run) => run.morsels,
        }
    }
}

impl OpenRun {
    pub(super) fn new(run: Box<dyn PipelineRun>) -> Self {
        Self {
            run,
            origin: None,
            folded: Vec::new(),
            in_flight: FuturesOrdered::new(),
            rows_in_flight: 0,
        }
    }

    /// Tells what the device has to do until it is idle, at this rate.
    pub(super) fn backlog(&self, seconds_per_row: f64) -> Backlog {
        Backlog {
            rows: self.rows_in_flight,
            idle: self.in_flight.is_empty(),
            seconds_per_row,
        }
    }

    /// Waits for the oldest fold; `None` if there is none.
    pub(super) async fn next_settled(&mut self) -> Option<Settled> {
        let settled = self.in_flight.next().await?;
        let rows = settled.morsels.iter().map(|morsel| morsel.size.num_rows);
        self.rows_in_flight -= rows.sum::<u64>();
        Some(settled)
    }

    /// Returns whether the work may join what was folded: the codes of one string column come from
    /// one dictionary.
    pub(super) fn may_fold(&self, work: &Work, pipeline: &Pipeline) -> bool {
        let joins = match (&self.origin, work) {
            (None, _) | (Some(Origin::Loaded), Work::Load(_)) => true,
            (Some(Origin::Cached(table)), Work::Run(run)) => Arc::ptr_eq(table, &run.table),
            _ => false,
        };
        joins
            || !pipeline
                .input
                .fields()
                .iter()
                .any(|field| is_string(field.data_type()))
    }

    pub(super) fn fold(&mut self, morsel: Morsel, batches: Vec<RecordBatch>, input: Reservation) {
        let fold = self.run.fold(batches, input);
        self.push(vec![morsel], Origin::Loaded, fold);
    }

    pub(super) fn fold_stored(&mut self, run: ResidentRun) {
        let exact = run
            .morsels
            .iter()
            .zip(&run.stored)
            .map(|(morsel, stored)| Morsel {
                id: morsel.id,
                size: MorselSize {
                    num_rows: stored.num_rows,
                    num_bytes: 0,
                },
            });
        let morsels = exact.collect();
        let fold = self.run.fold_stored(run.stored);
        self.push(morsels, Origin::Cached(run.table), fold);
    }

    fn push(
        &mut self,
        morsels: Vec<Morsel>,
        origin: Origin,
        fold: BoxFuture<'static, Result<FoldReport, RunError>>,
    ) {
        self.origin.get_or_insert_with(|| origin.clone());
        self.rows_in_flight += morsels
            .iter()
            .map(|morsel| morsel.size.num_rows)
            .sum::<u64>();
        self.in_flight.push_back(Box::pin(async move {
            Settled {
                morsels,
                origin,
                folded: fold.await,
            }
        }));
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
