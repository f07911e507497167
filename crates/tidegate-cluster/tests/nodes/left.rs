//! Executors whose scheduler is gone.

use std::time::{Duration, Instant};

use crate::nodes::Nodes;

/// Waits for a state that comes soon, but on a busy machine.
async fn wait(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Statements that would run for hours: groups belong to a stream, the table of a join to the plan.
const ENDLESS: [&str; 2] = [
    "SELECT i % 1000, count(*), sum(x) FROM random_normal([500000, 500000]) GROUP BY 1",
    "SELECT count(*) FROM random_normal([500000, 500000]) a JOIN tpch('orders', 0.05) b ON a.i = o_orderkey",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_of_a_dead_scheduler_hold_nothing() {
    for sql in ENDLESS {
        let mut nodes = Nodes::start(2).await;
        let session = nodes.session.clone();
        let statement = tokio::spawn(async move { session.collect(sql).await });
        wait("the executors hold nothing", || {
            nodes.held().iter().all(|held| *held > 0)
        })
        .await;
        nodes.kill_scheduler();
        wait("the executors still hold memory", || nodes.held() == [0, 0]).await;
        statement.abort();
    }
}
