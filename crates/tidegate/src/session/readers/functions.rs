//! The functions that read files, what they read, and the tables that a statement's calls of them are.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr as PlanExpr;
use sqlparser::ast::{self, ObjectName};

use super::looked::Look;
use crate::error::{Error, ErrorKind};

/// The functions, with the format of the files that each reads.
pub(super) const READERS: [(&str, Format); 20] = [
    ("read_csv", Format::Csv),
    ("read_csv_auto", Format::Csv),
    ("read_json", Format::Json),
    ("read_json_auto", Format::Json),
    ("read_ndjson", Format::Json),
    ("read_ndjson_auto", Format::Json),
    ("read_parquet", Format::Parquet),
    ("parquet_scan", Format::Parquet),
    ("read_arrow", Format::Arrow),
    ("read_ipc", Format::Arrow),
    ("glob", Format::Look(Look::Names)),
    ("read_text", Format::Look(Look::Text)),
    ("read_blob", Format::Look(Look::Bytes)),
    ("read_json_objects", Format::Look(Look::Objects)),
    ("read_ndjson_objects", Format::Look(Look::Objects)),
    ("sniff_csv", Format::Look(Look::Csv)),
    ("parquet_schema", Format::Look(Look::ParquetSchema)),
    ("parquet_metadata", Format::Look(Look::ParquetChunks)),
    ("parquet_file_metadata", Format::Look(Look::ParquetFile)),
    ("parquet_kv_metadata", Format::Look(Look::ParquetKeys)),
];

/// What files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Json,
    Parquet,
    Arrow,
    /// Whatever they hold, something else than their rows is read.
    Look(Look),
}

impl Format {
    /// Returns the ending of files whose rows are read.
    pub(super) fn ending(self) -> Option<&'static str> {
        match self {
            Self::Csv => Some("csv"),
            Self::Json => Some("json"),
            Self::Parquet => Some("parquet"),
            Self::Arrow => Some("arrow"),
            Self::Look(_) => None,
        }
    }
}

/// The tables of a statement's calls, by their text. It is carried as an extension of the config that the
/// statement is planned with.
#[derive(Default)]
pub(super) struct Opened(pub(super) HashMap<String, Arc<dyn TableProvider>>);

/// Finds the reader of a name.
pub(super) fn reader(name: &ObjectName) -> Option<(&'static str, Format)> {
    let [part] = name.0.as_slice() else {
        return None;
    };
    let called = part.as_ident()?.value.to_ascii_lowercase();
    READERS.into_iter().find(|(name, _)| *name == called)
}

/// Returns the text of a call.
pub(super) fn key(name: &str, args: &ast::TableFunctionArgs) -> String {
    let args: Vec<String> = args.args.iter().map(ToString::to_string).collect();
    format!("{name}({})", args.join(", "))
}

/// Says what is wrong with a call.
pub(super) fn wrong(name: &str, what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Sql, format!("{name}: {what}"))
}

/// Plans a type as SQL names it.
pub(super) fn data_type(state: &SessionState, name: &str) -> Result<DataType> {
    let schema = DFSchema::empty();
    let cast = state.create_logical_expr(&format!("CAST(NULL AS {name})"), &schema);
    let unknown = || {
        DataFusionError::from(Error::new(
            ErrorKind::Sql,
            format!(
                "'{name}' is not a type; types are BIGINT, DOUBLE, VARCHAR, DATE, TIMESTAMP and so on"
            ),
        ))
    };
    let PlanExpr::Cast(cast) = cast.map_err(|_| unknown())? else {
        return Err(unknown());
    };
    Ok(match cast.field.data_type() {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        other => other.clone(),
    })
}
