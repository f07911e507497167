//! Entries leave in the order of their keys, however these are spread.

use datafusion::arrow::array::{ArrayRef, StringArray, UInt64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};

use super::{Range, Ranges, SORTED_MAX};
use crate::sorts::entries::{Common, Keys};

/// Rows of a batch, and of a group of ranges at least.
const BATCH: usize = 3_000;

/// Sorts rows of so many inputs, and returns their places in the order.
async fn sorted(columns: &[ArrayRef], have_equal_length: bool, inputs: usize) -> Vec<usize> {
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = columns[0].len();
    let mut keys = Keys::default();
    let mut common = Common::new(have_equal_length);
    let starts: Vec<usize> = (0..rows).step_by(BATCH).collect();
    let per_input = starts.len().div_ceil(inputs);
    for of_input in starts.chunks(per_input) {
        let mut common_of_input = Common::new(have_equal_length);
        for start in of_input {
            let slices = columns
                .iter()
                .map(|column| column.slice(*start, BATCH.min(rows - start)));
            let slices: Vec<ArrayRef> = slices.collect();
            let batch = converter.convert_columns(&slices).unwrap();
            common_of_input.add(&batch);
            keys.push(batch);
        }
        common.join(&common_of_input);
    }
    let held = common.held();
    let mut pieces = Vec::new();
    for start in (0..starts.len()).step_by(per_input) {
        let batches = start..starts.len().min(start + per_input);
        pieces.push(keys.entries(batches, &held).await);
    }
    let mut ranges = Ranges::new(pieces, held.compare_from);
    let mut order = Vec::new();
    loop {
        let group = ranges.next(BATCH, &keys).await.unwrap();
        if group.is_empty() {
            return order;
        }
        let count: usize = group.iter().map(Range::len).sum();
        assert!(count < BATCH + SORTED_MAX, "{count}");
        let entries = group.into_iter().flat_map(|range| range.sorted(&keys));
        let positions = entries.map(|entry| entry.position());
        order.extend(positions.map(|(batch, row)| batch * BATCH + row));
    }
}

fn numbers(of: impl Fn(u64) -> u64) -> ArrayRef {
    std::sync::Arc::new(UInt64Array::from_iter_values((0..20_000).map(of)))
}

#[tokio::test]
async fn numbers_near_and_far_leave_in_order() {
    for (what, of) in [
        ("even", (|n| n * 7919 % 20_000) as fn(u64) -> u64),
        ("equal", |_| 5),
        ("few", |n| n % 3),
        (
            "one far away",
            |n| if n == 9 { u64::MAX } else { n % 5_000 },
        ),
        ("powers", |n| 1 << (n * 31 % 64)),
        ("all bits", |n| (n * 7919 % 20_000) * (u64::MAX / 20_000)),
    ] {
        let columns = [numbers(of)];
        let mut wanted: Vec<usize> = (0..20_000).collect();
        wanted.sort_by_key(|row| of(*row as u64));
        for inputs in [1, 2, 5] {
            let given = sorted(&columns, true, inputs).await;
            assert_eq!(given, wanted, "{what}, {inputs}");
        }
    }
}

/// Keys that differ at more places than an entry has.
#[tokio::test]
async fn wide_keys_are_compared_whole() {
    let of = |column: u64| move |n: u64| (n % 3).wrapping_mul(u64::MAX / 3) ^ ((n >> column) % 5);
    let columns = [
        numbers(of(2)),
        numbers(of(5)),
        numbers(|n| n * 7919 % 20_000),
    ];
    let mut wanted: Vec<usize> = (0..20_000).collect();
    let key = |n: u64| (of(2)(n), of(5)(n), n * 7919 % 20_000);
    wanted.sort_by_key(|row| key(*row as u64));
    assert_eq!(sorted(&columns, true, 2).await, wanted);
}

/// Strings that begin alike, some of them to their end.
#[tokio::test]
async fn strings_are_compared_to_their_end() {
    let of = |n: u64| {
        let begin = "one beginning ".repeat((n % 4) as usize);
        format!(
            "{begin}{}",
            if n.is_multiple_of(2) {
                0
            } else {
                n * 7919 % 20_000
            }
        )
    };
    let strings = StringArray::from_iter_values((0..20_000).map(of));
    assert_eq!(strings.value(0), "0");
    let columns = [std::sync::Arc::new(strings) as ArrayRef];
    assert_eq!(columns[0].data_type(), &DataType::Utf8);
    let mut wanted: Vec<usize> = (0..20_000).collect();
    wanted.sort_by_key(|row| of(*row as u64));
    assert_eq!(sorted(&columns, false, 3).await, wanted);
}

#[tokio::test]
async fn nothing_is_sorted() {
    let held = Common::new(false).held();
    let mut ranges = Ranges::new(Vec::new(), held.compare_from);
    let group = ranges.next(BATCH, &Keys::default()).await.unwrap();
    assert!(group.is_empty());
}
