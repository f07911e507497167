//! Where files come from: this machine, and the object stores that URLs name.
//!
//! Every way to a file (external tables, `FROM 'path'`, COPY, INSERT, cached listings) asks a session's
//! `Stores` for the store of a URL. That of local files is always there; one of `s3://`, `gs://`,
//! `az://`, `abfs://` and `http(s)://` is opened when it is first asked for, with its options
//! ([`StoreOptions`]), and kept. Where a session is confined, a `GuardedStore` stands in front of each.
//! A `RemoteStore` says what went wrong in words that name no secret, and makes an object's time tell
//! its version too.

pub(crate) mod access;
mod connector;
mod guarded;
mod http;
mod local;
mod location;
mod open;
mod options;
mod queries;
mod remote;
mod statement;
mod whole;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ObjectStore;
use parking_lot::Mutex;
use url::Url;

use crate::error::{Error, ErrorKind};
use access::AllowedPaths;
use guarded::GuardedStore;
use local::LocalFiles;

pub(crate) use local::check_regular;
pub use location::Family;
pub(crate) use location::{place, remote_url};
pub use options::StoreOptions;
pub(crate) use options::is_harmless;
pub(crate) use queries::{shown, with_query_in_path, without_query};

/// The object stores of a session and of those that share its environment.
#[derive(Debug)]
pub(crate) struct Stores {
    files: Arc<dyn ObjectStore>,
    /// What the program itself registered.
    registered: DefaultObjectStoreRegistry,
    allowed: Option<AllowedPaths>,
    failures: Arc<WriteFailures>,
    remote: Mutex<Remote>,
}

/// Why a write failed last. DataFusion says only that one did, or what the store said, which names no file; whoever
/// sees that asks here. It is carried as an extension of the sessions' config.
#[derive(Debug, Default)]
pub(crate) struct WriteFailures(Mutex<Option<WriteFailure>>);

#[derive(Debug)]
struct WriteFailure {
    error: Error,
    /// What the store said.
    said: String,
}

impl WriteFailures {
    fn note(&self, error: Error, of_store: &object_store::Error) {
        let said = of_store.to_string();
        *self.0.lock() = Some(WriteFailure { error, said });
    }

    /// Puts what is known in the place of DataFusion's error.
    pub(crate) fn explain(&self, error: DataFusionError) -> DataFusionError {
        let text = error.to_string();
        let is_about = |failure: &mut WriteFailure| {
            text.contains("finalizing writes") || text.contains(&failure.said)
        };
        match self.0.lock().take_if(is_about) {
            Some(failure) => failure.error.into(),
            None => error,
        }
    }
}

/// What is known of stores elsewhere.
#[derive(Debug)]
struct Remote {
    options: StoreOptions,
    /// Those that are open, by [`place`].
    open: HashMap<String, Arc<dyn ObjectStore>>,
}

impl Stores {
    pub(crate) fn new(options: StoreOptions, allowed: Option<AllowedPaths>) -> Self {
        let failures = Arc::<WriteFailures>::default();
        let of_files = Arc::clone(&failures);
        let files: Arc<dyn ObjectStore> = match &allowed {
            None => Arc::new(LocalFiles::new(of_files)),
            Some(allowed) => Arc::new(GuardedStore::files(allowed.clone(), of_files)),
        };
        let registered = DefaultObjectStoreRegistry::new();
        if let Ok(url) = Url::parse("file:///") {
            registered.register_store(&url, Arc::clone(&files));
        }
        Self {
            files,
            registered,
            allowed,
            failures,
            remote: Mutex::new(Remote {
                options,
                open: HashMap::new(),
            }),
        }
    }

    /// Returns why writes fail.
    pub(crate) fn failures(&self) -> &Arc<WriteFailures> {
        &self.failures
    }

    /// Tells whether statements may reach only what an operator allowed.
    fn is_confined(&self) -> bool {
        self.allowed.is_some()
    }

    /// Adds options for the store of a URL, which is opened again.
    fn configure(&self, url: &Url, given: &[(String, String)]) -> std::result::Result<(), Error> {
        let place = place(url);
        let mut remote = self.remote.lock();
        let mut options = remote.options.clone();
        for (name, value) in given {
            options.set(&place, name, value)?;
        }
        remote.options = options;
        remote.open.remove(&place);
        Ok(())
    }

    fn open(&self, url: &Url) -> std::result::Result<Arc<dyn ObjectStore>, Error> {
        let Some(family) = Family::of(url.scheme()) else {
            let message = format!(
                "'{}://' is not known: there are s3://, gs://, az://, abfs://, https:// and http:// \
                 beside files of this machine",
                url.scheme()
            );
            return Err(Error::new(ErrorKind::Io, message));
        };
        let prefixes = match &self.allowed {
            None => None,
            Some(allowed) => match allowed.prefixes(url) {
                Some(prefixes) => Some(prefixes),
                None => return Err(AllowedPaths::denied(place(url).as_str())),
            },
        };
        let place = place(url);
        let mut remote = self.remote.lock();
        if let Some(store) = remote.open.get(&place) {
            return Ok(Arc::clone(store));
        }
        let store = open::open(
            family,
            url,
            &remote.options,
            &self.failures,
            self.allowed.as_ref(),
        )?;
        let store = match prefixes {
            None => store,
            Some(prefixes) => Arc::new(GuardedStore::prefixes(store, place.clone(), prefixes)),
        };
        remote.open.insert(place, Arc::clone(&store));
        Ok(store)
    }
}

impl ObjectStoreRegistry for Stores {
    /// Registers a store; in a confined session the store of local files stays as it is.
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        if url.scheme() == "file" && self.is_confined() {
            return Some(Arc::clone(&self.files));
        }
        self.registered.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.registered.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() == "file" && self.is_confined() {
            return Ok(Arc::clone(&self.files));
        }
        match self.registered.get_store(url) {
            Ok(store) => Ok(store),
            Err(_) => self.open(url).map_err(DataFusionError::from),
        }
    }
}
