//! Small batches become large ones, with the same rows in the same order.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::record_batch::RecordBatchOptions;
use datafusion::error::DataFusionError;
use futures::{StreamExt, TryStreamExt, executor::block_on, stream};

use super::coalesced;

fn rows(count: i32) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("n", DataType::Int32, false),
        Field::new("s", DataType::Utf8View, false),
    ]);
    let texts = (0..count).map(|n| format!("a text of more than twelve bytes: {n}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..count)),
        Arc::new(StringViewArray::from_iter_values(texts)),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn slices(of: &RecordBatch, lengths: &[usize]) -> Vec<RecordBatch> {
    let mut start = 0;
    let slice = |&length: &usize| {
        start += length;
        of.slice(start - length, length)
    };
    lengths.iter().map(slice).collect()
}

fn put_together(batches: Vec<RecordBatch>, batch_size: usize) -> Vec<RecordBatch> {
    let schema = batches[0].schema();
    let input = stream::iter(batches.into_iter().map(Ok));
    block_on(coalesced(input.boxed(), &schema, batch_size).try_collect()).unwrap()
}

#[test]
fn small_batches_are_put_together_in_order() {
    for lengths in [
        vec![1; 100],
        vec![33, 0, 1, 40, 26],
        vec![100],
        vec![0, 99, 1],
    ] {
        let whole = rows(100);
        let given = slices(&whole, &lengths);
        let schema = whole.schema();
        let together = put_together(given, 32);
        let most = lengths.iter().max().unwrap().max(&32);
        assert!(together.iter().all(|batch| batch.num_rows() <= *most));
        assert!(together.len() <= 8, "{lengths:?}: {}", together.len());
        let back = concat_batches(&schema, &together).unwrap();
        assert_eq!(back, whole, "{lengths:?}");
    }
}

#[test]
fn slices_leave_their_buffers_behind() {
    let whole = rows(10_000);
    let given = slices(&whole, &[7; 100]);
    let together = put_together(given, 8192);
    let bytes: usize = together
        .iter()
        .map(|batch| batch.get_array_memory_size())
        .sum();
    assert!(bytes < whole.get_array_memory_size() * 2, "{bytes}");
}

#[test]
fn rows_without_columns_are_counted() {
    let options = RecordBatchOptions::new().with_row_count(Some(5));
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    let together = put_together(vec![batch.clone(), batch], 8192);
    assert_eq!(
        together.iter().map(RecordBatch::num_rows).sum::<usize>(),
        10
    );
}

#[test]
fn an_error_ends_the_rows() {
    let whole = rows(3);
    let schema = whole.schema();
    let error = DataFusionError::Execution("disk".into());
    let input = stream::iter(vec![Ok(whole.clone()), Err(error), Ok(whole)]);
    let given: Vec<_> = block_on(coalesced(input.boxed(), &schema, 8192).collect());
    assert!(matches!(given.as_slice(), [Err(_)]), "{given:?}");
}
