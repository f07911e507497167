//! What clients keep is bounded: memory, sessions, results.

use std::time::Duration;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use tidegate_flight::{Limits, ServerOptions};
use tonic::Code;

use crate::login::users;
use crate::support::{
    Client, Running, answer, eventually, failure, fetch, options, session, start, start_with,
    status_of,
};

const ROWS: &str = "SELECT value AS a, value * 2 AS b FROM generate_series(1, 1000000)";

fn reserved(server: &Running) -> usize {
    let environment = server.session.context().runtime_env();
    environment.memory_pool.reserved()
}

async fn exhausted(client: &mut Client, sql: &str) {
    let (code, message) = failure(client, sql).await;
    assert_eq!(code, Code::ResourceExhausted, "{sql}: {message}");
    assert!(
        message.contains("tidegate.memory_limit"),
        "{sql}: {message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_in_memory_count_against_the_limit() {
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, &format!("CREATE TABLE t AS {ROWS}")).await;
    let of_one = reserved(&server);
    assert!((16_000_000..20_000_000).contains(&of_one), "{of_one}");
    answer(client, &format!("INSERT INTO t {ROWS}")).await;
    let of_two = reserved(&server);
    assert!(
        (2 * of_one - 1000..2 * of_one + 1_000_000).contains(&of_two),
        "{of_two}"
    );
    // What does not fit leaves everything as it was: 256 MB hold fifteen of them.
    let many = ROWS.replace("1000000)", "20000000)");
    exhausted(client, &format!("CREATE TABLE large AS {many}")).await;
    assert!(
        failure(client, "SELECT * FROM large")
            .await
            .1
            .contains("large")
    );
    exhausted(client, &format!("CREATE OR REPLACE TABLE t AS {many}")).await;
    exhausted(client, &format!("INSERT INTO t {many}")).await;
    assert_eq!(
        answer(client, "SELECT count(*), sum(b) FROM t").await,
        ["2000000|2000002000000"]
    );
    assert_eq!(reserved(&server), of_two);
    answer(client, "DELETE FROM t WHERE a > 0").await;
    assert!(reserved(&server) < of_one, "{}", reserved(&server));
    answer(client, &format!("CREATE OR REPLACE TABLE t AS {ROWS}")).await;
    assert_eq!(answer(client, "SELECT count(*) FROM t").await, ["1000000"]);
    let told = "SELECT used_bytes > 16000000 FROM system.memory \
                WHERE consumer = 'statements: tables in memory'";
    assert_eq!(answer(client, told).await, ["true"]);
    answer(client, "DROP TABLE t").await;
    eventually("the memory is back", async || reserved(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_as_before() {
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, "CREATE TABLE t AS VALUES (1, 'x'), (NULL, NULL)").await;
    assert!(
        failure(client, "CREATE TABLE t AS VALUES (1)")
            .await
            .1
            .contains("exists")
    );
    answer(client, "CREATE TABLE IF NOT EXISTS t AS VALUES (1)").await;
    assert_eq!(
        answer(client, "SELECT * FROM t ORDER BY 1").await,
        ["1|x", "|"]
    );
    answer(
        client,
        "CREATE TABLE u AS SELECT * FROM (VALUES (1)) AS x(a), (VALUES (2)) AS y(a)",
    )
    .await;
    assert_eq!(answer(client, "SELECT a_1, a FROM u").await, ["2|1"]);
    answer(client, "CREATE TABLE e (a INT, b TEXT DEFAULT 'd')").await;
    assert!(answer(client, "SELECT * FROM e").await.is_empty());
    answer(client, "INSERT INTO e (a) VALUES (7)").await;
    assert_eq!(answer(client, "SELECT * FROM e").await, ["7|d"]);
    answer(client, "UPDATE e SET b = 'longer' WHERE a = 7").await;
    assert_eq!(answer(client, "SELECT b FROM e").await, ["longer"]);
    answer(client, "CREATE TABLE temp.mine AS SELECT * FROM e").await;
    assert_eq!(answer(client, "SELECT a FROM temp.mine").await, ["7"]);
    let failing = "CREATE TABLE f AS SELECT 1 / (value - 1) AS q FROM generate_series(1, 10)";
    assert!(
        failure(client, failing)
            .await
            .1
            .contains("division by zero")
    );
    assert!(failure(client, "SELECT * FROM f").await.1.contains("'f'"));
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_count_against_the_limit() {
    let server = start().await;
    let client = &mut server.client().await;
    let before = reserved(&server);
    let text = "x".repeat(500_000);
    let mut prepared = client
        .prepare(format!("SELECT '{text}', $1::TEXT"), None)
        .await
        .unwrap();
    assert!(reserved(&server) >= before + 500_000);
    let parameter: arrow::array::ArrayRef =
        std::sync::Arc::new(arrow::array::StringArray::from(vec![text.as_str()]));
    let row = RecordBatch::try_from_iter([("p", parameter)]).unwrap();
    prepared.set_parameters(row).unwrap();
    let info = prepared.execute().await.unwrap();
    assert!(reserved(&server) >= before + 1_000_000);
    assert_eq!(fetch(client, info).await.unwrap()[0].num_rows(), 1);
    prepared.close().await.unwrap();
    eventually("the memory is back", async || reserved(&server) == before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_takes_not_all_sessions() {
    let server = start_with(
        session(&[]),
        ServerOptions {
            users: Some(users()),
            limits: Limits {
                sessions_per_user: 2,
                ..Limits::default()
            },
            ..options()
        },
    )
    .await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut client = server.client().await;
        client.handshake("ada", "one").await.unwrap();
        open.push(client);
    }
    let mut third = server.client().await;
    let refused = third.handshake("ada", "one").await.unwrap_err().to_string();
    assert!(refused.contains("'ada' has 2 sessions"), "{refused}");
    third.handshake("bob", "two").await.unwrap();
    assert_eq!(answer(&mut third, "SELECT 1").await, ["1"]);
    let close = arrow_flight::Action::new("CloseSession", vec![]);
    open[0].do_action(close).await.unwrap();
    let mut again = server.client().await;
    again.handshake("ada", "one").await.unwrap();
}

/// Leaves results, and fetches one after the other until one is forgotten; returns what is said of it.
async fn forgotten(client: &mut Client) -> tonic::Status {
    let mut left = Vec::new();
    for _ in 0..500 {
        left.push(client.execute("SELECT 2".into(), None).await.unwrap());
    }
    let mut refused = None;
    eventually("a result is forgotten", async || {
        let next = left.pop().unwrap();
        refused = fetch(client, next).await.err().map(status_of);
        refused.is_some()
    })
    .await;
    refused.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_nobody_fetches_are_forgotten() {
    let server = start_with(
        session(&[]),
        ServerOptions {
            limits: Limits {
                result_idle: Duration::from_millis(200),
                sweep: Duration::from_millis(50),
                ..Limits::default()
            },
            ..options()
        },
    )
    .await;
    let client = &mut server.client().await;
    let at_once = client.execute("SELECT 1".into(), None).await.unwrap();
    assert_eq!(fetch(client, at_once).await.unwrap()[0].num_rows(), 1);
    let error = forgotten(client).await;
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("left for too long"), "{error}");
    // What is being fetched stays.
    let slow = "SELECT value FROM generate_series(1, 3000000)";
    let info = client.execute(slow.into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    let mut num_rows = rows.try_next().await.unwrap().unwrap().num_rows();
    forgotten(client).await;
    while let Some(batch) = rows.try_next().await.unwrap() {
        num_rows += batch.num_rows();
    }
    assert_eq!(num_rows, 3_000_000);
}
