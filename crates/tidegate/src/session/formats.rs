//! File formats by the endings that people give their files: DataFusion's, which check their files,
//! `.ndjson`, `.jsonl`, `.tsv` and other endings of Arrow files beside them, and compressed files where DataFusion reads them but does
//! not write them by their name.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProviderFactory};
use datafusion::common::GetExt;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::listing_table_factory::ListingTableFactory;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use sqlparser::ast::Value;

use super::folders::TextFolders;
use crate::error::{Error, ErrorKind};
use crate::files::format::CheckedFactory;
use crate::files::ipc::IpcFormat;
use crate::files::text::{COMPRESSIONS, Kind, TextFactory};

/// Formats that are compressed as a whole.
const COMPRESSED: [&str; 5] = ["csv", "tsv", "json", "ndjson", "jsonl"];

/// Endings of the files that are read by their path.
pub(super) const ENDINGS: &str =
    ".parquet, .csv, .tsv, .json, .ndjson, .jsonl, .arrow, .arrows, .feather, .ipc";

/// Adds the endings to a session.
pub(super) fn register(ctx: &SessionContext) -> Result<()> {
    let text = |kind, inner| Arc::new(TextFactory { kind, inner }) as Arc<dyn FileFormatFactory>;
    let delimited = || Kind::Delimited(Box::default());
    let json = || Arc::new(JsonFormatFactory::new()) as Arc<dyn FileFormatFactory>;
    let csv = || Arc::new(CsvFormatFactory::new()) as Arc<dyn FileFormatFactory>;
    let state = ctx.state_ref();
    let mut state = state.write();
    let formats: [Arc<dyn FileFormatFactory>; 4] = [
        Arc::new(CheckedFactory(Arc::new(ParquetFormatFactory::new()))),
        Arc::new(CheckedFactory(text(delimited(), csv()))),
        Arc::new(CheckedFactory(text(Kind::Json(Box::default()), json()))),
        Arc::new(Avro),
    ];
    for format in formats {
        state.register_file_format(format, true)?;
    }
    for ending in IpcFormat::ENDINGS {
        state.register_file_format(Arc::new(IpcFormat::new(ending)), true)?;
    }
    for (ending, kind, inner, option) in [
        ("ndjson", Kind::Json(Box::default()), json(), None),
        ("jsonl", Kind::Json(Box::default()), json(), None),
        ("tsv", delimited(), csv(), Some(("format.delimiter", "\t"))),
    ] {
        let alias = Alias {
            ending,
            inner,
            option,
        };
        let alias = text(kind, Arc::new(alias));
        state.register_file_format(Arc::new(CheckedFactory(alias)), true)?;
        let tables = state.table_factories_mut();
        let factory = || Arc::new(ListingTableFactory::new()) as Arc<dyn TableProviderFactory>;
        tables.entry(ending.to_uppercase()).or_insert_with(factory);
    }
    for format in COMPRESSED {
        if let Some(tables) = state.table_factories_mut().get_mut(&format.to_uppercase()) {
            *tables = Arc::new(TextFolders(Arc::clone(tables)));
        }
    }
    Ok(())
}

/// Makes the tables of a session that may read only what it is allowed: all through their stores.
pub(super) fn tables_of_stores(format: &str) -> Arc<dyn TableProviderFactory> {
    let listing = Arc::new(ListingTableFactory::new());
    match COMPRESSED.contains(&format.to_lowercase().as_str()) {
        true => Arc::new(TextFolders(listing)),
        false => listing,
    }
}

/// A format under another ending, with an option that holds unless a statement gives it.
#[derive(Debug)]
struct Alias {
    ending: &'static str,
    inner: Arc<dyn FileFormatFactory>,
    option: Option<(&'static str, &'static str)>,
}

impl GetExt for Alias {
    fn get_ext(&self) -> String {
        self.ending.into()
    }
}

impl FileFormatFactory for Alias {
    fn create(
        &self,
        state: &dyn Session,
        given: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let mut options = given.clone();
        if let Some((name, value)) = self.option {
            options.entry(name.into()).or_insert_with(|| value.into());
        }
        self.inner.create(state, &options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.inner.default()
    }
}

/// Says that Avro files are not read.
#[derive(Debug)]
struct Avro;

impl GetExt for Avro {
    fn get_ext(&self) -> String {
        "avro".into()
    }
}

impl FileFormatFactory for Avro {
    fn create(&self, _: &dyn Session, _: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let message = "Avro files are not supported: convert them to Parquet, Arrow, CSV or JSON";
        Err(Error::new(ErrorKind::NotSupported, message).into())
    }

    // Files are read and written by what `create` makes.
    fn default(&self) -> Arc<dyn FileFormat> {
        FileFormatFactory::default(&CsvFormatFactory::new())
    }
}

/// Returns by what the name of a file says that it is compressed.
pub(super) fn compression_of(name: &str) -> Option<&'static str> {
    let (_, last) = name.rsplit_once('.')?;
    let known = COMPRESSIONS.iter().find(|(ending, ..)| *ending == last);
    known.map(|(_, compression, _)| *compression)
}

/// Tells whether a file's ending says that it is compressed.
pub(super) fn is_compression(ending: &str) -> bool {
    let ending = ending.to_ascii_lowercase();
    COMPRESSIONS.iter().any(|(known, ..)| *known == ending)
}

/// Has `COPY … TO 't.csv.gz'` compress what its name says, and a table of such a file whose columns are declared, which
/// DataFusion reads, unpack it, unless the statement says how itself.
pub(super) fn compress_by_name(statement: &mut Statement) {
    match statement {
        Statement::CopyTo(copy) => {
            let Some((format, compression)) = by_name(&copy.target, copy.stored_as.as_deref())
            else {
                return;
            };
            copy.stored_as.get_or_insert(format);
            say(&mut copy.options, compression);
        }
        Statement::CreateExternalTable(create) if !create.columns.is_empty() => {
            let of = |location: &String| Some(by_name(location, Some(&create.file_type))?.1);
            let mut all = create.locations.iter().map(of);
            let first = all.next().flatten();
            if let Some(compression) = first.filter(|_| all.all(|other| other == first)) {
                say(&mut create.options, compression);
            }
        }
        Statement::Explain(explain) => compress_by_name(&mut explain.statement),
        Statement::Statement(_) | Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

/// Returns the format of a file of text by its name, and by what the name says that it is compressed.
fn by_name(path: &str, stored_as: Option<&str>) -> Option<(String, &'static str)> {
    let mut endings = path.rsplit('.').map(str::to_ascii_lowercase);
    let (last, format) = (endings.next()?, endings.next()?);
    let (_, compression, _) = COMPRESSIONS.iter().find(|(ending, ..)| *ending == last)?;
    let stored_as = stored_as.unwrap_or(&format).to_ascii_lowercase();
    let is_text = COMPRESSED.contains(&stored_as.as_str());
    is_text.then_some((format, *compression))
}

/// Adds a compression to options that say none.
fn say(options: &mut Vec<(String, Value)>, compression: &str) {
    let is_compression = |(name, _): &(String, Value)| {
        let name = name.to_ascii_lowercase();
        matches!(name.as_str(), "compression" | "format.compression")
    };
    if !options.iter().any(is_compression) {
        let value = Value::SingleQuotedString(compression.into());
        options.push(("format.compression".into(), value));
    }
}
