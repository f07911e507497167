//! A row that raises gives one error, wherever it was computed.

use tidegate::{Error, ErrorKind, Session};

use crate::support::{host_only, sides, simulated};

const ROWS: &str = "CREATE TABLE t AS SELECT value AS v, value % 10 AS k, value - 40 AS z, \
    cast(value AS DECIMAL(9, 2)) AS d, 'x' || value AS s FROM generate_series(1, 100)";

/// Statements and what is raised. Where the text has a value, only one row raises: which of several
/// rows is named may differ from place to place.
const RAISING: [(&str, &str); 7] = [
    ("SELECT 1 / z FROM t", "division by zero"),
    ("SELECT k, sum(v % z) FROM t GROUP BY k", "division by zero"),
    (
        "SELECT count(*) FROM t WHERE d / z > 0.5 GROUP BY k",
        "division by zero",
    ),
    (
        "SELECT max(10 / (k - 3)) FROM t WHERE v > 50",
        "division by zero",
    ),
    (
        "SELECT sum(CAST(v + 100 AS TINYINT)) FROM t WHERE v = 91",
        "cannot cast value 191 to type TINYINT",
    ),
    (
        "SELECT k, max(CAST(d * 100 AS DECIMAL(5, 2))) FROM t WHERE v = 77 GROUP BY k",
        "7700.00 is too large to store in a DECIMAL of precision 5. Max is 999.99",
    ),
    (
        "SELECT (-9223372036854775807 - v) / (z + 38) FROM t WHERE v = 1",
        "arithmetic overflow: -9223372036854775808 / -1",
    ),
];

async fn raised(session: &Session, sql: &str) -> Error {
    match session.collect(sql).await {
        Ok(_) => panic!("{sql}: nothing is raised"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_has_one_text_and_one_kind_in_every_placement() {
    let device = ["placement = 'device'", "morsel_rows = 7"];
    let mixed = ["replay_placement = 'HD'", "morsel_rows = 7"];
    let sessions = [
        ("host", host_only()),
        ("device", simulated("1GB", &device).await),
        ("mixed", simulated("1GB", &mixed).await),
    ];
    for (_, session) in &sessions {
        session.collect(ROWS).await.unwrap();
    }
    for (sql, text) in RAISING {
        for (place, session) in &sessions {
            let error = raised(session, sql).await;
            assert_eq!(error.to_string(), text, "{place}: {sql}");
            assert_eq!(error.kind(), ErrorKind::Sql, "{place}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_placement_raises_on_the_device() {
    let session = simulated("1GB", &[]).await;
    session.collect(ROWS).await.unwrap();
    let strict = "SET tidegate.placement = 'strict'";
    session.collect(strict).await.unwrap();
    let error = raised(&session, "SELECT k, sum(v % z) FROM t GROUP BY k").await;
    let told = (error.kind(), error.to_string());
    assert_eq!(told, (ErrorKind::Sql, "division by zero".into()));
}

/// What a device had committed before stays, and each row counts once.
#[tokio::test(flavor = "multi_thread")]
async fn what_raises_is_computed_again_by_the_host() {
    let mixed = ["replay_placement = 'HD'", "morsel_rows = 7"];
    let session = simulated("1GB", &mixed).await;
    session.collect(ROWS).await.unwrap();
    raised(&session, "SELECT sum(v / (v - 11)) FROM t").await;
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let reasons: Vec<_> = places.flat_map(|place| &place.reasons).collect();
    let text = format!("{reasons:?}");
    assert!(
        text.contains("a row raised on the device: division by zero"),
        "{text}"
    );

    session
        .collect("SELECT sum(v / (v - 200)) FROM t")
        .await
        .unwrap();
    let ((_, host), (_, device)) = sides(&session);
    assert_eq!(host + device, 100);
}
