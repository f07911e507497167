//! The format of Arrow files, in place of DataFusion's, which still writes them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::arrow::ArrowFormat;
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

use super::IpcSource;
use super::messages::{Window, columns_of};
use crate::error::{Error, ErrorKind};
use crate::files::guard::caught_async;
use crate::files::merged::together;
use crate::files::{name_of, nothing_to_read};

/// The ending of files of the stream format, which are read and not written.
const STREAM: &str = "arrows";

/// Arrow files of both formats, under one of their endings.
#[derive(Debug)]
pub(crate) struct IpcFormat {
    ending: &'static str,
    writer: ArrowFormat,
}

impl IpcFormat {
    /// The endings of Arrow files: Arrow's own two, Feather's and the one of Polars.
    pub(crate) const ENDINGS: [&str; 4] = ["arrow", STREAM, "feather", "ipc"];

    pub(crate) fn new(ending: &'static str) -> Self {
        Self {
            ending,
            writer: ArrowFormat,
        }
    }
}

impl GetExt for IpcFormat {
    fn get_ext(&self) -> String {
        self.ending.into()
    }
}

impl FileFormatFactory for IpcFormat {
    fn create(&self, _: &dyn Session, _: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(FileFormatFactory::default(self))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Self::new(self.ending))
    }
}

#[async_trait]
impl FileFormat for IpcFormat {
    fn get_ext(&self) -> String {
        self.ending.into()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.writer.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.writer.compression_type()
    }

    async fn infer_schema(
        &self,
        _: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        if files.is_empty() {
            return Err(nothing_to_read().into());
        }
        let mut schemas = Vec::with_capacity(files.len());
        for file in files {
            let name: Arc<str> = name_of(store.as_ref(), &file.location).into();
            let window = Window::new(Arc::clone(store), file.clone(), Arc::clone(&name));
            let columns = caught_async(&name, columns_of(window)).await?;
            schemas.push((name.to_string(), Arc::new(columns)));
        }
        Ok(Arc::new(together(&schemas)?))
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
        _: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.ending == STREAM {
            let message = "Arrow files are written in the file format, not that of streams: call the file .arrow";
            return Err(Error::new(ErrorKind::NotSupported, message).into());
        }
        self.writer
            .create_writer_physical_plan(input, state, config, order)
            .await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(IpcSource::new(table_schema))
    }
}
