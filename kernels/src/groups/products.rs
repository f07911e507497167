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
mod tests;
