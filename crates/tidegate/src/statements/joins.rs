//! Joins whose words the planner takes for others.

use sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use super::rewrites::refuse;
use crate::error::{Error, ErrorKind};

/// Has `SEMI JOIN` and `ANTI JOIN` keep rows of the left side, as in DuckDB and Spark; refuses a `JOIN` without a condition,
/// which would give all pairs, and `POSITIONAL JOIN`, which the parser takes for one with a table of that name.
pub(super) fn bind(table: &mut TableWithJoins) -> Result<(), Error> {
    let mut left = &table.relation;
    for join in &mut table.joins {
        let operator = &mut join.join_operator;
        match operator {
            JoinOperator::Semi(on) => {
                *operator = JoinOperator::LeftSemi(std::mem::replace(on, JoinConstraint::None));
            }
            JoinOperator::Anti(on) => {
                *operator = JoinOperator::LeftAnti(std::mem::replace(on, JoinConstraint::None));
            }
            JoinOperator::Join(JoinConstraint::None) if is_called_positional(left) => refuse(
                true,
                "POSITIONAL JOIN",
                "rows of files and tables have no order here: join on a column that numbers the rows of both sides",
            )?,
            JoinOperator::Join(JoinConstraint::None)
            | JoinOperator::Inner(JoinConstraint::None) => {
                let message = "JOIN has no condition: write ON a.x = b.x or USING (x), or CROSS JOIN for all pairs";
                return Err(Error::new(ErrorKind::Sql, message));
            }
            _ => {}
        }
        left = &join.relation;
    }
    Ok(())
}

/// Tells whether a table's alias is the word of `POSITIONAL JOIN`.
fn is_called_positional(table: &TableFactor) -> bool {
    let (TableFactor::Table { alias, .. }
    | TableFactor::Derived { alias, .. }
    | TableFactor::TableFunction { alias, .. }
    | TableFactor::Function { alias, .. }) = table
    else {
        return false;
    };
    alias.as_ref().is_some_and(|alias| {
        let name = &alias.name;
        !alias.explicit
            && name.quote_style.is_none()
            && name.value.eq_ignore_ascii_case("positional")
    })
}
