//! Rows travel as plain values that may be null.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringViewArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use futures::TryStreamExt as _;

use super::{stamp, table_schema, wire_schema};

#[test]
fn rows_travel_as_plain_values_that_may_be_null() {
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("view", Arc::new(StringViewArray::from(vec!["x", "y", "z"]))),
        ("word", Arc::new(words)),
        ("number", Arc::new(Int32Array::from(vec![1, 2, 3]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let schema = wire_schema(&batch.schema());
    let kinds: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect();
    assert_eq!(kinds, [&DataType::Utf8, &DataType::Utf8, &DataType::Int32]);
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
    let stamped = stamp(&batch, &schema).unwrap();
    assert_eq!(stamped.schema(), schema);
    assert_eq!(stamped.column(1).as_string::<i32>().value(2), "a");
}

#[test]
fn nested_types_are_written_out_too() {
    let item = |kind| Arc::new(Field::new("item", kind, false));
    let schema = Schema::new(vec![Field::new(
        "l",
        DataType::List(item(DataType::Utf8View)),
        false,
    )]);
    let wire = wire_schema(&schema);
    let expect = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
    assert_eq!(wire.field(0).data_type(), &expect);
}

/// What the encoder announces is what it was given, whatever the type.
#[tokio::test]
async fn announced_columns_are_those_of_the_rows() {
    let item = |kind| Arc::new(Field::new("item", kind, false));
    let entries = Field::new(
        "entries",
        DataType::Struct(
            vec![
                Field::new("key", DataType::Utf8View, false),
                Field::new("value", DataType::LargeList(item(DataType::Utf8View)), true),
            ]
            .into(),
        ),
        false,
    );
    let within = Field::new("x", DataType::LargeList(item(DataType::BinaryView)), false);
    let kinds = [
        DataType::LargeList(item(DataType::Int32)),
        DataType::LargeListView(item(DataType::Utf8View)),
        DataType::ListView(item(DataType::LargeUtf8)),
        DataType::FixedSizeList(item(DataType::LargeList(item(DataType::Int8))), 2),
        DataType::Struct(vec![within].into()),
        DataType::Map(Arc::new(entries), false),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8)),
    ];
    for kind in kinds {
        let schema = Schema::new(vec![Field::new("c", kind.clone(), true)]);
        let column = new_null_array(&kind, 3);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
        let wire = wire_schema(&schema);
        let stamped = stamp(&batch, &wire).unwrap();
        let rows = futures::stream::iter([Ok(stamped)]);
        let encoder = FlightDataEncoderBuilder::new().with_schema(Arc::clone(&wire));
        let sent = encoder.build(rows);
        let mut read = FlightRecordBatchStream::new_from_flight_data(sent);
        let came = read.try_next().await.unwrap().unwrap();
        assert_eq!(came.schema(), wire, "{kind}");
        assert_eq!(came.num_rows(), 3);
    }
}

#[test]
fn a_table_has_the_types_of_its_rows_and_its_own_nullability() {
    let columns = Schema::new(vec![
        Field::new("a", DataType::Utf8View, false),
        Field::new("b", DataType::Int32, true),
    ]);
    let expect = Schema::new(vec![
        Field::new("a", DataType::Utf8, false),
        Field::new("b", DataType::Int32, true),
    ]);
    assert_eq!(table_schema(&columns), expect);
}

#[test]
fn rows_without_columns_keep_their_number() {
    let schema = wire_schema(&Schema::empty());
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    assert_eq!(stamp(&batch, &schema).unwrap().num_rows(), 3);
}
