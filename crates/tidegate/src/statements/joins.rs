//! Joins whose words the planner takes for others.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{
    Ident, JoinConstraint, JoinOperator, Select, SetExpr, TableAlias, TableFactor, TableWithJoins,
};

use super::rewrites::refuse;
use super::using::{folded, table_of};
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

/// Names the subqueries of a FROM that have no name, and read a table whose name another table of the FROM has: to the planner
/// their columns are that table's.
pub(super) fn name_subqueries(select: &mut Select) {
    let mut tables = Vec::new();
    for from in &mut select.from {
        tables.push(&mut from.relation);
        tables.extend(from.joins.iter_mut().map(|join| &mut join.relation));
    }
    if !tables.iter().any(|table| is_unnamed(table)) {
        return;
    }
    let mut counts: HashMap<Vec<String>, usize> = HashMap::new();
    for name in tables.iter().flat_map(|table| names_of(table)) {
        *counts.entry(name).or_default() += 1;
    }
    for (place, table) in tables.into_iter().enumerate() {
        let is_repeated = |name: &Vec<String>| counts.get(name).is_some_and(|count| *count > 1);
        if is_unnamed(table)
            && names_of(table).iter().any(is_repeated)
            && let TableFactor::Derived { alias, .. } = table
        {
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', format!("subquery {}", place + 1)),
                columns: Vec::new(),
                at: None,
            });
        }
    }
}

fn is_unnamed(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { alias: None, .. })
}

/// Returns the names of the tables that columns of a table are of.
fn names_of(table: &TableFactor) -> HashSet<Vec<String>> {
    let TableFactor::Derived {
        alias: None,
        subquery,
        ..
    } = table
    else {
        let name = table_of(table).into_iter();
        return name.map(|name| name.iter().map(folded).collect()).collect();
    };
    let mut names = HashSet::new();
    if let SetExpr::Select(select) = subquery.body.as_ref() {
        for from in &select.from {
            names.extend(names_of(&from.relation));
            names.extend(from.joins.iter().flat_map(|join| names_of(&join.relation)));
        }
    }
    names
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
