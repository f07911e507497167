//! Moments of digits against integers.

use super::{Moments, PowerSums};

/// Returns the digits of a sum, each as a word.
fn digits(value: i128, levels: usize) -> impl Iterator<Item = u64> {
    let negative = value < 0;
    (0..levels).map(move |level| {
        let digit = (value.unsigned_abs() >> (32 * level)) as u32;
        if negative {
            0_u64.wrapping_sub(u64::from(digit))
        } else {
            u64::from(digit)
        }
    })
}

fn sums(values: &[i64], exponent: i32) -> PowerSums {
    let sum = values.iter().map(|value| i128::from(*value)).sum();
    let squares = values.iter().map(|value| i128::from(*value).pow(2)).sum();
    PowerSums::of(digits(sum, 3), digits(squares, 4), exponent)
}

fn of(values: &[i64], exponent: i32) -> Moments {
    sums(values, exponent).moments(values.len() as u64)
}

#[test]
fn nothing_has_none() {
    assert_eq!(of(&[], 0), Moments::default());
}

#[test]
fn integers_are_exact() {
    let found = of(&[1, 2, 3, 4], 0);
    assert_eq!((found.mean, found.m2), (2.5, 5.0));
    let found = of(&[-1, -2, -6], 4);
    assert_eq!((found.mean, found.m2), (-48.0, 14.0 * 256.0));
    let far = 1 << 60;
    let found = of(&[far, far + 1, far + 2], -60);
    assert_eq!(found.m2, 2.0 * 2_f64.powi(-120));
    let found = of(&[i64::MAX, i64::MIN, 1], 0);
    assert_eq!(found.mean, 0.0);
    assert_eq!(found.m2, 2_f64.powi(127));
}

#[test]
fn parts_in_one_unit_merge_exactly() {
    let far = 1 << 60;
    let mut merged = sums(&[far, far + 1], 0);
    merged.merge(2, &sums(&[far + 2, -7], 0), 2);
    let whole = of(&[far, far + 1, far + 2, -7], 0);
    assert_eq!(merged.moments(4), whole);
}

#[test]
fn parts_in_other_units_merge() {
    let whole = of(&[2, 4, 6, 10, 20], 0);
    let mut merged = sums(&[1, 2, 3], 1);
    merged.merge(3, &sums(&[10, 20], 0), 2);
    let merged = merged.moments(5);
    assert!((merged.mean - whole.mean).abs() < 1e-12);
    assert!((merged.m2 - whole.m2).abs() < 1e-10);
    let mut alone = sums(&[1, 2, 3], 1);
    alone.merge(3, &sums(&[], 0), 0);
    assert_eq!(alone.moments(3), of(&[1, 2, 3], 1));
    let mut nothing = sums(&[], 1);
    nothing.merge(0, &sums(&[10, 20], 0), 2);
    assert_eq!(nothing.moments(2), of(&[10, 20], 0));
}
