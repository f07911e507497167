//! The column `filename` that files have without being asked for it: `SELECT filename, a FROM read_csv('*.csv')`.
//!
//! A query of one reader that names the column asks for it by an argument, `filename => ['filename']`; one of a path,
//! `FROM '*.csv'`, becomes one of a reader. Where the files have a column of that name, that is meant. `*` does not stand
//! for the other.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use sqlparser::ast::{
    Array, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Ident,
    ObjectName, Query, Select, SelectItem, SetExpr, TableFactor, TableFunctionArgs, Value, Visit,
    VisitorMut, WildcardAdditionalOptions,
};

use super::functions::{Opened, key, reader};
use crate::files::merged::reader_of;
use crate::files::table::FilesTable;
use crate::statements::visits;

/// The column.
const FILENAME: &str = "filename";

/// Has readers whose queries name the column give it.
pub(super) fn ask(statement: &mut Statement) {
    change(statement, &mut Asking);
}

/// Leaves the column out of what `*` stands for.
pub(super) fn leave_out(statement: &mut Statement, opened: &Opened) {
    change(statement, &mut LeavingOut(opened));
}

fn change(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = ()>) {
    let _ = match statement {
        Statement::Statement(inner) => visits::change(inner.as_mut(), visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visits::change(query.as_mut(), visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return change(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
}

/// Adds the argument.
struct Asking;

impl VisitorMut for Asking {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut()
            && query.order_by.as_ref().is_some_and(names_it)
            && !is_output(select)
        {
            add_argument(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_named = match is_output(select) {
            true => names_it(&select.projection),
            false => names_it(&*select),
        };
        if is_named {
            add_argument(select);
        }
        ControlFlow::Continue(())
    }
}

/// Tells whether expressions outside of subqueries name the column.
fn names_it<N: Visit>(node: &N) -> bool {
    let named = visits::read_own_expressions(node, |expr| {
        let is_named = match expr {
            Expr::Identifier(name) => is_filename(name),
            Expr::CompoundIdentifier(names) => names.last().is_some_and(is_filename),
            _ => false,
        };
        match is_named {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    named.is_break()
}

/// Tells whether a query gives a column of its own that name.
fn is_output(select: &Select) -> bool {
    let mut items = select.projection.iter();
    items.any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if is_filename(alias)))
}

fn is_filename(name: &Ident) -> bool {
    name.value.eq_ignore_ascii_case(FILENAME)
}

fn add_argument(select: &mut Select) {
    call_reader(select);
    let Some((_, args)) = only_reader(select) else {
        return;
    };
    let is_said = |arg: &FunctionArg| {
        let text = arg.to_string().to_ascii_lowercase();
        text.starts_with(FILENAME)
    };
    if args.args.iter().any(is_said) {
        return;
    }
    let name = Value::SingleQuotedString(FILENAME.into()).with_empty_span();
    let names = Expr::Array(Array {
        elem: vec![Expr::Value(name)],
        named: false,
    });
    args.args.push(FunctionArg::Named {
        name: Ident::new(FILENAME),
        arg: FunctionArgExpr::Expr(names),
        operator: FunctionArgOperator::RightArrow,
    });
}

/// Writes `FROM 'x.csv'` as `FROM read_csv('x.csv')`, if that is all that a query reads.
fn call_reader(select: &mut Select) {
    let [table] = select.from.as_mut_slice() else {
        return;
    };
    let TableFactor::Table {
        name,
        args: args @ None,
        ..
    } = &mut table.relation
    else {
        return;
    };
    if !table.joins.is_empty() {
        return;
    }
    let path = match name.0.as_slice() {
        [part] => part
            .as_ident()
            .filter(|path| path.quote_style == Some('\'')),
        _ => None,
    };
    let Some((path, reader)) = path.and_then(|path| Some((path, reader_of(&path.value)?))) else {
        return;
    };
    let path = Value::SingleQuotedString(path.value.clone()).with_empty_span();
    *args = Some(TableFunctionArgs {
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(
            path,
        )))],
        settings: None,
    });
    *name = ObjectName::from(vec![Ident::new(reader)]);
}

/// Returns the reader of files of rows that is all that a query reads.
fn only_reader(select: &mut Select) -> Option<(&'static str, &mut TableFunctionArgs)> {
    let [table] = select.from.as_mut_slice() else {
        return None;
    };
    match &mut table.relation {
        TableFactor::Table {
            name,
            args: Some(args),
            ..
        } if table.joins.is_empty() => {
            let (called, format) = reader(name)?;
            format.ending().is_some().then_some((called, args))
        }
        _ => None,
    }
}

/// Changes what `*` stands for.
struct LeavingOut<'a>(&'a Opened);

impl VisitorMut for LeavingOut<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let Some((called, args)) = only_reader(select) else {
            return ControlFlow::Continue(());
        };
        let table = self.0.0.get(&key(called, args));
        let table = table.and_then(|table| table.downcast_ref::<FilesTable>());
        if table.is_some_and(FilesTable::has_hidden_filename) {
            for item in &mut select.projection {
                if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) =
                    item
                {
                    exclude(options);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn exclude(options: &mut WildcardAdditionalOptions) {
    let mut names = match options.opt_exclude.take() {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => Vec::new(),
    };
    let is_it = |name: &ObjectName| name.to_string().eq_ignore_ascii_case(FILENAME);
    if !names.iter().any(is_it) {
        names.push(ObjectName::from(vec![Ident::new(FILENAME)]));
    }
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
}
