//! Which files statements may touch: an allow-list, kept by the object store itself.
//!
//! Every way to a file (external tables, `FROM 'path'`, COPY, INSERT, cached listings) asks the
//! registry of object stores for a store. A confined session's registry hands out a `GuardedStore`,
//! which resolves each path as the operating system would, links and `..` included, and refuses what
//! does not end inside an allowed folder. Whoever can change links inside an allowed folder while a
//! statement runs can still win a race against the check: no statement can make a link.

use std::fmt;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use futures::stream::{BoxStream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
};
use url::Url;

use crate::error::{Error, ErrorKind};

/// Folders and files that statements may read and write, with everything below them.
#[derive(Clone, Debug, Default)]
pub struct AllowedPaths {
    roots: Arc<[PathBuf]>,
}

impl AllowedPaths {
    /// Takes folders and files that are there; none at all allows nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] for a path that is not there, and for a URL.
    pub fn new(paths: &[PathBuf]) -> std::result::Result<Self, Error> {
        let resolved = paths.iter().map(|path| {
            path.canonicalize().map_err(|error| {
                let message = format!(
                    "'{}' cannot be allowed: {error}; name a folder or file of this machine",
                    path.display()
                );
                Error::with_source(ErrorKind::Io, message, error)
            })
        });
        let roots = resolved.collect::<std::result::Result<_, _>>()?;
        Ok(Self { roots })
    }

    /// Returns what confines the sessions of a config; `None` if nothing does.
    pub(crate) fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Refuses COPY to a file outside. The store would refuse it too, but DataFusion does not pass on
    /// why a write failed.
    pub(crate) fn check_plan(&self, plan: &LogicalPlan) -> std::result::Result<(), Error> {
        match plan {
            LogicalPlan::Copy(copy) => self.check_text(&copy.output_url),
            _ => Ok(()),
        }
    }

    /// Refuses a path outside, as statements write paths.
    pub(crate) fn check_text(&self, path: &str) -> std::result::Result<(), Error> {
        let target = ListingTableUrl::parse(path)?;
        let url: &Url = target.as_ref();
        let is_allowed = match url.to_file_path() {
            Ok(path) if url.scheme() == "file" => self.allows(&path),
            // Another store says itself whether it is there.
            _ => true,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(denied(path)),
        }
    }

    /// Tells whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    fn allows(&self, path: &Path) -> bool {
        let Some(resolved) = resolve(path) else {
            return false;
        };
        self.roots.iter().any(|root| resolved.starts_with(root))
    }
}

/// Follows a path to where it leads; what is not there yet is taken as it is written. `None` if that
/// cannot be known: a link to nowhere, a folder that may not be looked into.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(resolved) => {
                let rest = missing.iter().rev();
                return Some(rest.fold(resolved, |path, name| path.join(name)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if existing.symlink_metadata().is_ok() {
                    return None;
                }
                let Some(Component::Normal(name)) = existing.components().next_back() else {
                    return None;
                };
                missing.push(name);
                existing = existing.parent()?;
            }
            Err(_) => return None,
        }
    }
}

/// The object stores of a confined session: local files inside the allowed paths, and what the
/// program itself registers.
#[derive(Debug)]
pub(crate) struct GuardedRegistry {
    files: Arc<dyn ObjectStore>,
    others: DefaultObjectStoreRegistry,
}

impl GuardedRegistry {
    pub(crate) fn new(allowed: AllowedPaths) -> Self {
        let files = GuardedStore {
            inner: Arc::new(LocalFileSystem::new()),
            allowed,
        };
        Self {
            files: Arc::new(files),
            others: DefaultObjectStoreRegistry::new(),
        }
    }
}

