//! Tables that statements name by a path or URL: `SELECT … FROM 's3://bucket/k.parquet'`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::datasource::listing::{
    ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::options::ReadOptions;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Statement, WriteOp};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use parking_lot::RwLock;

use super::bounds::check_options;
use super::formats;
use super::stdin::Inputs;
use crate::error::{Error, ErrorKind};
use crate::files::format::checked;
use crate::files::listed::FilePath;
use crate::files::table::{FilesOptions, FilesTable, with_types};
use crate::functions::nested_text;
use crate::sql_type::sql_type;
use crate::stores::access::AllowedPaths;
use crate::stores::{check_regular, remote_url, shown, with_query_in_path};

/// Characters of a pattern that stands for several files.
const PATTERN: [char; 2] = ['*', '['];

/// Lets statements read any file that the session's stores give, and these inputs of the process.
pub(super) fn with_file_tables(ctx: SessionContext, inputs: Option<Inputs>) -> SessionContext {
    let tables = Arc::new(FileTables {
        state: OnceLock::new(),
        inputs,
    });
    let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
    let catalogs = DynamicFileCatalog::new(catalogs, Arc::clone(&tables) as _);
    let id = ctx.session_id();
    let builder = ctx.into_state_builder().with_session_id(id);
    let ctx = SessionContext::from(builder.with_catalog_list(Arc::new(catalogs)).build());
    // It is set once, here.
    let _ = tables.state.set(ctx.state_weak_ref());
    ctx
}

/// Makes a table of a file, a folder or a glob that a program names.
pub(super) async fn listing<'a>(
    ctx: &SessionContext,
    path: &str,
    options: &impl ReadOptions<'a>,
) -> Result<ListingTable> {
    let mut options = options.to_listing_options(&ctx.copied_config(), ctx.copied_table_options());
    options.format = checked(options.format);
    let url = ListingTableUrl::parse(path)?;
    let ending = &options.file_extension;
    if !url.as_str().ends_with(ending.as_str()) && !url.is_collection() {
        let message = format!("'{path}' does not end in '{ending}'");
        return Err(Error::new(ErrorKind::Io, message).into());
    }
    let state = ctx.state();
    let config = ListingTableConfig::new(url).with_listing_options(options);
    let config = config.infer_schema(&state).await?;
    let statistics = ctx.runtime_env().cache_manager.get_file_statistic_cache();
    Ok(ListingTable::try_new(config)?.with_cache(statistics))
}

/// Makes tables of paths, for one session.
#[derive(Debug, Default)]
struct FileTables {
    state: OnceLock<Weak<RwLock<SessionState>>>,
    inputs: Option<Inputs>,
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
        if let Some(inputs) = &self.inputs
            && let Some(table) = inputs.table(path, &state).await?
        {
            return Ok(Some(Arc::new(table)));
        }
        if is_name(path) {
            return Ok(None);
        }
        if has_wildcard_folders(path) {
            return table_of_pattern(&state, path).await;
        }
        let is_remote = remote_url(path).is_some();
        let allowed = AllowedPaths::of(state.config());
        let file = Path::new(path);
        if !is_remote && allowed.is_none_or(|allowed| allowed.allows(file)) {
            check_regular(file)?;
        }
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
            Err(error) if is_unsupported(&error) => return Err(error),
            Err(_) => return Ok(None),
        };
        if !is_remote {
            check_formats(&state, &config, path).await?;
        }
        let config = config.infer_partitions_from_path(&state).await?;
        let config = with_typed_keys(&state, config).await?;
        let config = config.infer_schema(&state).await?;
        Ok(Some(Arc::new(ListingTable::try_new(config)?)))
    }
}

/// Has columns that are keys of folders, `year=2024`, be of the types of their values.
async fn with_typed_keys(
    state: &SessionState,
    mut config: ListingTableConfig,
) -> Result<ListingTableConfig> {
    let Some(options) = &mut config.options else {
        return Ok(config);
    };
    if options.table_partition_cols.is_empty() {
        return Ok(config);
    }
    let mut files = Vec::new();
    for url in &config.table_paths {
        let store = state.runtime_env().object_store(url)?;
        let listed = url.list_all_files(state, store.as_ref(), &options.file_extension);
        files.extend(listed.await?.try_collect::<Vec<_>>().await?);
    }
    with_types(&mut options.table_partition_cols, &files);
    Ok(config)
}

