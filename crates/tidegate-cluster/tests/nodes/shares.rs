//! Who reads what: the same again, and more of it where it goes faster.

use std::time::{Duration, Instant};

use crate::nodes::{Nodes, builder, files};

/// Chunks that the executors looked for on their hosts, and found.
fn looked(nodes: &Nodes) -> (u64, u64) {
    let activity = nodes.sessions.iter().map(tidegate::Session::cache_activity);
    activity.fold((0, 0), |(looked, found), activity| {
        let hits = activity.host_hits;
        (looked + hits + activity.host_misses, found + hits)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_columns_are_found_again() {
    let nodes = Nodes::start(4).await;
    let folder = files(&nodes.session).await;
    let sql = format!(
        "SELECT k, count(*), sum(v) FROM '{}/*.parquet' GROUP BY k ORDER BY k",
        folder.path().display()
    );
    let expected = nodes.rows(&sql).await;
    let (chunks, _) = looked(&nodes);
    assert!(chunks > 20, "{chunks}");
    assert_eq!(nodes.rows(&sql).await, expected);
    let (after, found) = looked(&nodes);
    assert_eq!((after - chunks, found), (chunks, chunks), "all of them");
    // Of an executor that leaves, its own part is read anew, and little else.
    nodes.session.drain("e3").unwrap();
    nodes.ready(3).await;
    let (_, before) = looked(&nodes);
    assert_eq!(nodes.rows(&sql).await, expected);
    let (_, found) = looked(&nodes);
    assert!(
        (found - before) * 20 >= chunks * 11,
        "{} of {chunks}",
        found - before
    );
    assert_eq!(
        nodes.session.drain("e7").unwrap_err().kind(),
        tidegate::ErrorKind::NotFound
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_shares_and_speeds_are_learned() {
    let mut nodes = Nodes::start(2).await;
    let sql = "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM tpch('lineitem', 0.2) \
               GROUP BY 1, 2";
    let explained = nodes.explained(sql).await;
    for share in ["% on e1, ", "% on e2, "] {
        assert!(explained.contains(share), "{explained}");
    }
    nodes.rows(sql).await;
    let known = "SELECT count(*) FROM system.executors WHERE speed > 0";
    let began = Instant::now();
    while nodes.rows(known).await != ["2"] {
        assert!(began.elapsed() < Duration::from_secs(60), "no speeds");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // One that joins has a share at once.
    nodes.add("e3", builder()).await;
    nodes.ready(3).await;
    let alone = builder().build().unwrap();
    nodes.same(&alone, sql).await;
    let explained = nodes.explained(sql).await;
    assert!(explained.contains("% on e3, "), "{explained}");
    assert!(!explained.contains("ShareExec: 0 %"), "{explained}");
}
