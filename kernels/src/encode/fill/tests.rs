//! Each bit has its byte.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::ArrowNativeType;

use super::{Filler, Simd, Validity, spread};

#[test]
fn each_bit_has_its_byte() {
    for bits in 0..=u8::MAX {
        for (bit, byte) in spread(bits).to_le_bytes().into_iter().enumerate() {
            assert_eq!(byte != 0, bits >> bit & 1 == 1, "{bits} {bit}");
        }
    }
}

#[test]
fn nulls_are_filled_and_nothing_else() {
    let is_null = |row: usize| match row / 64 {
        0 => row.is_multiple_of(3),
        1 => false,
        2 => true,
        _ => row.is_multiple_of(7) || row == 499,
    };
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter(
        (0..500).map(|row| (!is_null(row)).then_some(row as i64)),
    ))];
    let validity = Validity::of(&arrays);
    check::<i8>(&validity, is_null);
    check::<u16>(&validity, is_null);
    check::<i32>(&validity, is_null);
    check::<u64>(&validity, is_null);
    check::<i128>(&validity, is_null);
    check::<f32>(&validity, is_null);
    check::<f64>(&validity, is_null);
}

fn check<T: ArrowNativeType + PartialEq>(validity: &Validity, is_null: impl Fn(usize) -> bool) {
    let value = |row: usize| T::usize_as(row % 120);
    let raw: Vec<T> = (0..500).map(value).collect();
    for instructions in Simd::ALL {
        for (first, len) in [
            (0, 500),
            (0, 64),
            (64, 64),
            (5, 1),
            (31, 2),
            (33, 400),
            (499, 1),
        ] {
            let mut filler = Filler::new(T::usize_as(125));
            let block = &raw[first..first + len];
            let filled = filler.fill(instructions, first, block, validity);
            let expected: Vec<T> = (first..first + len)
                .map(|row| {
                    if is_null(row) {
                        T::usize_as(125)
                    } else {
                        value(row)
                    }
                })
                .collect();
            assert_eq!(filled, expected, "{instructions:?} {first} {len}");
        }
    }
}
