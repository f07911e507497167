//! Parts of objects, from servers that give objects as a whole only.
//!
//! The last such object is kept, since a reader that asks for one part asks for others; a larger one is
//! refused.

use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore, Result};
use tokio::sync::Mutex;

use crate::error::{Error, ErrorKind};

/// The most bytes of an object that is read whole for its parts.
pub(super) const OBJECT_BYTES_MAX: u64 = 256 << 20;

/// The object that was read last.
#[derive(Debug, Default)]
pub(super) struct WholeObject(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    location: Path,
    tag: Option<String>,
    modified: chrono::DateTime<chrono::Utc>,
    bytes: Bytes,
}

impl WholeObject {
    /// Reads a part of an object by reading all of it, unless it is kept; `url` names it in messages.
    ///
    /// # Errors
    /// Those of the store; [`object_store::Error::NotSupported`] for an object that is too large.
    pub(super) async fn part(
        &self,
        store: &dyn ObjectStore,
        location: &Path,
        range: &GetRange,
        url: &str,
    ) -> Result<GetResult> {
        let mut kept = self.0.lock().await;
        let all = store.get_opts(location, GetOptions::default()).await?;
        let (meta, attributes) = (all.meta.clone(), all.attributes.clone());
        if meta.size > OBJECT_BYTES_MAX {
            return Err(too_large(url, meta.size));
        }
        let is_kept = kept.as_ref().is_some_and(|kept| {
            kept.location == *location
                && kept.tag == meta.e_tag
                && kept.modified == meta.last_modified
                && kept.bytes.len() as u64 == meta.size
        });
        if !is_kept {
            *kept = Some(Kept {
                location: location.clone(),
                tag: meta.e_tag.clone(),
                modified: meta.last_modified,
                bytes: all.bytes().await?,
            });
        }
        let bytes = kept
            .as_ref()
            .map(|kept| kept.bytes.clone())
            .unwrap_or_default();
        let len = bytes.len() as u64;
        let range = range
            .as_range(len)
            .map_err(|source| object_store::Error::Generic {
                store: "http",
                source: Box::new(source),
            })?;
        let part = bytes.slice(range.start as usize..range.end as usize);
        Ok(GetResult {
            payload: GetResultPayload::Stream(futures::stream::iter([Ok(part)]).boxed()),
            meta,
            range,
            attributes,
        })
    }
}

fn too_large(url: &str, size: u64) -> object_store::Error {
    let message = format!(
        "'{url}': the server gives no parts of files, and files of more than {OBJECT_BYTES_MAX} bytes are \
         not read whole for them: it has {size}; copy it here, or use a server with range requests"
    );
    object_store::Error::NotSupported {
        source: Box::new(Error::new(ErrorKind::NotSupported, message)),
    }
}
