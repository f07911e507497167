//! What COPY writes into folders: rows are not added to those of other files unless the statement says so, files have
//! names that are the same each time, and the names of partitions say which value is NULL. What COPY writes to Parquet
//! files has types that Parquet knows.
//!
//! DataFusion adds files of random names to whatever a folder holds, and names the folder of a NULL by what the array
//! has in its place.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit, when};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use object_store::ObjectStore;

use super::name_in;
use super::names::{NUMBER, Names, Naming, Present, RANDOM};
use super::table::NULL_PARTITION;
use super::whole::SinkNode;
use super::written::Written;
use crate::error::{Error, ErrorKind};
use crate::node_rule::{NodeRule, Replaced};

/// The options that say what becomes of files that a folder has.
pub(crate) const APPEND: &str = "format.append";
pub(crate) const OVERWRITE: &str = "format.overwrite";
pub(crate) const OVERWRITE_OR_IGNORE: &str = "format.overwrite_or_ignore";

/// The option that names files.
pub(crate) const FILENAME_PATTERN: &str = "format.filename_pattern";

/// The option that says whether all rows go into one file, as DataFusion's parser and as its planner know it.
pub(crate) const SINGLE_FILE: &str = "format.single_file_output";
const SINGLE_FILE_PLANNED: &str = "single_file_output";

/// The option, and the setting, by which files keep the columns that folders are named by.
const KEEP_COLUMNS: &str = "execution.keep_partition_by_columns";

/// The option that compresses files.
const COMPRESSION: &str = "format.compression";

/// What is planned of a statement.
pub(super) struct Prepared<'a> {
    pub(super) plan: Cow<'a, LogicalPlan>,
    /// The folder that it writes, if it does.
    folder: Option<Folder>,
}

/// A folder that is written.
#[derive(Clone, Debug)]
struct Folder {
    url: ListingTableUrl,
    naming: Naming,
}

/// Returns what is planned of a COPY, or of EXPLAIN of one; any other plan as it is.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] for a folder that holds files, if the rows are written.
pub(super) async fn prepared<'a>(
    plan: &'a LogicalPlan,
    session: &dyn Session,
) -> Result<Prepared<'a>> {
    let (plan, folder) = match plan {
        LogicalPlan::Copy(copy) => {
            let (copy, folder) = prepared_copy(copy, session, true).await?;
            (Cow::Owned(LogicalPlan::Copy(copy)), folder)
        }
        LogicalPlan::Analyze(analyze) => match analyze.input.as_ref() {
            LogicalPlan::Copy(copy) => {
                let (copy, folder) = prepared_copy(copy, session, true).await?;
                let mut analyze = analyze.clone();
                analyze.input = LogicalPlan::Copy(copy).into();
                (Cow::Owned(LogicalPlan::Analyze(analyze)), folder)
            }
            _ => (Cow::Borrowed(plan), None),
        },
        LogicalPlan::Explain(explain) => match explain.plan.as_ref() {
            LogicalPlan::Copy(copy) => {
                let (copy, _) = prepared_copy(copy, session, false).await?;
                let mut explain = explain.clone();
                explain.plan = LogicalPlan::Copy(copy).into();
                (Cow::Owned(LogicalPlan::Explain(explain)), None)
            }
            _ => (Cow::Borrowed(plan), None),
        },
        _ => (Cow::Borrowed(plan), None),
    };
    Ok(Prepared { plan, folder })
}

