//! A store elsewhere: its errors in words, its objects told apart by their tags.
//!
//! DataFusion keeps listings, statistics and footers by the path of a file, its size and its time,
//! whichever store it is of; and S3 and HTTP tell times in seconds. So a `RemoteStore` puts the
//! store's name and the object's tag into the part of the time that is below a second: another
//! store's object, and another version of this one, have another time.

use std::error::Error as StdError;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use futures::{FutureExt, TryFutureExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::WriteFailures;
use super::location::Family;
use super::queries::without_query;
use super::whole::WholeObject;
use crate::error::{Error, ErrorKind, causes};

/// Codes by which a server says that a request's credentials do not do.
const DENIALS: [&str; 8] = [
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "AuthenticationFailed",
    "401 Unauthorized",
    "403 Forbidden",
];

/// Parts of the addresses at which a machine's metadata service gives credentials.
const METADATA_SERVICE: [&str; 3] = ["169.254.169.254", "/latest/api/token", "/latest/meta-data"];

/// The most of a server's answer that a message quotes, in characters.
const REASON_MAX: usize = 300;

/// A store elsewhere.
#[derive(Debug)]
pub(super) struct RemoteStore {
    inner: Arc<dyn ObjectStore>,
    place: Arc<Place>,
    whole: WholeObject,
}

/// Which store it is.
#[derive(Debug)]
struct Place {
    family: Family,
    name: String,
    access: Access,
    failures: Arc<WriteFailures>,
}

/// What is known of the credentials.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Whether there are none, so that the client looks for them around this machine.
    pub(super) is_anyones: bool,
    /// What to do where access is denied.
    pub(super) hint: &'static str,
}

impl RemoteStore {
    pub(super) fn new(
        inner: Arc<dyn ObjectStore>,
        family: Family,
        name: String,
        access: Access,
        failures: Arc<WriteFailures>,
    ) -> Self {
        let place = Arc::new(Place {
            family,
            name,
            access,
            failures,
        });
        let whole = WholeObject::default();
        Self {
            inner,
            place,
            whole,
        }
    }

    fn refuse_writing(&self, location: &Path) -> Result<()> {
        if self.place.family != Family::Http {
            return Ok(());
        }
        let why = "files of an http server are only read";
        Err(self.place.noted(self.place.unsupported(location, why)))
    }
}

impl fmt::Display for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place.name)
    }
}

impl Place {
    fn url(&self, location: &Path) -> String {
        match location.is_root() {
            true => self.name.clone(),
            false => format!("{}/{}", self.name, without_query(location.as_ref())),
        }
    }

    fn unsupported(&self, location: &Path, why: &str) -> object_store::Error {
        let message = format!("'{}': {why}", self.url(location));
        object_store::Error::NotSupported {
            source: Box::new(Error::new(ErrorKind::NotSupported, message)),
        }
    }

    /// As [`Self::told`], of a write, whose error DataFusion does not pass on.
    fn told_of_write(&self, location: &Path, error: object_store::Error) -> object_store::Error {
        self.noted(self.told(location, error))
    }

    fn noted(&self, error: object_store::Error) -> object_store::Error {
        if let Some(own) = error.source().and_then(|own| own.downcast_ref::<Error>()) {
            self.failures.note(own.clone(), &error);
        }
        error
    }

    /// Says what happened without what a request carried.
    fn told(&self, location: &Path, error: object_store::Error) -> object_store::Error {
        use object_store::Error as Store;
        let url = self.url(location);
        let own = |message: String| Box::new(Error::new(ErrorKind::Io, message));
        if let Some(refused) = refusal(&error) {
            let message = format!("'{url}' redirects: {refused}");
            return Store::PermissionDenied {
                path: location.to_string(),
                source: Box::new(Error::new(refused.kind(), message)),
            };
        }
        match error {
            Store::NotFound { path, .. } => Store::NotFound {
                path,
                source: own(format!("'{url}' is not there")),
            },
            Store::PermissionDenied { path, source } => Store::PermissionDenied {
                path,
                source: own(self.denied(&url, source.as_ref())),
            },
            Store::Unauthenticated { path, source } => Store::Unauthenticated {
                path,
                source: own(self.denied(&url, source.as_ref())),
            },
            Store::Generic { store, source }
                if self.access.is_anyones && found_no_credentials(source.as_ref()) =>
            {
                // What the machine's metadata service answered is nobody's concern.
                let message = format!("'{url}' cannot be read: {}", self.access.hint);
                Store::Generic {
                    store,
                    source: own(message),
                }
            }
            Store::Generic { store, source } => {
                let said = reason(source.as_ref());
                let mut message = match DENIALS.iter().any(|code| said.contains(code)) {
                    true => self.denied(&url, source.as_ref()),
                    false => format!("'{url}' cannot be reached: {said}"),
                };
                if self.access.is_anyones && !message.ends_with(self.access.hint) {
                    message = format!("{message}; {}", self.access.hint);
                }
                Store::Generic {
                    store,
                    source: own(message),
                }
            }
            Store::NotSupported { source } => Store::NotSupported {
                source: own(format!("'{url}': {}", reason(source.as_ref()))),
            },
            Store::Precondition { path, .. } => Store::Precondition {
                path,
                source: own(format!("'{url}' was changed meanwhile")),
            },
            other => other,
        }
    }

