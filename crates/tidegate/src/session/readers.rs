//! `read_csv`, `read_json`, `read_parquet` and `read_arrow`: files as tables, with options by name; and tables of what
//! files are beside their rows ([`looked`]).
//!
//! DataFusion's table functions have arguments by place only, and cannot wait for files. So a statement's
//! calls are found in its text before it is planned ([`open_calls`]): the files are looked at, and the
//! tables are kept with the state that the statement is planned with, each under the text of its call. The
//! planner of relations ([`ReadCalls`]) puts that text in the place of the arguments, and the function finds
//! the table by it.

mod arguments;
mod filenames;
mod functions;
mod looked;
mod options;
mod parquet_looks;
mod sniffed;
mod target;

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr as PlanExpr;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, Statement};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, ObjectName, TableFactor, Value, Visitor};

use super::Session;
use crate::error::{Error, ErrorKind};
use crate::files::table::FilesTable;
use crate::statements::visits;
use functions::{Opened, READERS, key, reader};
use looked::LookTable;
use options::Call;

/// Adds the functions to a session.
pub(super) fn register(ctx: &SessionContext) -> Result<()> {
    for (name, _) in READERS {
        ctx.register_udtf(name, Arc::new(Reader(name)));
    }
    ctx.register_relation_planner(Arc::new(ReadCalls))
}

/// Opens the files that a statement's calls name, has it ask for their names if it uses them, and returns the state to
/// plan it with; `None` if there are no such calls.
///
/// # Errors
/// Fails for arguments that are wrong, and for files that cannot be read.
pub(super) async fn open_calls(
    session: &Session,
    state: &SessionState,
    statement: &mut Statement,
) -> Result<Option<SessionState>> {
    filenames::ask(statement);
    let mut calls = Calls::default();
    calls.visit(statement)?;
    if calls.0.is_empty() {
        return Ok(None);
    }
    if !session.reads_file_urls {
        let message = "this session reads no files by their path: use CREATE EXTERNAL TABLE";
        return Err(Error::new(ErrorKind::Denied, message).into());
    }
    let mut opened = Opened::default();
    let target = target::types_of_target(state, statement, |name| reader(name).is_some()).await;
    for (key, mut call) in calls.0 {
        if let Some(types) = &target {
            call.set_target(types);
        }
        let paths = call.paths(session, state).await?;
        let table: Arc<dyn TableProvider> = match call.look() {
            Some((name, look)) => Arc::new(LookTable::new(name, look, paths)),
            None => {
                let (format, options) = call.resolve(state)?;
                Arc::new(FilesTable::open(state, paths, format, &options).await?)
            }
        };
        opened.0.insert(key, table);
    }
    filenames::leave_out(statement, &opened);
    let mut state = state.clone();
    state.config_mut().set_extension(Arc::new(opened));
    Ok(Some(state))
}

/// The calls of a statement, by their text.
#[derive(Default)]
struct Calls(HashMap<String, Call>);

impl Calls {
    fn visit(&mut self, statement: &Statement) -> Result<()> {
        let flow = match statement {
            Statement::Statement(inner) => visits::read(inner.as_ref(), self),
            Statement::CopyTo(copy) => match &copy.source {
                CopyToSource::Query(query) => visits::read(query.as_ref(), self),
                CopyToSource::Relation(_) => ControlFlow::Continue(()),
            },
            Statement::Explain(explain) => return self.visit(&explain.statement),
            Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
        };
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error.into()),
        }
    }
}

impl Visitor for Calls {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Error> {
        let TableFactor::Table {
            name,
            args: Some(args),
            ..
        } = table
        else {
            return ControlFlow::Continue(());
        };
        let Some((name, format)) = reader(name) else {
            return ControlFlow::Continue(());
        };
        match Call::read(name, format, args) {
            Ok(call) => {
                self.0.insert(key(name, args), call);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Puts the text of a call in the place of its arguments.
#[derive(Debug)]
struct ReadCalls;

impl RelationPlanner for ReadCalls {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table {
            name,
            args: Some(args),
            ..
        } = &mut relation
            && let Some((called, _)) = reader(name)
        {
            let key = Value::SingleQuotedString(key(called, args)).with_empty_span();
            let key = FunctionArgExpr::Expr(ast::Expr::Value(key));
            *name = ObjectName::from(vec![ast::Ident::new(called)]);
            args.args = vec![FunctionArg::Unnamed(key)];
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// Finds the table of a call.
struct Reader(&'static str);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl TableFunctionImpl for Reader {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let opened = args.session().config().get_extension::<Opened>();
        let table = match args.exprs() {
            [PlanExpr::Literal(ScalarValue::Utf8(Some(key)), _)] => {
                opened.as_ref().and_then(|opened| opened.0.get(key))
            }
            _ => None,
        };
        match table {
            Some(table) => Ok(Arc::clone(table)),
            None => plan_err!(
                "{}: call it in a statement of SQL, as FROM {}('path')",
                self.0,
                self.0
            ),
        }
    }
}
