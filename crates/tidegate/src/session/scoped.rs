//! Plans a statement whose text leaves open what only the columns of its tables tell: which of them join in a
//! natural join, for which `COLUMNS` stands, which would have one name twice, and which names are none of a column, but of a
//! select list or of a table.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, ScalarValue, SchemaError, Span};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, Ident};

use super::functions;
use crate::error::{Error, ErrorKind, Mistake, span};
use crate::query::check_columns;
use crate::statements::scope::{TableColumn, TableColumns, places, selects, tables_at, visit_at};
use crate::statements::{aliases, columns, repeated, using, whole_rows};

/// The most names of select lists that are written out in a statement.
const NAMES_MAX: usize = 100;

/// The most tables whose rows are values in a statement.
const ROWS_MAX: usize = 20;

/// Plans a statement. What a name of a select list or of a table stands for is written out where there is no column of its
/// name.
pub(super) async fn plan(planner: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    if !whole_rows::may_use(&mut statement) {
        return plan_aliases(planner, statement).await;
    }
    for _ in 0..ROWS_MAX {
        let error = match plan_aliases(planner, statement.clone()).await {
            Err(error) => error,
            planned => return planned,
        };
        let Some((name, _)) = missing(&error) else {
            return Err(error);
        };
        if !write_rows(planner, &mut statement, &name).await {
            return Err(error);
        }
    }
    plan_aliases(planner, statement).await
}

/// Writes structs for the names of a table in a statement; returns whether there are any.
async fn write_rows(planner: &SessionState, statement: &mut Statement, name: &str) -> bool {
    let mut has_written = false;
    for place in places(statement, |query, _| whole_rows::is_open(query, name)) {
        let tables = columns_at(planner, statement, place).await;
        let written = visit_at(statement, place, |query, _, _| {
            whole_rows::write(query, &tables, name)
        });
        has_written |= written == Some(true);
    }
    has_written
}

/// Plans a statement. What a name of a select list stands for is written out where there is no column of its name.
async fn plan_aliases(planner: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    if !aliases::may_use(&mut statement) {
        return plan_columns(planner, statement).await;
    }
    let functions = planner.scalar_functions();
    let is_volatile = |name: &str| {
        let function = functions.get(name);
        function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
    };
    for _ in 0..NAMES_MAX {
        let error = match plan_columns(planner, statement.clone()).await {
            Err(error) => error,
            planned => return planned,
        };
        let has_inlined = missing(&error).is_some_and(|(name, place)| {
            aliases::inline(&mut statement, &name, place, &is_volatile)
        });
        if !has_inlined {
            return Err(error);
        }
    }
    plan_columns(planner, statement).await
}

/// Returns the name, without a table's, of a column that there is not, and where it stands.
fn missing(error: &DataFusionError) -> Option<(String, Span)> {
    match Mistake::of(error)? {
        Mistake::Column { column, .. } if column.relation.is_none() => {
            Some((column.name, span(error)?))
        }
        _ => None,
    }
}

/// Plans a statement. The tables of a query are planned before it only where that decides something.
async fn plan_columns(planner: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    for place in places(&mut statement, |query, _| using::is_open(query)) {
        let tables = columns_at(planner, &mut statement, place).await;
        visit_at(&mut statement, place, |query, _, _| {
            using::bind_open(query, &tables);
        });
    }
    for place in places(&mut statement, |query, _| columns::is_open(query)) {
        let tables = columns_at(planner, &mut statement, place).await;
        let expanded = visit_at(&mut statement, place, |query, _, _| {
            columns::expand(query, &tables, &|condition| is_true(planner, condition))?;
            let items = selects(&mut query.body).into_iter();
            items
                .map(|select| select.projection.len())
                .try_for_each(check_columns)
        });
        expanded.unwrap_or(Ok(()))?;
    }
    for place in places(&mut statement, |query, _| repeated::is_open(query)) {
        number_at(planner, &mut statement, place).await;
    }
    let places = places(&mut statement, repeated::may_repeat);
    if places.is_empty() {
        return functions::plan(planner, statement).await;
    }
    let planned = functions::plan(planner, statement.clone()).await;
    let is_to_mend = match &planned {
        Ok(plan) => has_renamed(plan),
        Err(error) => is_repeat(error),
    };
    if !is_to_mend {
        return planned;
    }
    let mut has_changed = false;
    for place in places {
        has_changed |= number_at(planner, &mut statement, place).await;
    }
    if !has_changed {
        return planned;
    }
    match (functions::plan(planner, statement).await, planned) {
        // The statement may name a column as the planner does.
        (Err(_), Ok(plan)) => Ok(plan),
        (numbered, _) => numbered,
    }
}

