//! Puts small batches of a region together before they leave it.
//!
//! Rows that were read morsel by morsel come in batches of a morsel's size, often slices of larger ones.
//! An operator above that keeps them counts each slice as all of the buffers that it lies in, runs out
//! of memory after a few, and spills them to a file of their own: one open file for every few morsels.

use std::collections::VecDeque;

use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

/// Passes rows on in their order, in batches of at least half of `batch_size` rows but for the last;
/// larger ones as they are, smaller ones copied together.
pub(super) fn coalesced(
    batches: BoxStream<'static, Result<RecordBatch>>,
    schema: &SchemaRef,
    batch_size: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let large = (batch_size / 2).max(1);
    let coalescer = BatchCoalescer::new(schema.clone(), batch_size.max(1))
        .with_biggest_coalesce_batch_size(Some(large));
    let state = Coalesced {
        batches,
        coalescer: Some(coalescer),
        ready: VecDeque::new(),
    };
    stream::unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((next, state))
    })
    .boxed()
}

struct Coalesced {
    batches: BoxStream<'static, Result<RecordBatch>>,
    /// `None` after the last batch or an error.
    coalescer: Option<BatchCoalescer>,
    ready: VecDeque<RecordBatch>,
}

impl Coalesced {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(Ok(batch));
            }
            let mut coalescer = self.coalescer.take()?;
            let batch = match self.batches.next().await {
                // Without columns there is nothing to copy, and a batch is its number of rows.
                Some(Ok(batch)) if batch.num_columns() == 0 => {
                    self.coalescer = Some(coalescer);
                    return Some(Ok(batch));
                }
                Some(Ok(batch)) => Some(batch),
                Some(Err(error)) => return Some(Err(error)),
                None => None,
            };
            let ended = batch.is_none();
            let put = match batch {
                Some(batch) => coalescer.push_batch(batch),
                None => coalescer.finish_buffered_batch(),
            };
            if let Err(error) = put {
                return Some(Err(error.into()));
            }
            while let Some(batch) = coalescer.next_completed_batch() {
                self.ready.push_back(batch);
            }
            if !ended {
                self.coalescer = Some(coalescer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
