//! Files of text: delimited values and JSON, which are looked at before they are read.
//!
//! What is found of a file is its own; the columns are the table's. So the files of a folder may have other
//! delimiters, headers and formats of dates, and a file that came later is looked at when it is opened. A
//! table that was declared with its columns is read by DataFusion's reader, as it was declared, and its rows have
//! the same limit ([`declared`]).

mod bytes;
mod columns;
mod declared;
mod described;
mod found;
mod objects;
mod opener;
mod parts;
mod source;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::{PartitionedFile, TableSchema};
use object_store::{ObjectMeta, ObjectStore};
use serde::{Deserialize, Serialize};
use tidegate_readers::json::GivenJson;
use tidegate_readers::{Given, Sniffed};

use self::found::{Files, Found};
use self::source::TextSource;
use super::json_sink::ObjectsSink;
use crate::files::file_scan;

pub(crate) use bytes::COMPRESSIONS;
pub(crate) use declared::DeclaredSource;
pub(crate) use described::{TextDescription, is_cuttable};
pub(crate) use source::{RowsLeftOut, rows_left_out};

/// Options that say nothing of how text is written.
const OTHER_OPTIONS: [&str; 2] = ["format.compression", "compression"];

/// Finds what a file of delimited text is like.
///
/// # Errors
/// Names the file, if it is none.
pub(crate) async fn sniffed(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
) -> Result<Option<Sniffed>> {
    let files = Files::new(Kind::Delimited(Box::default()), None);
    Ok(match files.find(store, file).await?.as_ref() {
        Found::Delimited(found) => Some(found.clone()),
        Found::Json(_) => None,
    })
}

/// What a table's files hold, and what was said of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Delimited values.
    Delimited(Box<Given>),
    /// Objects of JSON.
    Json(Box<GivenJson>),
}

/// Tells whether an option says how text is written.
pub(crate) fn says_how(option: &str) -> bool {
    !OTHER_OPTIONS.contains(&option.to_ascii_lowercase().as_str())
}

/// Makes formats that look at their files, unless a statement says how they are written.
#[derive(Debug)]
pub(crate) struct TextFactory {
    pub(crate) kind: Kind,
    /// Makes DataFusion's format.
    pub(crate) inner: Arc<dyn FileFormatFactory>,
}

impl GetExt for TextFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for TextFactory {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let inner = self.inner.create(state, options)?;
        let mut kind = self.kind.clone();
        if options.keys().any(|option| says_how(option)) {
            let format = TextFormat::new(kind, inner, Union::ByPlace);
            return Ok(Arc::new(TextFormat {
                is_said: true,
                ..format
            }));
        }
        if let Kind::Delimited(given) = &mut kind
            && !state.config_options().catalog.has_header
        {
            given.header = Some(false);
        }
        Ok(Arc::new(TextFormat::new(kind, inner, Union::ByPlace)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        let inner = FileFormatFactory::default(self.inner.as_ref());
        Arc::new(TextFormat::new(self.kind.clone(), inner, Union::ByPlace))
    }
}

/// How the columns of several files are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Union {
    /// Each file has all of them.
    ByPlace,
    /// What a file does not have is NULL.
    ByName,
}

/// A format that looks at its files.
#[derive(Clone, Debug)]
pub(crate) struct TextFormat {
    /// DataFusion's: it writes, and reads what was declared.
    inner: Arc<dyn FileFormat>,
    union: Union,
    files: Arc<Files>,
    /// Whether a statement said how the files are written, and DataFusion finds their columns too.
    is_said: bool,
}

impl TextFormat {
    pub(crate) fn new(kind: Kind, inner: Arc<dyn FileFormat>, union: Union) -> Self {
        let compression = inner.compression_type();
        Self {
            files: Arc::new(Files::new(kind, compression)),
            inner,
            union,
            is_said: false,
        }
    }

    /// Plans a scan of files whose columns were declared. DataFusion's has files that are all compressed in one
    /// way; here there is a scan for each way in which some are, by their names.
    async fn declared(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let compression_of = |file: &PartitionedFile| self.files.compression_of(&file.object_meta);
        let mut compressions: Vec<FileCompressionType> = Vec::new();
        for file in config.file_groups.iter().flat_map(|group| group.iter()) {
            let compression = compression_of(file);
            if !compressions.contains(&compression) {
                compressions.push(compression);
            }
        }
        let mut scans = Vec::with_capacity(compressions.len());
        for compression in &compressions {
            let part = match compressions.len() {
                1 => config.clone(),
                _ => part_of(&config, |file| compression_of(file) == *compression),
            };
            let scan = self.inner.create_physical_plan(state, part).await?;
            scans.push(compressed(scan, *compression));
        }
        match scans.is_empty() {
            true => self.inner.create_physical_plan(state, config).await,
            false => UnionExec::try_new(scans),
        }
    }
}

/// Returns the scan of some of the files of a scan.
fn part_of(config: &FileScanConfig, is_part: impl Fn(&PartitionedFile) -> bool) -> FileScanConfig {
    let mut groups = Vec::with_capacity(config.file_groups.len());
    for group in &config.file_groups {
        let files: Vec<PartitionedFile> =
            group.iter().filter(|file| is_part(file)).cloned().collect();
        if !files.is_empty() {
            groups.push(FileGroup::new(files));
        }
    }
    let schema = config.file_source().table_schema().table_schema();
    FileScanConfigBuilder::from(config.clone())
        .with_file_groups(groups)
        .with_statistics(Statistics::new_unknown(schema))
        .with_output_partitioning(None)
        .build()
}

/// Has a scan read files that are compressed so.
fn compressed(
    scan: Arc<dyn ExecutionPlan>,
    compression: FileCompressionType,
) -> Arc<dyn ExecutionPlan> {
    let Some(mut config) = file_scan(&scan).cloned() else {
        return scan;
    };
    config.file_compression_type = compression;
    DataSourceExec::from_data_source(config)
}

#[async_trait]
impl FileFormat for TextFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        if self.is_said {
            return self.inner.infer_schema(state, store, files).await;
        }
        let found = self.files.find_all(store, files).await?;
        Ok(Arc::new(match self.files.given_json() {
            Some(given) => columns::of_objects(&found, given),
            None => columns::together(&found, self.union)?,
        }))
    }

    async fn infer_stats(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match config.file_source().is::<TextSource>() {
            true => Ok(DataSourceExec::from_data_source(config)),
            false => self.declared(state, config).await,
        }
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(json) = self.inner.downcast_ref::<JsonFormat>()
            && !json.is_newline_delimited()
            && config.insert_op == InsertOp::Append
        {
            let sink = ObjectsSink::array(json, config)?;
            return Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)));
        }
        self.inner
            .create_writer_physical_plan(input, state, config, order)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        if !self.files.were_looked_at() {
            return self.inner.file_source(table_schema);
        }
        Arc::new(TextSource::new(
            table_schema,
            Arc::clone(&self.files),
            self.union,
        ))
    }
}
