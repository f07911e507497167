//! Morsels of an array that are taken to be folded as a whole, without their rows.

use std::sync::Arc;

use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use tidegate_scheduler::{ArrayScan, MixedRun, Morsel};

use super::replayed::Replayed;
use super::{GatedMorsels, generated};
use crate::sources::{Counter, MorselScan};

/// A morsel that was taken.
pub(crate) struct WholeMorsel {
    /// Which of the array's parts it is.
    pub(crate) part: usize,
    claimed: Option<(Morsel, Arc<MixedRun>)>,
}

impl WholeMorsel {
    /// Books the morsel: all of it has been folded.
    pub(crate) fn end(self) {
        if let Some((morsel, run)) = self.claimed {
            run.count_host(&morsel);
        }
    }
}

/// Returns the array that a scan makes, if it makes one, and all of its parts.
pub(crate) fn array_scan_of(scan: &Arc<dyn ExecutionPlan>) -> Option<Arc<ArrayScan>> {
    let source = scan.downcast_ref::<DataSourceExec>()?.data_source();
    if let Some(gated) = source.downcast_ref::<GatedMorsels>() {
        return gated.pieces.array();
    }
    if let Some(replayed) = source.downcast_ref::<Replayed>() {
        return replayed.pieces.array();
    }
    let scan = source.downcast_ref::<MorselScan>()?;
    let is_whole = scan.limit.is_none();
    let array = is_whole.then(|| generated::array_scan(scan.source.as_ref(), &scan.columns));
    array.flatten().map(Arc::new)
}

/// Takes the morsels of a scan for one partition, as reading the scan does; partitions share the counter.
pub(crate) fn whole_morsels(
    scan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    counter: Counter,
) -> Option<BoxStream<'static, WholeMorsel>> {
    let source = scan.downcast_ref::<DataSourceExec>()?.data_source();
    if let Some(replayed) = source.downcast_ref::<Replayed>() {
        let parts: Vec<usize> = replayed
            .morsels
            .iter()
            .map(|morsel| morsel.id.index)
            .collect();
        let claimed = None;
        let taken = move |part| WholeMorsel {
            part,
            claimed: claimed.clone(),
        };
        return Some(stream::iter(parts).map(taken).boxed());
    }
    if let Some(gated) = source.downcast_ref::<GatedMorsels>() {
        return match gated.claims(partition) {
            Some(claims) => {
                let taken = |(morsel, run): (Morsel, _)| WholeMorsel {
                    part: morsel.id.index,
                    claimed: Some((morsel, run)),
                };
                Some(claims.map(taken).boxed())
            }
            None => counted(gated.planned.as_ref(), partition, counter),
        };
    }
    counted(source.as_ref(), partition, counter)
}

fn counted(
    source: &dyn DataSource,
    partition: usize,
    counter: Counter,
) -> Option<BoxStream<'static, WholeMorsel>> {
    let scan = source.downcast_ref::<MorselScan>()?;
    let taken = |part| WholeMorsel {
        part,
        claimed: None,
    };
    Some(scan.taken_whole(partition, counter).map(taken).boxed())
}
