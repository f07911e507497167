//! `CACHE TABLE … ON HOST`: reads a table's columns into host memory to stay.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};
use tidegate_scheduler::cache::host::{ChunkBuilder, ChunkLabel, HostBytes, Offer};
use tidegate_scheduler::{ChunkKey, HostTier, MorselLoader};

use super::store::{NamedMorsel, named_morsels, unreadable};
use super::{Session, forget_listings, rereadable, row, scan};
use crate::error::{Error, ErrorKind};
use crate::files::file_scan;
use crate::leaf::parquet::cached::CachedSource;
use crate::leaf::parquet::files::HostCache;

/// Keeps a table in host memory; the row tells what was kept.
pub(super) async fn cache(
    session: &Session,
    state: &SessionState,
    name: &str,
    select: &str,
) -> Result<RecordBatch, Error> {
    let started = Instant::now();
    forget_listings(state);
    let scan = scan(session, state, name, select).await?;
    let partitions = check_scan(session, &scan, name)?;
    let leaf = rereadable(&scan, state, name)?;
    let schema = scan.schema();
    let columns: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let columns = columns.join(", ");
    let tier = session.runtime.cache().host();
    // What was kept under this name makes room first.
    tier.remove_table(name);
    let filling = Filling {
        loader: leaf.loader(&state.task_ctx())?,
        schema,
        partitions,
        tier,
        name,
    };
    let kept = filling.fill(leaf.pieces().len()).await?;
    let (host_bytes, num_rows) = (kept.charge.get(), kept.num_rows);
    let plain_bytes = kept.plain_bytes;
    tier.keep_table(name, kept.finish());
    let count = |of| Arc::new(UInt64Array::from(vec![of])) as ArrayRef;
    row(&[
        ("table", Arc::new(StringArray::from(vec![name]))),
        ("columns", Arc::new(StringArray::from(vec![columns]))),
        ("rows", count(num_rows)),
        ("host_bytes", count(host_bytes)),
        ("plain_bytes", count(plain_bytes)),
        (
            "seconds",
            Arc::new(Float64Array::from(vec![started.elapsed().as_secs_f64()])),
        ),
    ])
}

/// Makes sure that queries will find what is kept; returns the names of the columns that are in no
/// file.
fn check_scan(
    session: &Session,
    scan: &Arc<dyn ExecutionPlan>,
    name: &str,
) -> Result<HashSet<String>, Error> {
    let checked = match file_scan(scan) {
        Some(config) => CachedSource::over(config, &HostCache::of(&session.runtime), false)
            .map(|_| config.table_partition_cols().iter()),
        None => Err("it does not read Parquet files".to_string()),
    };
    let partitions = checked.map_err(|why| {
        Error::new(
            ErrorKind::NotSupported,
            format!(
                "table '{name}' cannot be cached ON HOST: {why}; memory tables are in host memory \
                 as they are: CREATE TABLE other AS SELECT * FROM {name} makes one"
            ),
        )
    })?;
    Ok(partitions.map(|field| field.name().clone()).collect())
}

/// A table on its way into host memory.
struct Filling<'a> {
    loader: Arc<dyn MorselLoader>,
    schema: SchemaRef,
    /// The columns that are in no file; each file has one value of them.
    partitions: HashSet<String>,
    tier: &'a HostTier,
    name: &'a str,
}

/// What was read of it so far.
struct Kept {
    charge: HostBytes,
    num_rows: u64,
    plain_bytes: u64,
    chunks: Vec<(ChunkKey, ChunkLabel, ChunkBuilder, f64)>,
}

impl Kept {
    fn finish(mut self) -> Vec<Offer> {
        let chunks = std::mem::take(&mut self.chunks).into_iter();
        let offer = |(key, label, chunk, seconds): (_, _, ChunkBuilder, _)| Offer {
            key,
            label,
            uses: 1.0,
            chunk: chunk.finish(&mut self.charge),
            seconds,
        };
        chunks.map(offer).collect()
    }
}

impl Filling<'_> {
    async fn fill(&self, num_pieces: usize) -> Result<Kept, Error> {
        let Some(charge) = self.tier.charge_table(0) else {
            return Err(self.too_large(0, 0));
        };
        let mut kept = Kept {
            charge,
            num_rows: 0,
            plain_bytes: 0,
            chunks: Vec::new(),
        };
        let num_columns = self.schema.fields().len();
        let listing = named_morsels(&self.loader, num_pieces, num_columns, self.name);
        let morsels = listing.await?;
        let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
        let load = |NamedMorsel { id, keys, .. }| async move {
            let started = Instant::now();
            let batches = self.loader.load(id).await.map_err(unreadable)?;
            Ok::<_, Error>((keys, batches, started.elapsed().as_secs_f64()))
        };
        let loads = morsels.into_iter().map(load);
        let mut loads = stream::iter(loads).buffer_unordered(at_a_time);
        while let Some(loaded) = loads.next().await {
            let (keys, batches, seconds) = loaded?;
            self.keep(&mut kept, keys, &batches, seconds)?;
        }
        Ok(kept)
    }

    fn keep(
        &self,
        kept: &mut Kept,
        keys: Vec<ChunkKey>,
        batches: &[RecordBatch],
        seconds: f64,
    ) -> Result<(), Error> {
        let rows = batches.iter().map(|batch| batch.num_rows() as u64);
        kept.num_rows += rows.sum::<u64>();
        let each = seconds / keys.len().max(1) as f64;
        for (column, key) in keys.into_iter().enumerate() {
            let column_name = self.schema.field(column).name();
            if self.partitions.contains(column_name) {
                continue;
            }
            let mut chunk = ChunkBuilder::default();
            for batch in batches {
                chunk.push(batch.column(column));
            }
            let bytes = chunk.host_bytes();
            if !self.tier.grow(&mut kept.charge, bytes, None) {
                return Err(self.too_large(kept.charge.get(), bytes));
            }
            kept.plain_bytes += chunk.plain_bytes();
            let label = ChunkLabel {
                source: file_of(&key).into(),
                column: column_name.as_str().into(),
            };
            kept.chunks.push((key, label, chunk, each));
        }
        Ok(())
    }

    fn too_large(&self, stored: u64, wanted: u64) -> Error {
        let (used, limit) = (self.tier.used(), self.tier.limit());
        Error::new(
            ErrorKind::ResourcesExhausted,
            format!(
                "table '{}' does not fit in host memory: after {stored} bytes, a chunk wanted \
                 {wanted} more, and of tidegate.host_cache_limit ({limit} bytes) {used} were taken; \
                 nothing of it stays cached: name fewer columns, UNCACHE another table, or raise \
                 tidegate.host_cache_limit or tidegate.memory_limit",
                self.name
            ),
        )
    }
}

/// Returns the file that a chunk was read from.
fn file_of(key: &ChunkKey) -> &str {
    key.source.split(" size=").next().unwrap_or(&key.source)
}
