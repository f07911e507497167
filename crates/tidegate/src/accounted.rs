//! Tables in memory, whose rows count against the memory limit as long as the table is there.
//!
//! Rows are counted before they are kept: a statement that would exceed the limit, or has NULL where the table says
//! NOT NULL, fails, and the table is what it was. Buffers that several arrays share are counted once.

pub(crate) mod changes;
pub(crate) mod returned;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::{MemTable, Session as PlanSession, TableProvider};
use datafusion::common::Constraints;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result as PlanResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::TryStreamExt;
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind};
use returned::Kept;

/// Who holds the memory, in messages and in `system.memory`.
const CONSUMER: &str = "tables in memory";

/// The promise of the bytes of some batches.
#[derive(Debug)]
pub(crate) struct Charge {
    held: MemoryReservation,
    counter: RecordBatchMemoryCounter,
}

impl Charge {
    /// Begins with nothing.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            held: MemoryConsumer::new(CONSUMER).register(pool),
            counter: RecordBatchMemoryCounter::new(),
        }
    }

    /// Adds what a batch takes beside those before it.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the limit is reached; nothing is added then.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> PlanResult<()> {
        let bytes = self.counter.count_batch(batch);
        self.held.try_grow(bytes)
    }
}

/// A table in memory, and the promise of its bytes.
#[derive(Debug)]
pub(crate) struct AccountedTable {
    inner: MemTable,
    held: Arc<Mutex<MemoryReservation>>,
}

impl AccountedTable {
    pub(crate) fn new(inner: MemTable, charge: Charge) -> Self {
        let held = Arc::new(Mutex::new(charge.held));
        Self { inner, held }
    }

    /// Returns the table in memory behind a provider, if it is one.
    pub(crate) fn memory_of(table: &dyn TableProvider) -> Option<&MemTable> {
        let held = table.downcast_ref::<Self>().map(|held| &held.inner);
        held.or_else(|| table.downcast_ref::<MemTable>())
    }

    /// Counts the rows again, after some have changed or gone.
    async fn count_again(&self) {
        let mut counter = RecordBatchMemoryCounter::new();
        let mut bytes = 0;
        for partition in &self.inner.batches {
            let batches = partition.read().await;
            let sizes = batches.iter().map(|batch| counter.count_batch(batch));
            bytes += sizes.sum::<usize>();
        }
        self.held.lock().resize(bytes);
    }
}

#[async_trait]
impl TableProvider for AccountedTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.inner.constraints()
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    async fn scan(
        &self,
        state: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        self.inner.scan(state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        self.inner.supports_filters_pushdown(filters)
    }

    async fn insert_into(
        &self,
        state: &dyn PlanSession,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        // It checks the columns and the operation; its own sink counts nothing.
        self.inner
            .insert_into(state, Arc::clone(&input), operation)
            .await?;
        let schema = self.inner.schema();
        let fields = schema.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let sink = AccountedSink {
            // The sink itself refuses NULL, by the name of the column.
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            declared: schema,
            partitions: self.inner.batches.clone(),
            held: Arc::clone(&self.held),
            kept: Kept::default(),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.inner.get_column_default(column)
    }

    async fn truncate(&self, state: &dyn PlanSession) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let done = self.inner.truncate(state).await;
        self.count_again().await;
        done
    }
}

/// Checks that rows have values where a table's columns are NOT NULL.
///
/// # Errors
/// [`ErrorKind::Sql`] names the first column in which a row has NULL instead.
pub(crate) fn refuse_nulls(schema: &Schema, columns: &[ArrayRef]) -> Result<(), Error> {
    let mut columns = schema.fields().iter().zip(columns);
    let is_wrong = |(field, column): &(&FieldRef, &ArrayRef)| {
        !field.is_nullable() && column.logical_null_count() > 0
    };
    match columns.find(is_wrong) {
        None => Ok(()),
        Some((field, _)) => {
            let message = format!(
                "a row has NULL for the column {}, which is NOT NULL",
                field.name()
            );
            Err(Error::new(ErrorKind::Sql, message))
        }
    }
}

/// Adds rows to a [`AccountedTable`], all or none.
#[derive(Debug)]
struct AccountedSink {
    /// The table's columns as rows are taken: each may be NULL.
    schema: SchemaRef,
    declared: SchemaRef,
    partitions: Vec<datafusion::datasource::memory::PartitionData>,
    held: Arc<Mutex<MemoryReservation>>,
    kept: Kept,
}

impl DisplayAs for AccountedSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTable (partitions={})", self.partitions.len())
    }
}

#[async_trait]
impl DataSink for AccountedSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut rows: SendableRecordBatchStream,
        ctx: &Arc<TaskContext>,
    ) -> PlanResult<u64> {
        let mut charge = Charge::new(&ctx.runtime_env().memory_pool);
        let mut new = vec![Vec::new(); self.partitions.len()];
        let (mut num_rows, mut next) = (0, 0);
        let mut kept = Vec::new();
        while let Some(batch) = rows.try_next().await? {
            refuse_nulls(&self.declared, batch.columns())?;
            charge.add(&batch)?;
            num_rows += batch.num_rows() as u64;
            if self.kept.is_asked() {
                kept.push(batch.clone());
            }
            new[next].push(batch);
            next = (next + 1) % new.len();
        }
        for (partition, mut batches) in self.partitions.iter().zip(new) {
            partition.write().await.append(&mut batches);
        }
        self.kept.keep(kept);
        // The pool knows the table's bytes by one name, whoever brought them.
        let held = self.held.lock();
        let bytes = charge.held.free();
        held.grow(bytes);
        Ok(num_rows)
    }
}
