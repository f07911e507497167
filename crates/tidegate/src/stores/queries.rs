//! URLs of HTTP servers with a query, such as addresses that are signed.
//!
//! The paths of `object_store` have no query. So one is made the first part of its path, in hexadecimal digits, and a
//! query again in the request. Two addresses that differ in their query are two files.

use std::borrow::Cow;
use std::fmt::Write;

use url::{Position, Url};

use super::location::{Family, remote_url};

/// How the part of a path begins that stands for a query.
const PREFIX: &str = ".query-";

/// Returns a URL whose path has its query; any other text as it is.
pub(crate) fn with_query_in_path(text: &str) -> Cow<'_, str> {
    let url = remote_url(text).filter(|url| Family::of(url.scheme()) == Some(Family::Http));
    let Some((url, query)) = url.as_ref().and_then(|url| Some((url, url.query()?))) else {
        return Cow::Borrowed(text);
    };
    let mut digits = String::new();
    for byte in query.bytes() {
        let _ = write!(digits, "{byte:02x}");
    }
    let (host, path) = (&url[..Position::BeforePath], url.path());
    Cow::Owned(format!("{host}/{PREFIX}{digits}{path}"))
}

/// Returns the URL of a request with the query that its path has; `None` if it has none.
pub(super) fn with_query(url: &str) -> Option<String> {
    let mut url = Url::parse(url).ok()?;
    let (query, path) = split(url.path().trim_start_matches('/'))?;
    let path = path.to_string();
    url.set_query(Some(&query));
    url.set_path(&path);
    Some(url.into())
}

/// Returns a path as messages and columns of file names show it: without a query, which may be secret.
pub(crate) fn without_query(path: &str) -> Cow<'_, str> {
    match split(path) {
        Some((_, path)) => Cow::Owned(format!("{path}?…")),
        None => Cow::Borrowed(path),
    }
}

/// Returns a text as messages show it: a URL without its query.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    match text.split_once('?') {
        Some((before, _)) if remote_url(text).is_some() => Cow::Owned(format!("{before}?…")),
        _ => Cow::Borrowed(text),
    }
}

/// Returns the query that a path has, and the rest of the path.
fn split(path: &str) -> Option<(String, &str)> {
    let (first, rest) = path.split_once('/')?;
    let digits = first.strip_prefix(PREFIX)?;
    let bytes = (0..digits.len()).step_by(2).map(|at| {
        let pair = digits.get(at..at + 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    let query = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    Some((query, rest))
}

#[cfg(test)]
mod tests {
    use super::{with_query, with_query_in_path, without_query};

    #[test]
    fn a_query_travels_in_the_path() {
        for text in [
            "https://host/a/t.csv?key=a%20b&sig=%2F+x",
            "http://host:81/t?id=3",
            "https://host/?x=%C3%BC",
        ] {
            let travels = with_query_in_path(text);
            assert!(!travels.contains('?'), "{travels}");
            assert_eq!(with_query(&travels).as_deref(), Some(text));
        }
        for text in [
            "s3://bucket/t?x",
            "https://host/t.csv",
            "/tmp/t?.csv",
            "t.csv",
        ] {
            assert_eq!(with_query_in_path(text), text);
        }
    }

    #[test]
    fn what_is_no_query_stays() {
        for url in [
            "https://host/t.csv",
            "https://host/.query-7/t.csv",
            "https://host/.query-zz/t.csv",
            "https://host/.query-ff/t.csv",
            "https://host/.query-é/t.csv",
        ] {
            assert_eq!(with_query(url), None, "{url}");
        }
        assert_eq!(without_query(".query-613d31/a/t.csv"), "a/t.csv?…");
        assert_eq!(without_query("a/t.csv"), "a/t.csv");
    }
}
