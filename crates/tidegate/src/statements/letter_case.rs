//! Columns by the letters of their names, whatever the case.
//!
//! A name without quotes is folded to small letters, so that `CustomerId` of a file's header is found by
//! `"CustomerId"` alone. A statement that names no column otherwise means that one: its names are written as the
//! tables have them.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use sqlparser::ast::{
    self, AssignmentTarget, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator,
    ObjectName, ObjectNamePart, Query, RenameSelectItem, Select, SelectItem, TableFactor,
    TableObject, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use super::visits;

/// Names as tables have them, by their small letters.
#[derive(Debug, Default)]
pub(crate) struct CasedNames(HashMap<String, Option<String>>);

impl CasedNames {
    /// Adds a column of a table. Of two names that differ by case alone neither is meant.
    pub(crate) fn add(&mut self, name: &str) {
        let known = self.0.entry(name.to_lowercase());
        let name = Some(name.to_owned());
        let known = known.or_insert_with(|| name.clone());
        if *known != name {
            *known = None;
        }
    }

    /// Returns the name that is meant by another one, which differs from it.
    fn meant(&self, name: &str) -> Option<&str> {
        let folded = name.to_lowercase();
        let known = self.0.get(&folded)?.as_deref()?;
        (known != folded).then_some(known)
    }
}

/// Returns the tables, files and calls that a statement reads or changes, as they are written.
pub(crate) fn tables(statement: &Statement) -> BTreeSet<String> {
    #[derive(Default)]
    struct Tables(BTreeSet<String>);
    impl Visitor for Tables {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args, .. } = factor {
                let call = args.as_ref().map(|args| {
                    let args = args.args.iter().map(ToString::to_string);
                    format!("({})", args.collect::<Vec<_>>().join(", "))
                });
                self.0.insert(format!("{name}{}", call.unwrap_or_default()));
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_statement(&mut self, statement: &ast::Statement) -> ControlFlow<()> {
            if let ast::Statement::Insert(insert) = statement
                && let TableObject::TableName(name) = &insert.table
            {
                self.0.insert(name.to_string());
            }
            ControlFlow::Continue(())
        }
    }
    let mut found = Tables::default();
    let _ = match statement {
        Statement::Statement(statement) => visits::read(statement.as_ref(), &mut found),
        Statement::Explain(explain) => return tables(&explain.statement),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => visits::read(query.as_ref(), &mut found),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    found.0
}

/// Writes names without quotes as tables have them; tells whether there was one to write.
pub(crate) fn write_as_named(statement: &mut Statement, names: &CasedNames) -> bool {
    let mut writing = Writing {
        names,
        has_written: false,
    };
    let _ = match statement {
        Statement::Statement(statement) => visits::change(statement.as_mut(), &mut writing),
        Statement::Explain(explain) => return write_as_named(&mut explain.statement, names),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visits::change(query.as_mut(), &mut writing),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    writing.has_written
}

struct Writing<'a> {
    names: &'a CasedNames,
    has_written: bool,
}

impl Writing<'_> {
    fn write(&mut self, ident: &mut Ident) {
        if ident.quote_style.is_none()
            && let Some(meant) = self.names.meant(&ident.value)
        {
            ident.value = meant.into();
            ident.quote_style = Some('"');
            self.has_written = true;
        }
    }

    /// Writes the last part of a name: those before it are of tables.
    fn write_last(&mut self, name: &mut ObjectName) {
        if let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut() {
            self.write(last);
        }
    }

    fn write_options(&mut self, options: &mut WildcardAdditionalOptions) {
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => self.write_last(name),
            Some(ExcludeSelectItem::Multiple(names)) => {
                for name in names {
                    self.write_last(name);
                }
            }
            None => {}
        }
        if let Some(except) = &mut options.opt_except {
            self.write(&mut except.first_element);
            for name in &mut except.additional_elements {
                self.write(name);
            }
        }
        match &mut options.opt_rename {
            Some(RenameSelectItem::Single(renamed)) => self.write(&mut renamed.ident),
            Some(RenameSelectItem::Multiple(all)) => {
                for renamed in all {
                    self.write(&mut renamed.ident);
                }
            }
            None => {}
        }
        if let Some(replace) = &mut options.opt_replace {
            for item in &mut replace.items {
                self.write(&mut item.column_name);
            }
        }
    }
}

impl VisitorMut for Writing<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.write(name),
            Expr::CompoundIdentifier(parts) => {
                for part in parts.iter_mut().skip(1) {
                    self.write(part);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => self.write(alias),
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    self.write_options(options);
                }
                _ => {}
            }
        }
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        for join in joins {
            if let Some(JoinConstraint::Using(names)) = constraint(&mut join.join_operator) {
                for name in names {
                    self.write_last(name);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        for column in with.flat_map(|table| &mut table.alias.columns) {
            self.write(&mut column.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived {
            alias: Some(alias), ..
        } = factor
        {
            for column in &mut alias.columns {
                self.write(&mut column.name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
        match statement {
            ast::Statement::Insert(insert) => {
                for name in &mut insert.columns {
                    self.write_last(name);
                }
            }
            ast::Statement::Update(update) => {
                for assignment in &mut update.assignments {
                    match &mut assignment.target {
                        AssignmentTarget::ColumnName(name) => self.write_last(name),
                        AssignmentTarget::Tuple(names) => {
                            for name in names {
                                self.write_last(name);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns what rows of a join go by.
fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint)
        | JoinOperator::AsOf { constraint, .. } => Some(constraint),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::{CasedNames, tables, write_as_named};

    fn written(sql: &str) -> String {
        let mut names = CasedNames::default();
        for name in [
            "CustomerId",
            "Date",
            "plain",
            "Twice",
            "TWICE",
            "Both",
            "both",
        ] {
            names.add(name);
        }
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        write_as_named(&mut statement, &names);
        statement.to_string()
    }

    #[test]
    fn names_without_quotes_are_those_of_tables() {
        for (sql, wanted) in [
            (
                "SELECT customerid, t.CUSTOMERID, \"customerid\", plain, Twice, BOTH FROM t",
                "SELECT \"CustomerId\", t.\"CustomerId\", \"customerid\", plain, Twice, BOTH FROM t",
            ),
            (
                "SELECT CAST(x AS DATE), date FROM t JOIN u USING (CustomerId) WHERE date > DATE '2024-01-01'",
                "SELECT CAST(x AS DATE), \"Date\" FROM t JOIN u USING(\"CustomerId\") WHERE \"Date\" > DATE '2024-01-01'",
            ),
            (
                "SELECT * EXCLUDE (CustomerId) FROM (SELECT date AS CustomerId FROM t) AS s",
                "SELECT * EXCLUDE (\"CustomerId\") FROM (SELECT \"Date\" AS \"CustomerId\" FROM t) AS s",
            ),
            (
                "INSERT INTO t (customerid) SELECT 1",
                "INSERT INTO t (\"CustomerId\") SELECT 1",
            ),
            (
                "COPY (SELECT customerid FROM t) TO 'x.csv'",
                "COPY (SELECT \"CustomerId\" FROM t) TO x.csv",
            ),
        ] {
            assert_eq!(written(sql), wanted);
        }
    }

    #[test]
    fn tables_are_told_as_they_are_written() {
        let sql = "SELECT * FROM 'a.csv' AS a, read_csv('b', header => true), (SELECT 1 FROM s.c)";
        let statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let found: Vec<String> = tables(&statement).into_iter().collect();
        assert_eq!(found, ["'a.csv'", "read_csv('b', header => true)", "s.c"]);
    }
}
