//! `tensor(values, n, ..)`: lists of values as tensors of n by .. elements.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, UInt64Builder};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::shape::Shape;

const SIGNATURE: &str = "tensor(values, n, ...)";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Tensor {
    signature: Signature,
}

impl Tensor {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Tensor {
    fn name(&self) -> &str {
        "tensor"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a tensor depends on its shape")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let ([values, ..], [_, lens @ ..]) = (args.arg_fields, args.scalar_arguments) else {
            return plan_err!("{SIGNATURE}: takes 2 or more arguments");
        };
        let item = match values.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item
            }
            other => {
                return plan_err!(
                    "{SIGNATURE}: the values must be a list, as array_agg(x ORDER BY i, j) gives, \
                     got {other}"
                );
            }
        };
        let shape = shape_of(lens)?;
        let item = Field::new("item", item.data_type().clone(), true);
        let data_type = DataType::FixedSizeList(Arc::new(item), shape.size() as i32);
        let field = Field::new(self.name(), data_type, true);
        Ok(Arc::new(field.with_metadata(shape.metadata())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(values) = args.args.first() else {
            return internal_err!("tensor without an argument");
        };
        let DataType::FixedSizeList(item, size) = args.return_field.data_type() else {
            return internal_err!("a tensor of {}", args.return_field.data_type());
        };
        let values = values.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(tensors(&values, item, *size)?))
    }
}

/// Reads the length of each dimension.
fn shape_of(lens: &[Option<&ScalarValue>]) -> Result<Shape> {
    let len = |len: &Option<&ScalarValue>| {
        let len = len.filter(|len| len.data_type().is_integer())?;
        match len.cast_to(&DataType::UInt64) {
            Ok(ScalarValue::UInt64(len)) => len.and_then(|len| usize::try_from(len).ok()),
            _ => None,
        }
    };
    match lens.iter().map(len).collect::<Option<Vec<usize>>>() {
        Some(lens) => Shape::try_new(lens),
        None => plan_err!("{SIGNATURE}: the shape must be whole numbers, the same for all rows"),
    }
}

/// The most values that stand for NULL lists in a batch.
const NULL_VALUES_MAX: u64 = 1 << 24;

/// Puts the values of each list side by side.
fn tensors(lists: &ArrayRef, item: &FieldRef, size: i32) -> Result<ArrayRef> {
    let (values, starts): (ArrayRef, Vec<(u64, u64)>) = match lists.data_type() {
        DataType::List(_) => {
            let lists = lists.as_list::<i32>();
            let ends = lists.value_offsets().windows(2);
            let ends = ends.map(|ends| (ends[0] as u64, ends[1] as u64)).collect();
            (Arc::clone(lists.values()), ends)
        }
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            let ends = lists.value_offsets().windows(2);
            let ends = ends.map(|ends| (ends[0] as u64, ends[1] as u64)).collect();
            (Arc::clone(lists.values()), ends)
        }
        DataType::FixedSizeList(_, size) => {
            let (lists, size) = (lists.as_fixed_size_list(), *size as u64);
            let ends = (0..lists.len() as u64).map(|row| (row * size, (row + 1) * size));
            (Arc::clone(lists.values()), ends.collect())
        }
        other => return internal_err!("a tensor of {other}"),
    };
    let wanted = size as u64;
    let of_nulls = (lists.null_count() as u64).saturating_mul(wanted);
    if of_nulls > NULL_VALUES_MAX {
        return exec_err!(
            "{SIGNATURE}: NULL lists would take {of_nulls} values of the shape's {wanted} each, and may take \
             {NULL_VALUES_MAX} in a batch"
        );
    }
    let mut places = UInt64Builder::with_capacity(values.len());
    for (row, (start, end)) in starts.into_iter().enumerate() {
        if lists.is_null(row) {
            places.append_nulls(size as usize);
            continue;
        }
        if end - start != wanted {
            return exec_err!(
                "{SIGNATURE}: a list has {} values where the shape has {wanted}",
                end - start
            );
        }
        for place in start..end {
            places.append_value(place);
        }
    }
    let values = take(&values, &places.finish(), None)?;
    let tensors = FixedSizeListArray::try_new_with_length(
        Arc::clone(item),
        size,
        values,
        lists.nulls().cloned(),
        lists.len(),
    )?;
    Ok(Arc::new(tensors))
}
