//! Statements wait at one gate, have a part of the memory, and end in time.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tidegate::{CancelHandle, ErrorKind, Session};

use crate::support::{answer, host_only, simulated};

/// Runs for minutes unless it is stopped.
const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 100000000000) AS t(v) WHERE v % 7 = 3";

/// A small part of what the statement would take, and enough for a build with debug assertions on a machine
/// that others use. How much less it is, the benchmarks tell.
const SOON: Duration = Duration::from_secs(3);

const SHORT: &str = "SELECT count(*) FROM generate_series(1, 10) AS t(v)";

async fn set(session: &Session, settings: &[&str]) {
    for setting in settings {
        let set = format!("SET tidegate.{setting}");
        session.collect(&set).await.unwrap();
    }
}

/// Waits for something to become true, for some seconds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_wait_in_one_line_and_looking_does_not_wait() {
    let session = host_only();
    set(
        &session,
        &[
            "max_running_queries = 1",
            "max_waiting_queries = 1",
            "queue_timeout = '200ms'",
        ],
    )
    .await;
    let other = Session::builder()
        .runtime(session.runtime().clone())
        .build()
        .unwrap();
    let gate = session.runtime().admission().clone();
    let mut endless = session.execute(ENDLESS).await.unwrap();
    let running = tokio::spawn(async move { endless.next().await });
    until("one runs", || gate.counts() == (1, 0)).await;
    // One may wait, for a while; one more is refused at once.
    let waits = tokio::spawn({
        let other = other.clone();
        async move { other.collect(SHORT).await }
    });
    until("one waits", || gate.counts() == (1, 1)).await;
    let refused = session.collect(SHORT).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourcesExhausted);
    assert!(
        refused.to_string().contains("tidegate.max_waiting_queries"),
        "{refused}"
    );
    let late = waits.await.unwrap().unwrap_err();
    assert!(
        late.to_string().contains("tidegate.queue_timeout"),
        "{late}"
    );
    // Who wonders why others wait can look, and stop what runs.
    let sql = "SELECT query_id FROM system.queries WHERE state = 'running' AND sql LIKE '%1000000%' \
               AND sql NOT LIKE '%system%'";
    let found = answer(&other, sql).await;
    let id = found
        .iter()
        .find_map(|line| line.trim_matches(['|', ' ']).parse::<u64>().ok());
    other
        .collect(&format!("KILL QUERY {}", id.unwrap()))
        .await
        .unwrap();
    let stopped = running.await.unwrap().unwrap().unwrap_err();
    assert!(stopped.to_string().contains("cancelled"), "{stopped}");
    until("nobody is left", || gate.counts() == (0, 0)).await;
    assert_eq!(other.collect(SHORT).await.unwrap()[0].num_rows(), 1);
    let waited = "SELECT max(admission_seconds) >= 0.2 AS waited FROM system.queries";
    assert!(answer(&other, waited).await.join("").contains("true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_priority_is_let_in_first() {
    let session = host_only();
    set(&session, &["max_running_queries = 1"]).await;
    let runtime = session.runtime();
    let gate = runtime.admission().clone();
    let endless = session.execute(ENDLESS).await.unwrap();
    let running = tokio::spawn(async move {
        let mut endless = endless;
        endless.next().await
    });
    until("one runs", || gate.counts().0 == 1).await;
    let order = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for (number, priority) in [0, -5, 7].into_iter().enumerate() {
        let other = Session::builder().runtime(runtime.clone()).build().unwrap();
        set(&other, &[&format!("priority = {priority}")]).await;
        let order = order.clone();
        waiting.push(tokio::spawn(async move {
            let mut rows = other.execute(SHORT).await.unwrap();
            rows.next().await.unwrap().unwrap();
            // Nobody else is let in as long as these rows are there.
            order.lock().push(priority);
        }));
        until("it waits", || gate.counts().1 == number + 1).await;
    }
    running.abort();
    for waits in waiting {
        waits.await.unwrap();
    }
    assert_eq!(*order.lock(), [7, 0, -5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_holds_no_more_than_its_part() {
    let session = host_only();
    let sql = "SELECT v % 1000000, count(*), min(v) FROM generate_series(1, 2000000) AS t(v) \
               GROUP BY v % 1000000";
    session.collect(sql).await.unwrap();
    let peak = session.last_report().unwrap().peak_bytes;
    assert!(peak > 10 << 20, "{peak}");
    set(&session, &["query_memory_limit = '1MB'"]).await;
    // An array of everything cannot be spilled, so the statement fails, and only it.
    let greedy = "SELECT array_agg(v) FROM generate_series(1, 2000000) AS t(v)";
    let refused = session.collect(greedy).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourcesExhausted, "{refused}");
    assert!(
        refused.to_string().contains("tidegate.query_memory_limit"),
        "{refused}"
    );
    assert_eq!(session.collect(SHORT).await.unwrap()[0].num_rows(), 1);
    set(&session, &["query_memory_limit = ''"]).await;
    assert_eq!(session.collect(greedy).await.unwrap()[0].num_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_stopped_ends_soon_and_gives_everything_back() {
    // Over its rows a device takes 100 s.
    let spec = "1GB,rows=2e6/s";
    let sql = "SELECT v1, id4, count(*), sum(v3) FROM h2o_g1(200000000, 10) GROUP BY v1, id4";
    for settings in [
        &[][..],
        &["placement = 'device'"],
        &["regions = 'additive'", "placement = 'device'"],
    ] {
        let session = simulated(spec, settings).await;
        let gate = session.runtime().admission().clone();
        let device = session.runtime().devices()[0].clone();
        let cancel = CancelHandle::default();
        let planned = session.plan(sql).await.unwrap();
        let mut rows = planned.start(&cancel).await.unwrap();
        let running = tokio::spawn(async move {
            let ended = rows.next().await;
            (ended, Instant::now())
        });
        until("it reads", || {
            let progress = session.progress();
            progress.is_some_and(|progress| progress.rows_read > 0)
        })
        .await;
        let told = Instant::now();
        cancel.cancel();
        let (ended, at) = running.await.unwrap();
        let error = ended.unwrap().unwrap_err();
        assert!(error.to_string().contains("cancelled"), "{error}");
        let took = at.saturating_duration_since(told);
        assert!(took < SOON, "{took:?}");
        until("the device's memory is back", || {
            device.budget().used() == 0
        })
        .await;
        until("nobody is in", || gate.counts() == (0, 0)).await;
        let reserved = || session.context().runtime_env().memory_pool.reserved();
        until("the host's memory is back", || reserved() == 0).await;
        // A timeout is no other way out.
        set(&session, &["statement_timeout = '150ms'"]).await;
        let asked = Instant::now();
        let error = session.collect(sql).await.unwrap_err();
        let took = asked.elapsed();
        assert!(took < SOON, "{took:?}");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(
            error.to_string().contains("tidegate.statement_timeout"),
            "{error}"
        );
        until("the device's memory is back", || {
            device.budget().used() == 0
        })
        .await;
        until("the host's memory is back", || reserved() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caching_a_table_waits_in_the_same_line() {
    let session = simulated(
        "1GB",
        &["max_running_queries = 1", "queue_timeout = '100ms'"],
    )
    .await;
    session
        .collect("CREATE TABLE t AS SELECT * FROM generate_series(1, 1000) AS s(v)")
        .await
        .unwrap();
    let gate = session.runtime().admission().clone();
    let mut endless = session.execute(ENDLESS).await.unwrap();
    let running = tokio::spawn(async move { endless.next().await.map(|_| ()) });
    until("one runs", || gate.counts().0 == 1).await;
    let caching = "CACHE TABLE t ON DEVICE";
    let error = session.collect(caching).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted);
    assert!(
        error.to_string().contains("tidegate.queue_timeout"),
        "{error}"
    );
    // What lets go of memory does not wait.
    let error = session.collect("UNCACHE TABLE t").await.unwrap_err();
    assert!(error.to_string().contains("is not cached"), "{error}");
    running.abort();
    until("nobody is left", || gate.counts() == (0, 0)).await;
    session.collect(caching).await.unwrap();
    assert_eq!(gate.counts(), (0, 0));
}
