//! Singular values by one-sided Jacobi rotations.
//!
//! Columns are rotated in pairs until all are orthogonal; their lengths are then the singular values, and the
//! rotations the right singular vectors. It is the slowest way and the most accurate one: small singular values
//! keep their digits where the columns differ in size. Demmel, Veselić: "Jacobi's method is more accurate than
//! QR", SIAM J. Matrix Anal. Appl. 13 (1992); the rotation is that of Rutishauser, as in Golub, Van Loan:
//! "Matrix Computations", 8.6.3.

use nalgebra::DMatrix;

use super::triangle::power_of_two;

/// Rounds over all pairs at the most; ten are usual.
const SWEEPS_MAX: usize = 60;
/// Below this part of a vector's length a component says nothing about its sign.
const NEGLIGIBLE: f64 = 1e-8;

/// Singular values, and the right singular vectors that belong to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Svd {
    /// The singular values, largest first: as many as there are columns. NaN if a value of the matrix was not
    /// finite.
    pub values: Vec<f64>,
    /// The vectors, in the order of the values. In each the first component that is not negligible is positive.
    pub vectors: Vec<Vec<f64>>,
}

/// Decomposes a matrix with no fewer rows than columns.
pub(crate) fn of(mut matrix: DMatrix<f64>) -> Svd {
    let columns = matrix.ncols();
    if !matrix.iter().all(|value| value.is_finite()) {
        return Svd {
            values: vec![f64::NAN; columns],
            vectors: vec![vec![f64::NAN; columns]; columns],
        };
    }
    let scale = power_of_two(matrix.iter().copied());
    matrix *= scale;
    let mut rotations = DMatrix::identity(columns, columns);
    for _ in 0..SWEEPS_MAX {
        if !sweep(&mut matrix, &mut rotations) {
            break;
        }
    }
    let lengths = matrix.column_iter().map(|column| column.norm() / scale);
    let vectors = rotations
        .column_iter()
        .map(|vector| with_sign(vector.iter().copied().collect()));
    let mut found: Vec<(f64, Vec<f64>)> = lengths.zip(vectors).collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let (values, vectors) = found.into_iter().unzip();
    Svd { values, vectors }
}

/// Rotates all pairs of columns once that are not orthogonal, and tells whether there were any.
fn sweep(matrix: &mut DMatrix<f64>, rotations: &mut DMatrix<f64>) -> bool {
    let mut has_rotated = false;
    for one in 0..matrix.ncols() {
        for other in one + 1..matrix.ncols() {
            let (first, second) = (matrix.column(one), matrix.column(other));
            let (first_length, second_length) = (first.norm(), second.norm());
            let product = first.dot(&second);
            if product.abs() <= f64::EPSILON * first_length * second_length {
                continue;
            }
            has_rotated = true;
            let lengths = (second_length - first_length) * (second_length + first_length);
            let cotangent = lengths / (2.0 * product);
            let tangent = cotangent.signum() / (cotangent.abs() + cotangent.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            rotate(matrix, (one, other), cosine, cosine * tangent);
            rotate(rotations, (one, other), cosine, cosine * tangent);
        }
    }
    has_rotated
}

fn rotate(matrix: &mut DMatrix<f64>, (one, other): (usize, usize), cosine: f64, sine: f64) {
    let rows = matrix.nrows();
    let (before, after) = matrix.as_mut_slice().split_at_mut(other * rows);
    let (first, second) = (before.iter_mut().skip(one * rows), after.iter_mut());
    for (first, second) in first.zip(second).take(rows) {
        (*first, *second) = (
            cosine * *first - sine * *second,
            sine * *first + cosine * *second,
        );
    }
}

fn with_sign(mut vector: Vec<f64>) -> Vec<f64> {
    let first = vector.iter().find(|value| value.abs() > NEGLIGIBLE);
    if first.is_some_and(|&value| value < 0.0) {
        vector.iter_mut().for_each(|value| *value = -*value);
    }
    vector
}