async fn prepared_copy(
    copy: &CopyTo,
    session: &dyn Session,
    is_run: bool,
) -> Result<(CopyTo, Option<Folder>)> {
    let mut options = copy.options.clone();
    let (present, pattern) = naming_of(&mut options)?;
    if let Some(value) = options.remove(SINGLE_FILE) {
        options.insert(SINGLE_FILE_PLANNED.into(), value);
    }
    let folder = match (folder_of(copy, &options)?, pattern) {
        (Some(url), pattern) => {
            let pattern = pattern.unwrap_or_else(|| match present {
                Present::Kept => RANDOM[0].into(),
                _ => format!("data_{NUMBER}"),
            });
            let naming = Naming { present, pattern };
            Some(Folder { url, naming })
        }
        (None, Some(_)) => {
            let message = format!(
                "COPY TO '{}': FILENAME_PATTERN names the files of a folder, and this is one file",
                copy.output_url
            );
            return Err(Error::new(ErrorKind::Sql, message).into());
        }
        (None, None) => None,
    };
    if let Some(folder) = folder.as_ref().filter(|_| is_run)
        && folder.naming.present == Present::Refused
    {
        check_folder(copy, &folder.url, session).await?;
    }
    let of_session = session.config_options().execution.keep_partition_by_columns;
    let keeps = options
        .get(KEEP_COLUMNS)
        .map_or(of_session, |value| value == "true");
    let mut input = match copy.partition_by.is_empty() || keeps {
        true => LogicalPlan::clone(&copy.input),
        false => named_partitions(copy)?,
    };
    if copy.file_type.get_ext().trim_start_matches('.') == "parquet" {
        input = stored(input)?;
        if let Some(codec) = options.get_mut(COMPRESSION)
            && codec.eq_ignore_ascii_case("lz4")
        {
            // What Parquet calls LZ4 has frames of Hadoop's, is deprecated, and not read everywhere.
            *codec = "lz4_raw".into();
        }
    }
    let copy = CopyTo::new(
        input.into(),
        copy.output_url.clone(),
        copy.partition_by.clone(),
        copy.file_type.clone(),
        options,
    );
    Ok((copy, folder))
}

/// Takes from a COPY's options what becomes of files that a folder has, and the pattern of new names, if there is one.
///
/// # Errors
/// [`ErrorKind::Sql`] for options that contradict each other, and for a pattern that is no file's name.
fn naming_of(options: &mut HashMap<String, String>) -> Result<(Present, Option<String>)> {
    let mut present = Present::Refused;
    for (option, said) in [
        (APPEND, Present::Kept),
        (OVERWRITE, Present::Removed),
        (OVERWRITE_OR_IGNORE, Present::Replaced),
    ] {
        if options.remove(option).is_none_or(|value| value == "false") {
            continue;
        }
        if present != Present::Refused {
            let message = "COPY takes one of APPEND, OVERWRITE and OVERWRITE_OR_IGNORE";
            return Err(Error::new(ErrorKind::Sql, message).into());
        }
        present = said;
    }
    let Some(mut pattern) = options.remove(FILENAME_PATTERN) else {
        return Ok((present, None));
    };
    if pattern.is_empty() || pattern.starts_with('.') || pattern.contains(['/', '\\']) {
        let message = format!(
            "FILENAME_PATTERN takes a file's name without folders and ending, as in 'part_{NUMBER}' or '{}', and was given \
             '{pattern}'",
            RANDOM[0]
        );
        return Err(Error::new(ErrorKind::Sql, message).into());
    }
    let is_marked = pattern.contains(NUMBER) || RANDOM.iter().any(|word| pattern.contains(word));
    if !is_marked {
        pattern += NUMBER;
    }
    Ok((present, Some(pattern)))
}

/// Returns the folder that a COPY writes; `None` if it writes one file.
fn folder_of(copy: &CopyTo, options: &HashMap<String, String>) -> Result<Option<ListingTableUrl>> {
    let url = ListingTableUrl::parse(&copy.output_url)?;
    let is_folder = match options.get(SINGLE_FILE_PLANNED).map(|value| value.trim()) {
        _ if !copy.partition_by.is_empty() => true,
        Some("true") => false,
        Some("false") => true,
        _ => url.is_collection() || url.file_extension().is_none(),
    };
    Ok(is_folder.then_some(url))
}

