//! Tables of files, compared with the files that are there.
//!
//! DataFusion lists a table's files for each query and leaves out files without bytes: a file that was
//! deleted or emptied reads as no rows. Here it is an error, with two exceptions: a folder whose table
//! was declared with its columns may have no files yet, and an empty CSV or JSON file in a folder has
//! no rows.
//!
//! The files are listed side by side with the planning of the query.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::{ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::StreamExt;
use futures::future::try_join;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::ipc::IpcFormat;
use super::{copied, name_in};
use crate::error::{Error, ErrorKind};

/// A planner that looks for the files of tables while it plans.
pub(crate) struct PresentPlanner(pub(crate) DefaultPhysicalPlanner);

#[async_trait]
impl PhysicalPlanner for PresentPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let prepared = copied::prepared(plan, session).await?;
        let plan = &prepared.plan;
        let planning = self.0.create_physical_plan(plan, session);
        let (_, planned) = try_join(check_tables(plan, session), planning).await?;
        prepared.with_names(planned, session)
    }

    fn create_physical_expr(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.0.create_physical_expr(expr, schema, session, planning)
    }
}

/// Looks for the files of every table that a plan reads.
async fn check_tables(plan: &LogicalPlan, session: &dyn Session) -> Result<()> {
    for table in tables_of(plan)? {
        let Some(table) = table.downcast_ref::<ListingTable>() else {
            continue;
        };
        for url in table.table_paths() {
            let store = session.runtime_env().object_store(url)?;
            match is_one_file(url) {
                true => check_file(url, store.as_ref()).await?,
                false => check_files(table, url, session, store.as_ref()).await?,
            }
        }
    }
    Ok(())
}

fn tables_of(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut tables = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
        {
            tables.push(table);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

fn is_one_file(url: &ListingTableUrl) -> bool {
    !url.is_collection() && url.get_glob().is_none()
}

/// Tells whether an empty file of a folder is one without rows.
fn may_be_empty(table: &ListingTable) -> bool {
    let ending = table.options().format.get_ext();
    let ending = ending.trim_start_matches('.');
    ending != "parquet" && !IpcFormat::ENDINGS.contains(&ending)
}

async fn check_file(url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<()> {
    let name = name_in(&url.object_store(), url.prefix());
    match store.head(url.prefix()).await {
        Ok(meta) if meta.size > 0 => Ok(()),
        Ok(_) => Err(empty(&name)),
        // It may be the beginning of the names of several.
        Err(object_store::Error::NotFound { .. }) => {
            let mut files = store.list(Some(url.prefix()));
            match files.next().await {
                Some(Ok(_)) => Ok(()),
                _ => Err(gone(&name)),
            }
        }
        // The scan says what it is.
        Err(_) => Ok(()),
    }
}

async fn check_files(
    table: &ListingTable,
    url: &ListingTableUrl,
    session: &dyn Session,
    store: &dyn ObjectStore,
) -> Result<()> {
    let ending = &table.options().file_extension;
    let mut files = url.list_all_files(session, store, ending).await?;
    let mut num_files = 0_usize;
    while let Some(file) = files.next().await {
        let Ok(file) = file else {
            // The scan says what it is.
            return Ok(());
        };
        if file.size == 0 && !may_be_empty(table) {
            return Err(empty(&name_in(&url.object_store(), &file.location)));
        }
        num_files += 1;
    }
    match num_files == 0 && had_files(table, url) {
        true => Err(gone(&shown(url))),
        false => Ok(()),
    }
}

/// Tells whether the files of a folder were there when its table was made: its columns are theirs.
fn had_files(table: &ListingTable, url: &ListingTableUrl) -> bool {
    // Where a statement names no columns DataFusion adds a pattern to the folder.
    let declared = ListingTableConfig::new(url.clone());
    let declared = declared.with_listing_options(table.options().clone());
    let declared = declared.with_schema(table.schema()).schema_source();
    url.get_glob().is_some() || table.schema_source() != declared
}

/// Names the files of a folder or pattern.
fn shown(url: &ListingTableUrl) -> String {
    let folder = name_in(&url.object_store(), url.prefix());
    match url.get_glob() {
        Some(pattern) => format!("{}/{pattern}", folder.trim_end_matches('/')),
        None => folder,
    }
}

fn gone(name: &str) -> datafusion::error::DataFusionError {
    let message =
        format!("cannot read {name}: no such file; it was deleted or moved, or never written");
    Error::new(ErrorKind::NotFound, message).into()
}

fn empty(name: &str) -> datafusion::error::DataFusionError {
    let message = format!("cannot read {name}: the file is empty: it has 0 bytes");
    Error::new(ErrorKind::Io, message).into()
}
