//! Products of distances are exact.

use super::ProductSums;

/// Sums pairs of integers, of which a unit is a power of two.
fn of(pairs: &[(i64, i64)], exponents: [i32; 2]) -> ProductSums {
    let word = |sum: i64| [sum as u64].into_iter();
    let sums = [
        pairs.iter().map(|(one, _)| one).sum(),
        pairs.iter().map(|(_, two)| two).sum(),
    ];
    let products = pairs.iter().map(|(one, two)| one * two).sum();
    ProductSums::of(sums.map(word), word(products), exponents)
}

#[test]
fn products_of_distances_are_exact() {
    assert_eq!(of(&[], [0, 0]).co_moment(0), 0.0);
    let pairs = [(1, 2), (2, 4), (3, -3), (6, 1)];
    // The means are 3 and 1.
    assert_eq!(of(&pairs, [0, 0]).co_moment(4), -2.0 - 3.0);
    assert_eq!(of(&pairs, [-1, 3]).co_moment(4), -5.0 * 4.0);
    let far = 1 << 30;
    let pairs = [(far, -far), (far + 1, -far - 1), (far + 2, 1 - far)];
    assert_eq!(of(&pairs, [0, 0]).co_moment(3), 1.0);
}

#[test]
fn groups_merge_in_the_same_units_and_in_others() {
    let (first, rest) = ([(1, 2), (2, 4)], [(3, -3), (6, 1)]);
    for exponents in [[0, 0], [1, 2]] {
        let mut all = of(&first, [0, 0]);
        let scaled = rest.map(|(one, two)| (one << exponents[0], two << exponents[1]));
        let units = exponents.map(|exponent: i32| -exponent);
        all.merge(2, &of(&scaled, units), 2);
        assert_eq!(all.co_moment(4), -5.0, "{exponents:?}");
    }
    let mut none = of(&[], [0, 0]);
    none.merge(0, &of(&first, [5, 5]), 2);
    assert_eq!(none.co_moment(2), 1024.0);
}
