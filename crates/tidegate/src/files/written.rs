//! The files that a statement has written, which are removed unless it ends well.
//!
//! They may have other names than those that DataFusion gives them ([`Names`]).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use url::Url;

use super::names::Names;
use crate::task_context::copied_context;

/// A file, and the store that has it.
type File = (Arc<dyn ObjectStore>, Path);

type Files = Arc<Mutex<Vec<File>>>;

/// Files that are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Written {
    files: Files,
    names: Option<Arc<Names>>,
}

impl Written {
    /// Returns a context in which all files that are written are noted.
    pub(crate) fn begin(ctx: &TaskContext) -> (Self, Arc<TaskContext>) {
        Self::recorded(ctx, None)
    }

    /// Returns a context in which all files that are written are noted, and get these names.
    pub(super) fn named(ctx: &TaskContext, names: Names) -> (Self, Arc<TaskContext>) {
        Self::recorded(ctx, Some(Arc::new(names)))
    }

    fn recorded(ctx: &TaskContext, names: Option<Arc<Names>>) -> (Self, Arc<TaskContext>) {
        let files = Files::default();
        let runtime = ctx.runtime_env();
        let registry = Recording {
            inner: Arc::clone(&runtime.object_store_registry),
            files: Arc::clone(&files),
            names: names.clone(),
        };
        let runtime = RuntimeEnv {
            object_store_registry: Arc::new(registry),
            ..RuntimeEnv::clone(&runtime)
        };
        let recorded = copied_context(ctx).with_runtime(Arc::new(runtime));
        (Self { files, names }, Arc::new(recorded))
    }

    /// Leaves the files where they are, or gives them their names.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn keep(self) -> PlanResult<()> {
        self.files.lock().clear();
        let Some(names) = self.names.clone() else {
            return Ok(());
        };
        // A statement that is cancelled meanwhile does not end between two files.
        match tokio::spawn(async move { names.settle().await }).await {
            Ok(settled) => Ok(settled?),
            Err(error) => Err(DataFusionError::ExecutionJoin(Box::new(error))),
        }
    }

    /// Removes the files.
    pub(crate) async fn remove(self) {
        removed(self.taken()).await;
    }

    fn taken(&self) -> Vec<File> {
        std::mem::take(&mut *self.files.lock())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let files = self.taken();
        if let (false, Ok(runtime)) = (files.is_empty(), Handle::try_current()) {
            runtime.spawn(removed(files));
        }
    }
}

async fn removed(files: Vec<File>) {
    for (store, path) in files {
        let mut gone = store.delete_stream(stream::iter([Ok(path)]).boxed());
        // What cannot be removed stays: the statement's error is what its user has to know.
        while gone.next().await.is_some() {}
    }
}

/// Gives stores that note what is written to them.
#[derive(Debug)]
struct Recording {
    inner: Arc<dyn ObjectStoreRegistry>,
    files: Files,
    names: Option<Arc<Names>>,
}

impl ObjectStoreRegistry for Recording {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.inner.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> PlanResult<Arc<dyn ObjectStore>> {
        Ok(Arc::new(RecordedStore {
            inner: self.inner.get_store(url)?,
            files: Arc::clone(&self.files),
            names: self.names.clone(),
        }))
    }
}

/// A store that notes which files are written.
#[derive(Debug)]
struct RecordedStore {
    inner: Arc<dyn ObjectStore>,
    files: Files,
    names: Option<Arc<Names>>,
}

impl RecordedStore {
    /// Returns where a file is written.
    fn place(&self, location: &Path) -> Path {
        match &self.names {
            Some(names) => names.place(location),
            None => location.clone(),
        }
    }
}

impl fmt::Display for RecordedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for RecordedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let location = self.place(location);
        let put = self.inner.put_opts(&location, payload, opts).await?;
        let file = (Arc::clone(&self.inner), location);
        self.files.lock().push(file);
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let location = self.place(location);
        Ok(Box::new(RecordedUpload {
            inner: self.inner.put_multipart_opts(&location, opts).await?,
            file: (Arc::clone(&self.inner), location),
            files: Arc::clone(&self.files),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let Some(names) = self.names.clone() else {
            return self.inner.delete_stream(locations);
        };
        let written = locations
            .map(move |location: Result<Path>| location.map(|location| names.written(&location)));
        self.inner.delete_stream(written.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// An upload that is noted when it is complete.
#[derive(Debug)]
struct RecordedUpload {
    inner: Box<dyn MultipartUpload>,
    file: File,
    files: Files,
}

#[async_trait]
impl MultipartUpload for RecordedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let put = self.inner.complete().await?;
        self.files.lock().push(self.file.clone());
        Ok(put)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
