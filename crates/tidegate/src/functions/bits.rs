//! `bit_count(n)`: how many bits of an integer are set, in two's complement of its type's width.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Int64Array};
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(BitCount {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// Counts bits; NULL of NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BitCount {
    signature: Signature,
}

impl ScalarUDFImpl for BitCount {
    fn name(&self) -> &str {
        "bit_count"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [number] if number.is_integer() => Ok(vec![number.clone()]),
            [DataType::Null] => Ok(vec![DataType::Int64]),
            _ => plan_err!("bit_count takes an integer"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [numbers] = arrays.as_slice() else {
            return exec_err!("bit_count takes one argument");
        };
        let counts = match numbers.data_type() {
            DataType::Int8 => counts::<Int8Type>(numbers, |n| n.count_ones()),
            DataType::Int16 => counts::<Int16Type>(numbers, |n| n.count_ones()),
            DataType::Int32 => counts::<Int32Type>(numbers, |n| n.count_ones()),
            DataType::Int64 => counts::<Int64Type>(numbers, |n| n.count_ones()),
            DataType::UInt8 => counts::<UInt8Type>(numbers, |n| n.count_ones()),
            DataType::UInt16 => counts::<UInt16Type>(numbers, |n| n.count_ones()),
            DataType::UInt32 => counts::<UInt32Type>(numbers, |n| n.count_ones()),
            DataType::UInt64 => counts::<UInt64Type>(numbers, |n| n.count_ones()),
            other => return exec_err!("bit_count takes an integer, and was given {other}"),
        };
        Ok(ColumnarValue::Array(Arc::new(counts)))
    }
}

fn counts<T: ArrowPrimitiveType>(
    numbers: &ArrayRef,
    count: impl Fn(T::Native) -> u32,
) -> Int64Array {
    numbers
        .as_primitive::<T>()
        .unary(|number| i64::from(count(number)))
}
