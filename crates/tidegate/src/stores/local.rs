//! The files of this machine.

use std::fmt;
use std::fs::FileType;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, TryFutureExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use super::WriteFailures;
use crate::error::{Error, ErrorKind, causes};

/// Local files that have an end: pipes and devices are refused, since they can block, never end, or
/// seem empty.
#[derive(Debug)]
pub(super) struct LocalFiles {
    inner: LocalFileSystem,
    failures: Arc<WriteFailures>,
}

impl LocalFiles {
    /// Notes in `failures` why a write fails.
    pub(super) fn new(failures: Arc<WriteFailures>) -> Self {
        let inner = LocalFileSystem::default();
        Self { inner, failures }
    }
}

impl WriteFailures {
    /// Notes why a local file cannot be written.
    fn of_file(&self, location: &Location, error: object_store::Error) -> object_store::Error {
        let why = causes(&error).last().unwrap_or(&error);
        let is_full = why.downcast_ref::<io::Error>().is_some_and(|why| {
            matches!(
                why.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        });
        let way_out = match is_full {
            true => "; make room there, or write to another disk",
            false => "",
        };
        let message = format!("'/{location}' cannot be written: {why}{way_out}");
        self.note(Error::new(ErrorKind::Io, message), &error);
        error
    }
}

/// An upload of which it is noted why it fails.
#[derive(Debug)]
struct LocalUpload {
    inner: Box<dyn MultipartUpload>,
    location: Location,
    failures: Arc<WriteFailures>,
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (failures, location) = (Arc::clone(&self.failures), self.location.clone());
        let part = self.inner.put_part(data);
        part.map_err(move |error| failures.of_file(&location, error))
            .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.inner.complete().await;
        done.map_err(|error| self.failures.of_file(&self.location, error))
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

/// Refuses what is neither a file nor a folder; what is not there is another's error.
///
/// # Errors
/// [`ErrorKind::Io`].
pub(crate) fn check_regular(path: &Path) -> std::result::Result<(), Error> {
    let Ok(metadata) = path.metadata() else {
        return Ok(());
    };
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    let what = what_it_is(kind);
    let message = format!(
        "'{}' is {what}, not a file: write it to a file first, or send it to `tidegate -c` on \
         standard input, which is the table '/dev/stdin'",
        path.display()
    );
    Err(Error::new(ErrorKind::Io, message))
}

#[cfg(unix)]
fn what_it_is(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;

    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn what_it_is(_: FileType) -> &'static str {
    "a device"
}

impl fmt::Display for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for LocalFiles {
    async fn put_opts(
        &self,
        location: &Location,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let done = self.inner.put_opts(location, payload, opts).await;
        done.map_err(|error| self.failures.of_file(location, error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.inner.put_multipart_opts(location, opts).await;
        let inner = upload.map_err(|error| self.failures.of_file(location, error))?;
        Ok(Box::new(LocalUpload {
            inner,
            location: location.clone(),
            failures: Arc::clone(&self.failures),
        }))
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        // A listing leaves other files out already; a name is asked about before it is read.
        if options.head
            && let Ok(path) = self.inner.path_to_filesystem(location)
        {
            check_regular(&path).map_err(|error| object_store::Error::Generic {
                store: "LocalFileSystem",
                source: Box::new(error),
            })?;
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Location, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Location>>,
    ) -> BoxStream<'static, Result<Location>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Location>,
        offset: &Location,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(
        &self,
        from: &Location,
        to: &Location,
        options: RenameOptions,
    ) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use datafusion::error::DataFusionError;
    use object_store::path::Path;

    use super::WriteFailures;

    #[test]
    fn a_full_disk_is_told_with_the_file() {
        let failures = WriteFailures::default();
        let of_store = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(io::Error::from(io::ErrorKind::StorageFull)),
        };
        let of_store = failures.of_file(&Path::from("w/x.parquet"), of_store);
        let other = failures.explain(DataFusionError::Plan("no table x".into()));
        assert!(other.to_string().contains("no table x"), "{other}");
        let error = failures.explain(DataFusionError::External(Box::new(of_store)));
        let text = error.to_string();
        assert!(
            text.contains("'/w/x.parquet' cannot be written: "),
            "{text}"
        );
        assert!(text.contains("; make room there"), "{text}");
    }
}
