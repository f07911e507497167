//! Many clients at once, who come, ask, cancel and vanish: nobody hangs, and nothing is left behind.
//!
//! `TIDEGATE_SOAK_SECONDS` says for how long, by default a few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow_flight::error::FlightError;
use arrow_flight::sql::CommandStatementIngest;
use arrow_flight::{Action, CancelFlightInfoRequest, FlightInfo};
use futures::future::join_all;
use futures::stream;
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_flight::{Limits, ServerOptions};
use tonic::Code;

use crate::support::{
    BOTTOMLESS, Client, ENDLESS, Running, eventually, fetch, num_running, options, query, session,
    start_with, status_of,
};

const CLIENTS: u64 = 50;

async fn limited(statements: usize, queued: usize) -> Running {
    let limits = Limits {
        statements,
        queued,
        queue_wait: Duration::from_secs(5),
        ..options().limits
    };
    let options = ServerOptions {
        limits,
        ..options()
    };
    start_with(session(&[]), options).await
}

/// Only what a client can do something about may go wrong.
fn expected(error: FlightError) {
    let status = status_of(error);
    let is_expected = matches!(
        status.code(),
        Code::Unavailable | Code::Cancelled | Code::ResourceExhausted | Code::NotFound
    );
    assert!(is_expected, "{status}");
}

async fn once(client: &mut Client, random: &mut StdRng, table: &str) {
    let asked = match random.random_range(0..7) {
        0 => query(client, "SELECT 1").await.map(|_| ()),
        1 => {
            let sql = "SELECT value % 1000, count(*) FROM generate_series(1, 50000) GROUP BY 1";
            query(client, sql).await.map(|rows| {
                let num_rows: usize = rows.iter().map(RecordBatch::num_rows).sum();
                assert_eq!(num_rows, 1000);
            })
        }
        2 => ingest(client, table).await,
        3 => prepared(client).await,
        4 => cancelled(client).await,
        5 => {
            // Its caller has lost patience, and leaves the rest unread.
            let left = Duration::from_millis(random.random_range(5..100));
            let sql = [ENDLESS, BOTTOMLESS][random.random_range(0..2)];
            let _ = tokio::time::timeout(left, query(client, sql)).await;
            Ok(())
        }
        _ => {
            let info: Result<FlightInfo, _> = client.execute("SELECT 7".into(), None).await;
            info.map(|_| ())
        }
    };
    asked.unwrap_or_else(expected);
}

async fn ingest(client: &mut Client, table: &str) -> Result<(), FlightError> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let command = CommandStatementIngest {
        table: table.into(),
        temporary: true,
        table_definition_options: Some(arrow_flight::sql::TableDefinitionOptions {
            if_not_exist: arrow_flight::sql::TableNotExistOption::Create as i32,
            if_exists: arrow_flight::sql::TableExistsOption::Replace as i32,
        }),
        ..CommandStatementIngest::default()
    };
    let rows = client
        .execute_ingest(command, stream::iter([Ok(batch)]))
        .await?;
    assert_eq!(rows, 10_000);
    Ok(())
}

async fn prepared(client: &mut Client) -> Result<(), FlightError> {
    let sql = "SELECT $1::BIGINT * 2".to_string();
    let mut prepared = client.prepare(sql, None).await?;
    let number: ArrayRef = Arc::new(Int64Array::from(vec![21]));
    prepared.set_parameters(RecordBatch::try_from_iter([("p", number)]).unwrap())?;
    let info = prepared.execute().await?;
    let rows = fetch(client, info).await?;
    assert_eq!(crate::support::lines(&rows), ["42"]);
    // Whether it is closed is left to chance: the session's end closes it too.
    Ok(())
}

async fn cancelled(client: &mut Client) -> Result<(), FlightError> {
    let info = client.execute(ENDLESS.into(), None).await?;
    let mut other = client.clone();
    let request = CancelFlightInfoRequest::new(info.clone());
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let action = Action::new("CancelFlightInfo", request.encode_to_vec());
        other.do_action(action).await
    };
    let (fetched, cancel) = tokio::join!(fetch(client, info), cancel);
    assert!(fetched.is_err());
    cancel?;
    fetched.map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_clients_leave_nothing() {
    let seconds = std::env::var("TIDEGATE_SOAK_SECONDS");
    let seconds: u64 = seconds.map_or(4, |text| text.parse().unwrap());
    let server = limited(4, 40).await;
    let memory = Arc::clone(&server.session.context().runtime_env().memory_pool);
    let end = Instant::now() + Duration::from_secs(seconds);
    let done = AtomicU64::new(0);
    let clients = (0..CLIENTS).map(async |number| {
        let mut random = StdRng::seed_from_u64(number);
        let table = format!("t{number}");
        while Instant::now() < end {
            let mut client = server.client().await;
            for _ in 0..random.random_range(1..8) {
                let step = once(&mut client, &mut random, &table);
                let step = tokio::time::timeout(Duration::from_secs(60), step).await;
                step.unwrap_or_else(|_| panic!("client {number} hangs"));
                done.fetch_add(1, Ordering::Relaxed);
            }
            // Dropped as it is: the line is cut.
        }
    });
    join_all(clients).await;
    assert!(done.load(Ordering::Relaxed) > CLIENTS);
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    eventually("the sessions end", async || {
        server.watch.num_sessions() == 0
    })
    .await;
    eventually("the memory is back", async || memory.reserved() == 0).await;
    assert!(server.session.client_sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_clients_share_eight_turns() {
    let server = limited(8, 64).await;
    let memory = Arc::clone(&server.session.context().runtime_env().memory_pool);
    let (served, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let clients = (0..200).map(async |_| {
        let client = &mut server.client().await;
        for _ in 0..3 {
            let sql = "SELECT value % 100 AS k, sum(value) FROM generate_series(1, 100000) \
                       GROUP BY 1 ORDER BY 1 LIMIT 1";
            let asked = tokio::time::timeout(Duration::from_secs(60), query(client, sql)).await;
            match asked.expect("nobody hangs") {
                Ok(rows) => {
                    assert_eq!(crate::support::lines(&rows), ["0|50050000"]);
                    served.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    let status = status_of(error);
                    assert_eq!(status.code(), Code::Unavailable, "{status}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
            assert!(memory.reserved() <= 256 << 20);
        }
    });
    join_all(clients).await;
    let (served, refused) = (served.into_inner(), refused.into_inner());
    assert_eq!(served + refused, 600);
    assert!(served >= 72, "{served} were served, {refused} were refused");
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    eventually("the memory is back", async || memory.reserved() == 0).await;
}
