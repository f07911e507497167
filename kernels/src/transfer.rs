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
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

    use super::referenced_bytes;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("c", column)]).unwrap()
    }

    #[test]
    fn a_slice_counts_its_own_rows() {
        let whole = batch(Arc::new(Int64Array::from_iter_values(0..1000)));
        assert_eq!(referenced_bytes(&whole), 8000);
        assert_eq!(referenced_bytes(&whole.slice(10, 5)), 40);
        assert_eq!(referenced_bytes(&whole.slice(10, 0)), 0);
    }

    #[test]
    fn validity_and_strings_count() {
        let nulls = batch(Arc::new(Int64Array::from_iter(
            (0..64).map(|i| (i % 2 == 0).then_some(i)),
        )));
        assert_eq!(referenced_bytes(&nulls), 64 * 8 + 8);
        let strings = batch(Arc::new(StringArray::from(vec!["ab", "cde", "f"])));
        assert_eq!(referenced_bytes(&strings), 4 * 4 + 6);
        assert_eq!(referenced_bytes(&strings.slice(1, 1)), 2 * 4 + 3);
    }
}
