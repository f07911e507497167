//! `elements(column)`: the elements of lists and tensors with their indices.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, FixedSizeListArray, Int64Builder, ListArray,
    StructArray, UInt64Builder,
};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::shape;
use crate::generate::INDEX_NAMES;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Elements {
    signature: Signature,
}

impl Elements {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Elements {
    fn name(&self) -> &str {
        "elements"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of elements depends on the column's field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [column] = args.arg_fields else {
            return plan_err!("elements(column): takes 1 argument");
        };
        let item = Field::new("item", DataType::Struct(fields(column)?), true);
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::List(Arc::new(item)),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(field), Some(column)) = (args.arg_fields.first(), args.args.first()) else {
            return internal_err!("elements without an argument");
        };
        let column = column.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(elements(field, &column)?))
    }
}

/// Returns the fields of an element: the indices, and the value.
fn fields(column: &Field) -> Result<Fields> {
    let elements = shape::Elements::of(column)?;
    let indices = INDEX_NAMES[..elements.num_dimensions()].iter();
    let indices = indices.map(|name| Field::new(*name, DataType::Int64, false));
    let value = Field::new("x", elements.data_type, true);
    Ok(indices.chain([value]).collect())
}

fn elements(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    let rows = shape::Elements::of(field)?;
    let (values, extents) = match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let extent = |row: usize| {
                (
                    lists.value_offsets()[row] as u64,
                    lists.value_length(row) as usize,
                )
            };
            let extents = (0..lists.len()).map(extent).collect();
            (Arc::clone(lists.values()), extents)
        }
        DataType::LargeList(_) => {
            let lists = column.as_list::<i64>();
            let extent = |row: usize| {
                (
                    lists.value_offsets()[row] as u64,
                    lists.value_length(row) as usize,
                )
            };
            let extents = (0..lists.len()).map(extent).collect();
            (Arc::clone(lists.values()), extents)
        }
        _ => {
            let size = rows.shape.as_ref().map_or(0, shape::Shape::size);
            let extents = (0..column.len())
                .map(|row| ((row * size) as u64, size))
                .collect();
            (flat(column)?, extents)
        }
    };
    let extents: Vec<(u64, usize)> = extents;
    let mut places = UInt64Builder::new();
    let mut indices: Vec<Int64Builder> = Vec::new();
    indices.resize_with(rows.num_dimensions(), Int64Builder::new);
    let mut ends: Vec<i32> = vec![0];
    for (row, (start, len)) in extents.into_iter().enumerate() {
        // What lies under NULL is nothing.
        let len = if column.is_null(row) { 0 } else { len };
        for element in 0..len {
            places.append_value(start + element as u64);
            match &rows.shape {
                Some(shape) => {
                    for (builder, index) in indices.iter_mut().zip(shape.indices(element)) {
                        builder.append_value(index);
                    }
                }
                None => indices[0].append_value(element as i64),
            }
        }
        let Ok(end) = i32::try_from(places.len()) else {
            return exec_err!(
                "elements(column): more than 2^31 - 1 elements in a batch of {} rows; \
                 SET datafusion.execution.batch_size to fewer",
                column.len()
            );
        };
        ends.push(end);
    }
    let mut columns: Vec<ArrayRef> = indices
        .into_iter()
        .map(|mut builder| Arc::new(builder.finish()) as ArrayRef)
        .collect();
    columns.push(take(&values, &places.finish(), None)?);
    let item = StructArray::try_new(fields(field)?, columns, None)?;
    let of_item = Arc::new(Field::new("item", item.data_type().clone(), true));
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    let nulls = column.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(
        of_item,
        ends,
        Arc::new(item),
        nulls,
    )?))
}

/// Returns the elements of fixed-size lists, nested or not, one after another; under an inner NULL they
/// are NULL.
fn flat(column: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = column.as_any().downcast_ref::<FixedSizeListArray>() else {
        return Ok(Arc::clone(column));
    };
    let size = lists.value_length() as usize;
    let mut values = Arc::clone(lists.values());
    if lists.null_count() > 0 {
        let mut places = UInt64Builder::with_capacity(lists.len() * size);
        for row in 0..lists.len() {
            for element in 0..size {
                let place = (row * size + element) as u64;
                places.append_option((!lists.is_null(row)).then_some(place));
            }
        }
        values = take(&values, &places.finish(), None)?;
    }
    flat(&values)
}
