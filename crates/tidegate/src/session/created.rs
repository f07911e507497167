//! CREATE TABLE AS: a table in memory of a query's rows.
//!
//! That no row of the query is NULL does not declare its columns so: they may be NULL later, unless the statement
//! says NOT NULL.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::MemTable;
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, Expr, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use futures::TryStreamExt;
use parking_lot::Mutex;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, ColumnOption};
use tokio::task::JoinSet;

use super::Session;
use crate::accounted::{AccountedTable, Charge, refuse_nulls};
use crate::error::{Error, ErrorKind};
use crate::statements::using::folded;

/// The columns of a new table that are NOT NULL.
#[derive(Clone, Debug)]
pub(super) enum NotNull {
    /// These alone, as CREATE TABLE AS declares them.
    Declared(HashSet<String>),
    /// These beside those that the rows have so, as ALTER TABLE declares them.
    Added(HashSet<String>),
}

/// Returns the columns that CREATE TABLE AS or ALTER TABLE declares NOT NULL; none of another statement.
pub(super) fn not_null_of(statement: &Statement) -> NotNull {
    let none = || NotNull::Added(HashSet::new());
    let Statement::Statement(inner) = statement else {
        return none();
    };
    let create = match inner.as_ref() {
        ast::Statement::CreateTable(create) if create.query.is_some() => create,
        ast::Statement::AlterTable(alter) => {
            let columns = alter
                .operations
                .iter()
                .filter_map(|operation| match operation {
                    AlterTableOperation::AlterColumn {
                        column_name,
                        op: AlterColumnOperation::SetNotNull,
                    } => Some(folded(column_name)),
                    _ => None,
                });
            return NotNull::Added(columns.collect());
        }
        _ => return none(),
    };
    let is_declared = |column: &&ast::ColumnDef| {
        let mut options = column.options.iter();
        options.any(|option| option.option == ColumnOption::NotNull)
    };
    let declared = create.columns.iter().filter(is_declared);
    NotNull::Declared(declared.map(|column| folded(&column.name)).collect())
}

/// Makes a table in memory of a query's rows. What stood under its name stays until all of them are
/// there. `not_null` names columns that are never NULL.
///
/// # Errors
/// Those of the query, [`ErrorKind::Sql`] for two columns of one name and for a NULL where there is none.
pub(super) async fn create(
    session: &Session,
    state: SessionState,
    create: CreateMemoryTable,
    not_null: NotNull,
) -> Result<DataFrame, Error> {
    let ctx = &session.ctx;
    let exists = ctx.table_exist(create.name.clone())?;
    if create.temporary || (exists && (create.if_not_exists || !create.or_replace)) {
        // DataFusion says what is wrong with it, or that there is nothing to do.
        let plan = LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create));
        return Ok(ctx.execute_logical_plan(plan).await?);
    }
    let CreateMemoryTable {
        name,
        input,
        column_defaults,
        ..
    } = create;
    // Only the columns are taken from it: what is optimized twice need not mean the same.
    let schema = SchemaRef::clone(state.optimize(&input)?.schema().inner());
    for (index, field) in schema.fields().iter().enumerate() {
        let is_first = schema
            .index_of(field.name())
            .is_ok_and(|first| first == index);
        if !is_first {
            let message = format!(
                "the table would have two columns '{}': name one of them with AS",
                field.name()
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
    }
    let schema = match not_null {
        NotNull::Declared(declared) => {
            with_nullable(&schema, |_, field| !declared.contains(field.name()))
        }
        NotNull::Added(added) => {
            let schema = without_nulls_of_old_columns_only(schema, &input, &name);
            with_nullable(&schema, |_, field| {
                field.is_nullable() && !added.contains(field.name())
            })
        }
    };
    let frame = DataFrame::new(state, Arc::unwrap_or_clone(input));
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let charge = Arc::new(Mutex::new(Charge::new(&task.runtime_env().memory_pool)));
    let batches = collect(plan, &task, &charge).await?;
    let charge = Arc::into_inner(charge).map(Mutex::into_inner);
    let Some(charge) = charge else {
        let message = "the rows of a new table are still being counted";
        return Err(Error::new(ErrorKind::Internal, message));
    };
    // Nobody checks constraints, and plans would rely on them.
    let batches = batches.into_iter().map(|part| of_table(part, &schema));
    let batches = batches.collect::<Result<Vec<_>, Error>>()?;
    let inner = MemTable::try_new(schema, batches)?
        .with_column_defaults(column_defaults.into_iter().collect());
    if exists {
        ctx.deregister_table(name.clone())?;
    }
    ctx.register_table(name, Arc::new(AccountedTable::new(inner, charge)))?;
    Ok(ctx.read_empty()?.limit(0, Some(0))?)
}

/// Lets computed columns of a table that is made of its own rows be NULL later, as `ALTER TABLE … ADD COLUMN a
/// INT DEFAULT 1` wants it: that no row is NULL now does not declare the column so.
fn without_nulls_of_old_columns_only(
    schema: SchemaRef,
    input: &LogicalPlan,
    name: &TableReference,
) -> SchemaRef {
    let LogicalPlan::Projection(projection) = input else {
        return schema;
    };
    match projection.input.as_ref() {
        LogicalPlan::TableScan(scan) if scan.table_name == *name => {}
        _ => return schema,
    }
    let is_old = |index: usize| {
        let value = projection.expr.get(index);
        value.is_some_and(|value| matches!(value.clone().unalias(), Expr::Column(_)))
    };
    with_nullable(&schema, |index, field| {
        field.is_nullable() || !is_old(index)
    })
}

/// Says of each column whether it may be NULL.
fn with_nullable(schema: &Schema, is_nullable: impl Fn(usize, &Field) -> bool) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(index, field)| {
        let is_nullable = is_nullable(index, field);
        field.as_ref().clone().with_nullable(is_nullable)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Declares the columns of batches as those of their table.
///
/// # Errors
/// [`ErrorKind::Sql`] for a NULL in a column that is declared NOT NULL.
fn of_table(batches: Vec<RecordBatch>, schema: &SchemaRef) -> Result<Vec<RecordBatch>, Error> {
    let declared = |batch: RecordBatch| {
        if schema.contains(&batch.schema()) {
            return Ok(batch);
        }
        refuse_nulls(schema, batch.columns())?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        let made = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
        made.map_err(|error| DataFusionError::from(error).into())
    };
    batches.into_iter().map(declared).collect()
}

/// Runs a plan, and keeps the batches of each partition apart.
async fn collect(
    plan: Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
    charge: &Arc<Mutex<Charge>>,
) -> PlanResult<Vec<Vec<RecordBatch>>> {
    let streams = execute_stream_partitioned(plan, Arc::clone(task))?;
    let mut partitions = vec![Vec::new(); streams.len()];
    let mut running = JoinSet::new();
    for (number, mut rows) in streams.into_iter().enumerate() {
        let charge = Arc::clone(charge);
        running.spawn(async move {
            let mut batches = Vec::new();
            while let Some(batch) = rows.try_next().await? {
                charge.lock().add(&batch)?;
                batches.push(batch);
            }
            Ok::<_, DataFusionError>((number, batches))
        });
    }
    while let Some(done) = running.join_next().await {
        let done = done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        let (number, batches) = done?;
        partitions[number] = batches;
    }
    Ok(partitions)
}
