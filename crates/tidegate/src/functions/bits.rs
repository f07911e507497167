//! `bit_count(n)`: how many bits of an integer are set, in two's complement of its type's width.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Int64Array};
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MATH;

use super::plain::{self, Parts};

/// Returns the function; NULL of NULL.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["bit_count"],
        section: DOC_SECTION_MATH,
        description: "Counts the bits of an integer that are set.",
        syntax: "bit_count(n)",
        takes: |given| match given {
            [number] if number.is_integer() => Ok(vec![number.clone()]),
            [DataType::Null] => Ok(vec![DataType::Int64]),
            _ => plan_err!("bit_count takes an integer"),
        },
        returns: |_| DataType::Int64,
        computes: all_counts,
    })
}

fn all_counts(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [numbers] = given else {
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
    Ok(Arc::new(counts))
}

fn counts<T: ArrowPrimitiveType>(
    numbers: &ArrayRef,
    count: impl Fn(T::Native) -> u32,
) -> Int64Array {
    numbers
        .as_primitive::<T>()
        .unary(|number| i64::from(count(number)))
}
