//! The columns of a table in a file of it, by their names.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatchOptions, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::nested_struct::cast_column;

/// Where a file has the columns that are wanted of it.
pub(super) struct Columns {
    wanted: SchemaRef,
    /// The places of columns of the file that are read, in the order in which they are.
    pub(super) read: Vec<usize>,
    /// For each wanted column its place among those that are read; `None` for one that the file lacks.
    places: Vec<Option<usize>>,
}

impl Columns {
    /// Finds the wanted columns of a table among those of a file. Where both have the same names in the same order,
    /// of which some may be equal, they are found by place.
    ///
    /// # Errors
    /// The name of a column without NULLs that the file lacks.
    pub(super) fn find(file: &Schema, table: &Schema, wanted: &[usize]) -> Result<Self, String> {
        let names = |schema: &Schema| -> Vec<String> {
            let fields = schema.fields().iter();
            fields.map(|field| field.name().clone()).collect()
        };
        let is_alike = names(file) == names(table);
        let (mut read, mut places) = (Vec::new(), Vec::new());
        let mut fields = Vec::new();
        for at in wanted {
            let field = &table.fields()[*at];
            fields.push(Arc::clone(field));
            let found = match is_alike {
                true => Some(*at),
                false => file.index_of(field.name()).ok(),
            };
            if found.is_none() && !field.is_nullable() {
                return Err(field.name().clone());
            }
            places.push(found.map(|_| read.len()));
            read.extend(found);
        }
        Ok(Self {
            wanted: Arc::new(Schema::new(fields)),
            read,
            places,
        })
    }

    /// Returns the wanted columns of a batch that has those that were read. A column of another type is cast; one that
    /// the file lacks is NULL.
    pub(super) fn of(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = batch.num_rows();
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let columns = self.wanted.fields().iter().zip(&self.places);
        let columns = columns.map(|(field, place)| -> Result<ArrayRef, ArrowError> {
            match place {
                Some(place) if batch.column(*place).data_type() == field.data_type() => {
                    Ok(Arc::clone(batch.column(*place)))
                }
                // Fields of structs are found by their names.
                Some(place) if field.data_type().is_nested() => {
                    cast_column(batch.column(*place), field.data_type(), &options)
                        .map_err(|error| ArrowError::from_external_error(Box::new(error)))
                }
                Some(place) => cast_with_options(batch.column(*place), field.data_type(), &options),
                None => Ok(new_null_array(field.data_type(), rows)),
            }
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.wanted), columns, &options)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::arrow::record_batch::RecordBatch;

    use super::Columns;

    fn schema(fields: &[(&str, DataType, bool)]) -> Schema {
        let fields = fields
            .iter()
            .map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable));
        Schema::new(fields.collect::<Vec<_>>())
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let table = schema(&[
            ("a", DataType::Int64, true),
            ("b", DataType::Int64, true),
            ("c", DataType::Utf8, true),
        ]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let file = RecordBatch::try_from_iter([("c", texts), ("a", numbers)]).unwrap();
        let columns = Columns::find(&file.schema(), &table, &[2, 0, 1]).unwrap();
        assert_eq!(columns.read, [0, 1]);
        let found = columns.of(&file).unwrap();
        let names: Vec<_> = found
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        assert_eq!(names, ["c", "a", "b"]);
        assert_eq!(found.column(1).as_ref(), &Int64Array::from(vec![7]));
        assert_eq!(found.column(2).null_count(), 1);
        // No column at all: the rows are counted.
        let none = Columns::find(&file.schema(), &table, &[]).unwrap();
        let empty = file.project(&none.read).unwrap();
        assert_eq!(none.of(&empty).unwrap().num_rows(), 1);
    }

    #[test]
    fn names_that_are_equal_go_by_place() {
        let twice = schema(&[("a", DataType::Int64, true), ("a", DataType::Int64, true)]);
        assert_eq!(Columns::find(&twice, &twice, &[1]).unwrap().read, [1]);
    }

    #[test]
    fn a_column_without_nulls_must_be_there() {
        let table = schema(&[("a", DataType::Int64, false)]);
        let file = schema(&[("b", DataType::Int64, false)]);
        assert_eq!(Columns::find(&file, &table, &[0]).err().unwrap(), "a");
    }
}
