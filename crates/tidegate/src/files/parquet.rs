//! Parquet, read with distrust.
//!
//! DataFusion reads Parquet files through a factory of readers. [`CheckedReaders`] wraps the planned one
//! and compares what a file claims with what is there: footers before they are parsed
//! ([`footer`]), ranges of bytes before they are read, and page headers before pages are
//! decoded ([`pages`]). It also repairs two kinds of footers that other readers accept ([`repair`]).

mod footer;
mod pages;
mod repair;

use std::fmt;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::PartitionedFile;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::ObjectMeta;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::{damaged, name_in, panic_text};
use crate::error::{Error, ErrorKind};
pub(super) use footer::{Failure, check_file};
use pages::Chunks;

type ParquetResult<T> = std::result::Result<T, ParquetError>;

/// Readers that check what they read.
#[derive(Debug)]
pub(super) struct CheckedReaders {
    inner: Arc<dyn ParquetFileReaderFactory>,
    url: ObjectStoreUrl,
    page_bytes_max: u64,
}

impl CheckedReaders {
    pub(super) fn new(
        inner: Arc<dyn ParquetFileReaderFactory>,
        url: ObjectStoreUrl,
        page_bytes_max: u64,
    ) -> Self {
        Self {
            inner,
            url,
            page_bytes_max,
        }
    }
}

impl ParquetFileReaderFactory for CheckedReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let meta = file.object_meta.clone();
        let name = name_in(&self.url, &meta.location).into();
        let inner = self
            .inner
            .create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader {
            inner,
            meta,
            name,
            page_bytes_max: self.page_bytes_max,
            metadata: None,
            chunks: None,
        }))
    }
}

struct CheckedReader {
    inner: Box<dyn AsyncFileReader + Send>,
    meta: ObjectMeta,
    name: Arc<str>,
    page_bytes_max: u64,
    metadata: Option<Arc<ParquetMetaData>>,
    chunks: Option<Chunks>,
}

impl CheckedReader {
    fn damaged(&self, why: impl fmt::Display) -> ParquetError {
        ParquetError::External(Box::new(damaged(&self.name, why)))
    }

    /// Refuses ranges that are not in the file, or that together are more than it.
    fn check_ranges(&self, ranges: &[Range<u64>]) -> ParquetResult<()> {
        let size = self.meta.size;
        let mut total = 0_u64;
        for range in ranges {
            if range.start > range.end || range.end > size {
                return Err(self.damaged(format!(
                    "its footer names bytes {} to {}, and it has {size}",
                    range.start, range.end
                )));
            }
            total = total.saturating_add(range.end - range.start);
        }
        match total > size {
            true => Err(self.damaged("its footer names some bytes for several columns")),
            false => Ok(()),
        }
    }

    async fn checked_metadata(
        &mut self,
        options: Option<&ArrowReaderOptions>,
    ) -> ParquetResult<Arc<ParquetMetaData>> {
        footer::check_once(&self.meta, &mut self.inner)
            .await
            .map_err(|failure| match failure {
                Failure::Flaw(why) => self.damaged(why),
                Failure::Read(error) => error,
            })?;
        let reading = AssertUnwindSafe(self.inner.get_metadata(options)).catch_unwind();
        let metadata = match reading.await {
            Ok(metadata) => metadata?,
            Err(panic) => return Err(self.damaged(panic_text(&*panic))),
        };
        repair::repaired(metadata, &mut self.inner).await
    }

    async fn checked_ranges(&mut self, ranges: Vec<Range<u64>>) -> ParquetResult<Vec<Bytes>> {
        self.check_ranges(&ranges)?;
        if self.chunks.is_none() {
            let metadata = match &self.metadata {
                Some(metadata) => Arc::clone(metadata),
                None => self.checked_metadata(None).await?,
            };
            self.chunks = Some(Chunks::of(&metadata));
        }
        let bytes = self.inner.get_byte_ranges(ranges.clone()).await?;
        if let Some(chunks) = &self.chunks {
            for (range, bytes) in ranges.iter().zip(&bytes) {
                let checked = chunks.check(range.start, bytes, self.page_bytes_max);
                checked.map_err(|flaw| match flaw {
                    pages::Flaw::Damaged(why) => self.damaged(why),
                    pages::Flaw::Large(bytes) => self.too_large(bytes),
                })?;
            }
        }
        Ok(bytes)
    }

    fn too_large(&self, bytes: u64) -> ParquetError {
        let message = format!(
            "cannot read {}: a page says that it has {bytes} bytes uncompressed, and \
             tidegate.max_page_size is {}; if the file is to be trusted, raise it",
            self.name, self.page_bytes_max
        );
        let error = Error::new(ErrorKind::ResourcesExhausted, message);
        ParquetError::External(Box::new(error))
    }
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move {
            self.check_ranges(std::slice::from_ref(&range))?;
            self.inner.get_bytes(range).await
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.checked_ranges(ranges).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let metadata = self.checked_metadata(options).await?;
            self.metadata = Some(Arc::clone(&metadata));
            self.chunks = None;
            Ok(metadata)
        }
        .boxed()
    }
}