/// Tells whether the planner has renamed the second column of a name in a subquery, to `x:1`.
fn has_renamed(plan: &LogicalPlan) -> bool {
    let is_renamed = |expr: &Expr| match expr {
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::Column(column) => {
                let rest = alias.name.strip_prefix(column.name.as_str());
                let number = rest.and_then(|rest| rest.strip_prefix(':'));
                number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            }
            _ => false,
        },
        _ => false,
    };
    let mut has_any = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::SubqueryAlias(alias) = node
            && let LogicalPlan::Projection(projection) = alias.input.as_ref()
        {
            has_any |= projection.expr.iter().any(is_renamed);
        }
        Ok(match has_any {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    walked.is_ok() && has_any
}

/// Tells whether a condition of constants is true.
fn is_true(planner: &SessionState, condition: &ast::Expr) -> std::result::Result<bool, Error> {
    let none = DFSchema::empty();
    let planned = planner.create_logical_expr(&condition.to_string(), &none)?;
    let now = planner.execution_props().query_execution_start_time;
    let context = SimplifyContext::builder()
        .with_config_options(Arc::clone(planner.config_options()))
        .with_query_execution_start_time(now)
        .build();
    let simplifier = ExprSimplifier::new(context);
    match simplifier.simplify(simplifier.coerce(planned, &none)?)? {
        Expr::Literal(ScalarValue::Boolean(value), _) => Ok(value == Some(true)),
        _ => {
            let message = format!("COLUMNS: {condition} is no condition of a name");
            Err(Error::new(ErrorKind::Sql, message))
        }
    }
}

/// Numbers the columns of the query at a place; returns whether it changed anything.
async fn number_at(planner: &SessionState, statement: &mut Statement, place: usize) -> bool {
    let tables = columns_at(planner, statement, place).await;
    let numbered = visit_at(statement, place, |query, _, is_outermost| {
        repeated::number(query, &tables, is_outermost)
    });
    numbered == Some(true)
}

/// Plans the tables of the query at a place, and returns their columns.
async fn columns_at(
    planner: &SessionState,
    statement: &mut Statement,
    place: usize,
) -> TableColumns {
    let mut columns = Vec::new();
    for table in tables_at(statement, place) {
        // The statement's own plan says what is wrong with a table.
        let plan = functions::plan(planner, table).await.ok();
        columns.push(plan.map(|plan| columns_of(&plan)));
    }
    columns
}

fn columns_of(plan: &LogicalPlan) -> Vec<TableColumn> {
    let columns = plan.schema().iter().map(|(table, field)| {
        let parts = table.map(|table| table.to_vec()).unwrap_or_default();
        let quoted = parts.iter().map(|part| Ident::with_quote('"', part));
        TableColumn {
            table: quoted.collect(),
            name: field.name().clone(),
            fields: fields_of(field.data_type()),
        }
    });
    columns.collect()
}

/// Returns the names of a struct's fields; none of another type.
fn fields_of(data_type: &DataType) -> Vec<String> {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.name().clone()).collect(),
        _ => Vec::new(),
    }
}

/// Tells whether an error may be that two columns have one name, or that the second has not the name that
/// [`repeated`] gives it.
fn is_repeat(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::AmbiguousReference { .. }
                | SchemaError::FieldNotFound { .. }
                | SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
        ),
        DataFusionError::Plan(message) => message.contains("require unique expression names"),
        _ => false,
    }
}