/// Refuses a folder that holds files.
async fn check_folder(copy: &CopyTo, url: &ListingTableUrl, session: &dyn Session) -> Result<()> {
    let store = session.runtime_env().object_store(url)?;
    // What is wrong with the store, writing says.
    match store.list(Some(url.prefix())).next().await {
        Some(Ok(file)) if file.location != *url.prefix() => {
            let message = format!(
                "COPY TO '{}': the folder holds files already, as {}: write into another, or say what becomes of them: \
                 OVERWRITE removes them, OVERWRITE_OR_IGNORE replaces those of the same names, and APPEND leaves them",
                copy.output_url,
                name_in(&url.object_store(), &file.location)
            );
            Err(Error::new(ErrorKind::AlreadyExists, message).into())
        }
        _ => Ok(()),
    }
}

impl Prepared<'_> {
    /// Puts a [`FolderOutput`] before the sink of a plan that writes a folder.
    ///
    /// # Errors
    /// Those of DataFusion's.
    pub(super) fn with_names(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(folder) = &self.folder else {
            return Ok(plan);
        };
        let folder = folder.clone();
        let replace = move |node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions| -> Replaced {
            let Some(exec) = node.downcast_ref::<DataSinkExec>() else {
                return Ok(None);
            };
            let sink = FolderOutput {
                inner: SinkNode::new(exec)?,
                folder: folder.clone(),
            };
            let input = Arc::clone(exec.input());
            let exec = DataSinkExec::new(input, Arc::new(sink), exec.sort_order().clone());
            Ok(Some(Arc::new(exec)))
        };
        NodeRule("name_files", replace).optimize(plan, session.config_options())
    }
}

/// A sink whose files have names of ours, and are removed where it fails.
#[derive(Debug)]
struct FolderOutput {
    inner: SinkNode,
    folder: Folder,
}

impl DisplayAs for FolderOutput {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.sink().fmt_as(format, f)
    }
}

#[async_trait]
impl DataSink for FolderOutput {
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.inner.schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        ctx: &Arc<TaskContext>,
    ) -> Result<u64> {
        let Folder { url, naming } = &self.folder;
        let names = Names::of_folder(ctx, url, naming.clone()).await?;
        let (written, named) = Written::named(ctx, names);
        match self.inner.sink().write_all(data, &named).await {
            Ok(count) => {
                written.keep().await?;
                Ok(count)
            }
            Err(error) => {
                written.remove().await;
                Err(error)
            }
        }
    }
}

/// Casts columns whose types Parquet has not, or is not written with.
fn stored(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().map(|(table, field)| {
        let column = Expr::from((table, field));
        match stored_type(field.data_type()) {
            Some(kind) => cast(column, kind).alias_qualified(table.cloned(), field.name()),
            None => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    match columns
        .iter()
        .all(|column| matches!(column, Expr::Column(_)))
    {
        true => Ok(plan),
        false => LogicalPlanBuilder::from(plan).project(columns)?.build(),
    }
}

/// Returns the type as which values are stored; `None` for that of the values.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        // Arrow writes it as a number without a type.
        DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        // Arrow's writer fails.
        DataType::Decimal32(1, scale) => Some(DataType::Decimal32(2, *scale)),
        _ => None,
    }
}

/// Makes texts of the columns that folders are named by.
fn named_partitions(copy: &CopyTo) -> Result<LogicalPlan> {
    let names: HashSet<&String> = copy.partition_by.iter().collect();
    let columns = copy.input.schema().iter().map(|(table, field)| {
        let column = Expr::from((table, field));
        match names.contains(field.name()) {
            true => {
                let value = cast(column.clone(), DataType::Utf8);
                let value = when(column.is_null(), lit(NULL_PARTITION)).otherwise(value)?;
                Ok(value.alias_qualified(table.cloned(), field.name()))
            }
            false => Ok(column),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(LogicalPlan::clone(&copy.input))
        .project(columns)?
        .build()
}
