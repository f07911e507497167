//! Tables that statements name by a path or URL: `SELECT … FROM 's3://bucket/k.parquet'`.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::datasource::listing::{
    ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::prelude::SessionContext;
use parking_lot::RwLock;

use crate::error::{Error, ErrorKind};
use crate::stores::remote_url;

/// Characters of a pattern that stands for several files.
const PATTERN: [char; 2] = ['*', '['];

/// Lets statements read any file that the session's stores give.
pub(super) fn with_file_tables(ctx: SessionContext) -> SessionContext {
    let tables = Arc::new(FileTables::default());
    let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
    let catalogs = DynamicFileCatalog::new(catalogs, Arc::clone(&tables) as _);
    let id = ctx.session_id();
    let builder = ctx.into_state_builder().with_session_id(id);
    let ctx = SessionContext::from(builder.with_catalog_list(Arc::new(catalogs)).build());
    // It is set once, here.
    let _ = tables.state.set(ctx.state_weak_ref());
    ctx
}

/// Makes tables of paths, for one session.
#[derive(Debug, Default)]
struct FileTables {
    state: OnceLock<Weak<RwLock<SessionState>>>,
}

#[async_trait]
impl UrlTableFactory for FileTables {
    /// Makes a table of what lies at a path; `None` if nothing does, or it is of no known format. Of
    /// a store elsewhere, says what is wrong.
    async fn try_new(&self, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let state = self.state.get().and_then(Weak::upgrade);
        let Some(state) = state.map(|state| state.read().clone()) else {
            return Ok(None);
        };
        let is_remote = remote_url(path).is_some();
        let found = match is_remote {
            true => remote_table(path),
            false => ListingTableUrl::parse(path),
        };
        let found = match found {
            Ok(url) => ListingTableConfig::new(url).infer_options(&state).await,
            Err(error) => Err(error),
        };
        let config = match found {
            Ok(config) => config,
            Err(error) if is_remote => return Err(explain(path, error)),
            Err(_) => return Ok(None),
        };
        let config = config.infer_partitions_from_path(&state).await?;
        let config = config.infer_schema(&state).await?;
        Ok(Some(Arc::new(ListingTable::try_new(config)?)))
    }
}

/// Reads a URL, which may have a pattern in its last parts.
fn remote_table(path: &str) -> Result<ListingTableUrl> {
    let refused = |message: String| DataFusionError::from(Error::new(ErrorKind::Io, message));
    let shown = path.split('?').next().unwrap_or_default();
    if shown.len() < path.len() {
        let message = format!(
            "'{shown}?…': what stands behind '?' would not be sent; a pattern has '*' or '[…]'"
        );
        return Err(refused(message));
    }
    let Some(at) = path.find(PATTERN) else {
        return ListingTableUrl::parse(path);
    };
    let folder = path[..at].rfind('/').map_or(0, |slash| slash + 1);
    ListingTableUrl::parse(&path[..folder])?.with_glob(&path[folder..])
}

fn explain(path: &str, error: DataFusionError) -> DataFusionError {
    let message = error.strip_backtrace();
    let why = if message.contains("No files for table") {
        "is not there: no such object, and none whose name begins so"
    } else if message.contains("file_format") || message.contains("file extension") {
        "is of no known format: its ending is none of .parquet, .csv, .tsv, .json, .ndjson, .jsonl, \
         .arrow, .avro"
    } else {
        return error;
    };
    Error::new(ErrorKind::Io, format!("'{path}' {why}")).into()
}
