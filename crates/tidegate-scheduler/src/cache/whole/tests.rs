//! Batches are known by their arrays, in any order; anything else is another scan.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};

use super::{ScanKey, ScanRows};

fn batch(start: i64, rows: i64) -> RecordBatch {
    let column = |offset| {
        Arc::new(Int64Array::from_iter_values(
            start + offset..start + offset + rows,
        ))
    };
    let columns: [(&str, ArrayRef); 2] = [("a", column(0)), ("b", column(1))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn key(batches: &[RecordBatch]) -> ScanKey {
    ScanKey::new(ScanRows::Batches(batches.into()), vec![1, 0])
}

#[test]
fn batches_are_told_by_their_arrays() {
    let batches = [batch(0, 3), batch(10, 3), batch(20, 4)];
    let key = key(&batches);
    let has = |order: &[&RecordBatch]| key.has_batches(order.iter().copied(), &[0, 1]);
    let [first, second, third] = &batches;
    let empty = batch(0, 0);
    assert!(has(&[first, second, third]));
    assert!(has(&[third, &empty, first, second]));
    assert!(has(&[first, third, second]));
    assert!(!has(&[first, second]));
    assert!(!has(&[first, second, third, first]));
    assert!(!has(&[first, second, second]));
    assert!(!has(&[second, second, third]));
    assert!(!has(&[third, third, third]));
    assert!(!has(&[first, &batch(10, 3), third]));
    assert!(!has(&[first, second, &third.slice(0, 3)]));
    assert_eq!(key.positions(&[0, 1]), Some(vec![1, 0]));
    assert_eq!(key.positions(&[1, 2]), None);
}

#[test]
fn only_the_columns_that_are_read_must_be_the_same() {
    let (known, other) = (batch(0, 3), batch(5, 3));
    let columns = vec![Arc::clone(known.column(0)), Arc::clone(other.column(1))];
    let updated = RecordBatch::try_new(known.schema(), columns).unwrap();
    let key = key(std::slice::from_ref(&known));
    assert!(key.has_batches([&updated].into_iter(), &[0]));
    assert!(!key.has_batches([&updated].into_iter(), &[1]));
    assert!(!key.has_batches([&updated].into_iter(), &[0, 1]));
}

#[test]
fn a_batch_may_be_there_twice_in_its_place() {
    let (twice, other) = (batch(0, 3), batch(5, 3));
    let key = key(&[twice.clone(), other.clone(), twice.clone()]);
    let has = |order: &[&RecordBatch]| key.has_batches(order.iter().copied(), &[0, 1]);
    assert!(has(&[&twice, &other, &twice]));
    // Which one is meant cannot be told here.
    assert!(!has(&[&twice, &twice, &other]));
}
