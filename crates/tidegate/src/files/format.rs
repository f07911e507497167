//! The file formats of a session, with checks before DataFusion's readers of columns and statistics.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_format::FileMeta;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};

use super::guard::caught_async;
use super::merged::together;
use super::parquet::{Failure, check_file};
use super::{damaged, name_of, nothing_to_read};

/// Files that are looked at side by side.
const FILES_AT_A_TIME: usize = 32;

/// Makes formats that check their files.
#[derive(Debug)]
pub(crate) struct CheckedFactory(pub(crate) Arc<dyn FileFormatFactory>);

impl GetExt for CheckedFactory {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for CheckedFactory {
    fn create(
        &self,
        state: &dyn Session,
        options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(checked(self.0.create(state, options)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        checked(self.0.default())
    }
}

/// Has a format check its files.
pub(crate) fn checked(inner: Arc<dyn FileFormat>) -> Arc<dyn FileFormat> {
    Arc::new(CheckedFormat { inner })
}

/// A format that checks its files.
#[derive(Debug)]
struct CheckedFormat {
    inner: Arc<dyn FileFormat>,
}

impl CheckedFormat {
    /// Compares what a file claims with what is there, before anything else reads it.
    async fn check(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<()> {
        if !self.inner.is::<ParquetFormat>() {
            return Ok(());
        }
        check_footer(store, file).await
    }

    /// Reads the columns of files; a failure names the file, if there is just one.
    async fn columns(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let name = match files {
            [file] => name_of(store.as_ref(), &file.location),
            _ => format!("one of {} files", files.len()),
        };
        caught_async(&name, self.inner.infer_schema(state, store, files)).await
    }

    /// Reads the columns of each file, in the order of their names.
    async fn each(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<Vec<(String, SchemaRef)>> {
        let mut files: Vec<&ObjectMeta> = files.iter().collect();
        files.sort_unstable_by(|left, right| left.location.cmp(&right.location));
        let each = files.into_iter().map(|file| async move {
            let columns = self.columns(state, store, slice::from_ref(file)).await?;
            Ok((name_of(store.as_ref(), &file.location), columns))
        });
        let each: Vec<_> = each.collect();
        let each = stream::iter(each).buffered(FILES_AT_A_TIME);
        each.try_collect().await
    }
}

/// Compares what the footer of a Parquet file claims with what is there.
///
/// # Errors
/// Names the file, if it is damaged.
pub(super) async fn check_footer(store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<()> {
    let checked = check_file(store, file).await;
    checked.map_err(|failure| match failure {
        Failure::Flaw(why) => damaged(&name_of(store.as_ref(), &file.location), why).into(),
        Failure::Read(error) => DataFusionError::from(error),
    })
}

#[async_trait]
impl FileFormat for CheckedFormat {
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
        if files.is_empty() {
            return Err(nothing_to_read().into());
        }
        let checks: Vec<_> = files.iter().map(|file| self.check(store, file)).collect();
        let checks = stream::iter(checks).buffer_unordered(FILES_AT_A_TIME);
        checks.try_collect::<()>().await?;
        if self.inner.is::<ParquetFormat>() && files.len() > 1 {
            return Ok(Arc::new(together(&self.each(state, store, files).await?)?));
        }
        let all = self.columns(state, store, files).await;
        if all.is_err() && files.len() > 1 {
            // Of several files it is not known which one failed.
            together(&self.each(state, store, files).await?)?;
        }
        all
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        self.check(store, file).await?;
        let name = name_of(store.as_ref(), &file.location);
        caught_async(
            &name,
            self.inner.infer_stats(state, store, table_schema, file),
        )
        .await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.check(store, file).await?;
        let name = name_of(store.as_ref(), &file.location);
        caught_async(
            &name,
            self.inner.infer_ordering(state, store, table_schema, file),
        )
        .await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<FileMeta> {
        self.check(store, file).await?;
        let name = name_of(store.as_ref(), &file.location);
        let inner = &self.inner;
        let reading = inner.infer_stats_and_ordering(state, store, table_schema, file);
        caught_async(&name, reading).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, config).await
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
        self.inner.file_source(table_schema)
    }
}
