//! The triangular factor of rows that come in pieces.

use nalgebra::DMatrix;

use super::{Regression, Svd, packed_len, regression, svd};

/// Rows for each column that are folded at a time at the least: folding fewer spends its time on the triangle.
const ROWS_PER_COLUMN: usize = 4;
/// The fewest rows that are folded while more may come.
const ROWS_MIN: usize = 32;
/// The rows that are folded at a time if as many come at once. Each time rounds the triangle once more.
const ROWS_AT_ONCE: usize = 1024;

/// R of X = QR of the rows so far; Q is not kept. The signs of R's rows are not defined.
///
/// A value that is not finite makes values of R that are not.
#[derive(Clone, Debug)]
pub struct Triangle {
    columns: usize,
    /// R, k × k once rows were folded.
    folded: Option<DMatrix<f64>>,
    /// Rows that were not folded yet, one after another.
    waiting: Vec<f64>,
}

impl Triangle {
    /// Starts without rows.
    pub fn new(columns: usize) -> Self {
        Self {
            columns,
            folded: None,
            waiting: Vec::new(),
        }
    }

    /// Adds a row. Whoever adds rows calls [`Triangle::settle`] after some.
    pub fn push(&mut self, row: impl IntoIterator<Item = f64>) {
        let before = self.waiting.len();
        self.waiting.extend(row);
        let given = self.waiting.len() - before;
        assert_eq!(given, self.columns, "a row has a value of each column");
        self.fold_from(ROWS_AT_ONCE);
    }

    /// Keeps no more rows than the triangle is worth: a program with many of them has memory for few of each.
    pub fn settle(&mut self) {
        self.fold_from(ROWS_MIN);
    }

    fn fold_from(&mut self, rows: usize) {
        let rows = rows.max(self.columns * ROWS_PER_COLUMN);
        if self.waiting.len() >= rows * self.columns {
            self.fold();
        }
    }

    /// Adds the rows that another triangle stands for.
    pub fn merge(&mut self, packed: &[f64]) {
        assert_eq!(
            packed.len(),
            packed_len(self.columns),
            "a triangle of as many columns"
        );
        let mut rest = packed;
        for zeros in 0..self.columns {
            let (row, after) = rest.split_at(self.columns - zeros);
            self.push(std::iter::repeat_n(0.0, zeros).chain(row.iter().copied()));
            rest = after;
        }
        self.settle();
    }

    /// Returns the upper triangle, row by row.
    pub fn packed(&mut self) -> Vec<f64> {
        let r = self.fold();
        let upper = (0..r.nrows()).flat_map(|i| (i..r.ncols()).map(move |j| r[(i, j)]));
        upper.collect()
    }

    /// Returns the singular values and right singular vectors of the rows.
    pub fn svd(&mut self) -> Svd {
        svd::of(self.fold().clone())
    }

    /// Fits the last column by the others, of which the first is a column of ones.
    pub fn regression(&mut self) -> Regression {
        assert!(self.columns >= 2, "a column of ones and one to fit");
        regression::of(self.fold())
    }

    /// Returns the bytes that are held.
    pub fn size(&self) -> usize {
        let folded = self.folded.as_ref().map_or(0, DMatrix::len);
        (folded + self.waiting.capacity()) * size_of::<f64>()
    }

    /// Folds the rows that wait, and returns the triangle.
    fn fold(&mut self) -> &DMatrix<f64> {
        let columns = self.columns;
        let before = self.folded.take();
        let before = before.unwrap_or_else(|| DMatrix::zeros(columns, columns));
        let folded = if self.waiting.is_empty() {
            before
        } else {
            let waiting = std::mem::take(&mut self.waiting);
            let rows = waiting.len() / columns;
            let mut stacked = before.resize_vertically(columns + rows, 0.0);
            let waiting = DMatrix::from_row_slice(rows, columns, &waiting);
            stacked.rows_mut(columns, rows).copy_from(&waiting);
            triangular(stacked)
        };
        self.folded.insert(folded)
    }
}

/// Returns R of a matrix with no fewer rows than columns, by Householder reflections. Columns are brought to one
/// size first, by powers of two, so that squares neither overflow nor vanish.
pub(crate) fn triangular(mut matrix: DMatrix<f64>) -> DMatrix<f64> {
    let scales: Vec<f64> = matrix
        .column_iter()
        .map(|column| power_of_two(column.iter().copied()))
        .collect();
    for (mut column, scale) in matrix.column_iter_mut().zip(&scales) {
        column *= *scale;
    }
    let mut r = matrix.qr().unpack_r();
    for (mut column, scale) in r.column_iter_mut().zip(&scales) {
        column /= *scale;
    }
    r
}

/// Returns the power of two that brings the largest of values near 1; 1 if that is 0 or not finite.
pub(crate) fn power_of_two(values: impl Iterator<Item = f64>) -> f64 {
    const EXPONENT_BITS: u64 = 0x7ff;
    const MANTISSA_BITS: u32 = 52;
    /// The exponent of 1 twice, as it is stored.
    const TWICE_ONE: u64 = 2 * 1023;
    let largest = values.map(f64::abs).fold(0.0, f64::max);
    if largest == 0.0 || !largest.is_finite() {
        return 1.0;
    }
    let exponent = (largest.to_bits() >> MANTISSA_BITS) & EXPONENT_BITS;
    f64::from_bits((TWICE_ONE - exponent).max(1) << MANTISSA_BITS)
}
