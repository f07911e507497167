//! DELETE and UPDATE of tables in memory.
//!
//! DataFusion hands a provider the filters that are left above the scan when the plan is optimized. What a condition
//! became meanwhile, a join for a subquery or no rows for a constant, is no filter, and every row changes. Here the
//! statement is a query of the numbers of the rows that its condition is true for, and of their new values, and
//! [`ChangeSink`] changes these rows. Batches without such rows are kept as they are.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{
    concat_batches, filter_record_batch, interleave, take_record_batch,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{MemTable, Session as PlanSession, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, TableReference, internal_err, plan_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, TableType, WriteOp,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::returned::Kept;
use super::{AccountedTable, Charge, refuse_nulls};
use crate::error::{Error, ErrorKind};

/// The column with the numbers of a table's rows, by a name that no column of a user has.
const ROW: &str = "(number of the row)";

/// Has each DELETE and UPDATE of a table in memory change the rows that a query names.
///
/// # Errors
/// None for plans that DataFusion made.
pub(crate) fn change_named_rows(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    let changed = plan.transform_down(|node| {
        Ok(match node {
            LogicalPlan::Dml(dml) => match naming_rows(&dml)? {
                Some(dml) => Transformed::yes(LogicalPlan::Dml(dml)),
                None => Transformed::no(LogicalPlan::Dml(dml)),
            },
            node => Transformed::no(node),
        })
    });
    changed.data()
}

/// Refuses a DELETE or an UPDATE whose condition its table would not be told.
///
/// A table that is not in memory changes rows by itself, and is handed the filters of the optimized plan. A condition that
/// is no filter there, for it is a constant or has a subquery, would be left out.
///
/// # Errors
/// [`ErrorKind::NotSupported`] names the table.
pub(crate) fn refuse_lost_conditions(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(dml) = plan else {
        return Ok(());
    };
    if !matches!(dml.op, WriteOp::Delete | WriteOp::Update) {
        return Ok(());
    }
    let is_lost = dml.input.exists(|node| {
        Ok(!matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
        ))
    })?;
    if !is_lost {
        return Ok(());
    }
    let message = format!(
        "rows of {} are changed by conditions of its own columns alone, and not by constants or subqueries",
        dml.table_name
    );
    Err(Error::new(ErrorKind::NotSupported, message).into())
}

/// Makes the statement whose input are the numbers of rows and their new values; `None` for other statements and
/// tables.
fn naming_rows(dml: &DmlStatement) -> Result<Option<DmlStatement>> {
    if !matches!(dml.op, WriteOp::Delete | WriteOp::Update) {
        return Ok(None);
    }
    let table = source_as_provider(&dml.target)?;
    if AccountedTable::memory_of(table.as_ref()).is_none() {
        return Ok(None);
    }
    let (rows, new_values) = match dml.input.as_ref() {
        LogicalPlan::Projection(new) => (&new.input, new.expr.as_slice()),
        rows if dml.op == WriteOp::Delete => (&Arc::new(rows.clone()), [].as_slice()),
        _ => return internal_err!("the input of UPDATE is not a projection"),
    };
    let declared = table.schema();
    let numbered = Arc::new(NumberedRows::new(table));
    let rows = over_numbered(rows.as_ref().clone(), &dml.table_name, &numbered)?;
    let row = rows.schema().qualified_field_with_unqualified_name(ROW)?;
    let row = Column::from(row);
    let is_given = |value: &&Expr| match value {
        Expr::Alias(value) => match value.expr.as_ref() {
            // It stays as it is.
            Expr::Column(column) => column.relation != row.relation || column.name != value.name,
            _ => true,
        },
        _ => true,
    };
    let mut change = Change::Delete;
    let mut named = vec![Expr::Column(row.clone())];
    if dml.op == WriteOp::Update {
        let mut columns = Vec::new();
        for value in new_values.iter().filter(is_given) {
            let (_, name) = value.qualified_name();
            let Ok(column) = declared.index_of(&name) else {
                return plan_err!("the table {} has no column {name}", dml.table_name);
            };
            columns.push(column);
            let kind = declared.field(column).data_type();
            let value = value.clone().unalias().cast_to(kind, rows.schema())?;
            named.push(value.alias(name));
        }
        change = Change::Update(columns);
    }
    let input = LogicalPlanBuilder::from(rows).project(named)?.build()?;
    let target = Arc::new(ChangedTable { numbered, change });
    Ok(Some(DmlStatement::new(
        dml.table_name.clone(),
        provider_as_source(target),
        WriteOp::Insert(InsertOp::Append),
        Arc::new(input),
    )))
}

/// Puts the numbered rows in the place of the first scan of a table.
fn over_numbered(
    plan: LogicalPlan,
    name: &TableReference,
    numbered: &Arc<NumberedRows>,
) -> Result<LogicalPlan> {
    let mut is_done = false;
    let over = plan.transform_up(|node| {
        Ok(Transformed::yes(match node {
            LogicalPlan::TableScan(scan) if !is_done && scan.table_name == *name => {
                is_done = true;
                let source = provider_as_source(Arc::clone(numbered) as _);
                LogicalPlanBuilder::scan(scan.table_name, source, None)?.build()?
            }
            node => node.recompute_schema()?,
        }))
    });
    over.data()
}

