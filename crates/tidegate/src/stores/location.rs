//! What a URL says of its store.

use url::{Position, Url};

/// A kind of store, with options of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `s3://`.
    Aws,
    /// `gs://`.
    Gcp,
    /// `az://` and `abfs://`.
    Azure,
    /// `http://` and `https://`.
    Http,
}

impl Family {
    /// Returns the family of a URL's scheme.
    pub(crate) fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" => Some(Self::Aws),
            "gs" => Some(Self::Gcp),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Self::Azure),
            "http" | "https" => Some(Self::Http),
            _ => None,
        }
    }
}

/// Names the store of a URL: its scheme and bucket, container or host.
pub(crate) fn place(url: &Url) -> String {
    let scheme = match url.scheme() {
        "s3a" => "s3",
        scheme => scheme,
    };
    let bucket = &url[Position::BeforeUsername..Position::AfterPort];
    format!("{scheme}://{bucket}")
}

/// Returns the URL that a text is, unless it names a file of this machine.
pub(crate) fn remote_url(text: &str) -> Option<Url> {
    let url = text.contains("://").then(|| Url::parse(text).ok())??;
    (url.scheme() != "file").then_some(url)
}
