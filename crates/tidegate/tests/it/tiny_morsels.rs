//! Rows that were shared morsel by morsel leave their region in batches that others can work with.

use tidegate::Session;

use crate::support::{answer, host_only, simulated};

const ROWS: &str = "CREATE TABLE t AS SELECT value AS v, 'a text that is longer than a view ' || value AS s \
    FROM generate_series(1, 60000)";

/// Returns how many times a statement spilled.
async fn spills(session: &Session, sql: &str) -> u64 {
    let plan = answer(session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let counts = plan
        .iter()
        .flat_map(|line| line.split("spill_count=").skip(1));
    let number = |rest: &str| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap()
    };
    counts.map(number).sum()
}

/// Each slice of a batch was counted as the whole batch, so that a sort spilled after a few, into a
/// file that stays open: "Too many open files".
#[tokio::test(flavor = "multi_thread")]
async fn a_sort_over_tiny_morsels_spills_no_more_than_over_large_ones() {
    let sql = "SELECT v + 1 AS w, s FROM t ORDER BY s, w";
    let count = "SELECT count(*), min(w), max(w), max(r) FROM \
        (SELECT v + 1 AS w, row_number() OVER (ORDER BY s, v) AS r FROM t)";
    let tiny = ["replay_placement = 'HD'", "morsel_rows = 5"];
    let session = simulated("1GB", &tiny).await;
    let host = host_only();
    for session in [&session, &host] {
        session.collect(ROWS).await.unwrap();
        session
            .collect("SET tidegate.memory_limit = '64MB'")
            .await
            .unwrap();
    }
    assert_eq!(answer(&session, count).await, answer(&host, count).await);
    let spills = spills(&session, sql).await;
    assert!(spills <= 8, "{spills} spills");
}
