//! Joins that make no row, or many of one, are stopped as any other statement is.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tidegate::{CancelHandle, ErrorKind, Session};

/// Each takes a thread for minutes without asking its sources for more.
const JOINS: [&str; 4] = [
    "SELECT count(*) FROM range(3000000) a, range(3000000) b",
    "SELECT count(*) FROM range(300000) a JOIN range(300000) b ON a.value * b.value % 7 > 8",
    "SELECT count(*) FROM range(300000) a LEFT JOIN range(300000) b ON a.value + b.value < 0",
    "SELECT count(*) FROM range(300000) a JOIN range(300000) b ON a.value > b.value",
];

/// How long a stopped statement may go on: some batches, on a busy machine and without optimization.
const SOON: Duration = Duration::from_secs(4);

fn session() -> Session {
    let builder = Session::builder().visible_devices(Some(String::new()));
    builder.target_partitions(2).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joins_end_when_their_time_is_over() {
    let session = session();
    session
        .set("tidegate.statement_timeout", "300ms")
        .await
        .unwrap();
    for sql in JOINS {
        let began = Instant::now();
        let error = session.collect(sql).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{sql}: {error}");
        assert!(began.elapsed() < SOON, "{sql}: {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joins_end_when_they_are_cancelled() {
    let session = session();
    for sql in JOINS {
        let cancel = CancelHandle::new();
        let stop = cancel.clone();
        let stopping = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            stop.cancel();
        });
        let began = Instant::now();
        let planned = session.plan(sql).await.unwrap();
        let mut rows = planned.start(&cancel).await.unwrap();
        let error = rows.next().await.unwrap().unwrap_err();
        assert_eq!(
            tidegate::Error::from(error).kind(),
            ErrorKind::Cancelled,
            "{sql}"
        );
        assert!(began.elapsed() < SOON, "{sql}: {:?}", began.elapsed());
        stopping.await.unwrap();
    }
}

#[tokio::test]
async fn cubes_of_many_keys_are_refused_before_they_are_made() {
    let session = session();
    let keys = |number: i32| (0..number).map(|key| format!("value + {key}"));
    let cube = |number| keys(number).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT count(*) FROM range(2) GROUP BY CUBE ({})", cube(8));
    assert_eq!(
        session
            .collect(&sql)
            .await
            .unwrap()
            .iter()
            .map(|b| b.num_rows())
            .sum::<usize>(),
        511
    );
    let began = Instant::now();
    let sql = format!("SELECT count(*) FROM range(2) GROUP BY CUBE ({})", cube(20));
    let error = session.collect(&sql).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{error}");
    // Several of them DataFusion bounds itself.
    let (ten, eleven) = (cube(10), cube(11));
    let sql = format!("SELECT count(*) FROM range(2) GROUP BY CUBE ({ten}), CUBE ({eleven})");
    session.collect(&sql).await.unwrap_err();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_different_windows_are_refused_before_they_are_planned() {
    let session = session();
    let over = |number: i32, order: &dyn Fn(i32) -> String| {
        let calls = (0..number).map(|n| format!("sum(value) OVER (ORDER BY {}) AS c{n}", order(n)));
        format!(
            "SELECT {} FROM range(2)",
            calls.collect::<Vec<_>>().join(", ")
        )
    };
    let began = Instant::now();
    let error = session
        .collect(&over(1000, &|n| format!("value + {n}")))
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{error}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // One window for all of them is no trouble.
    session
        .collect(&over(300, &|_| "value".to_string()))
        .await
        .unwrap();
}

/// Each join that yields takes a unit of its task's 128 before it asks the next: more of them than that would never
/// get to their rows.
#[tokio::test(flavor = "multi_thread")]
async fn more_joins_than_a_poll_has_units_have_an_answer() {
    let session = session();
    let values = |number: usize| format!("(VALUES (1)) t{number}(a)");
    let mut sql = format!("SELECT count(*) FROM {}", values(0));
    for number in 1..150 {
        sql += &format!(" JOIN {} ON t0.a = t{number}.a", values(number));
    }
    let rows = tokio::time::timeout(Duration::from_secs(300), session.collect(&sql));
    let rows = rows.await.expect("it ends").unwrap();
    assert_eq!(rows[0].num_rows(), 1);
}
