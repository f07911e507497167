//! Sums of products of columns.

use super::packed_len;

/// Products that are summed at a time, so that the compiler can take them together.
const LANES: usize = 8;

/// XᵀX of the rows so far. Each piece of rows is summed by itself and then added, so that the rounding of a sum
/// grows with the number of pieces and not of rows.
#[derive(Clone, Debug)]
pub struct Gram {
    columns: usize,
    packed: Vec<f64>,
}

impl Gram {
    /// Starts without rows.
    pub fn new(columns: usize) -> Self {
        Self {
            columns,
            packed: vec![0.0; packed_len(columns)],
        }
    }

    /// Adds rows, which are given as columns of one length.
    pub fn add(&mut self, columns: &[&[f64]]) {
        assert_eq!(
            columns.len(),
            self.columns,
            "a row has a value of each column"
        );
        let pairs = columns
            .iter()
            .enumerate()
            .flat_map(|(at, one)| columns.iter().skip(at).map(move |other| (*one, *other)));
        for (sum, (one, other)) in self.packed.iter_mut().zip(pairs) {
            *sum += dot(one, other);
        }
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, packed: &[f64]) {
        assert_eq!(packed.len(), self.packed.len(), "sums of as many columns");
        for (sum, other) in self.packed.iter_mut().zip(packed) {
            *sum += other;
        }
    }

    /// Returns the upper triangle, row by row.
    pub fn packed(&self) -> &[f64] {
        &self.packed
    }

    /// Returns the rows of the whole matrix.
    pub fn rows(&self) -> Vec<Vec<f64>> {
        let mut rows = vec![vec![0.0; self.columns]; self.columns];
        let columns = self.columns;
        let places = (0..columns).flat_map(|i| (i..columns).map(move |j| (i, j)));
        for ((i, j), &sum) in places.zip(&self.packed) {
            rows[i][j] = sum;
            rows[j][i] = sum;
        }
        rows
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let rest = ones.remainder().iter().zip(others.remainder());
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    let mut sums = [0.0; LANES];
    for (a, b) in ones.zip(others) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}
