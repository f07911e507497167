//! A session of a server: the same statements, elsewhere.
//!
//! A [`RemoteSession`] logs in, which gives it a session that outlives its connection, and runs
//! statements one after the other or side by side. Dropping a statement, or its rows, stops it there.

mod address;
mod login;
mod rows;
mod servers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{Action, FlightInfo};
use futures::TryStreamExt;
use tidegate::{Error, ErrorKind, QueryProgress};
use tonic::transport::Channel;
use tonic::{Code, Status};

pub use rows::RemoteRows;

use crate::actions::PROGRESS;
use servers::{Kind, Servers};

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
    /// `grpc+tls://host:port`, or `grpc://host:port` without TLS; the port is 31337 unless named. With commas
    /// between them, several servers of the same tables, of which the next takes over when one is lost.
    pub url: String,
    /// The user's name; without one, a server that has users lets nobody in.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// A token that a login gave before, or one of an identity provider, instead of name and password.
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
///
/// Where [`ConnectOptions::url`] names several servers and the one of the session is lost, the next statement
/// opens a session at another, with the settings that were made. A query that was running is sent again if none
/// of its rows had come. Whatever else was running fails, since nobody knows whether it took effect; temporary
/// tables and prepared statements are gone.
#[derive(Clone)]
pub struct RemoteSession {
    servers: Arc<Servers>,
}

impl fmt::Debug for RemoteSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSession")
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}

