//! A plan that is run again: a statement that is answered by one device.
//!
//! Planning a short query takes longer than running it. A [`CachedPlan`] is the plan of a statement
//! that is one atomic region over one table; while the table has the rows over which the plan was
//! made, the plan is run again. [`CachedStatement`] stands for it where DataFusion wants a logical
//! plan, so that a frame of it is like any other frame.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, internal_err};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_groups::FileGroup;
use tidegate_scheduler::{ScanKey, ScanRows};

use crate::accounted::AccountedTable;
use crate::leaf::parquet::rows::are_of;
use crate::region::PipelineExec;
use crate::sources::MorselTable;

/// The one table that a statement reads, as it was when a plan was made.
#[derive(Debug)]
pub(crate) struct Snapshot {
    table: Weak<dyn TableProvider>,
}

impl Snapshot {
    /// Finds the table of a plan that has just one scan, if it is a memory table, files, or a table
    /// whose rows do not change.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<Self> {
        let mut tables = Vec::new();
        let walked = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                tables.push(source_as_provider(&scan.source)?);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.ok()?;
        let Ok([table]) = <[_; 1]>::try_from(tables) else {
            return None;
        };
        let is_told = AccountedTable::memory_of(&*table).is_some()
            || table.is::<MorselTable>()
            || table.is::<ListingTable>();
        is_told.then(|| Self {
            table: Arc::downgrade(&table),
        })
    }

    /// Returns whether the table is this one.
    pub(crate) fn is_of(&self, table: &Arc<dyn TableProvider>) -> bool {
        std::ptr::addr_eq(self.table.as_ptr(), Arc::as_ptr(table))
    }

    /// Returns whether it takes a session to tell which rows the table has: it is made of files.
    pub(crate) fn is_of_files(&self) -> bool {
        self.table
            .upgrade()
            .is_some_and(|table| table.is::<ListingTable>())
    }

    /// Returns whether the table has just the rows of a scan now, as far as these columns of the table
    /// go. Files are those that the session lists, in the state that its list tells.
    pub(crate) async fn has_the_rows_of(
        &self,
        scan: &ScanKey,
        columns: &[usize],
        session: Option<&dyn Session>,
    ) -> bool {
        let Some(table) = self.table.upgrade() else {
            return false;
        };
        if let Some(listing) = table.downcast_ref::<ListingTable>() {
            let Some(session) = session else {
                return false;
            };
            let Ok(listed) = listing.list_files_for_scan(session, &[], None).await else {
                return false;
            };
            let files = listed.file_groups.iter().flat_map(FileGroup::iter);
            return are_of(scan, files.map(|file| &file.object_meta));
        }
        let Some(memory) = AccountedTable::memory_of(&*table) else {
            // The name says which rows they are; the table has never had others.
            return matches!(scan.rows(), ScanRows::Named(_));
        };
        let mut partitions = Vec::with_capacity(memory.batches.len());
        for partition in &memory.batches {
            partitions.push(partition.read().await);
        }
        let batches = partitions
            .iter()
            .flat_map(|partition| partition.iter())
            .collect::<Vec<&RecordBatch>>();
        scan.has_batches(batches.into_iter(), columns)
    }
}

/// A plan to be run again.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    /// A [`PipelineExec`] over an atomic region.
    plan: Arc<dyn ExecutionPlan>,
    /// What it was made of, already optimized.
    logical: LogicalPlan,
    snapshot: Snapshot,
    scan: ScanKey,
}

impl CachedPlan {
    /// Keeps a plan and the optimized logical plan that it was made of, if it can be run again.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        logical: LogicalPlan,
        snapshot: Snapshot,
    ) -> Option<Self> {
        let region = plan.downcast_ref::<PipelineExec>()?;
        let (region, leaf) = region.atomic_region()?;
        // A parameter that is bound late is a subquery's, which runs in the plan around it.
        let program = region.program.as_ref()?;
        if !program.bindings.is_empty() {
            return None;
        }
        Some(Self {
            plan: Arc::clone(plan),
            logical,
            snapshot,
            scan: leaf.scan_key()?,
        })
    }

    /// Returns whether the table has the rows over which the plan was made.
    pub(crate) async fn is_current(&self, session: Option<&dyn Session>) -> bool {
        let columns = self.scan.columns();
        let snapshot = &self.snapshot;
        snapshot.has_the_rows_of(&self.scan, columns, session).await
    }

    /// Returns the table that the statement reads.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the plan for another execution.
    pub(crate) fn again(&self) -> Result<Arc<dyn ExecutionPlan>> {
        match self.plan.downcast_ref::<PipelineExec>() {
            Some(region) => region.again(),
            None => internal_err!("only the plan of one region is cached"),
        }
    }
}

/// Stands for a [`CachedPlan`] among logical plans.
#[derive(Clone, Debug)]
pub(crate) struct CachedStatement {
    cached: Arc<CachedPlan>,
    schema: DFSchemaRef,
}

impl CachedStatement {
    /// Makes the logical plan that stands for a cached one.
    pub(crate) fn plan(cached: Arc<CachedPlan>) -> LogicalPlan {
        let schema = Arc::clone(cached.logical.schema());
        let node = Arc::new(Self { cached, schema });
        LogicalPlan::Extension(Extension { node })
    }

    /// Returns the cached plan that a logical plan is, if it is one and nothing around it.
    pub(crate) fn root_of(plan: &LogicalPlan) -> Option<&CachedPlan> {
        let LogicalPlan::Extension(extension) = plan else {
            return None;
        };
        let node = extension.node.as_any().downcast_ref::<Self>();
        node.map(|node| node.cached.as_ref())
    }

    /// Returns a logical plan with each cached one replaced by what it was made of.
    pub(crate) fn unfolded(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
        let mut is_there = false;
        plan.apply_with_subqueries(|node| {
            is_there |= Self::root_of(node).is_some();
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !is_there {
            return Ok(Cow::Borrowed(plan));
        }
        let unfold = |node: LogicalPlan| match Self::root_of(&node) {
            Some(cached) => Ok(Transformed::yes(cached.logical.clone())),
            None => Ok(Transformed::no(node)),
        };
        let unfolded = plan.clone().transform_down_with_subqueries(unfold)?;
        Ok(Cow::Owned(unfolded.data))
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.cached).addr()
    }
}

impl PartialEq for CachedStatement {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for CachedStatement {}

impl PartialOrd for CachedStatement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.address().partial_cmp(&other.address())
    }
}

impl Hash for CachedStatement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl UserDefinedLogicalNodeCore for CachedStatement {
    fn name(&self) -> &str {
        "CachedStatement"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedStatement: {}", self.cached.logical.display())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        if !exprs.is_empty() || !inputs.is_empty() {
            return internal_err!("a cached statement has no parts");
        }
        Ok(self.clone())
    }
}
