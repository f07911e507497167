//! Morsels of an array that are taken to be folded as a whole, without their rows.

use std::sync::Arc;

use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use futures::stream::BoxStream;
use tidegate_scheduler::{ArrayScan, MixedRun, Morsel};

use super::{SomeMorsels, Taken, generated};
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
    if let Some(some) = source.downcast_ref::<SomeMorsels>() {
        return some.pieces.array();
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
    let Some(some) = source.downcast_ref::<SomeMorsels>() else {
        return counted(source.as_ref(), partition, counter);
    };
    let Some(taken) = some.taken(partition) else {
        return counted(some.planned.as_ref(), partition, counter);
    };
    let whole = |(morsel, run): Taken| WholeMorsel {
        part: morsel.id.index,
        claimed: run.map(|run| (morsel, run)),
    };
    Some(taken.map(whole).boxed())
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
