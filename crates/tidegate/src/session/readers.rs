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
mod looked;
mod options;
mod parquet_looks;
mod sniffed;
mod target;

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
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
use looked::{Look, LookTable};
use options::Call;

/// The functions, with the format of the files that each reads.
const READERS: [(&str, Format); 20] = [
    ("read_csv", Format::Csv),
    ("read_csv_auto", Format::Csv),
    ("read_json", Format::Json),
    ("read_json_auto", Format::Json),
    ("read_ndjson", Format::Json),
    ("read_ndjson_auto", Format::Json),
    ("read_parquet", Format::Parquet),
    ("parquet_scan", Format::Parquet),
    ("read_arrow", Format::Arrow),
    ("read_ipc", Format::Arrow),
    ("glob", Format::Look(Look::Names)),
    ("read_text", Format::Look(Look::Text)),
    ("read_blob", Format::Look(Look::Bytes)),
    ("read_json_objects", Format::Look(Look::Objects)),
    ("read_ndjson_objects", Format::Look(Look::Objects)),
    ("sniff_csv", Format::Look(Look::Csv)),
    ("parquet_schema", Format::Look(Look::ParquetSchema)),
    ("parquet_metadata", Format::Look(Look::ParquetChunks)),
    ("parquet_file_metadata", Format::Look(Look::ParquetFile)),
    ("parquet_kv_metadata", Format::Look(Look::ParquetKeys)),
];

/// What files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Json,
    Parquet,
    Arrow,
    /// Whatever they hold, something else than their rows is read.
    Look(Look),
}

impl Format {
    /// Returns the ending of files whose rows are read.
    fn ending(self) -> Option<&'static str> {
        match self {
            Self::Csv => Some("csv"),
            Self::Json => Some("json"),
            Self::Parquet => Some("parquet"),
            Self::Arrow => Some("arrow"),
            Self::Look(_) => None,
        }
    }
}

/// The tables of a statement's calls, by their text. It is carried as an extension of the config that the
/// statement is planned with.
#[derive(Default)]
struct Opened(HashMap<String, Arc<dyn TableProvider>>);

/// Adds the functions to a session.
pub(super) fn register(ctx: &SessionContext) -> Result<()> {
    for (name, _) in READERS {
        ctx.register_udtf(name, Arc::new(Reader(name)));
    }
    ctx.register_relation_planner(Arc::new(ReadCalls))
}

/// Finds the reader of a name.
fn reader(name: &ObjectName) -> Option<(&'static str, Format)> {
    let [part] = name.0.as_slice() else {
        return None;
    };
    let called = part.as_ident()?.value.to_ascii_lowercase();
    READERS.into_iter().find(|(name, _)| *name == called)
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

/// Returns the text of a call.
fn key(name: &str, args: &ast::TableFunctionArgs) -> String {
    let args: Vec<String> = args.args.iter().map(ToString::to_string).collect();
    format!("{name}({})", args.join(", "))
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

/// Says what is wrong with a call.
fn wrong(name: &str, what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Sql, format!("{name}: {what}"))
}

/// Plans a type as SQL names it.
fn data_type(state: &SessionState, name: &str) -> Result<DataType> {
    let schema = DFSchema::empty();
    let cast = state.create_logical_expr(&format!("CAST(NULL AS {name})"), &schema);
    let unknown = || {
        DataFusionError::from(Error::new(
            ErrorKind::Sql,
            format!(
                "'{name}' is not a type; types are BIGINT, DOUBLE, VARCHAR, DATE, TIMESTAMP and so on"
            ),
        ))
    };
    let PlanExpr::Cast(cast) = cast.map_err(|_| unknown())? else {
        return Err(unknown());
    };
    Ok(match cast.field.data_type() {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        other => other.clone(),
    })
}
