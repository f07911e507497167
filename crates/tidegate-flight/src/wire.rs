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
mod tests;
