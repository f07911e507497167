//! The limits on the shape of one statement.

use super::StatementError;

/// The most operators in one expression, between two commas or clauses at one level of nesting.
pub const MAX_CHAIN: usize = 1000;
/// The most levels of parentheses, brackets, CASE, type brackets and EXPLAIN.
pub const MAX_NESTING: usize = 100;
/// The most nested things that double the work of the parser, which tries some calls in two ways,
/// or of the planner, which walks expression subqueries twice: `2^16` steps take half a second.
pub const MAX_DOUBLING: usize = 16;
/// The most UNION, EXCEPT and INTERSECT in one statement.
pub const MAX_SET_OPERATIONS: usize = 200;
/// The most joins in one statement; a comma in FROM is one.
pub const MAX_JOINS: usize = 200;
/// The most queries in one statement: a chain of WITH clauses is as deep as it is long.
pub const MAX_QUERIES: usize = 500;

/// The largest of each bounded thing in one statement.
#[derive(Default)]
pub(super) struct Found {
    pub(super) chain: usize,
    pub(super) nesting: usize,
    pub(super) doubling: usize,
    pub(super) set_operations: usize,
    pub(super) joins: usize,
    pub(super) queries: usize,
}

impl Found {
    /// Names the first limit that is passed.
    pub(super) fn check(&self) -> Result<(), StatementError> {
        type Error = fn(usize, usize) -> StatementError;
        let bounds: [(usize, usize, Error); 6] = [
            (self.nesting, MAX_NESTING, |found, limit| {
                StatementError::Nesting { found, limit }
            }),
            (self.chain, MAX_CHAIN, |found, limit| {
                StatementError::Chain { found, limit }
            }),
            (self.doubling, MAX_DOUBLING, |found, limit| {
                StatementError::Doubling { found, limit }
            }),
            (self.set_operations, MAX_SET_OPERATIONS, |found, limit| {
                StatementError::SetOperations { found, limit }
            }),
            (self.joins, MAX_JOINS, |found, limit| {
                StatementError::Joins { found, limit }
            }),
            (self.queries, MAX_QUERIES, |found, limit| {
                StatementError::Queries { found, limit }
            }),
        ];
        match bounds.iter().find(|(found, limit, _)| found > limit) {
            Some((found, limit, error)) => Err(error(*found, *limit)),
            None => Ok(()),
        }
    }
}
