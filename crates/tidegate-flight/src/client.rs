//! A session of a server: the same statements, elsewhere.
//!
//! A [`RemoteSession`] logs in, which gives it a session that outlives its connection, and runs
//! statements one after the other or side by side. Dropping a statement, or its rows, stops it there.

mod address;
mod login;
mod rows;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{Action, FlightInfo};
use futures::TryStreamExt;
use tidegate::{Error, ErrorKind, QueryProgress};
use tonic::transport::Channel;
use tonic::{Code, Status};

pub use rows::RemoteRows;

use crate::actions::PROGRESS;
use address::Address;

/// The most of one message that is taken: a server cuts rows into messages far smaller than this.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The beginning of the statements by which a prompt finds words to propose; the live page leaves them out.
pub const COMPLETION: &str = "/* completion */ ";

/// How long the end of a session is waited for.
const CLOSE_MAX: Duration = Duration::from_secs(2);

type Client = FlightSqlServiceClient<Channel>;

/// Where a server is, and how to get in. Printing it shows no secret.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// `grpc+tls://host:port`, or `grpc://host:port` without TLS; the port is 31337 unless named.
    pub url: String,
    /// The user's name; without one, a server that has users lets nobody in.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// A token that a login gave before, instead of name and password.
    pub token: Option<String>,
    /// Certificates in PEM that may sign the server's; `None` for those that this machine trusts.
    pub ca: Option<Vec<u8>>,
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("url", &self.url)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A session of a server. Cheap to clone; every clone is the same session.
#[derive(Clone)]
pub struct RemoteSession {
    client: Client,
    url: Arc<str>,
}

impl fmt::Debug for RemoteSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSession")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl RemoteSession {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if nobody answers there within 10 seconds, or its certificate is not to be
    /// trusted; [`ErrorKind::Denied`] if it does not let the user in; [`ErrorKind::Sql`] for a URL or
    /// options that make no sense.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let address = Address::parse(options)?;
        let channel = address.connect(options.ca.as_deref()).await?;
        let inner = FlightServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut client = Client::new_from_inner(inner);
        let token = match &options.token {
            Some(token) => token.clone(),
            None => login::log_in(client.inner_mut(), options).await?,
        };
        client.set_token(token);
        Ok(Self {
            client,
            url: options.url.as_str().into(),
        })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs one statement, and streams its rows.
    ///
    /// # Errors
    /// What the server says, by who must act.
    pub async fn execute(&self, sql: &str) -> Result<RemoteRows, Error> {
        let mut client = self.client.clone();
        let info = client.execute(sql.to_string(), None).await.map_err(told)?;
        let schema = schema_of(&info)?;
        RemoteRows::fetch(client, schema, info).await
    }

    /// Runs one statement with values of its parameters, in the first row of a batch by their order, and
    /// streams its rows.
    ///
    /// # Errors
    /// What the server says, by who must act.
    pub async fn execute_with(&self, sql: &str, values: RecordBatch) -> Result<RemoteRows, Error> {
        let mut client = self.client.clone();
        let prepared = client.prepare(sql.to_string(), None).await;
        let mut prepared = prepared.map_err(told)?;
        prepared.set_parameters(values).map_err(told)?;
        let info = prepared.execute().await.map_err(told)?;
        let schema = schema_of(&info)?;
        let rows = RemoteRows::fetch(client, schema, info).await?;
        Ok(rows.followed_by(async move {
            // A handle that is lost is given up with the session.
            let _ = prepared.close().await;
        }))
    }

    /// Returns the columns of a query without running it, and its parameters; those whose types the server
    /// does not know are of the type Null.
    ///
    /// # Errors
    /// What the server says, by who must act.
    pub async fn columns(&self, sql: &str) -> Result<(Schema, Schema), Error> {
        let mut client = self.client.clone();
        let prepared = client.prepare(sql.to_string(), None).await;
        let prepared = prepared.map_err(told)?;
        let columns = prepared.dataset_schema().map_err(told)?.clone();
        let parameters = prepared.parameter_schema().map_err(told)?.clone();
        let _ = prepared.close().await;
        Ok((columns, parameters))
    }

    /// Tells how far the query has come that runs in the session; `None` if none does, or if that
    /// cannot be known.
    pub async fn progress(&self) -> Option<QueryProgress> {
        let mut client = self.client.clone();
        let action = Action::new(PROGRESS, Vec::new());
        let mut answers = client.do_action(action).await.ok()?;
        let answer = answers.try_next().await.ok()??;
        serde_json::from_slice(&answer.body).ok()
    }

    /// Ends the session on the server. One that is not ended is given up there after a while.
    pub async fn close(&self) {
        let mut client = self.client.clone();
        let action = Action::new("CloseSession", Vec::new());
        let close = async {
            let answers = client.do_action(action).await?;
            answers
                .try_collect::<Vec<_>>()
                .await
                .map_err(FlightError::from)
        };
        // A server that is gone has ended it already.
        let _ = tokio::time::timeout(CLOSE_MAX, close).await;
    }
}

/// Reads the columns that a server told beforehand; `None` if it did not.
fn schema_of(info: &FlightInfo) -> Result<Option<Schema>, Error> {
    if info.schema.is_empty() {
        return Ok(None);
    }
    let schema = info.clone().try_decode_schema();
    schema
        .map(Some)
        .map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(why: &str) -> Error {
    let message = format!("the server's answer cannot be read: {why}");
    Error::new(ErrorKind::Io, message)
}

/// Says what a server said.
fn told(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => said(&status),
        FlightError::Arrow(error) => unreadable(&error.to_string()),
        other => unreadable(&other.to_string()),
    }
}

fn said(status: &Status) -> Error {
    // What has a cause came from this side of the connection.
    if let Some(cause) = std::error::Error::source(status) {
        let message = format!("the connection to the server failed: {cause}");
        return Error::new(ErrorKind::Io, message);
    }
    let kind = match status.code() {
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::Sql,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::Unimplemented => ErrorKind::NotSupported,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::ResourceExhausted => ErrorKind::ResourcesExhausted,
        Code::Cancelled | Code::Aborted => ErrorKind::Cancelled,
        Code::DeadlineExceeded => ErrorKind::TimedOut,
        _ => ErrorKind::Io,
    };
    let message = match (status.code(), status.message()) {
        (Code::Unavailable | Code::Unknown, "") => "the connection to the server is gone".into(),
        (Code::Unavailable, message) => format!("the server is not available: {message}"),
        (Code::Internal | Code::Unknown, message) => format!("the server failed: {message}"),
        (_, message) => message.to_string(),
    };
    Error::new(kind, message)
}

#[cfg(test)]
mod tests;
