//! Sums are exact and rounded once.

use super::{ExactSum, FloatSum};

fn sum(values: &[f64]) -> f64 {
    let mut sum = ExactSum::new();
    values.iter().for_each(|value| sum.add(*value));
    let mut reversed = ExactSum::new();
    values.iter().rev().for_each(|value| reversed.add(*value));
    assert_eq!(sum.rounded().to_bits(), reversed.rounded().to_bits());
    let mut few = FloatSum::new();
    values.iter().for_each(|value| few.add(*value));
    let is_same = few.rounded().to_bits() == sum.rounded().to_bits();
    assert!(is_same || sum.rounded().is_nan() && few.rounded().is_nan());
    sum.rounded()
}

#[test]
fn sums_are_exact_and_rounded_once() {
    assert_eq!(sum(&[0.1, 0.2]), 0.1 + 0.2);
    assert_eq!(sum(&[1e308, 1.0, -1e308]), 1.0);
    assert_eq!(sum(&[1e308, 1e308, -1e308]), 1e308);
    assert_eq!(sum(&[1e308, 1e308]), f64::INFINITY);
    assert_eq!(sum(&[f64::MAX, -f64::MAX, -2.5]), -2.5);
    assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
    assert_eq!(
        sum(&[f64::MIN_POSITIVE, -5e-324]),
        f64::MIN_POSITIVE - 5e-324
    );
    assert_eq!(sum(&[1.0, f64::EPSILON / 2.0]), 1.0);
    assert_eq!(sum(&[1.0, f64::EPSILON / 2.0, 1e-300]), 1.0 + f64::EPSILON);
    assert_eq!(sum(&[-0.0, -0.0]).to_bits(), 0);
    assert_eq!(sum(&[f64::MAX, 2.0_f64.powi(970)]), f64::INFINITY);
    assert_eq!(sum(&[f64::MAX, 2.0_f64.powi(969)]), f64::MAX);
}

#[test]
fn few_parts_hold_what_wide_sums_hold() {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state
    };
    for spread in [1, 20, 200, 2_000] {
        let values: Vec<f64> = (0..300)
            .map(|_| {
                let exponent = 1_023 - spread / 2 + next() % spread;
                f64::from_bits(next() >> 63 << 63 | exponent << 52 | next() >> 12)
            })
            .collect();
        assert!(sum(&values).is_finite());
    }
}

#[test]
fn infinities_and_nan_are_added_as_floats_are() {
    assert_eq!(sum(&[1.0, f64::INFINITY]), f64::INFINITY);
    assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    assert!(sum(&[f64::NAN, 1.0]).is_nan());
}
