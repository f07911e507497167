//! Lines that cannot be read are left out and counted.

use std::sync::Arc;

use arrow::array::{AsArray, types::Int64Type};
use arrow::datatypes::{DataType, Field, Schema};

use super::LineDecoder;
use crate::decode::LeftOut;

#[test]
fn lines_that_cannot_be_read_are_left_out_and_counted() {
    let text = "{\"a\": 1}\n\n{\"a\": x}\n{\"a\":\n2}\nnone\n{\"a\": \"z\"}\n{\"a\": 3} {\"a\": 4}\n{\"a\": 5}";
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    for buffer in [1, 7, 100] {
        for batch_rows in [1, 3, 100] {
            let left_out = Arc::<LeftOut>::default();
            let mut decoder =
                LineDecoder::new(Arc::clone(&schema), batch_rows, 11, Arc::clone(&left_out));
            let mut found = Vec::<i64>::new();
            for chunk in text.as_bytes().chunks(buffer).chain([&[][..]]) {
                let mut rest = chunk;
                loop {
                    rest = &rest[decoder.decode(rest).unwrap()..];
                    let is_due = decoder.is_full() || chunk.is_empty();
                    if is_due && let Some(batch) = decoder.flush().unwrap() {
                        found.extend(batch.column(0).as_primitive::<Int64Type>().values());
                    }
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            assert_eq!(found, [1, 3, 4, 5], "{buffer}, {batch_rows}");
            assert_eq!(left_out.count(), 5);
            let first = left_out.first().unwrap();
            assert!(first.starts_with("line 1"), "{first}");
        }
    }
}
