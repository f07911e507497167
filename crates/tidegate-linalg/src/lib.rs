//! Linear algebra of tall matrices, whose rows come in pieces and in any order.
//!
//! What such a matrix X of k columns needs is a small state that merges: [`Gram`] keeps XᵀX, and [`Triangle`]
//! the factor R of X = QR, which has the singular values and right singular vectors of X, and its least squares,
//! without the square of the condition number that XᵀX has. Two triangles merge by taking the rows of one as
//! rows of the other, for (X over Y) has the factor R of (R_X over R_Y): Demmel, Grigori, Hoemmen, Langou:
//! "Communication-optimal parallel and sequential QR and LU factorizations", SIAM J. Sci. Comput. 34 (2012).
//!
//! This crate must not know: Arrow, DataFusion, SQL, NULL.

mod gram;
mod regression;
mod svd;
mod triangle;

#[cfg(test)]
mod tests;

pub use gram::Gram;
pub use regression::Regression;
pub use svd::Svd;
pub use triangle::Triangle;

/// Returns how many values a packed triangle of so many columns has: it lies row by row, from the diagonal on.
pub fn packed_len(columns: usize) -> usize {
    columns * (columns + 1) / 2
}
