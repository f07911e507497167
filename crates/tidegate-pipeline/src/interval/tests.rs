//! Ranges follow arithmetic.

use super::{FloatRange, Interval};

#[test]
fn ranges_follow_arithmetic() {
    let (a, b) = (Interval::new(-3, 5), Interval::new(2, 4));
    assert_eq!(a + b, Interval::new(-1, 9));
    assert_eq!(a - b, Interval::new(-7, 3));
    assert_eq!(a * b, Interval::new(-12, 20));
    assert_eq!(-a, Interval::new(-5, 3));
    assert_eq!(a.divided_by(b), Interval::new(-1, 2));
    assert_eq!(a.remainder(b), Interval::new(-3, 3));
    let rests = Interval::ALL.remainder(Interval::ALL);
    assert!(rests.contains(i128::MAX % i128::MIN));
    assert_eq!(Interval::ALL + b, Interval::new(i128::MIN + 2, i128::MAX));
}

#[test]
fn every_quotient_is_in_the_range() {
    let ranges = [(-7, -2), (-7, 3), (0, 9), (4, 9)];
    let divisors = [(1, 3), (2, 2), (-3, -1), (-2, 4)];
    for (low, high) in ranges {
        for (least, most) in divisors {
            let quotients = Interval::new(low, high).divided_by(Interval::new(least, most));
            let rests = Interval::new(low, high).remainder(Interval::new(least, most));
            for a in low..=high {
                for b in (least..=most).filter(|b| *b != 0) {
                    assert!(quotients.contains(a / b), "{a} / {b} in {quotients:?}");
                    assert!(rests.contains(a % b), "{a} % {b} in {rests:?}");
                }
            }
        }
    }
}

#[test]
fn narrowed_floats_are_in_the_range() {
    for value in [
        0.0,
        0.1,
        3e-45,
        1e-40,
        -7.5,
        2.9e38,
        3.1e38,
        1e300,
        f64::NAN,
    ] {
        let single = f64::from(value as f32);
        assert!(FloatRange::of(value).contains(value), "{value}");
        assert!(FloatRange::of(value).narrowed().contains(single), "{value}");
    }
    assert_eq!(FloatRange::of(0.0).narrowed().bound, 0.0);
    assert!(FloatRange::of(7.5).narrowed().bound < 7.6);
    assert!(!FloatRange::of(7.5).contains(7.4));
}

#[test]
fn rounding_keeps_the_range_and_its_limit() {
    let rounded = Interval::new(90_000, 10_500_000).rounded(Interval::signed(64));
    assert_eq!(rounded, Interval::new(0, (1 << 24) - 1));
    let all = Interval::signed(64);
    assert_eq!(all.rounded(all), all);
}
