//! Ordinary least squares from a triangular factor.
//!
//! With R of (1, X, y) the coefficients solve a triangular system, and the last value of the last column is the
//! length of what the fit leaves: Golub, Van Loan: "Matrix Computations", 5.3.2. The column of ones comes first,
//! so that what follows it in R is R of the centred columns.

use nalgebra::{DMatrix, DVector};

use super::triangle::{power_of_two, triangular};

/// A column of which the columns before it leave no larger a part than this adds nothing that can be told from
/// rounding.
const INDEPENDENT_MIN: f64 = 1e-12;

/// A linear fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// What is added.
    pub intercept: f64,
    /// A factor for each column; `None` for one that is constant, or a linear combination of those before it.
    pub coefficients: Vec<Option<f64>>,
    /// The part of the variance that the fit explains; `None` of a column that is constant.
    pub r2: Option<f64>,
}

/// Fits the last column of the rows that a triangle stands for by those before it.
pub(crate) fn of(r: &DMatrix<f64>) -> Regression {
    let fitted = r.ncols() - 1;
    let (kept, r) = independent(r);
    let last = kept.len();
    let right = r.column(last);
    let system = r.view((0, 0), (last, last));
    // There is none without rows, for no other diagonal of a column that was kept is 0.
    let solved = system.solve_upper_triangular(&right.rows(0, last));
    let solved = solved.unwrap_or_else(|| DVector::from_element(last, f64::NAN));
    let mut coefficients = vec![None; fitted - 1];
    for (&column, &value) in kept.iter().zip(solved.iter()).skip(1) {
        coefficients[column - 1] = Some(value);
    }
    Regression {
        intercept: solved[0],
        coefficients,
        r2: explained(right.iter().copied()),
    }
}

/// Returns the columns that are no combination of those before them, and R of these and the last one.
fn independent(r: &DMatrix<f64>) -> (Vec<usize>, DMatrix<f64>) {
    let fitted = r.ncols() - 1;
    let mut kept: Vec<usize> = (0..fitted).collect();
    let mut reduced = r.clone();
    loop {
        let depends = (1..kept.len()).find(|&at| {
            let column = reduced.column(at);
            let scale = power_of_two(column.iter().copied());
            let left = (column[at] * scale).abs();
            left <= INDEPENDENT_MIN * (column * scale).norm()
        });
        let Some(at) = depends else {
            return (kept, reduced);
        };
        kept.remove(at);
        let columns: Vec<usize> = kept.iter().copied().chain([fitted]).collect();
        reduced = triangular(r.select_columns(&columns));
    }
}

/// Returns the part of a column's variance that its last value is not. Its first value is its mean's.
fn explained(column: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let scale = power_of_two(column.clone());
    let squares: Vec<f64> = column.map(|value| (value * scale).powi(2)).collect();
    let all: f64 = squares.iter().sum();
    let variance: f64 = squares.iter().skip(1).sum();
    if variance <= INDEPENDENT_MIN.powi(2) * all {
        return None;
    }
    let left = squares.last().copied().unwrap_or_default();
    Some((variance - left) / variance)
}
