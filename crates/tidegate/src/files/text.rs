//! Files of text: delimited values and JSON, which are looked at before they are read.
//!
//! What is found of a file is its own; the columns are the table's. So the files of a folder may have other
//! delimiters, headers and formats of dates, and a file that came later is looked at when it is opened. A
//! table that was declared with its columns is read by DataFusion's reader, as it was declared.

mod bytes;
mod columns;
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
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use object_store::{ObjectMeta, ObjectStore};
use serde::{Deserialize, Serialize};
use tidegate_readers::Given;
use tidegate_readers::json::GivenJson;

use found::Files;
use source::TextSource;

pub(crate) use columns::merged;
pub(crate) use described::{TextDescription, is_cuttable};
pub(crate) use source::{RowsLeftOut, rows_left_out};

/// Options that say nothing of how text is written.
const OTHER_OPTIONS: [&str; 2] = ["format.compression", "compression"];

/// What a table's files hold, and what was said of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Delimited values.
    Delimited(Box<Given>),
    /// Objects of JSON.
    Json(Box<GivenJson>),
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
        let says_how = |name: &String| !OTHER_OPTIONS.contains(&name.to_ascii_lowercase().as_str());
        if options.keys().any(says_how) {
            return Ok(inner);
        }
        let mut kind = self.kind.clone();
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
}

impl TextFormat {
    pub(crate) fn new(kind: Kind, inner: Arc<dyn FileFormat>, union: Union) -> Self {
        let compression = inner.compression_type();
        Self {
            files: Arc::new(Files::new(kind, compression)),
            inner,
            union,
        }
    }
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
        _: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
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
            false => self.inner.create_physical_plan(state, config).await,
        }
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
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
