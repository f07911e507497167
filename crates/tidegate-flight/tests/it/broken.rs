//! Connections that are cut in the middle of anything: nothing half-made stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow_flight::sql::CommandStatementIngest;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Endpoint;

use crate::support::{Client, Running, answer, eventually, num_running, query, start};

const ROWS: i64 = 30_000;

/// Lets so many bytes of one client through, counted both ways, and then cuts the line.
async fn cut_after(server: &Running, bytes: u64) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (here, there) = (listener.local_addr().unwrap(), server.address);
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(there).await.unwrap();
        let left = Arc::new(AtomicU64::new(bytes));
        let (client_in, client_out) = client.into_split();
        let (server_in, server_out) = server.into_split();
        tokio::select! {
            () = pump(client_in, server_out, &left) => {}
            () = pump(server_in, client_out, &left) => {}
        }
    });
    let endpoint = Endpoint::from_shared(format!("http://{here}")).unwrap();
    FlightSqlServiceClient::new(endpoint.connect_lazy())
}

async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, left: &AtomicU64) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let before = left.load(Ordering::Relaxed);
        let through = before.min(read as u64);
        left.fetch_sub(through, Ordering::Relaxed);
        let is_cut = to.write_all(&buffer[..through as usize]).await.is_err();
        if is_cut || through < read as u64 {
            return;
        }
    }
}

async fn ingest(client: &mut Client, table: &str) -> bool {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let pieces = (0..10).map(|piece| Ok(batch.slice(piece * 3_000, 3_000)));
    let command = CommandStatementIngest {
        table: table.into(),
        ..CommandStatementIngest::default()
    };
    let rows = stream::iter(pieces.collect::<Vec<_>>());
    client.execute_ingest(command, rows).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_line_leaves_nothing_half_made() {
    let server = start().await;
    let memory = Arc::clone(&server.session.context().runtime_env().memory_pool);
    let mut whole = 0;
    for step in 0..40_u64 {
        // Densely where a connection begins, then ever further on.
        let bytes = step * 40 + step.pow(3) * 8;
        let mut client = cut_after(&server, bytes).await;
        let told = tokio::time::timeout(Duration::from_secs(30), ingest(&mut client, "cut")).await;
        let told =
            told.unwrap_or_else(|_| panic!("an upload that was cut after {bytes} bytes hangs"));
        drop(client);
        let sound = &mut server.client().await;
        eventually("the upload ends", async || server.watch.num_sessions() <= 1).await;
        let found = query(sound, "SELECT count(*), sum(n) FROM cut").await;
        match found {
            Ok(_) => {
                let all = answer(sound, "SELECT count(*), sum(n) FROM cut").await;
                assert_eq!(
                    all,
                    [format!("{ROWS}|{}", ROWS * (ROWS - 1) / 2)],
                    "{bytes} bytes"
                );
                whole += 1;
                answer(sound, "DROP TABLE cut").await;
            }
            Err(_) => assert!(
                !told,
                "{bytes} bytes: the client was told that its rows are there"
            ),
        }
    }
    assert!((1..40).contains(&whole), "{whole} uploads came through");
    eventually("the sessions end", async || {
        server.watch.num_sessions() == 0
    })
    .await;
    eventually("the memory is back", async || memory.reserved() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_line_ends_what_ran_behind_it() {
    let server = start().await;
    let memory = Arc::clone(&server.session.context().runtime_env().memory_pool);
    let sql = "SELECT value, value % 1000 AS k FROM generate_series(1, 100000000)";
    let cut = (0..24_u64).map(async |step| {
        let mut client = cut_after(&server, 100 + step.pow(4)).await;
        let asked = query(&mut client, sql);
        let ended = tokio::time::timeout(Duration::from_secs(60), asked).await;
        assert!(
            ended.unwrap().is_err(),
            "100 million rows do not fit through {step}"
        );
    });
    futures::future::join_all(cut).await;
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    eventually("the sessions end", async || {
        server.watch.num_sessions() == 0
    })
    .await;
    eventually("the memory is back", async || memory.reserved() == 0).await;
}