/// What becomes of the named rows.
#[derive(Clone, Debug)]
enum Change {
    Delete,
    /// These columns get new values.
    Update(Vec<usize>),
}

/// The batches of each partition of a table, when a statement was planned.
type Batches = Arc<[Vec<RecordBatch>]>;

/// The rows of a table with their numbers.
#[derive(Debug)]
struct NumberedRows {
    table: Arc<dyn TableProvider>,
    schema: SchemaRef,
    /// What the last scan reads.
    scanned: Mutex<Option<Batches>>,
}

impl NumberedRows {
    fn new(table: Arc<dyn TableProvider>) -> Self {
        let schema = table.schema();
        let fields = schema.fields().iter().map(|field| field.as_ref().clone());
        let fields = fields.chain([Field::new(ROW, DataType::UInt64, false)]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self {
            table,
            schema,
            scanned: Mutex::default(),
        }
    }

    fn memory(&self) -> Result<&MemTable> {
        match AccountedTable::memory_of(self.table.as_ref()) {
            Some(memory) => Ok(memory),
            None => internal_err!("a table is no longer in memory"),
        }
    }
}

#[async_trait]
impl TableProvider for NumberedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut batches = Vec::new();
        for partition in &self.memory()?.batches {
            batches.push(partition.read().await.clone());
        }
        let mut first_row = 0;
        let partitions = batches.iter().map(|batches| -> Arc<dyn PartitionStream> {
            let numbered = NumberedPartition {
                schema: Arc::clone(&self.schema),
                batches: batches.clone(),
                first_row,
            };
            first_row += num_rows(batches);
            Arc::new(numbered)
        });
        let rows = StreamingTable::try_new(Arc::clone(&self.schema), partitions.collect())?;
        *self.scanned.lock() = Some(batches.into());
        rows.scan(state, projection, filters, limit).await
    }
}

