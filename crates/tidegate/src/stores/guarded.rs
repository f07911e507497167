//! A store of which statements may touch a part.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::WriteFailures;
use super::access::{AllowedPaths, begins};
use super::local::LocalFiles;
use super::queries::without_query;

/// A store, inside what is allowed of it only.
#[derive(Debug)]
pub(super) struct GuardedStore {
    inner: Arc<dyn ObjectStore>,
    scope: Arc<Scope>,
}

/// What is allowed of a store.
#[derive(Debug)]
enum Scope {
    /// Files that lie inside these paths.
    Files(LocalFileSystem, AllowedPaths),
    /// Objects of the named store that begin so.
    Prefixes(String, Arc<[Location]>),
}

impl Scope {
    fn check(&self, location: &Location) -> Result<()> {
        let (is_allowed, path) = match self {
            Self::Files(files, allowed) => {
                let path = match location.is_root() {
                    true => PathBuf::from("/"),
                    false => files.path_to_filesystem(location)?,
                };
                (allowed.allows(&path), format!("/{location}"))
            }
            Self::Prefixes(store, prefixes) => {
                let shown = without_query(location.as_ref());
                (begins(location, prefixes), format!("{store}/{shown}"))
            }
        };
        if is_allowed {
            return Ok(());
        }
        Err(object_store::Error::PermissionDenied {
            source: Box::new(AllowedPaths::denied(&path)),
            path,
        })
    }
}

impl GuardedStore {
    /// The local files inside the allowed paths.
    pub(super) fn files(allowed: AllowedPaths, failures: Arc<WriteFailures>) -> Self {
        Self {
            inner: Arc::new(LocalFiles::new(failures)),
            scope: Arc::new(Scope::Files(LocalFileSystem::new(), allowed)),
        }
    }

    /// The objects of a store that begin with one of these prefixes.
    pub(super) fn prefixes(
        inner: Arc<dyn ObjectStore>,
        store: String,
        prefixes: Arc<[Location]>,
    ) -> Self {
        Self {
            inner,
            scope: Arc::new(Scope::Prefixes(store, prefixes)),
        }
    }

    fn check(&self, location: &Location) -> Result<()> {
        self.scope.check(location)
    }

    fn check_listed(&self, listed: &ListResult) -> Result<()> {
        let objects = listed.objects.iter().map(|object| &object.location);
        let mut locations = objects.chain(&listed.common_prefixes);
        locations.try_for_each(|location| self.check(location))
    }

    /// Lists what `entries` gives, up to the first entry that leads outside.
    fn checked(
        &self,
        prefix: Option<&Location>,
        entries: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        if let Err(error) = self.check(prefix.unwrap_or(&Location::default())) {
            return futures::stream::once(async { Err(error) }).boxed();
        }
        let scope = Arc::clone(&self.scope);
        let checked = entries.map(move |entry| {
            let entry = entry?;
            scope.check(&entry.location)?;
            Ok(entry)
        });
        checked.boxed()
    }
}

impl fmt::Display for GuardedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what is allowed of {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for GuardedStore {
    async fn put_opts(
        &self,
        location: &Location,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.check(location)?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.check(location)?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        self.check(location)?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Location, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(location)?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Location>>,
    ) -> BoxStream<'static, Result<Location>> {
        let scope = Arc::clone(&self.scope);
        let checked = locations.map(move |location| {
            let location = location?;
            scope.check(&location)?;
            Ok(location)
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.checked(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Location>,
        offset: &Location,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.checked(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> Result<ListResult> {
        self.check(prefix.unwrap_or(&Location::default()))?;
        let listed = self.inner.list_with_delimiter(prefix).await?;
        self.check_listed(&listed)?;
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> Result<()> {
        self.check(from)?;
        self.check(to)?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(
        &self,
        from: &Location,
        to: &Location,
        options: RenameOptions,
    ) -> Result<()> {
        self.check(from)?;
        self.check(to)?;
        self.inner.rename_opts(from, to, options).await
    }
}
