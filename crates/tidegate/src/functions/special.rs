//! `gamma(x)`, `lgamma(x)` and `nextafter(x, y)`, as in DuckDB.
//!
//! `gamma` and `lgamma` are errors at zero and at negative whole numbers, where they have no value.
//! `nextafter` is the number next to x on the way to y. NULL of NULL.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MATH;

use super::plain::{self, Parts};

/// Returns the functions.
pub(crate) fn functions() -> [ScalarUDF; 3] {
    let gamma = Parts {
        names: &["gamma"],
        section: DOC_SECTION_MATH,
        description: "Returns gamma of a number: (x - 1)! of a whole one.",
        syntax: "gamma(x)",
        takes: |given| a_number("gamma", given),
        returns: |_| DataType::Float64,
        computes: |given| of_each("gamma", given, libm::tgamma),
    };
    let lgamma = Parts {
        names: &["lgamma"],
        section: DOC_SECTION_MATH,
        description: "Returns the natural logarithm of the absolute value of gamma of a number.",
        syntax: "lgamma(x)",
        takes: |given| a_number("lgamma", given),
        returns: |_| DataType::Float64,
        computes: |given| of_each("lgamma", given, libm::lgamma),
    };
    let next_after = Parts {
        names: &["nextafter"],
        section: DOC_SECTION_MATH,
        description: "Returns the floating-point number next to x on the way to y.",
        syntax: "nextafter(x, y)",
        takes: |given| match given {
            [DataType::Float32, DataType::Float32] => Ok(given.to_vec()),
            [x, y] if is_number(x) && is_number(y) => Ok(vec![DataType::Float64; 2]),
            _ => plan_err!("nextafter takes two numbers: nextafter(x, y)"),
        },
        returns: |given| match given {
            [DataType::Float32, ..] => DataType::Float32,
            _ => DataType::Float64,
        },
        computes: next_after,
    };
    [gamma, lgamma, next_after].map(plain::function)
}

fn is_number(given: &DataType) -> bool {
    given.is_numeric() || given.is_null()
}

fn a_number(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [given] if is_number(given) => Ok(vec![DataType::Float64]),
        _ => plan_err!("{name} takes a number"),
    }
}

/// Computes a function of each number that is no pole of gamma.
fn of_each(name: &str, given: &[ArrayRef], of: fn(f64) -> f64) -> Result<ArrayRef> {
    let Some(numbers) = given.first() else {
        return exec_err!("{name} takes a number");
    };
    let numbers = numbers.as_primitive::<Float64Type>().iter();
    let values = numbers.map(|number| match number {
        Some(number) if number <= 0.0 && number.is_finite() && number.trunc() == number => {
            exec_err!("{name} has no value at zero and at negative whole numbers")
        }
        number => Ok(number.map(of)),
    });
    Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
}

fn next_after(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [from, to] = given else {
        return exec_err!("nextafter takes two numbers");
    };
    if let (Some(from), Some(to)) = (
        from.as_primitive_opt::<Float32Type>(),
        to.as_primitive_opt::<Float32Type>(),
    ) {
        let pairs = from.iter().zip(to.iter());
        let next = |(from, to): (f32, f32)| match from.partial_cmp(&to) {
            Some(std::cmp::Ordering::Less) => from.next_up(),
            Some(std::cmp::Ordering::Greater) => from.next_down(),
            Some(std::cmp::Ordering::Equal) => to,
            None => f32::NAN,
        };
        let values = pairs.map(|(from, to)| from.zip(to).map(next));
        return Ok(Arc::new(values.collect::<Float32Array>()));
    }
    let pairs = from.as_primitive::<Float64Type>().iter();
    let pairs = pairs.zip(to.as_primitive::<Float64Type>().iter());
    let next = |(from, to): (f64, f64)| match from.partial_cmp(&to) {
        Some(std::cmp::Ordering::Less) => from.next_up(),
        Some(std::cmp::Ordering::Greater) => from.next_down(),
        Some(std::cmp::Ordering::Equal) => to,
        None => f64::NAN,
    };
    let values = pairs.map(|(from, to)| from.zip(to).map(next));
    Ok(Arc::new(values.collect::<Float64Array>()))
}