/// Refuses a folder or a pattern with files of several formats, or compressed in several ways, of which DataFusion reads
/// those that are like the first.
///
/// # Errors
/// [`ErrorKind::Sql`].
async fn check_formats(
    state: &SessionState,
    config: &ListingTableConfig,
    path: &str,
) -> Result<()> {
    let mut endings = BTreeSet::new();
    let mut compressions = BTreeSet::new();
    for url in &config.table_paths {
        if !url.is_collection() && url.get_glob().is_none() {
            continue;
        }
        let store = state.runtime_env().object_store(url)?;
        let mut files = url.list_all_files(state, store.as_ref(), "").await?;
        while let Some(file) = files.try_next().await? {
            let name = file
                .location
                .filename()
                .unwrap_or_default()
                .to_ascii_lowercase();
            let known =
                ending_of(&name).filter(|ending| state.get_file_format_factory(ending).is_some());
            if known.is_some() {
                compressions.insert(formats::compression_of(&name));
            }
            endings.extend(known.map(str::to_string));
        }
    }
    let mut all = endings.iter().map(String::as_str);
    let first = match (all.next(), all.next()) {
        (Some(first), Some(_)) => first,
        (Some(only), None) if compressions.len() > 1 => {
            return Err(compressed_in_several_ways(path, only));
        }
        _ => return Ok(()),
    };
    let message = format!(
        "'{path}': the folder has files of several formats ({}): name those that are to be read, as in '{}/*.{first}'",
        endings
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        folder_of(path)
    );
    Err(Error::new(ErrorKind::Sql, message).into())
}

fn compressed_in_several_ways(path: &str, format: &str) -> DataFusionError {
    let reader = match format {
        "json" | "ndjson" | "jsonl" => "read_json",
        _ => "read_csv",
    };
    let message = format!(
        "'{path}': the folder has files that are compressed in several ways: read them together with \
         {reader}('{path}'), or name those that are to be read, as in '{}/*.{format}'",
        folder_of(path)
    );
    Error::new(ErrorKind::Sql, message).into()
}

/// Returns the folder of a path that is one, or that ends in a pattern for names of files.
fn folder_of(path: &str) -> &str {
    let folder = match path.rsplit_once('/') {
        Some((folder, name)) if name.contains(PATTERN) => folder,
        _ => path,
    };
    folder.trim_end_matches('/')
}

/// Returns the ending of a file's name that says its format.
fn ending_of(name: &str) -> Option<&str> {
    let mut endings = name.rsplit('.');
    let (last, before) = (endings.next()?, endings.next()?);
    Some(if formats::is_compression(last) {
        before
    } else {
        last
    })
}

/// Tells whether a text is a table's name, and no path. A folder is written `data/`: that a table's name is mistyped
/// must not read, or write, the files of a folder that happens to be called so.
fn is_name(path: &str) -> bool {
    !path.contains(['/', '\\', '.']) && !path.contains(PATTERN)
}

/// Tells whether a path has a pattern for the names of folders, which DataFusion's listing does not match.
fn has_wildcard_folders(path: &str) -> bool {
    let at = path.find(PATTERN);
    at.is_some_and(|at| path[at..].contains('/')) && !Path::new(path).exists()
}

/// Makes a table of the files that match a pattern, as their ending says; `None` for one of no known format.
async fn table_of_pattern(
    state: &SessionState,
    path: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(ending) = ending_of(path) else {
        return Ok(None);
    };
    let Some(factory) = state.get_file_format_factory(&ending.to_ascii_lowercase()) else {
        return Ok(None);
    };
    let format = factory.create(state, &HashMap::new())?;
    let files = vec![FilePath::parse(path)?];
    let table = FilesTable::open(state, files, format, &FilesOptions::default()).await?;
    Ok(Some(Arc::new(table)))
}

/// Refuses writing to a pattern. COPY would write beside it, under names that nobody gave; a new file of
/// INSERT need not match it, and then its rows would not be in the table. Nor does COPY write to a terminal or a
/// pipe.
///
/// # Errors
/// [`ErrorKind::Sql`] for COPY, [`ErrorKind::NotSupported`] for INSERT.
pub(super) fn check_target(plan: &LogicalPlan) -> Result<()> {
    let insert = match plan {
        LogicalPlan::Dml(insert) if matches!(insert.op, WriteOp::Insert(_)) => insert,
        LogicalPlan::Copy(copy) => {
            check_copy(&copy.output_url)?;
            check_columns(copy)?;
            return check_options(&copy.options);
        }
        LogicalPlan::Explain(explain) => return check_target(&explain.plan),
        LogicalPlan::Analyze(analyze) => return check_target(&analyze.input),
        LogicalPlan::Statement(Statement::Prepare(prepare)) => return check_target(&prepare.input),
        _ => return Ok(()),
    };
    let Ok(table) = source_as_provider(&insert.target) else {
        return Ok(());
    };
    let paths = table
        .downcast_ref::<ListingTable>()
        .map(ListingTable::table_paths);
    let pattern = paths.and_then(|paths| paths.iter().find(|path| path.get_glob().is_some()));
    match pattern {
        None => Ok(()),
        Some(path) => {
            let message = format!(
                "INSERT INTO {}: its files are those of the pattern '{path}', which new ones may not \
                 match: insert into a table over a folder",
                insert.table_name
            );
            Err(Error::new(ErrorKind::NotSupported, message).into())
        }
    }
}

