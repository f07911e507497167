//! A session behind a server: statements go out, and rows and errors come back, over Arrow Flight.

use std::path::PathBuf;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tidegate::{AllowedPaths, SessionBuilder};
use tidegate_flight::{ServeError, Server, ServerOptions};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint, Error as TransportError};

/// A server on loopback, and its one client.
pub(crate) struct FlightSession {
    session: tidegate::Session,
    client: FlightSqlServiceClient<Channel>,
    server: JoinHandle<Result<(), ServeError>>,
}

/// Why a statement behind a server failed.
#[derive(Debug, thiserror::Error)]
pub enum FlightLaneError {
    /// The server cannot be made.
    #[error("{0}")]
    Engine(#[from] tidegate::Error),
    /// It does not start.
    #[error("{0}")]
    Serve(#[from] ServeError),
    /// It cannot be reached.
    #[error("{0}")]
    Transport(#[from] TransportError),
    /// The statement failed; the words are the server's.
    #[error("{}", words(.0))]
    Statement(#[from] FlightError),
}

fn words(error: &FlightError) -> String {
    match error {
        FlightError::Tonic(status) => status.message().to_string(),
        other => other.to_string(),
    }
}

impl FlightSession {
    /// Serves a session without locked settings, over all files, and connects to it.
    pub(crate) async fn open(session: SessionBuilder) -> Result<Self, FlightLaneError> {
        let everything = AllowedPaths::new(&[PathBuf::from("/")])?;
        let session = session.allowed_paths(everything).build()?;
        let mut options = ServerOptions {
            locked: Vec::new(),
            ..ServerOptions::default()
        };
        options.listen.set_port(0);
        let server = Server::bind(session.clone(), options).await?;
        let url = format!("http://{}", server.address());
        let server = tokio::spawn(server.run(std::future::pending()));
        let channel = Endpoint::from_shared(url)?.connect().await?;
        Ok(Self {
            session,
            client: FlightSqlServiceClient::new(channel),
            server,
        })
    }

    /// Returns the session that the server was made with.
    pub(crate) fn session(&self) -> &tidegate::Session {
        &self.session
    }

    /// Runs one statement and fetches what it returns.
    pub(crate) async fn collect(
        &self,
        sql: &str,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), FlightLaneError> {
        let mut client = self.client.clone();
        let info = client.execute(sql.to_string(), None).await?;
        let mut batches = Vec::new();
        let mut schema = SchemaRef::new(Schema::empty());
        for endpoint in info.endpoint {
            let mut rows = client.do_get(endpoint.ticket.unwrap_or_default()).await?;
            while let Some(batch) = rows.try_next().await? {
                batches.push(batch);
            }
            if let Some(told) = rows.schema() {
                schema = SchemaRef::clone(told);
            }
        }
        Ok((schema, batches))
    }
}

impl Drop for FlightSession {
    fn drop(&mut self) {
        self.server.abort();
    }
}
