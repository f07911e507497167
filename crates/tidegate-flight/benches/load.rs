//! What the server's part of the way costs: short statements by many clients, and one large result
//! beside a bare `arrow-flight` server that holds the same batches and knows no SQL.
//!
//! `cargo bench -p tidegate-flight --bench load`; every answer is checked. Client and server share the
//! machine and the process, as they share two cores in the figures that are wanted: 3,000 statements a
//! second with 16 clients, and 70 % of the bare server's rows a second.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends with what is wrong, and prints its figures"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tidegate::Session;
use tidegate_flight::{Limits, Server, ServerOptions};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

const CLIENTS: usize = 16;
const SECONDS: Duration = Duration::from_secs(5);
const ROWS: i64 = 10_000_000;
const BATCH_ROWS: i64 = 8_192;
const ROUNDS: usize = 5;

type Client = FlightSqlServiceClient<Channel>;
type Answer<T> = Result<Response<BoxStream<'static, Result<T, Status>>>, Status>;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(16 << 20)
        .build()
        .unwrap();
    runtime.block_on(async {
        let batches = rows();
        let (server, bare) = (tidegate(&batches).await, bare(batches).await);
        short_statements(server).await;
        large_result(server, bare).await;
    });
}

/// Makes the rows: a number, a double and a short text.
fn rows() -> Vec<RecordBatch> {
    let batch = |start: i64| {
        let numbers = start..ROWS.min(start + BATCH_ROWS);
        let doubles = numbers.clone().map(|number| number as f64 / 3.0);
        let words = numbers
            .clone()
            .map(|number| format!("word {}", number % 1_000));
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter_values(numbers))),
            ("x", Arc::new(Float64Array::from_iter_values(doubles))),
            ("w", Arc::new(StringArray::from_iter_values(words))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap()
    };
    let starts = (0..ROWS).step_by(usize::try_from(BATCH_ROWS).unwrap());
    starts.map(batch).collect()
}

async fn tidegate(batches: &[RecordBatch]) -> SocketAddr {
    let session = Session::builder().build().unwrap();
    let mut ingest = session.ingest(batches[0].schema());
    for batch in batches {
        ingest.push(batch.clone()).unwrap();
    }
    let target = tidegate::IngestTarget {
        table: "t".into(),
        ..tidegate::IngestTarget::default()
    };
    let (if_exists, if_missing) = (tidegate::IfExists::Fail, tidegate::IfMissing::Create);
    ingest.finish(&target, if_exists, if_missing).await.unwrap();
    let options = ServerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        limits: Limits {
            queued: 1_000,
            ..Limits::default()
        },
        ..ServerOptions::default()
    };
    let server = Server::bind(session, options).await.unwrap();
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn client(address: SocketAddr) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

async fn fetch(client: &mut Client, info: FlightInfo) -> Vec<RecordBatch> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await.unwrap();
    rows.try_collect().await.unwrap()
}

/// Runs `SELECT 1`, prepared once by each client, as often as it goes.
async fn short_statements(server: SocketAddr) {
    let end = Instant::now() + SECONDS;
    let work = (0..CLIENTS).map(|_| {
        tokio::spawn(async move {
            let mut client = client(server).await;
            let mut prepared = client.prepare("SELECT 1".into(), None).await.unwrap();
            let mut done = 0_u64;
            while Instant::now() < end {
                let info = prepared.execute().await.unwrap();
                let rows = fetch(&mut client, info).await;
                assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 1);
                done += 1;
            }
            done
        })
    });
    let done = futures::future::join_all(work).await;
    let done: u64 = done.into_iter().map(Result::unwrap).sum();
    let rate = done as f64 / SECONDS.as_secs_f64();
    println!("SELECT 1, prepared, {CLIENTS} clients: {rate:.0}/s");
}

/// Reads all rows from both servers in turns; the best of each counts.
async fn large_result(server: SocketAddr, bare: SocketAddr) {
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        theirs = theirs.min(read(bare, None).await);
        ours = ours.min(read(server, Some("SELECT * FROM t")).await);
    }
    let rate = |time: Duration| ROWS as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{ROWS} rows: {:.2} million rows/s, a bare server {:.2}: {:.0} %",
        rate(ours),
        rate(theirs),
        100.0 * rate(ours) / rate(theirs)
    );
}

async fn read(server: SocketAddr, sql: Option<&str>) -> Duration {
    let mut client = client(server).await;
    let began = Instant::now();
    let ticket = match sql {
        Some(sql) => {
            let info = client.execute(sql.into(), None).await.unwrap();
            info.endpoint[0].ticket.clone().unwrap()
        }
        None => Ticket::new("all"),
    };
    let mut rows = client.do_get(ticket).await.unwrap();
    let (mut num_rows, mut sum) = (0, 0);
    while let Some(batch) = rows.try_next().await.unwrap() {
        num_rows += batch.num_rows();
        let numbers = batch.column(0).as_primitive::<Int64Type>();
        sum += numbers.values().iter().sum::<i64>();
    }
    let took = began.elapsed();
    assert_eq!((num_rows as i64, sum), (ROWS, ROWS * (ROWS - 1) / 2));
    took
}

/// Serves batches that lie in memory, and nothing else.
async fn bare(batches: Vec<RecordBatch>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = FlightServiceServer::new(Bare(Arc::new(batches)));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

struct Bare(Arc<Vec<RecordBatch>>);

fn nothing<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("only DoGet"))
}

#[tonic::async_trait]
impl FlightService for Bare {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn do_get(&self, _: Request<Ticket>) -> Answer<FlightData> {
        let batches = Arc::clone(&self.0);
        let rows = (0..batches.len()).map(move |number| Ok(batches[number].clone()));
        let messages = FlightDataEncoderBuilder::new()
            .with_schema(self.0[0].schema())
            .build(stream::iter(rows));
        Ok(Response::new(messages.map_err(Status::from).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<HandshakeResponse> {
        nothing()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<FlightInfo> {
        nothing()
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        nothing()
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        nothing()
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        nothing()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Answer<PutResult> {
        nothing()
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Answer<FlightData> {
        nothing()
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<arrow_flight::Result> {
        nothing()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<ActionType> {
        nothing()
    }
}