impl ObjectStoreRegistry for GuardedRegistry {
    /// Registers a store; the store of local files stays as it is.
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        match url.scheme() {
            "file" => Some(Arc::clone(&self.files)),
            _ => self.others.register_store(url, store),
        }
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() == "file" {
            return Ok(Arc::clone(&self.files));
        }
        self.others.get_store(url).map_err(|_| {
            let message = format!(
                "'{}://…' cannot be reached from here: only local files inside the paths that \
                 `tidegate serve --allow` names can",
                url.scheme()
            );
            DataFusionError::from(Error::new(ErrorKind::Denied, message))
        })
    }
}

/// Local files, inside the allowed paths only.
#[derive(Debug)]
struct GuardedStore {
    inner: Arc<LocalFileSystem>,
    allowed: AllowedPaths,
}

impl fmt::Display for GuardedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("allowed local files")
    }
}

type StoreResult<T> = object_store::Result<T>;

impl GuardedStore {
    fn check(&self, location: &Location) -> StoreResult<()> {
        check(&self.inner, &self.allowed, location)
    }

    fn check_listed(&self, listed: &ListResult) -> StoreResult<()> {
        let objects = listed.objects.iter().map(|object| &object.location);
        let mut locations = objects.chain(&listed.common_prefixes);
        locations.try_for_each(|location| self.check(location))
    }

    /// Lists what `entries` gives, up to the first entry that leads outside.
    fn checked(
        &self,
        prefix: Option<&Location>,
        entries: BoxStream<'static, StoreResult<ObjectMeta>>,
    ) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        if let Err(error) = self.check(prefix.unwrap_or(&Location::default())) {
            return futures::stream::once(async { Err(error) }).boxed();
        }
        let (inner, allowed) = (Arc::clone(&self.inner), self.allowed.clone());
        let checked = entries.map(move |entry| {
            let entry = entry?;
            check(&inner, &allowed, &entry.location)?;
            Ok(entry)
        });
        checked.boxed()
    }
}

fn check(inner: &LocalFileSystem, allowed: &AllowedPaths, location: &Location) -> StoreResult<()> {
    let path = match location.is_root() {
        true => PathBuf::from("/"),
        false => inner.path_to_filesystem(location)?,
    };
    if allowed.allows(&path) {
        return Ok(());
    }
    let path = format!("/{location}");
    Err(object_store::Error::PermissionDenied {
        source: Box::new(denied(&path)),
        path,
    })
}

fn denied(path: &str) -> Error {
    let message = format!(
        "'{path}' is outside the paths that statements may use; `tidegate serve --allow` names them"
    );
    Error::new(ErrorKind::Denied, message)
}

#[async_trait]
impl ObjectStore for GuardedStore {
    async fn put_opts(
        &self,
        location: &Location,
        payload: PutPayload,
        opts: PutOptions,
    ) -> StoreResult<PutResult> {
        self.check(location)?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.check(location)?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> StoreResult<GetResult> {
        self.check(location)?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(
        &self,
        location: &Location,
        ranges: &[Range<u64>],
    ) -> StoreResult<Vec<Bytes>> {
        self.check(location)?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Location>>,
    ) -> BoxStream<'static, StoreResult<Location>> {
        let (inner, allowed) = (Arc::clone(&self.inner), self.allowed.clone());
        let checked = locations.map(move |location| {
            let location = location?;
            check(&inner, &allowed, &location)?;
            Ok(location)
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.checked(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Location>,
        offset: &Location,
    ) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.checked(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> StoreResult<ListResult> {
        self.check(prefix.unwrap_or(&Location::default()))?;
        let listed = self.inner.list_with_delimiter(prefix).await?;
        self.check_listed(&listed)?;
        Ok(listed)
    }

    async fn copy_opts(
        &self,
        from: &Location,
        to: &Location,
        options: CopyOptions,
    ) -> StoreResult<()> {
        self.check(from)?;
        self.check(to)?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(
        &self,
        from: &Location,
        to: &Location,
        options: RenameOptions,
    ) -> StoreResult<()> {
        self.check(from)?;
        self.check(to)?;
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
