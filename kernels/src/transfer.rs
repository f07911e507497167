//! How many bytes a batch is when it crosses to a device or back.

use arrow_array::{Array, RecordBatch};

/// Returns the bytes that the batch's rows refer to: of a slice only its own part, where
/// `get_array_memory_size` counts the buffers that it shares.
///
/// A dictionary's values count whole, as they cross whole. Columns whose slices Arrow cannot measure
/// count with all of their buffers.
pub fn referenced_bytes(batch: &RecordBatch) -> u64 {
    batch
        .columns()
        .iter()
        .map(|column| array_bytes(column.as_ref()))
        .sum()
}

fn array_bytes(array: &dyn Array) -> u64 {
    let bytes = array
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| array.get_buffer_memory_size());
    bytes as u64
}

#[cfg(test)]
mod tests;
