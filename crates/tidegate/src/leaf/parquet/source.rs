//! The gate in front of DataFusion's Parquet source.

use std::sync::Arc;

use datafusion_datasource::morsel::Morselizer;

use super::loader::RowGroups;
use super::planner::GatedMorselizer;
use crate::files::layer::{Layer, Layered, Opening};
use crate::leaf::Slot;

/// A `ParquetSource` that yields only what its region's run leaves to the host.
pub(super) type GatedSource = Layered<Gate>;

/// What a gated source claims by.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) slot: Arc<Slot>,
    pub(super) row_groups: Arc<RowGroups>,
}

impl Layer for Gate {
    fn morselizer(&self, inner: Box<dyn Morselizer>, opening: Opening<'_>) -> Box<dyn Morselizer> {
        match self.slot.run() {
            None => inner,
            Some(run) => Box::new(GatedMorselizer {
                inner: Arc::from(inner),
                run: Arc::clone(run),
                row_groups: Arc::clone(&self.row_groups),
                partition: opening.partition,
            }),
        }
    }
}
