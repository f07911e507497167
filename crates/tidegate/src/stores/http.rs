//! Requests to HTTP servers that `object_store` does not get along with, and to URLs with a query.
//!
//! `object_store` asks for a file with HEAD, and needs a length. Addresses that are signed for GET refuse HEAD, some servers do not
//! know it, and others send pages in chunks without a length. So HEAD is asked again as GET of the first byte, whose
//! answer has the size of all, and an answer without a length is read whole, within a limit.

use async_trait::async_trait;
use bytes::BytesMut;
use futures::StreamExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, Result};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};

use super::queries::with_query;
use super::whole::OBJECT_BYTES_MAX;

/// Makes clients that do without HEAD and lengths.
#[derive(Debug)]
pub(super) struct FilesConnector<C>(pub(super) C);

impl<C: HttpConnector> HttpConnector for FilesConnector<C> {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        Ok(HttpClient::new(FilesClient(self.0.connect(options)?)))
    }
}

/// A client that does without HEAD and lengths.
#[derive(Debug)]
struct FilesClient(HttpClient);

/// The answer's file is larger than what is read whole to learn its size.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server does not say how long the file is, and it has more than {OBJECT_BYTES_MAX} bytes: copy it here"
)]
struct TooLong;

/// The server gives parts of the file and not its size.
#[derive(Debug, thiserror::Error)]
#[error("the server does not say how long the file is: copy it here")]
struct NoSize;

#[async_trait]
impl HttpService for FilesClient {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url = with_query(&request.uri().to_string());
        if let Some(url) = url.and_then(|url| url.parse().ok()) {
            *request.uri_mut() = url;
        }
        match *request.method() {
            Method::HEAD => self.head(request).await,
            Method::GET => with_length(self.0.execute(request).await?).await,
            _ => self.0.execute(request).await,
        }
    }
}

impl FilesClient {
    async fn head(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, _) = request.into_parts();
        let head = HttpRequest::from_parts(parts.clone(), HttpRequestBody::empty());
        let answer = self.0.execute(head).await?;
        let is_refused = matches!(
            answer.status(),
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::NOT_IMPLEMENTED
        );
        // Some say 0, which is the length of the answer to HEAD.
        let lacks_length = answer.status().is_success()
            && length(answer.headers()).is_none_or(|length| length == 0);
        if !is_refused && !lacks_length {
            return Ok(answer);
        }
        parts.method = Method::GET;
        let first_byte = HeaderValue::from_static("bytes=0-0");
        parts.headers.insert(RANGE, first_byte);
        let first = HttpRequest::from_parts(parts, HttpRequestBody::empty());
        let first = self.0.execute(first).await?;
        let size = match first.status() {
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                let Some(size) = size_of_all(first.headers()) else {
                    return Err(HttpError::new(HttpErrorKind::Unknown, NoSize));
                };
                Some(size)
            }
            StatusCode::OK => None,
            _ => return Ok(answer),
        };
        let (mut parts, body) = with_length(first).await?.into_parts();
        if let Some(size) = size {
            parts.headers.insert(CONTENT_LENGTH, size.into());
        }
        parts.headers.remove(CONTENT_RANGE);
        parts.status = StatusCode::OK;
        drop(body);
        let nothing = HttpResponseBody::from(Vec::new());
        Ok(HttpResponse::from_parts(parts, nothing))
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the size of the file that a part is of.
fn size_of_all(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    range.rsplit_once('/')?.1.trim().parse().ok()
}

/// Returns an answer with its length, for which one that does not say it is read.
async fn with_length(answer: HttpResponse) -> Result<HttpResponse, HttpError> {
    if !answer.status().is_success() || length(answer.headers()).is_some() {
        return Ok(answer);
    }
    let (mut parts, body) = answer.into_parts();
    let mut chunks = body.bytes_stream();
    let mut all = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        all.extend_from_slice(&chunk?);
        if all.len() as u64 > OBJECT_BYTES_MAX {
            return Err(HttpError::new(HttpErrorKind::Unknown, TooLong));
        }
    }
    parts.headers.insert(CONTENT_LENGTH, all.len().into());
    Ok(HttpResponse::from_parts(parts, all.freeze().into()))
}
