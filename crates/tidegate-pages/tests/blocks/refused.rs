//! What there is no cursor for, and says so when a row group is opened.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BinaryArray, Int32Array, ListArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, TimeUnit};
use parquet::file::properties::WriterProperties;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_pages::{ColumnRequest, PageError};

use crate::compare::{Opened, new_reader};
use crate::files::{Nulls, Values, columns, written, written_batch};

fn check(file: &Opened, leaf: usize, data_type: DataType, expect: &str) {
    let mut other = file.shared();
    other.columns = vec![ColumnRequest { leaf, data_type }];
    let mut reader = new_reader();
    let refused = other.open(&mut reader, 0, None).unwrap_err();
    assert!(
        matches!(refused.error, PageError::Unsupported(_)),
        "{refused}"
    );
    assert!(refused.to_string().contains(expect), "{refused}");
    assert_eq!(reader.next_block(), 0);
}

#[test]
fn other_types_than_the_files() {
    let mut random = StdRng::seed_from_u64(61);
    let columns = columns(10, Nulls::None, Values::Few, &mut random);
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let file = Opened::new(&written(columns, WriterProperties::builder().build()));
    let refused = |name: &str, data_type: DataType| {
        let leaf = names.iter().position(|other| *other == name).unwrap();
        check(&file, leaf, data_type, &format!("column '{name}'"));
    };
    refused("i32", DataType::Int64);
    refused("i32", DataType::Date32);
    refused("i8", DataType::Int16);
    refused("u32", DataType::Int32);
    refused("i64", DataType::UInt64);
    refused("date32", DataType::Date64);
    refused("f32", DataType::Float64);
    refused(
        "timestamp_ms",
        DataType::Timestamp(TimeUnit::Microsecond, None),
    );
    refused(
        "timestamp_us",
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    );
    refused(
        "timestamp_zone",
        DataType::Timestamp(TimeUnit::Microsecond, None),
    );
    refused("decimal9", DataType::Decimal128(9, 3));
    refused("decimal38", DataType::Decimal128(37, 10));
    refused("decimal38", DataType::Decimal256(38, 10));
    refused("text", DataType::Binary);
    refused("bool", DataType::Int8);
}

#[test]
fn nested_columns_and_bytes() {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), None]);
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int32, true)),
        ints,
    )]);
    let bytes = BinaryArray::from_vec(vec![b"a", b"b"]);
    let batch = RecordBatch::try_from_iter([
        ("list", Arc::new(list) as ArrayRef),
        ("struct", Arc::new(inner) as ArrayRef),
        ("bytes", Arc::new(bytes) as ArrayRef),
    ])
    .unwrap();
    let file = Opened::new(&written_batch(&batch, WriterProperties::builder().build()));
    check(&file, 0, DataType::Int32, "it is nested");
    check(&file, 1, DataType::Int32, "it is nested");
    check(&file, 2, DataType::Binary, "is not read as Binary");
}
