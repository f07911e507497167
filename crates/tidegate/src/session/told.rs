//! `FROM (SUMMARIZE t)` and its like: the statement is planned before the query is, and its rows are a table of that.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::datasource::ViewTable;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, Statement};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, TableFactor, Visitor};

use super::Session;
use crate::statements::{TOLD, visits};

/// What the statements within a statement tell, by their text. It is carried as an extension of the config that the
/// statement is planned with.
#[derive(Default)]
struct Answers(HashMap<String, Arc<dyn TableProvider>>);

/// Adds the function to a session.
pub(super) fn register(ctx: &SessionContext) {
    ctx.register_udtf(TOLD, Arc::new(Told));
}

/// Plans the statements within a statement, and returns the state to plan it with; `None` if there are none.
///
/// # Errors
/// Those of planning them.
pub(super) async fn plan_calls(
    session: &Session,
    state: &SessionState,
    statement: &Statement,
) -> Result<Option<SessionState>> {
    let mut calls = Calls::default();
    calls.visit(statement);
    if calls.0.is_empty() {
        return Ok(None);
    }
    let mut answers = Answers::default();
    for text in calls.0 {
        let plan = Box::pin(session.plan_text(state, &text)).await?;
        let plan = with_column_type(&text, plan)?;
        let table = ViewTable::new(plan, None);
        answers.0.insert(text, Arc::new(table));
    }
    let mut state = state.clone();
    state.config_mut().set_extension(Arc::new(answers));
    Ok(Some(state))
}

/// Gives the types of a DESCRIBE the name that DuckDB has for them, too.
fn with_column_type(text: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
    let first = text.split_whitespace().next().unwrap_or_default();
    if !["DESCRIBE", "DESC"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
    {
        return Ok(plan);
    }
    let all = plan.schema().columns().into_iter().map(Expr::Column);
    let types = ident("data_type").alias("column_type");
    let columns: Vec<Expr> = all.chain([types]).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The texts of the statements.
#[derive(Default)]
struct Calls(Vec<String>);

impl Calls {
    fn visit(&mut self, statement: &Statement) {
        let _ = match statement {
            Statement::Statement(inner) => visits::read(inner.as_ref(), self),
            Statement::CopyTo(copy) => match &copy.source {
                CopyToSource::Query(query) => visits::read(query.as_ref(), self),
                CopyToSource::Relation(_) => ControlFlow::Continue(()),
            },
            Statement::Explain(explain) => {
                self.visit(&explain.statement);
                ControlFlow::Continue(())
            }
            Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
        };
    }
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            args: Some(args),
            ..
        } = table
            && name.to_string() == TOLD
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Value(text)))] =
                args.args.as_slice()
            && let ast::Value::SingleQuotedString(text) = &text.value
        {
            self.0.push(text.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Finds what a statement tells.
#[derive(Debug)]
struct Told;

impl TableFunctionImpl for Told {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let answers = args.session().config().get_extension::<Answers>();
        let table = match args.exprs() {
            [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => {
                answers.as_ref().and_then(|answers| answers.0.get(text))
            }
            _ => None,
        };
        match table {
            Some(table) => Ok(Arc::clone(table)),
            None => plan_err!("table function '{TOLD}' not found"),
        }
    }
}
