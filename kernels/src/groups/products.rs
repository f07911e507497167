//! Sums of the products of distances of pairs from their means, of exact sums of both and of their products.
//!
//! With n pairs, n·Σxy − Σx·Σy is n times that sum: an integer of units, formed exactly and rounded once.
//! `kernels/cuda/moments_finish.cuh` does the same, bit for bit.

use super::moments::{Wide, carried, difference, nearest, product, total};

/// The exact sums of a group's pairs, in units of two fixed points; or what they come to, once groups in
/// other units were added.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProductSums {
    Exact {
        sums: [Wide; 2],
        products: Wide,
        /// The exponents of two whose powers are a unit of either.
        exponents: [i32; 2],
    },
    Rounded {
        means: [f64; 2],
        products: f64,
    },
}

impl ProductSums {
    /// Takes the digits of all sums, the least first.
    pub(super) fn of<I: Iterator<Item = u64>>(
        sums: [I; 2],
        products: impl Iterator<Item = u64>,
        exponents: [i32; 2],
    ) -> Self {
        Self::Exact {
            sums: sums.map(carried),
            products: carried(products),
            exponents,
        }
    }

    /// Returns the sum of the products of the distances of so many pairs.
    pub(super) fn co_moment(&self, count: u64) -> f64 {
        match self {
            _ if count == 0 => 0.0,
            Self::Rounded { products, .. } => *products,
            Self::Exact {
                sums: [one, two],
                products,
                exponents: [exponent, other],
            } => {
                let counts = carried([count].into_iter());
                let spread = difference(&product(&counts, products), &product(one, two));
                nearest(&spread, exponent + other) / count as f64
            }
        }
    }

    fn means(&self, count: u64) -> [f64; 2] {
        match self {
            Self::Rounded { means, .. } => *means,
            Self::Exact {
                sums, exponents, ..
            } => [0, 1].map(|at| nearest(&sums[at], exponents[at]) / count as f64),
        }
    }

    /// Adds a group's pairs to another's: exactly in the same units, else as DataFusion merges partial
    /// states.
    pub(super) fn merge(&mut self, count: u64, other: &Self, other_count: u64) {
        if let (
            Self::Exact {
                sums,
                products,
                exponents,
            },
            Self::Exact {
                sums: other_sums,
                products: other_products,
                exponents: other_exponents,
            },
        ) = (&mut *self, other)
            && exponents == other_exponents
        {
            for (sum, other) in sums.iter_mut().zip(other_sums) {
                *sum = total(sum, other);
            }
            *products = total(products, other_products);
            return;
        }
        *self = match (count, other_count) {
            (0, _) => other.clone(),
            (_, 0) => return,
            _ => self.merged(count, other, other_count),
        };
    }

    fn merged(&self, count: u64, other: &Self, other_count: u64) -> Self {
        let (here, there) = (self.means(count), other.means(other_count));
        let (shares, all) = (
            [count as f64, other_count as f64],
            (count + other_count) as f64,
        );
        let apart = (there[0] - here[0]) * (there[1] - here[1]) * (shares[0] * shares[1] / all);
        Self::Rounded {
            means: [0, 1].map(|at| here[at] * (shares[0] / all) + there[at] * (shares[1] / all)),
            products: self.co_moment(count) + other.co_moment(other_count) + apart,
        }
    }
}

#[cfg(test)]
mod tests {
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
}