impl RemoteSession {
    /// Connects to the first of the servers that can be reached, and logs in.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if nobody answers there within 10 seconds, or its certificate is not to be
    /// trusted; [`ErrorKind::Denied`] if it does not let the user in; [`ErrorKind::Sql`] for a URL or
    /// options that make no sense.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let servers = Servers::connect(options).await?;
        Ok(Self {
            servers: Arc::new(servers),
        })
    }

    /// Returns the URL of the server where the session is.
    pub fn url(&self) -> String {
        self.servers.url()
    }

    /// Runs one statement, and streams its rows.
    ///
    /// # Errors
    /// What the server says, by who must act. [`ErrorKind::Lost`] if the session moved to another server, and
    /// it is not known whether the statement took effect.
    pub async fn execute(&self, sql: &str) -> Result<RemoteRows, Error> {
        self.run(sql, None).await
    }

    /// Runs one statement with values of its parameters, in the first row of a batch by their order, and
    /// streams its rows.
    ///
    /// # Errors
    /// Those of [`RemoteSession::execute`].
    pub async fn execute_with(&self, sql: &str, values: RecordBatch) -> Result<RemoteRows, Error> {
        self.run(sql, Some(values)).await
    }

    async fn run(&self, sql: &str, values: Option<RecordBatch>) -> Result<RemoteRows, Error> {
        let mut current = self.servers.current();
        let kind = Kind::of(sql);
        let rows = start(current.client.clone(), sql, values.clone()).await;
        let rows = match rows {
            Err(Failure::Gone(lost)) if self.servers.has_others() => {
                let next = self.servers.move_from(&current).await;
                current = next.map_err(|_| lost.clone())?;
                if kind == Kind::Other {
                    return Err(self.moved(&lost));
                }
                start(current.client.clone(), sql, values.clone()).await?
            }
            Err(Failure::Told(error)) if self.servers.num_moves() > 0 => {
                return Err(self.explained(error));
            }
            rows => rows?,
        };
        if kind == Kind::Setting {
            self.servers.keep_setting(sql);
        }
        if kind != Kind::Query || !self.servers.has_others() {
            return Ok(rows);
        }
        let (servers, sql) = (Arc::clone(&self.servers), sql.to_string());
        Ok(rows.or_again(|| async move {
            let next = servers.move_from(&current).await?;
            start(next.client, &sql, values).await
        }))
    }

    /// Says that a statement was lost with its server.
    fn moved(&self, lost: &Error) -> Error {
        let message = format!(
            "{lost}; it is not known whether the statement took effect. The session goes on at {}, without its \
             temporary tables and prepared statements",
            self.url()
        );
        Error::new(ErrorKind::Lost, message)
    }

    /// Says of something that is missing that it may have been lost with a server.
    fn explained(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let message = format!(
            "{error} (the session moved to {}, and lost its temporary tables and prepared statements)",
            self.url()
        );
        Error::with_source(ErrorKind::NotFound, message, error)
    }

    /// Returns the columns of a query without running it, and its parameters; those whose types the server
    /// does not know are of the type Null.
    ///
    /// # Errors
    /// What the server says, by who must act.
    pub async fn columns(&self, sql: &str) -> Result<(Schema, Schema), Error> {
        let current = self.servers.current();
        match columns_at(current.client.clone(), sql).await {
            Err(Failure::Gone(lost)) if self.servers.has_others() => {
                let next = self.servers.move_from(&current).await.map_err(|_| lost)?;
                Ok(columns_at(next.client, sql).await?)
            }
            columns => Ok(columns?),
        }
    }

    /// Tells how far the query has come that runs in the session; `None` if none does, or if that
    /// cannot be known.
    pub async fn progress(&self) -> Option<QueryProgress> {
        let mut client = self.servers.current().client;
        let action = Action::new(PROGRESS, Vec::new());
        let mut answers = client.do_action(action).await.ok()?;
        let answer = answers.try_next().await.ok()??;
        serde_json::from_slice(&answer.body).ok()
    }

    /// Ends the session on the server. One that is not ended is given up there after a while.
    pub async fn close(&self) {
        let mut client = self.servers.current().client;
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

/// Starts a statement, with values of its parameters if there are any.
async fn start(
    mut client: Client,
    sql: &str,
    values: Option<RecordBatch>,
) -> Result<RemoteRows, Failure> {
    let Some(values) = values else {
        let info = client.execute(sql.to_string(), None).await?;
        let schema = schema_of(&info)?;
        return RemoteRows::fetch(client, schema, info).await;
    };
    let mut prepared = client.prepare(sql.to_string(), None).await?;
    prepared.set_parameters(values)?;
    let info = prepared.execute().await?;
    let schema = schema_of(&info)?;
    let rows = RemoteRows::fetch(client, schema, info).await?;
    Ok(rows.followed_by(async move {
        // A handle that is lost is given up with the session.
        let _ = prepared.close().await;
    }))
}

/// Returns the columns of a query, and its parameters.
async fn columns_at(mut client: Client, sql: &str) -> Result<(Schema, Schema), Failure> {
    let prepared = client.prepare(sql.to_string(), None).await?;
    let columns = prepared.dataset_schema()?.clone();
    let parameters = prepared.parameter_schema()?.clone();
    let _ = prepared.close().await;
    Ok((columns, parameters))
}

/// Reads the columns that a server told beforehand; `None` if it did not.
fn schema_of(info: &FlightInfo) -> Result<Option<Schema>, Failure> {
    if info.schema.is_empty() {
        return Ok(None);
    }
    let schema = info.clone().try_decode_schema();
    schema
        .map(Some)
        .map_err(|error| Failure::unreadable(&error.to_string()))
}

fn unreadable(why: &str) -> Error {
    let message = format!("the server's answer cannot be read: {why}");
    Error::new(ErrorKind::Io, message)
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    /// The connection is lost, or the server is about to end.
    Gone(Error),
    /// The server says so.
    Told(Error),
}

impl Failure {
    fn unreadable(why: &str) -> Self {
        Self::Told(unreadable(why))
    }
}

impl From<FlightError> for Failure {
    fn from(error: FlightError) -> Self {
        match error {
            FlightError::Tonic(status) if is_gone(&status) => Self::Gone(said(&status)),
            FlightError::Tonic(status) => Self::Told(said(&status)),
            FlightError::Arrow(error) => Self::unreadable(&error.to_string()),
            other => Self::unreadable(&other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone(error) | Failure::Told(error) => error,
        }
    }
}

/// Tells whether a status says that there is no server any more; what has a cause came from this side of the
/// connection.
fn is_gone(status: &Status) -> bool {
    status.code() == Code::Unavailable || std::error::Error::source(status).is_some()
}

/// Says what a server said.
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
        Code::Cancelled => ErrorKind::Cancelled,
        Code::Aborted => ErrorKind::Conflict,
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
