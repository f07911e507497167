//! Frames of a server: planned here over tables that have columns and no rows, and sent as SQL.
//!
//! A query that is sent is a common table expression of whatever is built on it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, visit_expressions_mut,
};
use datafusion::sql::unparser::Unparser;
use datafusion::sql::unparser::dialect::PostgreSqlDialect;
use tidegate::{Error, ErrorKind, Session};

/// Counts the queries of the process, to name them apart.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The queries that a frame of a server is built on.
#[derive(Clone)]
pub(crate) struct Queries {
    /// Names with those of their columns, and texts.
    queries: Vec<(String, Arc<str>)>,
    /// Values of the parameters of one of them.
    pub(crate) values: Option<RecordBatch>,
}

impl Queries {
    /// Makes a frame of a query whose columns are known.
    pub(crate) fn frame(
        planner: &Session,
        sql: &str,
        columns: SchemaRef,
        values: Option<RecordBatch>,
    ) -> Result<(DataFrame, Self), Error> {
        let name = format!("tidegate_query_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let head = head(&name, &columns);
        let table: Arc<dyn TableProvider> = Arc::new(EmptyTable::new(columns));
        let plan = LogicalPlanBuilder::scan(name.as_str(), provider_as_source(table), None)?;
        let frame = DataFrame::new(planner.context().state(), plan.build()?);
        let queries = Self {
            queries: vec![(head, sql.into())],
            values,
        };
        Ok((frame, queries))
    }

    /// Makes a query of a plan over these, so that its names are its own in what is built on it.
    pub(crate) fn sealed(
        &self,
        planner: &Session,
        plan: &LogicalPlan,
    ) -> Result<(DataFrame, Self), Error> {
        let columns = Arc::new(plan.schema().as_arrow().clone());
        let body = self.body(plan)?;
        let (frame, own) = Self::frame(planner, &body, columns, self.values.clone())?;
        let mut queries = self.queries.clone();
        queries.extend(own.queries);
        Ok((frame, Self { queries, ..own }))
    }

    /// Joins what two frames are built on.
    pub(crate) fn and(&self, other: &Self) -> Result<Self, Error> {
        let values = match (&self.values, &other.values) {
            (Some(own), Some(others)) if own != others => {
                let message = "two queries with parameters cannot be one statement of a server: write their \
                               values into them, or make a table of one";
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
            (None, values) => values.clone(),
            (values, _) => values.clone(),
        };
        let mut queries = self.queries.clone();
        let more = other
            .queries
            .iter()
            .filter(|query| !self.queries.contains(query));
        queries.extend(more.cloned());
        Ok(Self { queries, values })
    }

    /// Writes a plan over these queries as SQL.
    pub(crate) fn text(&self, plan: &LogicalPlan) -> Result<String, Error> {
        if let (LogicalPlan::TableScan(_), [(_, sql)]) = (plan, self.queries.as_slice()) {
            return Ok(sql.to_string());
        }
        let body = self.body(plan)?;
        let queries = self.queries.iter();
        let queries = queries.map(|(head, sql)| format!("{head} AS (\n{sql}\n)"));
        let queries = queries.collect::<Vec<_>>().join(",\n");
        Ok(format!("WITH {queries}\n{body}"))
    }

    /// Writes a plan as SQL over the names of these queries.
    fn body(&self, plan: &LogicalPlan) -> Result<String, Error> {
        let dialect = PostgreSqlDialect {};
        let body = Unparser::new(&dialect).plan_to_sql(plan);
        let mut body = body.map_err(|error| {
            let message = format!("the frame cannot be written as SQL for the server: {error}");
            Error::new(ErrorKind::NotSupported, message)
        })?;
        let _ = visit_expressions_mut(&mut body, |expr| {
            if let Some(call) = exclusive_or(expr) {
                *expr = call;
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(body.to_string())
    }
}

/// Writes an exclusive or as a call: `^` is a power in SQL.
fn exclusive_or(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp {
        left,
        op: BinaryOperator::BitwiseXor,
        right,
    } = expr
    else {
        return None;
    };
    let argument = |expr: &Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr.clone()));
    Some(Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("xor")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(left), argument(right)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }))
}

/// Names a query and its columns: inside another, they would have other names than as a statement.
fn head(name: &str, columns: &Schema) -> String {
    let quoted = |field: &FieldRef| format!("\"{}\"", field.name().replace('"', "\"\""));
    let columns: Vec<String> = columns.fields().iter().map(quoted).collect();
    match columns.is_empty() {
        true => name.to_string(),
        false => format!("{name} ({})", columns.join(", ")),
    }
}