/// Refuses columns that a format cannot write, before the file that is there is replaced.
fn check_columns(copy: &CopyTo) -> Result<()> {
    let format = copy.file_type.get_ext();
    let mut fields = copy.input.schema().fields().iter();
    let (wrong, help) = match format.trim_start_matches('.') {
        "csv" | "tsv" => (
            fields.find(|field| field.data_type().is_nested()),
            "write its text instead: to_json(x), array_to_string(x, ','), or fields and elements one by one",
        ),
        "parquet" => (
            fields.find(|field| has_interval(field.data_type())),
            "write its text, CAST(x AS VARCHAR), or a number, extract(epoch FROM x)",
        ),
        _ => return Ok(()),
    };
    let Some(field) = wrong else {
        return Ok(());
    };
    let message = format!(
        "COPY TO '{}': the format has no values of the type of column {}, {}",
        copy.output_url,
        field.name(),
        sql_type(field.data_type())
    );
    let error = Error::new(ErrorKind::NotSupported, message);
    Err(error.with_help(Some(help.into())).into())
}

/// Writes lists, structs and maps as their text where a COPY writes delimited text, which has none.
pub(super) fn write_nested_as_text(plan: &mut LogicalPlan) -> Result<()> {
    let copy = match plan {
        LogicalPlan::Copy(copy) => copy,
        LogicalPlan::Explain(explain) => {
            return write_nested_as_text(Arc::make_mut(&mut explain.plan));
        }
        LogicalPlan::Analyze(analyze) => {
            return write_nested_as_text(Arc::make_mut(&mut analyze.input));
        }
        _ => return Ok(()),
    };
    let format = copy.file_type.get_ext();
    let is_delimited = ["csv", "tsv"].contains(&format.trim_start_matches('.'));
    let is_nested = |field: &Arc<Field>| nested_text::is_nested(field.data_type());
    let schema = copy.input.schema();
    if !is_delimited || !schema.fields().iter().any(is_nested) {
        return Ok(());
    }
    let columns = schema.iter().map(|(table, field)| {
        let column = Expr::from((table, field));
        match is_nested(field) {
            true => {
                let text = nested_text::function().call(vec![column]);
                text.alias_qualified(table.cloned(), field.name())
            }
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::from(LogicalPlan::clone(&copy.input));
    copy.input = Arc::new(input.project(columns)?.build()?);
    Ok(())
}

/// Returns whether a type has intervals of months, days and a time, which Parquet's writer does not know.
fn has_interval(kind: &DataType) -> bool {
    match kind {
        DataType::Interval(unit) => *unit == IntervalUnit::MonthDayNano,
        DataType::Struct(fields) => fields.iter().any(|field| has_interval(field.data_type())),
        DataType::List(values)
        | DataType::LargeList(values)
        | DataType::FixedSizeList(values, _)
        | DataType::ListView(values)
        | DataType::LargeListView(values)
        | DataType::Map(values, _) => has_interval(values.data_type()),
        _ => false,
    }
}

fn check_copy(target: &str) -> Result<()> {
    const STREAMS: [&str; 3] = ["/dev/stdout", "/dev/stderr", "/dev/fd/"];
    if target == "-" || STREAMS.iter().any(|stream| target.starts_with(stream)) {
        let message = format!(
            "COPY TO '{target}': COPY writes files; tidegate --format csv -c \"SELECT …\" writes rows to \
             standard output"
        );
        return Err(Error::new(ErrorKind::NotSupported, message).into());
    }
    if ["/proc/", "/sys/"]
        .iter()
        .any(|system| target.starts_with(system))
    {
        let message = format!("COPY TO '{target}': the system's own folders take no files");
        return Err(Error::new(ErrorKind::Io, message).into());
    }
    let Some(at) = target.find(['*', '?', '[']) else {
        return Ok(());
    };
    let message = format!(
        "COPY TO '{target}': the target is a file or a folder, not a pattern: leave out '{}'",
        &target[at..=at]
    );
    Err(Error::new(ErrorKind::Sql, message).into())
}

/// Tells whether a file is there and of a format that is not read.
fn is_unsupported(error: &DataFusionError) -> bool {
    Error::own(error).is_some_and(|own| own.kind() == ErrorKind::NotSupported)
}

/// Reads a URL, which may have a pattern in its last parts.
fn remote_table(path: &str) -> Result<ListingTableUrl> {
    let path = &*with_query_in_path(path);
    let Some(at) = path.find(PATTERN) else {
        return ListingTableUrl::parse(path);
    };
    let folder = path[..at].rfind('/').map_or(0, |slash| slash + 1);
    ListingTableUrl::parse(&path[..folder])?.with_glob(&path[folder..])
}

fn explain(path: &str, error: DataFusionError) -> DataFusionError {
    let message = error.strip_backtrace();
    let why = if message.contains("No files for table") {
        "is not there: no such object, and none whose name begins so".to_string()
    } else if message.contains("file_format") || message.contains("file extension") {
        format!(
            "is of no known format: its ending is none of {}",
            formats::ENDINGS
        )
    } else {
        return error;
    };
    Error::new(ErrorKind::Io, format!("'{}' {why}", shown(path))).into()
}
