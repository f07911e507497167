//! Servers of files on loopback, for as long as the value lives.

use std::io::{Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tidegate::StoreOptions;
use tokio::task::JoinHandle;

/// The key that the S3 server takes, and its secret.
pub(crate) const KEY: &str = "AKIATEST";
pub(crate) const SECRET: &str = "hush-hush-secret";

/// An S3 server over a folder: a bucket is a folder in it.
pub(crate) struct S3 {
    pub(crate) endpoint: String,
    folder: TempDir,
    task: JoinHandle<()>,
}

impl S3 {
    /// Serves the bucket `data`, and `other`.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for bucket in ["data", "other"] {
            std::fs::create_dir(folder.path().join(bucket)).unwrap();
        }
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // A client that goes away is no matter.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self {
            endpoint,
            folder,
            task,
        }
    }

    /// Returns where the bucket `data` lies.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the options that reach this server.
    pub(crate) fn options(&self) -> StoreOptions {
        options(&self.endpoint, SECRET)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns options for an S3 server.
pub(crate) fn options(endpoint: &str, secret: &str) -> StoreOptions {
    let mut options = StoreOptions::default();
    for (name, value) in [
        ("aws.endpoint", endpoint),
        ("aws.access_key_id", KEY),
        ("aws.secret_access_key", secret),
        ("aws.region", "us-east-1"),
    ] {
        options.set("", name, value).unwrap();
    }
    options
}

/// Returns an address that nobody listens on.
pub(crate) fn closed_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// An HTTP server of the files of a folder, with ranges; `/to/host/path` redirects to there,
/// `/whole/path` gives all of a file whatever range is asked for, `/signed/path` refuses HEAD, `/unsized/path` does too and gives parts that do not say of how much, `/asks/path` asks for the
/// query `token=a%20b`, and `/chunked/path` gives all of a file and does not say how long it is.
pub(crate) struct Http {
    pub(crate) url: String,
    files: Arc<Files>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Files {
    folder: PathBuf,
    ranges: AtomicU64,
    /// Requests that asked for files.
    requests: AtomicU64,
    redirects: AtomicU64,
}

impl Http {
    pub(crate) async fn start(folder: &Path) -> Self {
        let files = Arc::new(Files {
            folder: folder.to_path_buf(),
            ranges: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            redirects: AtomicU64::new(0),
        });
        let app = Router::new().fallback(serve).with_state(Arc::clone(&files));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, files, task }
    }

    /// Returns where this server redirects to another's file.
    pub(crate) fn redirect(&self, to: &Self, path: &str) -> String {
        let host = to.url.trim_start_matches("http://");
        format!("{}/to/{host}/{path}", self.url)
    }

    /// Returns how many requests for files came, and how many were sent elsewhere.
    pub(crate) fn requests(&self) -> (u64, u64) {
        let files = &self.files;
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (count(&files.requests), count(&files.redirects))
    }

    /// Returns how many ranges were asked for.
    pub(crate) fn ranges(&self) -> u64 {
        self.files.ranges.load(Ordering::Relaxed)
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(State(files): State<Arc<Files>>, request: Request) -> Response {
    let asked = request.uri().path().trim_start_matches('/');
    let chunked = asked.strip_prefix("chunked/");
    let whole = asked.strip_prefix("whole/").or(chunked);
    let is_unsized = asked.starts_with("unsized/");
    let signed = asked
        .strip_prefix("signed/")
        .or(asked.strip_prefix("unsized/"));
    if signed.is_some() && request.method() == Method::HEAD {
        return StatusCode::FORBIDDEN.into_response();
    }
    let asks = asked.strip_prefix("asks/");
    if asks.is_some() && request.uri().query() != Some("token=a%20b") {
        return StatusCode::FORBIDDEN.into_response();
    }
    let path = files
        .folder
        .join(whole.or(signed).or(asks).unwrap_or(asked));
    if path.ends_with("locked.csv") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(elsewhere) = request.uri().path().strip_prefix("/to/") {
        files.redirects.fetch_add(1, Ordering::Relaxed);
        let location = HeaderValue::from_str(&format!("http://{elsewhere}")).unwrap();
        return (StatusCode::FOUND, [(header::LOCATION, location)]).into_response();
    }
    files.requests.fetch_add(1, Ordering::Relaxed);
    let Ok(mut file) = std::fs::File::open(path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let size = file.metadata().unwrap().len();
    let range = request.headers().get(header::RANGE);
    let range = range.filter(|_| whole.is_none());
    let range = range.and_then(|range| {
        let (from, to) = range
            .to_str()
            .ok()?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        let to = to.parse().unwrap_or(size - 1).min(size - 1);
        Some((from.parse::<u64>().ok()?, to))
    });
    let (from, to) = range.unwrap_or((0, size.saturating_sub(1)));
    let mut content = vec![0; (to + 1 - from).min(size) as usize];
    file.seek(SeekFrom::Start(from)).unwrap();
    file.read_exact(&mut content).unwrap();
    let length = content.len();
    let body = match *request.method() {
        Method::GET if chunked.is_some() => {
            let pieces: Vec<_> = content.chunks(1000).map(<[u8]>::to_vec).collect();
            let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
            Body::from_stream(futures::stream::iter(pieces))
        }
        Method::GET => Body::from(content),
        Method::HEAD => Body::empty(),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    if chunked.is_none() {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if range.is_some() {
        files.ranges.fetch_add(1, Ordering::Relaxed);
        let all = match is_unsized {
            true => "*".to_string(),
            false => size.to_string(),
        };
        let shown = HeaderValue::from_str(&format!("bytes {from}-{to}/{all}"));
        headers.insert(header::CONTENT_RANGE, shown.unwrap());
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response
}
