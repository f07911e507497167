//! Many queries that together want more memory than there is: each ends by itself, and the process
//! lives. `cargo run --example pressure` is the same at full size.

use std::sync::Arc;

use tidegate::{ErrorKind, Session};
use tokio::sync::Barrier;

use crate::support::answer;

const QUERIES: usize = 20;

/// Writes the query of a number: one that can spill (a group-by, a sort) or one that cannot (a join).
fn query(number: usize) -> String {
    let first = 1 + number * 1000;
    let last = first + 299_999;
    let series = format!("generate_series({first}, {last})");
    match number % 3 {
        0 => format!(
            "SELECT count(*), sum(n), min(k), max(k) FROM \
             (SELECT v AS k, count(*) AS n FROM {series} AS t(v) GROUP BY v)"
        ),
        1 => format!(
            "SELECT count(*), count(r), min(v), max(v) FROM (SELECT v, row_number() OVER \
             (ORDER BY md5(cast(v AS varchar))) AS r FROM {series} AS t(v))"
        ),
        _ => format!(
            "SELECT count(*), count(b.v), min(a.v), max(b.v) FROM {series} AS a(v) \
             JOIN {series} AS b(v) ON a.v * 3 = b.v * 3"
        ),
    }
}

fn session(limit: u64) -> Session {
    Session::builder()
        .memory_limit(limit)
        .target_partitions(2)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_twenty_queries_finishes_or_fails_alone() {
    // One after the other and with room for all of them: what they want together.
    let roomy = session(4 << 30);
    let mut expected = Vec::new();
    let mut wanted = 0;
    for number in 0..QUERIES {
        expected.push(answer(&roomy, &query(number)).await);
        let report = roomy.last_report().unwrap();
        assert!(report.peak_bytes > 1 << 20, "query {number}: {report:?}");
        wanted += report.peak_bytes;
    }

    let tight = session(wanted * 2 / 3);
    let together = Arc::new(Barrier::new(QUERIES));
    let running: Vec<_> = (0..QUERIES)
        .map(|number| {
            let (session, together) = (tight.clone(), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait().await;
                session.collect(&query(number)).await
            })
        })
        .collect();
    let mut finished = 0;
    for (number, running) in running.into_iter().enumerate() {
        match running.await.unwrap() {
            Ok(batches) => {
                finished += 1;
                assert_eq!(crate::support::lines(&batches), expected[number]);
            }
            Err(error) => {
                let message = error.to_string();
                assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{message}");
                // By what they said that they hold, or by what the process really takes.
                let names = ["top memory consumers", "most is held by"];
                let named = names.iter().any(|part| message.contains(part));
                assert!(named, "query {number}: {message}");
                assert!(message.contains("tidegate.memory_limit"), "{message}");
            }
        }
    }
    assert!(finished > 0, "none of them finished");
    // Every byte came back, and whoever failed may try again.
    let pool = &tight.context().runtime_env().memory_pool;
    assert_eq!(pool.reserved(), 0);
    for number in [0, 1, 2] {
        assert_eq!(answer(&tight, &query(number)).await, expected[number]);
    }
}
