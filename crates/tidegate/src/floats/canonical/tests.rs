//! One NaN and one zero, in arrays of each kind.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, Int32Array, ListArray, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};

use super::{canonical_array, holds_floats};

fn bits(array: &ArrayRef) -> Vec<Option<u64>> {
    let values = array.as_primitive::<Float64Type>().iter();
    values.map(|value| value.map(f64::to_bits)).collect()
}

const QUIET: u64 = 0x7ff8_0000_0000_0000;

#[test]
fn every_nan_and_both_zeros_have_one_form() {
    let payload = f64::from_bits(0xfff0_0000_0000_0001);
    let values = vec![
        Some(1.5),
        Some(-0.0),
        Some(f64::NAN),
        Some(-f64::NAN),
        Some(payload),
        None,
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
        Some(-5e-324),
    ];
    let array: ArrayRef = Arc::new(Float64Array::from(values));
    let expected = [
        Some(1.5_f64.to_bits()),
        Some(0),
        Some(QUIET),
        Some(QUIET),
        Some(QUIET),
        None,
        Some(f64::INFINITY.to_bits()),
        Some(f64::NEG_INFINITY.to_bits()),
        Some((-5e-324_f64).to_bits()),
    ];
    assert_eq!(bits(&canonical_array(&array).unwrap()), expected);
    // Through an offset, too.
    let sliced = canonical_array(&array.slice(1, 3)).unwrap();
    assert_eq!(bits(&sliced), expected[1..4]);
}

#[test]
fn an_array_that_does_not_change_is_the_same_array() {
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.0, f32::NAN, f32::INFINITY, -1.0]));
    assert!(Arc::ptr_eq(&canonical_array(&floats).unwrap(), &floats));
    let integers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    assert!(Arc::ptr_eq(&canonical_array(&integers).unwrap(), &integers));
}

#[test]
fn floats_inside_of_other_types_count() {
    let values: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 1.0, -f64::NAN]));
    let field = Arc::new(Field::new("item", DataType::Float64, true));
    let offsets = OffsetBuffer::new(vec![0, 1, 3].into());
    let list: ArrayRef = Arc::new(ListArray::new(field, offsets, values, None));
    assert!(holds_floats(list.data_type()));
    let fields = vec![Field::new("l", list.data_type().clone(), true)];
    let structs: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![list], None));

    let changed = canonical_array(&structs).unwrap();
    assert_eq!(changed.data_type(), structs.data_type());
    let lists = changed.as_struct().column(0).as_list::<i32>().clone();
    let expected = [Some(0), Some(1.0_f64.to_bits()), Some(QUIET)];
    assert_eq!(bits(lists.values()), expected);
    let second = canonical_array(&structs.slice(1, 1)).unwrap();
    let second = second.as_struct().column(0).as_list::<i32>().value(0);
    assert_eq!(bits(&second), expected[1..]);
}
