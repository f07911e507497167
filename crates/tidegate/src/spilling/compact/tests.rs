//! Slices and views of large buffers are copied and others are not.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::compute::concat_batches;

use super::{compacted, pieces};

#[test]
fn slices_and_views_of_large_buffers_are_copied_and_others_are_not() {
    let texts: Vec<String> = (0..20_000)
        .map(|n| format!("a string that is long {n}"))
        .collect();
    let whole = RecordBatch::try_from_iter([
        (
            "n",
            Arc::new(Int64Array::from_iter_values(0..20_000)) as ArrayRef,
        ),
        (
            "s",
            Arc::new(StringArray::from_iter_values(&texts)) as ArrayRef,
        ),
        (
            "v",
            Arc::new(StringViewArray::from_iter_values(&texts)) as ArrayRef,
        ),
    ])
    .unwrap();
    let same = compacted(whole.clone()).unwrap();
    assert!(
        whole
            .columns()
            .iter()
            .zip(same.columns())
            .all(|(a, b)| Arc::ptr_eq(a, b))
    );
    let cut: Vec<RecordBatch> = pieces(&whole, 300, usize::MAX)
        .map(Result::unwrap)
        .collect();
    assert_eq!(cut.len(), 67);
    assert_eq!(concat_batches(&whole.schema(), &cut).unwrap(), whole);
    // Of a third of the batch's bytes.
    let bytes = whole.get_array_memory_size() / 3;
    let thirds: Vec<_> = pieces(&whole, usize::MAX, bytes)
        .map(Result::unwrap)
        .collect();
    assert!((3..=4).contains(&thirds.len()), "{}", thirds.len());
    assert_eq!(concat_batches(&whole.schema(), &thirds).unwrap(), whole);
    let part = whole.slice(100, 50);
    let small = compacted(part.clone()).unwrap();
    assert_eq!(small, part);
    assert!(part.columns()[2].get_buffer_memory_size() > 400_000);
    for column in small.columns() {
        assert!(column.get_buffer_memory_size() < 10_000, "{column:?}");
    }
}
