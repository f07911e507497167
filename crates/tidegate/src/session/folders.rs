//! External tables of folders whose columns are found: which of a folder's files are theirs.
//!
//! DataFusion looks in a folder for files that end as the format does, and finds none where all are compressed
//! (`.csv.gz`), or leaves those out that are. Here each ending of the format that the folder has becomes a
//! pattern, and the files are read as their names say.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::logical_expr::CreateExternalTable;
use futures::TryStreamExt;
use object_store::ObjectStore;

use super::formats::compression_of;
use crate::error::{Error, ErrorKind};
use crate::files::text::says_how;

/// The option that says how files are compressed.
const COMPRESSION: &str = "format.compression";

/// Makes tables of files of text.
#[derive(Debug)]
pub(super) struct TextFolders(pub(super) Arc<dyn TableProviderFactory>);

#[async_trait]
impl TableProviderFactory for TextFolders {
    async fn create(
        &self,
        session: &dyn Session,
        create: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        match of_folder(session, create).await? {
            Some(named) => self.0.create(session, &named).await,
            None => self.0.create(session, create).await,
        }
    }
}

/// Returns a statement that names the files of a folder by their endings; `None` if it is as well as it is.
async fn of_folder(
    session: &dyn Session,
    create: &CreateExternalTable,
) -> Result<Option<CreateExternalTable>> {
    let [location] = create.locations.as_slice() else {
        return Ok(None);
    };
    let says_compression = |name: &String| name.to_lowercase().ends_with("compression");
    if !create.schema.fields().is_empty() || create.options.keys().any(says_compression) {
        return Ok(None);
    }
    let url = ListingTableUrl::parse(location)?;
    let folder = url.get_url().to_file_path().ok();
    let folder = folder.and_then(|folder| folder.to_str().map(str::to_string));
    let Some(folder) = folder.filter(|folder| !folder.contains(['*', '?', '['])) else {
        return Ok(None);
    };
    // Of a store elsewhere all files are read.
    if !url.is_folder() || url.get_glob().is_some() {
        return Ok(None);
    }
    let format = create.file_type.to_lowercase();
    let endings = endings(session, &url, family(&format)).await?;
    let is_looked_for = |ending: &String| *ending == ".csv" || *ending == ".json";
    if endings.iter().all(is_looked_for) {
        return Ok(None);
    }
    if endings.len() > 1 && is_json(&format) {
        let message = format!(
            "'{location}': the folder has JSON under several endings ({}), and columns are found of one: declare them, as \
             in CREATE EXTERNAL TABLE t(a INT, …), or read the folder with read_json('{location}')",
            endings.into_iter().collect::<Vec<_>>().join(", ")
        );
        return Err(Error::new(ErrorKind::NotSupported, message).into());
    }
    if endings.len() > 1 && create.options.keys().any(|option| says_how(option)) {
        let message = format!(
            "'{location}': the folder has files that are compressed in several ways ({}), and files whose form is \
             said in OPTIONS are compressed in one: make a table of each, as in LOCATION '{}/*.{format}'",
            endings.into_iter().collect::<Vec<_>>().join(", "),
            location.trim_end_matches('/')
        );
        return Err(Error::new(ErrorKind::NotSupported, message).into());
    }
    let mut named = create.clone();
    if let (Some(ending), 1) = (endings.first(), endings.len())
        && let Some(compression) = compression_of(ending)
    {
        named.options.insert(COMPRESSION.into(), compression.into());
    }
    let folder = folder.trim_end_matches('/');
    let pattern = |ending: String| format!("{folder}/*{ending}");
    named.locations = endings.into_iter().map(pattern).collect();
    Ok(Some(named))
}

/// Returns how files of a format end.
fn family(format: &str) -> &'static [&'static str] {
    match format {
        _ if is_json(format) => &[".json", ".ndjson", ".jsonl"],
        "tsv" => &[".tsv"],
        _ => &[".csv"],
    }
}

fn is_json(format: &str) -> bool {
    ["json", "ndjson", "jsonl"].contains(&format)
}

/// Returns how the names of a folder's files of a format end, compressed ones' too.
async fn endings(
    session: &dyn Session,
    folder: &ListingTableUrl,
    formats: &[&str],
) -> Result<BTreeSet<String>> {
    let execution = &session.config_options().execution;
    let ignores_subfolders = execution.listing_table_ignore_subdirectory;
    let store = session.runtime_env().object_store(folder)?;
    let mut files = store.list(Some(folder.prefix()));
    let mut endings = BTreeSet::new();
    // What is wrong with the folder is told where its files are read.
    while let Ok(Some(file)) = files.try_next().await {
        let name = file.location.filename().unwrap_or_default();
        if folder.contains(&file.location, ignores_subfolders) {
            endings.extend(formats.iter().find_map(|format| ending_of(name, format)));
        }
    }
    Ok(endings)
}

/// Returns how a file's name ends that is of a format, which ends so.
fn ending_of(name: &str, format: &str) -> Option<String> {
    if name.ends_with(format) {
        return Some(format.into());
    }
    let (before, last) = name.rsplit_once('.')?;
    let ending = format!("{format}.{last}");
    (before.ends_with(format) && compression_of(&ending).is_some()).then_some(ending)
}
