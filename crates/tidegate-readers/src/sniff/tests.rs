//! Files as they are found.

use arrow::datatypes::DataType;

use super::sniff;
use crate::given::Given;
use crate::sample::{HEAD_BYTES, Sample, pieces_of};

#[test]
fn a_type_may_show_far_from_the_head() {
    let mut text = String::from("id,v\n");
    for row in 0..200_000 {
        text.push_str(&format!(
            "{row},{}\n",
            if row == 199_990 { "x" } else { "1" }
        ));
    }
    let bytes = text.as_bytes();
    let pieces = pieces_of(bytes.len() as u64, HEAD_BYTES)
        .into_iter()
        .map(|range| {
            let bytes = bytes[range.start as usize..range.end as usize].to_vec();
            (range, bytes)
        });
    let sample = Sample::of(bytes.len() as u64, pieces);
    let found = sniff(&sample, &Given::default()).unwrap();
    let types: Vec<DataType> = found.columns.iter().map(|c| c.data_type.clone()).collect();
    assert_eq!(types, [DataType::Int64, DataType::Utf8]);
    let head = Sample::head(bytes[..10_000].to_vec());
    let found = sniff(&head, &Given::default()).unwrap();
    assert_eq!(found.columns[1].data_type, DataType::Int64);
}
