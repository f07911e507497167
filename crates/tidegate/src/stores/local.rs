//! The files of this machine.

use std::fmt;
use std::fs::FileType;
use std::ops::Range;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::error::{Error, ErrorKind};

/// Local files that have an end: pipes and devices are refused, since they can block, never end, or
/// seem empty.
#[derive(Debug, Default)]
pub(super) struct LocalFiles(LocalFileSystem);

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
        self.0.fmt(f)
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
        self.0.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        // A listing leaves other files out already; a name is asked about before it is read.
        if options.head
            && let Ok(path) = self.0.path_to_filesystem(location)
        {
            check_regular(&path).map_err(|error| object_store::Error::Generic {
                store: "LocalFileSystem",
                source: Box::new(error),
            })?;
        }
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Location, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Location>>,
    ) -> BoxStream<'static, Result<Location>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Location>,
        offset: &Location,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }

    async fn rename_opts(
        &self,
        from: &Location,
        to: &Location,
        options: RenameOptions,
    ) -> Result<()> {
        self.0.rename_opts(from, to, options).await
    }
}
