//! While one client's statement does its worst, another client has its answers.

use std::time::{Duration, Instant};

use tidegate_flight::ServerOptions;

use crate::support::{Client, answer, options, query, session, start_with};

/// How long `SELECT 1` of another client may take: a tenth of a second, and without optimization ten.
const DELAY_MAX: Duration = match cfg!(debug_assertions) {
    true => Duration::from_secs(1),
    false => Duration::from_millis(100),
};

/// How long each statement is watched.
const WATCHED: Duration = Duration::from_secs(2);

/// Returns statements that take all that they are given: time to plan, to run without yielding, or memory.
fn statements() -> Vec<String> {
    let list = |number: i32, item: &dyn Fn(i32) -> String| {
        (0..number).map(item).collect::<Vec<_>>().join(", ")
    };
    let doubled = list(40, &|level| {
        let from = format!("w{level} a CROSS JOIN w{level} b");
        format!("w{} AS (SELECT a.a FROM {from})", level + 1)
    });
    let mut all = vec![
        format!("WITH w0 AS (SELECT 1 AS a), {doubled} SELECT count(*) FROM w40"),
        format!(
            "SELECT {}",
            list(16_000, &|column| format!("value + {column} AS c{column}")) + " FROM range(2)"
        ),
        format!(
            "SELECT count(*) FROM range(2) GROUP BY CUBE ({})",
            list(14, &|key| format!("value + {key}"))
        ),
        format!(
            "SELECT count(*) FROM range(10) WHERE value IN ({})",
            list(60_000, &|value| value.to_string())
        ),
    ];
    all.extend(
        [
            "SELECT count(*) FROM range(3000000) a, range(3000000) b",
            "SELECT count(*) FROM range(300000) a JOIN range(300000) b ON a.value * b.value % 7 > 8",
            "SELECT count(*) FROM range(300000) a JOIN range(300000) b ON a.value > b.value",
            "SELECT count(*) FROM (SELECT unnest(range(0, 200)) FROM range(10000000))",
            "SELECT repeat('x', 500000000)",
            "SELECT length(repeat(repeat('x', 100000), 10000))",
            "SELECT cardinality(array_resize([1], 300000000))",
            "SELECT count(DISTINCT repeat('x', 50) || value) FROM range(10000000)",
            "SELECT max(s) FROM (SELECT sum(value) OVER (ORDER BY value ROWS BETWEEN 5000 PRECEDING AND \
             5000 FOLLOWING) AS s FROM range(3000000))",
            "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 100000000) \
             SELECT max(a) FROM r",
            "SELECT sum(levenshtein(repeat('x', 300) || value, repeat('y', 300) || value)) FROM range(8000)",
        ]
        .map(String::from),
    );
    all
}

/// Asks again and again for as long as a statement is watched; returns how long the slowest answer took.
async fn slowest(client: &mut Client) -> Duration {
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < WATCHED {
        let asked = Instant::now();
        assert_eq!(answer(client, "SELECT 1").await, ["1"]);
        slowest = slowest.max(asked.elapsed());
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_delays_another_client() {
    let mut limits = options().limits;
    limits.statement_timeout = Some(Duration::from_secs(3));
    let server = start_with(
        session(&[]),
        ServerOptions {
            limits,
            ..options()
        },
    )
    .await;
    let mut other = server.client().await;
    answer(&mut other, "SELECT 1").await;
    let mut delayed = Vec::new();
    for sql in statements() {
        let mut client = server.client().await;
        let text = sql.clone();
        // Whether it has an answer does not matter here.
        let task = tokio::spawn(async move { query(&mut client, &text).await.is_ok() });
        let slowest = slowest(&mut other).await;
        if slowest > DELAY_MAX {
            delayed.push(format!("{slowest:?}: {}", &sql[..sql.len().min(100)]));
        }
        task.abort();
    }
    assert!(delayed.is_empty(), "{}", delayed.join("\n"));
}
