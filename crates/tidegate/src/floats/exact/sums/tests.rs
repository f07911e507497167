//! Exact sums in any order, of any magnitude.

use datafusion::logical_expr::EmitTo;
use num_bigint::BigInt;

use super::{ADDED_MAX, ExactSums, nearest};

/// Values whose rounded sum depends on the order in which they are added.
const MIXED: [f64; 9] = [
    1e300,
    1.0,
    -1e300,
    f64::MIN_POSITIVE,
    5e-324,
    -0.1,
    1e16,
    3.5,
    -1e16,
];

fn one_group() -> ExactSums {
    let mut sums = ExactSums::default();
    sums.resize(1);
    sums
}

fn sum(values: &[f64]) -> ExactSums {
    let mut sums = one_group();
    values.iter().for_each(|value| sums.add(0, *value));
    sums
}

#[test]
fn a_sum_is_rounded_once() {
    assert_eq!(sum(&[]).rounded(0), 0.0);
    assert_eq!(sum(&[-0.0]).rounded(0).to_bits(), 0);
    assert_eq!(sum(&[1e300, 1.0, -1e300]).rounded(0), 1.0);
    assert_eq!(sum(&[0.1; 10]).rounded(0), 1.0);
    // An intermediate sum that no double holds.
    assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]).rounded(0), f64::MAX);
    assert_eq!(sum(&[f64::MAX, f64::MAX]).rounded(0), f64::INFINITY);
    assert_eq!(sum(&[5e-324, 5e-324]).rounded(0), 1e-323);
    // Ties are even: 2^53 + 1 lies between two doubles.
    let big = 9_007_199_254_740_992.0;
    assert_eq!(sum(&[big, 1.0]).rounded(0), big);
    assert_eq!(sum(&[big, 1.0, 2.0]).rounded(0), big + 4.0);
    assert_eq!(sum(&[big, 1.0, 1e-300]).rounded(0), big + 2.0);
    assert_eq!(sum(&[-big, -1.0, -1e-300]).rounded(0), -big - 2.0);
}

#[test]
fn what_is_not_finite_adds_up_as_ieee_754_has_it() {
    assert_eq!(sum(&[f64::INFINITY, 1.0]).rounded(0), f64::INFINITY);
    assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).rounded(0).is_nan());
    assert!(sum(&[f64::NAN, 1.0]).rounded(0).is_nan());
    let mut product = one_group();
    product.add_product(0, f64::INFINITY, 0.0);
    assert!(product.rounded(0).is_nan());
}

#[test]
fn a_state_does_not_depend_on_the_order_or_on_how_values_were_shared_out() {
    let expected = sum(&MIXED);
    for turned in 0..MIXED.len() {
        let mut values = MIXED;
        values.rotate_left(turned);
        let all = sum(&values);
        assert_eq!(all.state(0), expected.state(0));
        let (some, others) = values.split_at(turned);
        let mut merged = one_group();
        merged.merge(0, &sum(some).state(0)).unwrap();
        merged.merge(0, &sum(others).state(0)).unwrap();
        assert_eq!(merged.state(0), expected.state(0));
        assert_eq!(merged.rounded(0), expected.rounded(0));
    }
}

#[test]
fn products_are_exact() {
    // (1 + 2^-52)² − 1 − 2^-51 is 2^-104.
    let near = 1.0 + f64::EPSILON;
    let mut sums = one_group();
    sums.add_product(0, near, near);
    sums.add_product(0, -1.0, 1.0);
    sums.add_product(0, -2.0, f64::EPSILON);
    assert_eq!(sums.rounded(0), f64::EPSILON * f64::EPSILON);
    // Neither the least nor the greatest product is a double.
    let mut sums = one_group();
    sums.add_product(0, 5e-324, 5e-324);
    assert_eq!(
        sums.integer(0).unwrap().0.bits() as i32 + sums.integer(0).unwrap().1,
        -2147
    );
    sums.add_product(0, f64::MAX, f64::MAX);
    assert_eq!(sums.rounded(0), f64::INFINITY);
    sums.add_product(0, f64::MAX, -f64::MAX);
    assert_eq!(sums.rounded(0), 0.0);
    assert_ne!(sums.integer(0).unwrap().0, BigInt::ZERO);
}

#[test]
fn groups_keep_their_sums_as_others_come_and_go() {
    let mut sums = ExactSums::default();
    sums.resize(3);
    for (group, value) in [(0, 1.5), (1, -2.5), (2, 1e-200), (0, 1e200), (1, f64::NAN)] {
        sums.add(group, value);
    }
    let first = sums.take(EmitTo::First(1));
    assert_eq!(first.rounded(0), 1e200);
    assert!(sums.rounded(0).is_nan());
    assert_eq!(sums.rounded(1), 1e-200);
    sums.resize(3);
    sums.add(2, 7.0);
    let rest = sums.take(EmitTo::All);
    assert_eq!((rest.rounded(1), rest.rounded(2)), (1e-200, 7.0));
    sums.resize(1);
    assert_eq!(sums.rounded(0), 0.0);
}

#[test]
fn words_are_carried_before_they_are_full() {
    let mut sums = one_group();
    let value = -f64::from(u32::MAX);
    sums.add(0, value);
    sums.added = ADDED_MAX - 1;
    sums.words[0] = -(i64::from(u32::MAX) << 30);
    sums.add(0, value);
    assert_eq!(sums.added, 0);
    assert!(
        sums.words[..2]
            .iter()
            .all(|word| (0..1 << 32).contains(word))
    );
}

#[test]
fn bytes_that_are_no_state_are_refused() {
    let mut sums = one_group();
    let states: [&[u8]; 5] = [&[], &[0], &[0, 0, 1], &[255, 127, 1], &[200, 0, 1, 0, 0, 0]];
    for state in states {
        let error = sums.merge(0, state).unwrap_err().to_string();
        assert!(error.contains("the state of an exact sum"), "{error}");
    }
    assert_eq!(sums.rounded(0), 0.0);
}

#[test]
fn rounding_meets_subnormals_once() {
    // 3 · 2^-1075 lies between 1 and 2 times the least double; the tie goes to the even one.
    assert_eq!(nearest(&BigInt::from(3), -1075), 1e-323);
    assert_eq!(nearest(&BigInt::from(1), -1075), 0.0);
    assert_eq!(nearest(&BigInt::from(1), -2000), 0.0);
    // Two roundings, to 53 bits and then to a subnormal, would go up.
    let near_tie: BigInt = (BigInt::from(1) << 60) + 1;
    assert_eq!(nearest(&(near_tie - 2), -1135), 0.0);
}
