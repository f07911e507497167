//! A generated table's morsels: as its source cuts them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_kernels::program::{Generated as Array, GeneratedColumn};
use tidegate_scheduler::{
    ArrayScan, ChunkKey, LoadError, MorselId, MorselLoader, MorselSize, ScanKey, ScanRows,
};

use super::Pieces;
use crate::leaf::LeafOptions;
use crate::sources::{ArrayParts, Batches, MorselSource};

/// A generated table.
#[derive(Debug)]
pub(super) struct Generated {
    source: Arc<dyn MorselSource>,
    columns: Arc<[usize]>,
    batch_size: usize,
    identity: Option<Arc<str>>,
    /// What the cache knows the morsels by: a source, and their numbers in it.
    chunks: Option<Chunks>,
    array: Option<Arc<ArrayScan>>,
    column_names: Vec<Arc<str>>,
}

/// The source that morsels belong to, and their numbers there unless they are their places.
#[derive(Debug)]
struct Chunks {
    source: Arc<str>,
    numbers: Option<Arc<[usize]>>,
}

impl Chunks {
    fn of(source: &dyn MorselSource) -> Option<Self> {
        let (source, numbers) = match source.origin() {
            Some((origin, numbers)) => (origin, Some(numbers.into())),
            None => (source, None),
        };
        Some(Self {
            source: source.identity()?.into(),
            numbers,
        })
    }
}

impl Generated {
    pub(super) fn new(
        source: &Arc<dyn MorselSource>,
        columns: &Arc<[usize]>,
        options: LeafOptions,
    ) -> Self {
        let schema = source.schema();
        let column_names = columns.iter().map(|&column| {
            let field = schema.field(column);
            format!("{}: {}", field.name(), field.data_type()).into()
        });
        Self {
            array: array_scan(source.as_ref(), columns).map(Arc::new),
            chunks: Chunks::of(source.as_ref()),
            source: Arc::clone(source),
            columns: Arc::clone(columns),
            batch_size: options.batch_size,
            identity: source.identity().map(Arc::from),
            column_names: column_names.collect(),
        }
    }
}

/// Returns what a device makes in the place of these columns of a source, if it is an array.
pub(super) fn array_scan(source: &dyn MorselSource, columns: &[usize]) -> Option<ArrayScan> {
    let ArrayParts { array, step, parts } = source.array()?;
    let column = |column: &usize| GeneratedColumn::of(&array, *column);
    let columns = columns.iter().map(column).collect();
    Some(ArrayScan {
        source: Arc::new(Array::new(array, columns, step, &parts)),
        parts,
    })
}

impl Pieces for Generated {
    fn sizes(&self) -> &[MorselSize] {
        self.source.morsels()
    }

    fn batches(&self, morsel: MorselId, batch_size: usize) -> Result<Batches> {
        let (source, columns) = (&self.source, &self.columns);
        source.batches(morsel.index, columns, batch_size)
    }

    fn what(&self) -> Option<(u64, String)> {
        if self.array.is_some() {
            // What a device makes is not to be kept there of itself.
            return None;
        }
        let (identity, chunks) = (self.identity.as_ref()?, self.chunks.as_ref()?);
        let mut hash = DefaultHasher::new();
        (identity, &self.columns).hash(&mut hash);
        Some((hash.finish(), chunks.source.to_string()))
    }
}

impl MorselLoader for Generated {
    fn list(&self, _: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>> {
        futures::future::ready(Ok(self.sizes().to_vec())).boxed()
    }

    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>> {
        let (source, columns) = (Arc::clone(&self.source), Arc::clone(&self.columns));
        let batch_size = self.batch_size;
        async move { Ok(source.read(morsel.index, &columns, batch_size)?) }.boxed()
    }

    fn array(&self) -> Option<Arc<ArrayScan>> {
        self.array.clone()
    }

    fn names_chunks(&self) -> bool {
        self.chunks.is_some()
    }

    fn chunk_key(&self, morsel: MorselId, column: usize) -> Option<ChunkKey> {
        let chunks = self.chunks.as_ref()?;
        let number = match &chunks.numbers {
            Some(numbers) => *numbers.get(morsel.index)?,
            None => morsel.index,
        };
        Some(ChunkKey {
            source: Arc::clone(&chunks.source),
            column: Arc::clone(&self.column_names[column]),
            part: number as u64,
        })
    }

    fn scan_key(&self) -> Option<ScanKey> {
        let rows = ScanRows::Named(Arc::clone(self.identity.as_ref()?));
        Some(ScanKey::new(rows, self.columns.to_vec()))
    }

    fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        match scan.rows() {
            ScanRows::Named(name) if Some(name) == self.identity.as_ref() => {
                scan.positions(&self.columns)
            }
            _ => None,
        }
    }
}
