//! What COPY writes into folders: rows are not added to those of other files unless the statement says so, and the
//! names of partitions say which value is NULL. What COPY writes to Parquet files has types that Parquet knows.
//!
//! DataFusion adds files to whatever a folder holds, and names the folder of a NULL by what the array has in its place.

use std::borrow::Cow;
use std::collections::HashSet;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::Session;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit, when};
use futures::StreamExt;
use object_store::ObjectStore;

use super::name_in;
use super::table::NULL_PARTITION;
use crate::error::{Error, ErrorKind};

/// The option that lets a folder have other files.
pub(crate) const APPEND: &str = "format.append";

/// The option, and the setting, by which files keep the columns that folders are named by.
const KEEP_COLUMNS: &str = "execution.keep_partition_by_columns";

/// The option that compresses files.
const COMPRESSION: &str = "format.compression";

/// Returns what is planned of a COPY, or of EXPLAIN of one; any other plan as it is.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] for a folder that holds files, if the rows are written.
pub(super) async fn prepared<'a>(
    plan: &'a LogicalPlan,
    session: &dyn Session,
) -> Result<Cow<'a, LogicalPlan>> {
    match plan {
        LogicalPlan::Copy(copy) => {
            let copy = prepared_copy(copy, session, true).await?;
            Ok(Cow::Owned(LogicalPlan::Copy(copy)))
        }
        LogicalPlan::Analyze(analyze) => match analyze.input.as_ref() {
            LogicalPlan::Copy(copy) => {
                let copy = prepared_copy(copy, session, true).await?;
                let mut analyze = analyze.clone();
                analyze.input = LogicalPlan::Copy(copy).into();
                Ok(Cow::Owned(LogicalPlan::Analyze(analyze)))
            }
            _ => Ok(Cow::Borrowed(plan)),
        },
        LogicalPlan::Explain(explain) => match explain.plan.as_ref() {
            LogicalPlan::Copy(copy) => {
                let copy = prepared_copy(copy, session, false).await?;
                let mut explain = explain.clone();
                explain.plan = LogicalPlan::Copy(copy).into();
                Ok(Cow::Owned(LogicalPlan::Explain(explain)))
            }
            _ => Ok(Cow::Borrowed(plan)),
        },
        _ => Ok(Cow::Borrowed(plan)),
    }
}

async fn prepared_copy(copy: &CopyTo, session: &dyn Session, is_run: bool) -> Result<CopyTo> {
    let mut options = copy.options.clone();
    let adds = options.remove(APPEND).is_some_and(|value| value != "false");
    if is_run && !adds {
        check_folder(copy, session).await?;
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
    Ok(CopyTo::new(
        input.into(),
        copy.output_url.clone(),
        copy.partition_by.clone(),
        copy.file_type.clone(),
        options,
    ))
}

/// Refuses a folder that holds files.
async fn check_folder(copy: &CopyTo, session: &dyn Session) -> Result<()> {
    let url = ListingTableUrl::parse(&copy.output_url)?;
    let is_folder =
        !copy.partition_by.is_empty() || url.is_collection() || url.file_extension().is_none();
    if !is_folder {
        return Ok(());
    }
    let store = session.runtime_env().object_store(&url)?;
    // What is wrong with the store, writing says.
    match store.list(Some(url.prefix())).next().await {
        Some(Ok(file)) if file.location != *url.prefix() => {
            let message = format!(
                "COPY TO '{}': the folder holds files already, as {}: write into another, remove them, or have the rows \
                 added to theirs by the option APPEND",
                copy.output_url,
                name_in(&url.object_store(), &file.location)
            );
            Err(Error::new(ErrorKind::AlreadyExists, message).into())
        }
        _ => Ok(()),
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