fn num_rows(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// The rows of a partition, whose numbers begin with one.
#[derive(Debug)]
struct NumberedPartition {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    first_row: u64,
}

impl PartitionStream for NumberedPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let mut next = self.first_row;
        let batches = self.batches.clone().into_iter().map(move |batch| {
            let first = next;
            next += batch.num_rows() as u64;
            let numbers = UInt64Array::from_iter_values(first..next);
            let mut columns = batch.columns().to_vec();
            columns.push(Arc::new(numbers));
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        });
        let schema = Arc::clone(&self.schema);
        let batches = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// A table whose rows are changed by what is inserted: the numbers of rows, and their new values.
#[derive(Debug)]
struct ChangedTable {
    numbered: Arc<NumberedRows>,
    change: Change,
}

#[async_trait]
impl TableProvider for ChangedTable {
    fn schema(&self) -> SchemaRef {
        self.numbered.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn PlanSession,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("rows are not read where they are changed")
    }

    async fn insert_into(
        &self,
        _: &dyn PlanSession,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scanned = self.numbered.scanned.lock().clone();
        let sink = ChangeSink {
            input: input.schema(),
            numbered: Arc::clone(&self.numbered),
            // Nothing is read where no row can be meant.
            scanned: scanned.unwrap_or_default(),
            change: self.change.clone(),
            kept: Kept::default(),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Changes rows of a table, all or none.
#[derive(Debug)]
pub(super) struct ChangeSink {
    input: SchemaRef,
    numbered: Arc<NumberedRows>,
    scanned: Batches,
    change: Change,
    pub(super) kept: Kept,
}

impl DisplayAs for ChangeSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            Change::Delete => f.write_str("DeletedRows"),
            Change::Update(columns) => {
                let schema = self.numbered.table.schema();
                let names = columns.iter().map(|column| schema.field(*column).name());
                let names: Vec<&str> = names.map(String::as_str).collect();
                write!(f, "UpdatedRows (columns=[{}])", names.join(", "))
            }
        }
    }
}

#[async_trait]
impl DataSink for ChangeSink {
    fn schema(&self) -> &SchemaRef {
        &self.input
    }

    async fn write_all(
        &self,
        mut rows: SendableRecordBatchStream,
        ctx: &Arc<TaskContext>,
    ) -> Result<u64> {
        let mut charge = Charge::new(&ctx.runtime_env().memory_pool);
        let mut named = Vec::new();
        while let Some(batch) = rows.try_next().await? {
            charge.add(&batch)?;
            named.push(batch);
        }
        if named.iter().all(|batch| batch.num_rows() == 0) {
            return Ok(0);
        }
        let named = NamedRows::new(concat_batches(&self.input, &named)?)?;
        charge.add(&named.batch)?;
        let declared = self.numbered.table.schema();
        let mut changed = Vec::with_capacity(self.scanned.len());
        let mut first_row = 0;
        let mut kept = Vec::new();
        for batches in self.scanned.iter() {
            let mut new = Vec::with_capacity(batches.len());
            for batch in batches {
                let first = first_row;
                first_row += batch.num_rows() as u64;
                let rows = named.of_batch(first, batch.num_rows());
                if rows.is_empty() {
                    new.push(batch.clone());
                    continue;
                }
                let changed = self.change.apply(&declared, batch, first, &named)?;
                charge.add(&changed)?;
                if self.kept.is_asked() {
                    let rows = rows.iter().map(|(row, _)| row - first);
                    let rows = UInt64Array::from_iter_values(rows);
                    let of = match self.change {
                        Change::Delete => batch,
                        Change::Update(_) => &changed,
                    };
                    kept.push(take_record_batch(of, &rows)?);
                }
                if changed.num_rows() > 0 {
                    new.push(changed);
                }
                tokio::task::yield_now().await;
            }
            changed.push(new);
        }
        self.put(changed).await?;
        self.kept.keep(kept);
        Ok(named.rows.len() as u64)
    }
}

impl ChangeSink {
    /// Puts the changed batches in the place of those that were read. Batches that were added meanwhile stay.
    ///
    /// # Errors
    /// If another statement changed rows meanwhile; the table stays as it is then.
    async fn put(&self, changed: Vec<Vec<RecordBatch>>) -> Result<()> {
        let memory = self.numbered.memory()?;
        let mut partitions = Vec::with_capacity(changed.len());
        for partition in &memory.batches {
            partitions.push(partition.write().await);
        }
        let mut read = partitions.iter().zip(self.scanned.iter());
        if !read.all(|(now, read)| begins_with(now, read)) {
            let message = "another statement changed rows of the table meanwhile: run it again";
            return Err(Error::new(ErrorKind::Conflict, message).into());
        }
        let read = self.scanned.iter().zip(changed);
        for (partition, (read, mut new)) in partitions.iter_mut().zip(read) {
            new.extend(partition.drain(read.len()..));
            **partition = new;
        }
        drop(partitions);
        if matches!(self.change, Change::Update(_)) {
            // New values may be in another order.
            memory.sort_order.lock().clear();
        }
        if let Some(table) = self.numbered.table.downcast_ref::<AccountedTable>() {
            table.count_again().await;
        }
        Ok(())
    }
}

fn begins_with(now: &[RecordBatch], read: &[RecordBatch]) -> bool {
    let is_same = |(now, read): (&RecordBatch, &RecordBatch)| {
        let mut columns = now.columns().iter().zip(read.columns());
        now.num_rows() == read.num_rows() && columns.all(|(now, read)| Arc::ptr_eq(now, read))
    };
    now.len() >= read.len() && now.iter().zip(read).all(is_same)
}

/// The rows that a statement names, each once and in the order of the table.
struct NamedRows {
    /// The numbers of rows, and their new values.
    batch: RecordBatch,
    /// A row's number, and its place in the batch.
    rows: Vec<(u64, usize)>,
}

impl NamedRows {
    fn new(batch: RecordBatch) -> Result<Self> {
        let Some(numbers) = batch.column(0).as_primitive_opt::<UInt64Type>() else {
            return internal_err!("rows are named by {}", batch.column(0).data_type());
        };
        let places = numbers.values().iter().copied().zip(0..);
        let mut rows: Vec<(u64, usize)> = places.collect();
        // Of several new values the first one counts.
        rows.sort_unstable();
        rows.dedup_by_key(|(row, _)| *row);
        Ok(Self { batch, rows })
    }

    /// Returns those of a batch that begins with a number.
    fn of_batch(&self, first: u64, num_rows: usize) -> &[(u64, usize)] {
        let end = first + num_rows as u64;
        let begin = self.rows.partition_point(|(row, _)| *row < first);
        let end = self.rows.partition_point(|(row, _)| *row < end);
        &self.rows[begin..end]
    }
}

impl Change {
    /// Changes rows of a batch whose first one has a number.
    ///
    /// # Errors
    /// If a new value is NULL in a column that is NOT NULL.
    fn apply(
        &self,
        declared: &SchemaRef,
        batch: &RecordBatch,
        first: u64,
        named: &NamedRows,
    ) -> Result<RecordBatch> {
        let rows = named.of_batch(first, batch.num_rows()).iter();
        let rows = rows.map(|(row, place)| ((row - first) as usize, *place));
        let columns = match self {
            Self::Delete => {
                let mut kept = vec![true; batch.num_rows()];
                rows.for_each(|(row, _)| kept[row] = false);
                return Ok(filter_record_batch(batch, &BooleanArray::from(kept))?);
            }
            Self::Update(columns) => columns,
        };
        // Each row's value is in the old column or among the new values.
        let mut sources: Vec<(usize, usize)> = (0..batch.num_rows()).map(|row| (0, row)).collect();
        rows.for_each(|(row, place)| sources[row] = (1, place));
        let mut changed = batch.columns().to_vec();
        for (column, values) in columns.iter().zip(named.batch.columns().iter().skip(1)) {
            changed[*column] = interleave(&[&changed[*column], values], &sources)?;
        }
        refuse_nulls(declared, &changed)?;
        Ok(RecordBatch::try_new(Arc::clone(declared), changed)?)
    }
}
