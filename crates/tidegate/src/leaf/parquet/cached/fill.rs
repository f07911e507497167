//! Keeps a run of row groups while the host's chain reads it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion_datasource::morsel::Morsel;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt as _};
use tidegate_scheduler::ChunkKey;
use tidegate_scheduler::cache::host::{ChunkBuilder, HostBytes, Offer};

use super::super::files::KnownFile;
use super::super::identity::is_same;
use super::scan::{CachedScan, Kept, Missing, Origin};

/// A run that is to be kept.
#[derive(Debug)]
pub(super) struct Fill {
    pub(super) scan: Arc<CachedScan>,
    pub(super) file: Arc<KnownFile>,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) kept: Kept,
}

/// The inner source's morsel of such a run.
#[derive(Debug)]
pub(super) struct KeptMorsel {
    inner: Box<dyn Morsel>,
    fill: Fill,
}

impl KeptMorsel {
    pub(super) fn new(inner: Box<dyn Morsel>, fill: Fill) -> Self {
        Self { inner, fill }
    }
}

impl Morsel for KeptMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let state = (self.inner.into_stream(), Some(Keeper::new(self.fill)));
        stream::unfold(state, |(mut inner, keeper)| async move {
            let asked = Instant::now();
            let next = inner.next().await;
            let waited = asked.elapsed();
            match next {
                Some(Ok(batch)) => {
                    let keeper = keeper.and_then(|keeper| keeper.push(&batch, waited));
                    Some((Ok(batch), (inner, keeper)))
                }
                Some(Err(error)) => Some((Err(error), (inner, None))),
                None => {
                    if let Some(keeper) = keeper {
                        keeper.keep().await;
                    }
                    None
                }
            }
        })
        .boxed()
    }
}

/// The chunks of a run in the making.
struct Keeper {
    fill: Fill,
    /// For each row group and key, its chunk, unless it is there.
    chunks: Vec<Vec<Option<ChunkBuilder>>>,
    /// The row group at hand, and how many rows of it are missing.
    at: usize,
    rows_left: u64,
    /// Rows of the run that did not come yet.
    rows_to_come: u64,
    charge: Option<HostBytes>,
    bytes: u64,
    /// How long the run was waited for.
    waited: Duration,
}

impl Keeper {
    fn new(fill: Fill) -> Self {
        let builder = |there: &bool| (!there).then(ChunkBuilder::default);
        let of_group = |group: &Missing| group.there.iter().map(builder).collect();
        Self {
            chunks: fill.kept.row_groups.iter().map(of_group).collect(),
            at: 0,
            rows_left: fill
                .kept
                .row_groups
                .first()
                .map_or(0, |group| group.num_rows),
            rows_to_come: fill
                .kept
                .row_groups
                .iter()
                .map(|group| group.num_rows)
                .sum(),
            charge: None,
            bytes: 0,
            waited: Duration::ZERO,
            fill,
        }
    }

    /// Takes a batch; `None` if the run cannot be kept.
    fn push(mut self, batch: &RecordBatch, waited: Duration) -> Option<Self> {
        self.waited += waited;
        let mut from = 0;
        while from < batch.num_rows() {
            while self.rows_left == 0 {
                self.at += 1;
                self.rows_left = self.fill.kept.row_groups.get(self.at)?.num_rows;
            }
            let num_rows = (self.rows_left as usize).min(batch.num_rows() - from);
            self.push_rows(&batch.slice(from, num_rows))?;
            from += num_rows;
            self.rows_left -= num_rows as u64;
            self.rows_to_come -= num_rows as u64;
        }
        Some(self)
    }

    fn push_rows(&mut self, rows: &RecordBatch) -> Option<()> {
        let mut bytes = 0;
        for (column, origin) in self.fill.scan.columns().iter().enumerate() {
            let Origin::File(key) = *origin else {
                continue;
            };
            if let Some(chunk) = &mut self.chunks[self.at][key] {
                bytes += chunk.push(rows.column(column));
            }
        }
        self.bytes += bytes;
        self.charge_all().then_some(())
    }

    /// Makes sure that the bytes are taken from the tier, for the whole run at first: who makes room
    /// looks at all that is kept.
    fn charge_all(&mut self) -> bool {
        let (tier, kept) = (self.fill.scan.tier(), &self.fill.kept);
        let Kept { bytes, bid, .. } = kept;
        match &mut self.charge {
            Some(charge) if self.bytes <= charge.get() => true,
            Some(charge) => {
                let lacking = self.bytes - charge.get();
                tier.grow(charge, lacking.max(bytes / 4), Some(*bid))
            }
            None => {
                self.charge = tier.charge(self.bytes.max(*bytes), *bid);
                self.charge.is_some()
            }
        }
    }

    /// Keeps the chunks if all rows came and the file is still what it was.
    async fn keep(mut self) {
        // Rows that were skipped anywhere in the run would shift all that come after them.
        if self.rows_to_come > 0 {
            return;
        }
        let Some(mut charge) = self.charge.take() else {
            return;
        };
        let Fill {
            scan,
            file,
            store,
            kept,
        } = self.fill;
        let is_still = store.head(&file.meta.location).await;
        if !is_still.is_ok_and(|now| is_same(&file.meta, &now)) {
            return;
        }
        scan.cache().remember(scan.url(), Arc::clone(&file));
        let seconds = self.waited.as_secs_f64() / self.bytes.max(1) as f64;
        for (group, chunks) in kept.row_groups.iter().zip(self.chunks) {
            for (key, chunk) in chunks.into_iter().enumerate() {
                let Some(chunk) = chunk.filter(|chunk| chunk.num_rows() == group.num_rows) else {
                    continue;
                };
                scan.tier().keep(Offer {
                    key: ChunkKey {
                        source: Arc::clone(&file.source),
                        column: Arc::clone(&scan.keys()[key]),
                        part: group.row_group,
                    },
                    label: scan.label(&file, key),
                    uses: kept.bid.uses,
                    seconds: seconds * chunk.host_bytes() as f64,
                    chunk: chunk.finish(&mut charge),
                });
            }
        }
    }
}
