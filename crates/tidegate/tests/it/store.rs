//! An object store that counts what is read of its files.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tidegate::Session;

/// The local files; requests for metadata alone open no file and are not counted.
#[derive(Debug, Default)]
pub(crate) struct CountingStore {
    files: LocalFileSystem,
    reads: AtomicU64,
    /// Files are given as streams of bytes, as stores of other machines do.
    streams: bool,
}

impl CountingStore {
    /// Has a session read its local files through a store that counts.
    pub(crate) fn under(session: &Session) -> Arc<Self> {
        Self::default().put_under(session)
    }

    /// Has a session read its local files as if they were another machine's.
    pub(crate) fn streaming_under(session: &Session) -> Arc<Self> {
        let store = Self {
            streams: true,
            ..Self::default()
        };
        store.put_under(session)
    }

    fn put_under(self, session: &Session) -> Arc<Self> {
        let store = Arc::new(self);
        let url = datafusion::execution::object_store::ObjectStoreUrl::local_filesystem();
        let environment = session.context().runtime_env();
        environment.register_object_store(url.as_ref(), Arc::clone(&store) as _);
        store
    }

    /// Returns how often files were read since this was asked last.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl fmt::Display for CountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counting store")
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn put_opts(&self, to: &Path, data: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.files.put_opts(to, data, how).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(to, how).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.reads
            .fetch_add(u64::from(!options.head), Ordering::Relaxed);
        let mut got = self.files.get_opts(location, options).await?;
        if self.streams {
            let payload = GetResultPayload::Stream(futures::stream::empty().boxed());
            let file = std::mem::replace(&mut got.payload, payload);
            let whole = GetResult {
                payload: file,
                meta: got.meta.clone(),
                range: got.range.clone(),
                attributes: got.attributes.clone(),
            };
            let bytes = whole.bytes().await;
            got.payload = GetResultPayload::Stream(futures::stream::once(async { bytes }).boxed());
        }
        Ok(got)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, how).await
    }
}
