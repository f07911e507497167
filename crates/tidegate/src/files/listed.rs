//! Files by path, folder or pattern, as statements name them.
//!
//! In a pattern `*`, `?` and `[…]` stand for characters of one name, and `**` for any folders. A folder is
//! all files below it, but for hidden ones.

use std::path::{Component, Path, PathBuf};

use datafusion::catalog::Session;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::{ObjectMeta, ObjectStoreExt};

use super::name_in;
use crate::error::{Error, ErrorKind};
use crate::stores::{check_regular, remote_url, shown, with_query_in_path};

/// Characters of a pattern.
const PATTERN: [char; 3] = ['*', '?', '['];

/// What a statement names: a file, a folder or a pattern.
#[derive(Clone, Debug)]
pub(crate) struct FilePath {
    text: String,
    /// What stands before the names of files of a path that is relative: the folder, or the path of one file.
    relative: Option<String>,
    url: ListingTableUrl,
    pattern: Option<Pattern>,
}

impl FilePath {
    /// Reads a path or URL.
    ///
    /// # Errors
    /// Fails for what is neither, and for a pattern that is none.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::new(ErrorKind::Sql, format!("'{}': {why}", shown(text)));
        if text.is_empty() {
            return Err(wrong("a path is missing".into()).into());
        }
        let is_remote = remote_url(text).is_some();
        let given = shown(text);
        let text = &*with_query_in_path(text);
        let at = match is_remote {
            // A question mark of a URL begins its query.
            true => text.find(['*', '[']),
            false => text.find(PATTERN),
        };
        // A file may be called so.
        let at = at.filter(|_| is_remote || !Path::new(text).exists());
        let Some(at) = at else {
            let url = match is_remote {
                true => ListingTableUrl::parse(text)?,
                false => local(text)?,
            };
            let relative = match url.is_collection() {
                true => format!("{}/", text.trim_end_matches('/')),
                false => text.to_string(),
            };
            return Ok(Self {
                text: given.into(),
                relative: Some(relative).filter(|path| is_relative(path)),
                url,
                pattern: None,
            });
        };
        let folder = text[..at].rfind('/').map_or(0, |slash| slash + 1);
        let pattern = Pattern::new(&text[folder..]).map_err(|error| wrong(error.to_string()))?;
        let base = match (is_remote, &text[..folder]) {
            (true, base) => ListingTableUrl::parse(base)?,
            (false, "") => local("./")?,
            (false, base) => local(base)?,
        };
        Ok(Self {
            text: given.into(),
            relative: is_relative(text).then(|| text[..folder].to_string()),
            url: base,
            pattern: Some(pattern),
        })
    }

    /// Returns the store of the files.
    pub(crate) fn store(&self) -> ObjectStoreUrl {
        self.url.object_store()
    }

    /// Returns the path as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Names a file as the path does: one of a relative path is relative.
    pub(crate) fn name(&self, file: &ObjectMeta) -> String {
        match (&self.relative, self.url.strip_prefix(&file.location)) {
            (Some(folder), Some(parts)) => {
                let parts: Vec<&str> = parts.collect();
                format!("{folder}{}", parts.join("/"))
            }
            _ => name_in(&self.store(), &file.location),
        }
    }

    /// Lists the files, in the order of their names.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there are none; those of the store.
    pub(crate) async fn list(&self, session: &dyn Session) -> Result<Vec<ObjectMeta>> {
        let store = session.runtime_env().object_store(&self.url)?;
        let prefix = self.url.prefix();
        if self.pattern.is_none() && !self.url.is_collection() {
            if self.url.scheme() == "file" {
                check_regular(Path::new(&name_in(&self.store(), prefix)))?;
            }
            return match store.head(prefix).await {
                Ok(file) => Ok(vec![file]),
                Err(object_store::Error::NotFound { .. }) => Err(self.missing("no such file")),
                Err(error) => Err(error.into()),
            };
        }
        let mut files: Vec<ObjectMeta> = store.list(Some(prefix)).try_collect().await?;
        files.retain(|file| self.includes(file));
        if files.is_empty() {
            return Err(match self.pattern {
                Some(_) => self.missing("no file matches the pattern"),
                None => self.missing("the folder has no files"),
            });
        }
        files.sort_by(|left, right| left.location.cmp(&right.location));
        Ok(files)
    }

    fn includes(&self, file: &ObjectMeta) -> bool {
        let Some(parts) = self.url.strip_prefix(&file.location) else {
            return false;
        };
        let parts: Vec<&str> = parts.collect();
        let Some(pattern) = &self.pattern else {
            return !parts.iter().any(|part| part.starts_with(['.', '_']));
        };
        let options = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        pattern.matches_with(&parts.join("/"), options)
    }

    fn missing(&self, why: &str) -> datafusion::error::DataFusionError {
        Error::new(ErrorKind::NotFound, format!("'{}': {why}", self.text)).into()
    }
}

/// Tells whether a path depends on the folder that the process is in.
fn is_relative(path: &str) -> bool {
    remote_url(path).is_none() && !path.starts_with("file:") && Path::new(path).is_relative()
}

/// Reads a path of this machine, in which no character has a meaning of its own.
fn local(path: &str) -> Result<ListingTableUrl> {
    let given = Path::new(path.strip_prefix("file://").unwrap_or(path));
    let absolute = without_parents(std::path::absolute(given)?);
    let is_folder = path.ends_with('/') || absolute.is_dir();
    let url = match is_folder {
        true => url::Url::from_directory_path(&absolute),
        false => url::Url::from_file_path(&absolute),
    };
    let url = url.map_err(|()| Error::new(ErrorKind::Sql, format!("'{path}' is not a path")))?;
    ListingTableUrl::try_new(url, None)
}

/// Returns a path without `..`: what it leads to, or, where nothing is there, would by its text.
fn without_parents(path: PathBuf) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    if let Ok(there) = path.canonicalize() {
        return there;
    }
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            // The parent of the root is the root.
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

/// Returns the keys and values of a file's folders that are called `key=value`.
pub(crate) fn partitions(file: &ObjectMeta) -> Vec<(String, String)> {
    let location = file.location.as_ref();
    let folders = location.rsplit_once('/').map_or("", |(folders, _)| folders);
    let pairs = folders
        .split('/')
        .filter_map(|folder| folder.split_once('='));
    pairs
        .map(|(key, value)| (key.to_string(), percent(value)))
        .collect()
}

/// Reads `%20` and the like; what is no such sequence stays.
fn percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