    fn denied(&self, url: &str, source: &(dyn StdError + 'static)) -> String {
        let said = reason(source);
        format!("'{url}': access was denied ({said}); {}", self.access.hint)
    }

    /// Puts the object's tag, without what one answer has and another has not, into its time.
    fn stamp(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        let tag = meta.e_tag.as_deref().unwrap_or_default();
        tag.trim_start_matches("W/")
            .trim_matches('"')
            .hash(&mut hasher);
        let whole = u64::from(meta.last_modified.timestamp_subsec_nanos());
        let mark = hasher.finish() % 1_000_000_000;
        meta.last_modified -= Duration::from_nanos(whole);
        meta.last_modified += Duration::from_nanos(mark);
        meta
    }
}

/// No credentials were given, and none are to be asked for.
#[derive(Debug, thiserror::Error)]
#[error("no credentials were found")]
pub(super) struct NoCredentialsFound;

/// Tells whether it was the credentials that were not got, so that the store itself was not asked.
fn found_no_credentials(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| {
        let said = cause.to_string();
        let is_service = METADATA_SERVICE.iter().any(|part| said.contains(part));
        is_service || cause.is::<NoCredentialsFound>()
    })
}

/// Finds what this crate itself says among the causes of an error.
fn refusal<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Says in a line why a request failed: what the server said, or the innermost cause. No URL that a
/// request went to, for it may carry a signature.
pub(super) fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    let all = causes.join(": ");
    let element = |name: &str| {
        let (_, rest) = all.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0.to_string())
    };
    let status = all.split("status code: ").nth(1).map(|rest| {
        let end = rest.find([':', '<']).unwrap_or(rest.len());
        rest[..end].trim().to_string()
    });
    let said = match (element("Code"), element("Message"), status) {
        (Some(code), Some(message), _) => format!("{code}: {message}"),
        (Some(code), None, _) => code,
        (None, _, Some(status)) => status,
        (None, _, None) => causes.pop().unwrap_or_default(),
    };
    let words = said
        .split_whitespace()
        .map(|word| match word.contains("://") {
            true => word.split('?').next().unwrap_or(word),
            false => word,
        });
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars()
        .take(REASON_MAX)
        .collect::<String>()
        .trim_end_matches('.')
        .to_string()
}

#[async_trait]
impl ObjectStore for RemoteStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.refuse_writing(location)?;
        let put = self.inner.put_opts(location, payload, opts).await;
        put.map_err(|error| self.place.told_of_write(location, error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.refuse_writing(location)?;
        let upload = self.inner.put_multipart_opts(location, opts).await;
        let inner = upload.map_err(|error| self.place.told_of_write(location, error))?;
        Ok(Box::new(Upload {
            inner,
            place: Arc::clone(&self.place),
            location: location.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let range = options.range.clone();
        let mut found = self.inner.get_opts(location, options).await;
        if let (Err(object_store::Error::NotSupported { .. }), Some(range)) = (&found, &range)
            && self.place.family == Family::Http
        {
            let url = self.place.url(location);
            let inner = self.inner.as_ref();
            found = self.whole.part(inner, location, range, &url).await;
        }
        let mut found = found.map_err(|error| self.place.told(location, error))?;
        found.meta = self.place.stamp(found.meta);
        Ok(found)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let place = Arc::clone(&self.place);
        let deleted = self.inner.delete_stream(locations);
        let told = move |done: Result<Path>| done.map_err(|e| place.told(&Path::default(), e));
        deleted.map(told).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let place = Arc::clone(&self.place);
        let at = prefix.cloned().unwrap_or_default();
        if place.family == Family::Http {
            let why = "not there, or a folder, which an http server does not list: name a file";
            let error = place.unsupported(&at, why);
            return futures::stream::once(async { Err(error) }).boxed();
        }
        let told = move |entry: Result<ObjectMeta>| match entry {
            Ok(entry) => Ok(place.stamp(entry)),
            Err(error) => Err(place.told(&at, error)),
        };
        self.inner.list(prefix).map(told).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let at = prefix.cloned().unwrap_or_default();
        let listed = self.inner.list_with_delimiter(prefix).await;
        let mut listed = listed.map_err(|error| self.place.told(&at, error))?;
        let objects = std::mem::take(&mut listed.objects).into_iter();
        listed.objects = objects.map(|object| self.place.stamp(object)).collect();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.refuse_writing(to)?;
        let copied = self.inner.copy_opts(from, to, options).await;
        copied.map_err(|error| self.place.told(from, error))
    }
}

/// An upload whose errors are told as the store's.
#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    place: Arc<Place>,
    location: Path,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (place, location) = (Arc::clone(&self.place), self.location.clone());
        let part = self.inner.put_part(data);
        part.map_err(move |error| place.told_of_write(&location, error))
            .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.inner.complete().await;
        done.map_err(|error| self.place.told_of_write(&self.location, error))
    }

    async fn abort(&mut self) -> Result<()> {
        let done = self.inner.abort().await;
        done.map_err(|error| self.place.told_of_write(&self.location, error))
    }
}
