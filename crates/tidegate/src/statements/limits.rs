//! The limits on the shape of one statement.

use super::StatementError;

/// The most operators in one expression, between two commas or clauses at one level of nesting.
pub(super) const MAX_CHAIN: usize = 1000;
/// The most levels of parentheses, brackets, CASE, type brackets and EXPLAIN.
pub(super) const MAX_NESTING: usize = 100;
/// The most nested things that double the work of the parser, which tries some calls in two ways,
/// or of the planner, which walks expression subqueries twice: `2^16` steps take half a second.
pub(super) const MAX_DOUBLING: usize = 16;
/// The most UNION, EXCEPT and INTERSECT in one statement.
pub(super) const MAX_SET_OPERATIONS: usize = 200;
/// The most joins in one statement; a comma in FROM is one.
pub(super) const MAX_JOINS: usize = 200;
/// The most queries in one statement: a chain of WITH clauses is as deep as it is long.
pub(super) const MAX_QUERIES: usize = 500;

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
        let bounds = [
            (
                self.nesting,
                MAX_NESTING,
                "nesting of {found} levels of parentheses, brackets or CASE exceeds the limit of \
                 {limit}: name inner parts in a WITH clause",
            ),
            (
                self.chain,
                MAX_CHAIN,
                "expression chain of {found} operators exceeds the limit of {limit}: use IN (...), a \
                 VALUES table, or split the expression",
            ),
            (
                self.doubling,
                MAX_DOUBLING,
                "nesting of {found} subqueries, calls such as CAST, name parts or NOT exceeds the \
                 limit of {limit}: name inner parts in a WITH clause",
            ),
            (
                self.set_operations,
                MAX_SET_OPERATIONS,
                "{found} set operations exceed the limit of {limit} in one statement: use a VALUES \
                 table, or insert the parts into one table",
            ),
            (
                self.joins,
                MAX_JOINS,
                "{found} joins exceed the limit of {limit} in one statement: store an intermediate \
                 result with CREATE TABLE ... AS",
            ),
            (
                self.queries,
                MAX_QUERIES,
                "{found} queries exceed the limit of {limit} in one statement: store an intermediate \
                 result with CREATE TABLE ... AS",
            ),
        ];
        match bounds.iter().find(|(found, limit, _)| found > limit) {
            Some((found, limit, message)) => Err(StatementError::Limit {
                message: message
                    .replace("{found}", &found.to_string())
                    .replace("{limit}", &limit.to_string()),
            }),
            None => Ok(()),
        }
    }
}
