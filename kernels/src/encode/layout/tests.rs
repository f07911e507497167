//! All values give the tightest base.

use super::{Layout, greatest_of};
use crate::program::Interval;

fn narrowed(base: i64, factor: u64, width: u32) -> Layout {
    Layout::Narrowed {
        base,
        factor,
        width,
    }
}

#[test]
fn all_values_give_the_tightest_base() {
    let of = |low, high, factor| Layout::of_range(Interval::new(low, high), factor);
    assert_eq!(of(7, 7, 0), narrowed(7, 1, 0));
    assert_eq!(of(-5, 250, 1), narrowed(-5, 1, 1));
    assert_eq!(of(-5, 251, 1), narrowed(-5, 1, 2));
    assert_eq!(of(100, 25_600, 100), narrowed(100, 100, 1));
    let (least, greatest) = (i128::from(i64::MIN), i128::from(i64::MAX));
    assert_eq!(of(least, greatest, 1), narrowed(i64::MIN, 1, 8));
    assert_eq!(of(0, greatest + 1, 1), Layout::WORDS);
    assert_eq!(
        of(-1, greatest + 1, 1),
        Layout::Wide(Interval::new(-1, greatest + 1))
    );
}

#[test]
fn a_sample_leaves_room_on_both_sides() {
    let of = |low, high, factor, is_unsigned| {
        Layout::of_sample(Interval::new(low, high), factor, is_unsigned)
    };
    assert_eq!(of(1, 50, 1, false), Some(narrowed(0, 1, 1)));
    assert_eq!(of(300, 5_000, 100, false), Some(narrowed(0, 100, 1)));
    assert_eq!(of(307, 5_007, 100, false), Some(narrowed(7, 100, 1)));
    // 200 of 255 are known to be needed, so 27 are left below.
    assert_eq!(of(1_000, 1_200, 1, false), Some(narrowed(973, 1, 1)));
    assert_eq!(of(-100, 100, 1, false), Some(narrowed(-127, 1, 1)));
    let nearly_least = i128::from(i64::MIN) + 3;
    assert_eq!(
        of(nearly_least, nearly_least + 10, 2, false),
        Some(narrowed(i64::MIN + 1, 2, 1))
    );
    // Words hold whatever there is.
    let nearly_greatest = i128::from(i64::MAX) - 9;
    assert_eq!(
        of(nearly_least, nearly_greatest, 1, false),
        Some(narrowed(i64::MIN, 1, 8))
    );
    assert_eq!(of(-1, 1 << 40, 1, false), Some(narrowed(i64::MIN, 1, 8)));
    assert_eq!(of(0, 1 << 40, 1, true), Some(Layout::WORDS));
    assert_eq!(of(0, 1 << 40, 2, true), None);
    assert_eq!(of(-(1 << 70), 0, 1, false), None);
    assert_eq!(of(9, 9, 0, true), Some(narrowed(9, 1, 0)));
}

#[test]
fn the_greatest_raw_values_are_those_of_the_widths() {
    let all = [0, 1, 2, 4, 8].map(greatest_of);
    assert_eq!(all, [0, 0xff, 0xffff, 0xffff_ffff, u64::MAX]);
}
