//! Maps that are written as JSON, which has text as names alone: keys of any other type become text before.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::arrow::error::ArrowError;

/// Writes the keys of the maps in a batch, also within lists, structs and maps, as text.
///
/// # Errors
/// Arrow's, for keys that have no text.
pub fn with_text_keys(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let fields: Fields = schema.fields().iter().map(field_of_texts).collect();
    if fields == *schema.fields() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(&fields);
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns)
}

/// Returns the field of such values.
fn field_of_texts(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(values) => DataType::List(field_of_texts(values)),
        DataType::LargeList(values) => DataType::LargeList(field_of_texts(values)),
        DataType::FixedSizeList(values, size) => {
            DataType::FixedSizeList(field_of_texts(values), *size)
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field_of_texts).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(entries_of_texts(entries), *is_sorted),
        _ => return Arc::clone(field),
    };
    with_type(field, data_type)
}

fn entries_of_texts(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else {
        return Arc::clone(entries);
    };
    let mut fields = fields.iter();
    let key = fields.next().map(|key| match key.data_type().is_string() {
        true => Arc::clone(key),
        false => with_type(key, DataType::Utf8),
    });
    let fields = key.into_iter().chain(fields.map(field_of_texts));
    with_type(entries, DataType::Struct(fields.collect()))
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(data_type))
}
