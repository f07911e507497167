//! Executors whose scheduler is gone.

use std::time::{Duration, Instant};

use crate::nodes::{Nodes, builder, files};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_of_two_schedulers_stay_with_the_one_that_lives() {
    let second = Nodes::alone().await;
    let mut first = Nodes::alone().await;
    first.others.push(second.url.clone());
    for name in ["e1", "e2"] {
        first.add(name, builder()).await;
    }
    first.ready(2).await;
    second.ready(2).await;
    let folder = files(&first.session).await;
    let grouped = format!(
        "SELECT k, count(*), sum(v) FROM '{}/*.parquet' GROUP BY k",
        folder.path().display()
    );
    for nodes in [&first, &second] {
        assert_eq!(nodes.rows(&grouped).await.len(), 100);
        // Each scheduler hears of its own tasks, soon after they have ended.
        let told =
            "SELECT DISTINCT executor FROM system.placements WHERE executor IS NOT NULL ORDER BY 1";
        let began = Instant::now();
        while nodes.rows(told).await != ["e1", "e2"] {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "nothing was told"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let session = first.session.clone();
    let statement = tokio::spawn(async move { session.collect(ENDLESS[0]).await });
    wait("the statement runs", || {
        first.held().iter().all(|held| *held > 0)
    })
    .await;
    first.kill_scheduler();
    wait("the executors still hold memory", || first.held() == [0, 0]).await;
    statement.abort();
    assert_eq!(second.num_ready(), 2);
    assert_eq!(second.rows(&grouped).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_cannot_spill_is_left_out() {
    let mut nodes = Nodes::alone().await;
    let small = || builder().memory_limit(80 << 20);
    nodes.add("e1", small().temp_limit(1)).await;
    nodes.add("e2", small()).await;
    nodes.ready(2).await;
    let sorted = "SELECT sum(i % 1000 * place) FROM (SELECT i, row_number() OVER (ORDER BY x, i) AS place \
                  FROM random_normal([4000000]))";
    let spread = nodes.rows(sorted).await;
    let lost =
        "SELECT DISTINCT executor, state FROM system.tasks WHERE state <> 'done' ORDER BY 1, 2";
    assert_eq!(nodes.rows(lost).await, ["e1|lost"]);
    // Other statements use it.
    assert_eq!(nodes.num_ready(), 2);
    nodes.session.set("tidegate.spread", "never").await.unwrap();
    assert_eq!(spread, nodes.rows(sorted).await);
}
