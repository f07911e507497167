//! The form in which rows travel: types that every client knows, under one schema.
//!
//! A client is told a result's columns before it fetches them, and some refuse rows whose schema
//! differs in a single flag. So each result has one wire schema, made from the planned columns: views,
//! dictionaries and runs are written out as plain values, and every column may hold nulls. Batches are
//! cast and stamped with it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::{IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use tonic::Status;

use crate::status::defect;

/// Returns the columns as they travel.
pub(crate) fn wire_schema(columns: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = columns.fields().iter().map(wire_field).collect();
    Arc::new(Schema::new_with_metadata(
        fields,
        columns.metadata().clone(),
    ))
}

/// Returns a table's columns in the types in which their rows travel, each as nullable as it is.
pub(crate) fn table_schema(columns: &Schema) -> Schema {
    let fields = columns.fields().iter().map(|field| {
        let wire = wire_field(field);
        wire.as_ref().clone().with_nullable(field.is_nullable())
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), columns.metadata().clone())
}

fn wire_field(field: &FieldRef) -> FieldRef {
    let kind = wire_type(field.data_type());
    if kind == *field.data_type() && field.is_nullable() {
        return Arc::clone(field);
    }
    let plain = Field::new(field.name(), kind, true);
    Arc::new(plain.with_metadata(field.metadata().clone()))
}

fn wire_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => wire_type(value),
        DataType::RunEndEncoded(_, value) => wire_type(value.data_type()),
        // The encoder announces lists of 64-bit offsets as ones of 32, and casts their batches.
        DataType::List(item)
        | DataType::ListView(item)
        | DataType::LargeList(item)
        | DataType::LargeListView(item) => DataType::List(wire_field(item)),
        DataType::Map(entries, sorted) => DataType::Map(wire_entries(entries), *sorted),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(wire_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(wire_field).collect()),
        other => other.clone(),
    }
}

/// Returns the entries of a map: they and their keys are never NULL.
fn wire_entries(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else {
        return Arc::clone(entries);
    };
    let fields = fields.iter().enumerate().map(|(place, field)| {
        let wire = wire_field(field);
        match place {
            0 => Arc::new(wire.as_ref().clone().with_nullable(false)),
            _ => wire,
        }
    });
    let plain = entries.as_ref().clone();
    Arc::new(plain.with_data_type(DataType::Struct(fields.collect())))
}

/// Gives a batch the form of a wire schema.
pub(crate) fn stamp(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.num_columns() != schema.fields().len() {
        return Err(ArrowError::SchemaError(format!(
            "{} columns were planned and {} came",
            schema.fields().len(),
            batch.num_columns()
        )));
    }
    let fields = schema.fields().iter();
    let columns = batch.columns().iter().zip(fields).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        // Only the form may differ: another type would change values.
        if wire_type(column.data_type()) != *field.data_type() {
            return Err(ArrowError::SchemaError(format!(
                "column '{}' was planned as {} and came as {}",
                field.name(),
                field.data_type(),
                column.data_type()
            )));
        }
        cast(column, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Writes a schema as clients read it.
pub(crate) fn schema_bytes(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    message
        .map(|IpcMessage(bytes)| bytes)
        .map_err(|error| defect("the columns cannot be written", &error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringViewArray,
        new_null_array,
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
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
        assert_eq!(stamp(&batch, &schema).unwrap().num_rows(), 3);
    }
}
