//! Which files statements may touch: an allow-list of folders, buckets and hosts.
//!
//! Every way to a file asks the session's `crate::stores`, which keep the list: a path is resolved as
//! the operating system would, links and `..` included, and refused if it does not end inside an
//! allowed folder; an object is refused if its bucket or host, or what its name begins with, is not
//! allowed. Whoever can change links inside an allowed folder while a statement runs can still win a
//! race against the check: no statement can make a link. A host that redirects is
//! followed to where statements may go themselves, and no further.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use object_store::path::Path as Location;
use url::Url;

use super::location::{Family, place, remote_url};
use crate::error::{Error, ErrorKind};

/// Folders and files that statements may read and write, and buckets and hosts, with everything
/// below them.
#[derive(Clone, Debug, Default)]
pub struct AllowedPaths {
    roots: Arc<[PathBuf]>,
    remote: Arc<[RemotePlace]>,
}

/// A bucket or host, and what the names of objects begin with there.
#[derive(Clone, Debug)]
struct RemotePlace {
    store: String,
    prefix: Location,
}

impl AllowedPaths {
    /// Allows existing folders and files, and URLs such as `s3://bucket`, `s3://bucket/logs` or
    /// `https://host`; an empty list allows nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] for a path that does not exist, and for a URL of no known store.
    pub fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        let (mut roots, mut remote) = (Vec::new(), Vec::new());
        for path in paths {
            match path.to_str().and_then(remote_url) {
                Some(url) => remote.push(RemotePlace::of(&url)?),
                None => roots.push(path.canonicalize().map_err(|error| {
                    let message = format!(
                        "'{}' cannot be allowed: {error}; name a folder or file of this machine, or \
                         a URL such as s3://bucket",
                        path.display()
                    );
                    Error::with_source(ErrorKind::Io, message, error)
                })?),
            }
        }
        Ok(Self {
            roots: roots.into(),
            remote: remote.into(),
        })
    }

    /// Returns what confines the sessions of a config; `None` if nothing does.
    pub(crate) fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Refuses COPY to a file outside. The store would refuse it too, but DataFusion does not pass on
    /// why a write failed.
    pub(crate) fn check_plan(&self, plan: &LogicalPlan) -> Result<(), Error> {
        match plan {
            LogicalPlan::Copy(copy) => self.check_text(&copy.output_url),
            _ => Ok(()),
        }
    }

    /// Refuses a path outside, as statements write paths.
    pub(crate) fn check_text(&self, path: &str) -> Result<(), Error> {
        let target = ListingTableUrl::parse(path)?;
        let url: &Url = target.as_ref();
        let is_allowed = match url.to_file_path() {
            Ok(path) if url.scheme() == "file" => self.allows(&path),
            // A store of no known family is one that the program registered.
            _ if Family::of(url.scheme()).is_none() => true,
            _ => self
                .prefixes(url)
                .is_some_and(|prefixes| begins(target.prefix(), &prefixes)),
        };
        match is_allowed {
            true => Ok(()),
            false => Err(Self::denied(path)),
        }
    }

    /// Refuses an object outside, where a request was sent to.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Error> {
        let location = Location::from_url_path(url.path());
        let prefixes = self.prefixes(url);
        match (location, prefixes) {
            (Ok(location), Some(prefixes)) if begins(&location, &prefixes) => Ok(()),
            _ => Err(Self::denied(&place(url))),
        }
    }

    /// Tells whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.remote.is_empty()
    }

    /// Returns what the names of objects may begin with in the store of a URL; `None` if nothing of
    /// it is allowed.
    pub(crate) fn prefixes(&self, url: &Url) -> Option<Arc<[Location]>> {
        let store = place(url);
        let places = self.remote.iter().filter(|place| place.store == store);
        let prefixes: Arc<[Location]> = places.map(|place| place.prefix.clone()).collect();
        (!prefixes.is_empty()).then_some(prefixes)
    }

    /// Says that a path is outside.
    pub(crate) fn denied(path: &str) -> Error {
        let message = format!(
            "'{path}' is outside the paths that statements may use; `tidegate serve --allow` names \
             them"
        );
        Error::new(ErrorKind::Denied, message)
    }

    pub(crate) fn allows(&self, path: &Path) -> bool {
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

/// Tells whether an object's name begins with one of these prefixes, in whole parts.
pub(crate) fn begins(location: &Location, prefixes: &[Location]) -> bool {
    prefixes
        .iter()
        .any(|prefix| location.prefix_matches(prefix))
}

impl RemotePlace {
    fn of(url: &Url) -> Result<Self, Error> {
        let refused = |why: &str| {
            let message = format!("'{}' cannot be allowed: {why}", place(url));
            Error::new(ErrorKind::Io, message)
        };
        if Family::of(url.scheme()).is_none() {
            return Err(refused("only s3, gs, az, abfs, https and http are known"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(refused("it names no bucket or host"));
        }
        if url.query().is_some() || url.password().is_some() {
            return Err(refused("leave out what stands behind '?', and passwords"));
        }
        let prefix = Location::from_url_path(url.path());
        Ok(Self {
            store: place(url),
            prefix: prefix.map_err(|error| refused(&error.to_string()))?,
        })
    }
}

#[cfg(test)]
mod tests;
