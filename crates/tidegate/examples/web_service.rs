//! A web service that embeds a session: `GET /query?sql=…` answers with JSON rows.
//!
//! It serves on a free port of the loopback interface, asks itself one query, prints the answer and
//! ends; a real service would serve on.

#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::collections::HashMap;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::ArrayWriter;
use datafusion::prelude::SQLOptions;
use tidegate::{ErrorKind, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::builder().memory_limit(512 << 20).build()?;
    let service = axum::Router::new()
        .route("/query", get(query))
        .with_state(session);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, service).await });

    let mut client = TcpStream::connect(address).await?;
    let request = "GET /query?sql=SELECT+count(*)+AS+n+FROM+tpch('orders',0.01) HTTP/1.1\r\n\
                   Host: localhost\r\nConnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    client.read_to_string(&mut response).await?;
    println!("{response}");
    server.abort();
    if response.contains("[{\"n\":15000}]") {
        Ok(())
    } else {
        Err("an unexpected answer".into())
    }
}

/// Runs a query, and nothing that changes anything.
async fn query(
    State(session): State<Session>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Result<String, (StatusCode, String)> {
    let sql = parameters
        .get("sql")
        .map(String::as_str)
        .unwrap_or_default();
    let read_only = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let answer = async {
        let frame = session.sql_with_options(sql, read_only).await?;
        let rows = frame.collect().await?;
        let mut writer = ArrayWriter::new(Vec::new());
        writer
            .write_batches(&rows.iter().collect::<Vec<_>>())
            .map_err(internal)?;
        writer.finish().map_err(internal)?;
        Ok::<_, tidegate::Error>(String::from_utf8_lossy(&writer.into_inner()).into_owned())
    };
    answer
        .await
        .map_err(|error| (status(error.kind()), error.to_string()))
}

fn internal(error: ArrowError) -> tidegate::Error {
    tidegate::Error::with_source(ErrorKind::Internal, "the rows could not be written", error)
}

fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Sql | ErrorKind::NotSupported => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::AlreadyExists => StatusCode::CONFLICT,
        ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::ResourcesExhausted => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
