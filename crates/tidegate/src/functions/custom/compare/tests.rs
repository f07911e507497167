//! Differences between arrays, and what is made of a compiler's log.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array};

use super::{complaints, first_difference};

fn doubles(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<Float64Array>())
}

#[test]
fn floats_are_the_same_bit_for_bit_unless_ulps_are_allowed() {
    let next = f64::from_bits(1.5_f64.to_bits() + 2);
    let (left, right) = (
        doubles(&[Some(1.0), None, Some(f64::NAN), Some(1.5)]),
        doubles(&[Some(1.0), None, Some(-f64::NAN), Some(next)]),
    );
    assert_eq!(first_difference(&left, &right, 0), Some(3));
    assert_eq!(first_difference(&left, &right, 1), Some(3));
    assert_eq!(first_difference(&left, &right, 2), None);
    let zeros = (doubles(&[Some(0.0)]), doubles(&[Some(-0.0)]));
    assert_eq!(first_difference(&zeros.0, &zeros.1, 0), Some(0));
    assert_eq!(first_difference(&zeros.0, &zeros.1, 1), None);
    let far = (doubles(&[Some(f64::MAX)]), doubles(&[Some(f64::MIN)]));
    assert_eq!(first_difference(&far.0, &far.1, 1 << 20), Some(0));
    let infinite = (doubles(&[Some(f64::INFINITY)]), doubles(&[Some(f64::NAN)]));
    assert_eq!(
        first_difference(&infinite.0, &infinite.1, u64::MAX),
        Some(0)
    );
    let single = |value: f32| Arc::new(Float32Array::from(vec![value])) as ArrayRef;
    let after = f32::from_bits(2.0_f32.to_bits() + 1);
    assert_eq!(first_difference(&single(2.0), &single(after), 0), Some(0));
    assert_eq!(first_difference(&single(2.0), &single(after), 1), None);
    assert_eq!(first_difference(&single(-2.0), &single(2.0), 1000), Some(0));
}

#[test]
fn a_null_differs_from_a_value() {
    let left: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let right: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(0)]));
    assert_eq!(first_difference(&left, &right, 0), Some(1));
    assert_eq!(first_difference(&left, &left, 0), None);
    let bools = |value| Arc::new(BooleanArray::from(vec![value])) as ArrayRef;
    assert_eq!(first_difference(&bools(true), &bools(false), 0), Some(0));
}

#[test]
fn complaints_are_those_of_the_body() {
    let log = "f(2): error: identifier \"z\" is undefined\n      return z;\n\nkernel(1): error: also\n\
               1 error detected in the compilation of \"function.cu\".";
    let told = complaints("f", log).unwrap();
    assert_eq!(told, "f(2): error: identifier \"z\" is undefined");
    assert_eq!(complaints("f", "warning"), None);
}
