//! Names of WITH that an inner query gives again, `WITH a AS (…) SELECT * FROM (WITH a AS (…) SELECT * FROM a)`.
//!
//! The inner one hides the outer, and the planner calls that a repeated name. So the inner one gets a name of its own, and
//! its tables keep the old one as their alias.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, VisitorMut,
};

use super::using::folded;
use super::visits;

/// The names of the WITH of each query around a place, the innermost last.
#[derive(Default)]
pub(super) struct NamedQueries {
    around: Vec<Vec<String>>,
    num_renamed: usize,
}

impl NamedQueries {
    /// Begins a query.
    pub(super) fn enter(&mut self, query: &Query) {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = named.map(|named| folded(&named.alias.name));
        self.around.push(names.collect());
    }

    /// Ends the query that was begun last; renames what it names as one around it does.
    pub(super) fn leave(&mut self, query: &mut Query) {
        let own = self.around.pop().unwrap_or_default();
        for (place, name) in own.iter().enumerate() {
            if self.around.iter().any(|names| names.contains(name)) {
                self.num_renamed += 1;
                let new = format!("{name} within {}", self.num_renamed);
                rename(query, place, name, &new);
            }
        }
    }
}

/// Gives a query of a WITH, at a place in it, another name.
fn rename(query: &mut Query, place: usize, old: &str, new: &str) {
    let Some(with) = &mut query.with else {
        return;
    };
    let Some(named) = with.cte_tables.get_mut(place) else {
        return;
    };
    named.alias.name = Ident::with_quote('"', new);
    let mut tables = Tables { old, new };
    // Before it, and in itself unless it is recursive, the name means the outer one.
    let first = place + usize::from(!with.recursive);
    for named in with.cte_tables.iter_mut().skip(first) {
        let _ = visits::change(named.query.as_mut(), &mut tables);
    }
    let _ = visits::change(query.body.as_mut(), &mut tables);
    let _ = visits::change(&mut query.order_by, &mut tables);
}

/// Gives tables of one name another, and the old one as an alias.
struct Tables<'a> {
    old: &'a str,
    new: &'a str,
}

impl VisitorMut for Tables<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = table
            && let [ObjectNamePart::Identifier(part)] = name.0.as_slice()
            && folded(part) == self.old
        {
            let written = part.clone();
            *name = ObjectName::from(vec![Ident::with_quote('"', self.new)]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: written,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use sqlparser::ast::{Query, VisitorMut};

    use super::NamedQueries;
    use crate::statements::tests::statement;
    use crate::statements::visits;

    impl VisitorMut for NamedQueries {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.enter(query);
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.leave(query);
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn inner_names_hide_outer_ones() {
        for (sql, expect) in [
            (
                "WITH a AS (SELECT 1) SELECT * FROM (WITH a AS (SELECT 2) SELECT a.* FROM a)",
                "WITH a AS (SELECT 1) SELECT * FROM (WITH \"a within 1\" AS (SELECT 2) SELECT a.* FROM \"a within 1\" AS a)",
            ),
            (
                "WITH a AS (SELECT 1) SELECT * FROM (WITH a AS (SELECT * FROM a) SELECT * FROM A AS b), a",
                "WITH a AS (SELECT 1) SELECT * FROM (WITH \"a within 1\" AS (SELECT * FROM a) \
                 SELECT * FROM \"a within 1\" AS b), a",
            ),
            (
                "WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT 2) SELECT * FROM a, b)",
                "WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT 2) SELECT * FROM a, b)",
            ),
        ] {
            let mut statement = statement(sql);
            let _ = visits::change(&mut statement, &mut NamedQueries::default());
            assert_eq!(statement.to_string(), expect);
        }
    }
}
