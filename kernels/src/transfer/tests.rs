//! A slice counts its own rows.

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
