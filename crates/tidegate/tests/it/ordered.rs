//! `tidegate.float_sums = 'ordered'`: a device that can promise it answers all of a region, else sums are exact;
//! what has no exact form fails and says why.

use std::sync::Arc;

use datafusion::datasource::MemTable;
use tidegate::{ErrorKind, Session};
use tidegate_device::{DeviceId, SimulatedDevice};
use tidegate_kernels::SimulatedPipelineDevice;

use crate::support::{answer, host_only, rows, runtime_of, sides, simulated};
use crate::watched::Around;

const SUM: &str = "SELECT k, sum(v / 3.0), stddev(v) FROM t GROUP BY k";

/// Makes a session whose one device promises ordered sums, with a table.
async fn in_order(spec: &str) -> Session {
    let device = SimulatedDevice::new(DeviceId(0), spec.parse().unwrap()).unwrap();
    let device = Around::in_order(SimulatedPipelineDevice::new(device));
    let session = Session::builder().runtime(runtime_of(device));
    let session = session.build().unwrap();
    session.register_batch("t", rows(0, 6_000)).unwrap();
    ordered(&session).await;
    session
}

async fn ordered(session: &Session) {
    let set = "SET tidegate.float_sums = 'ordered'";
    session.collect(set).await.unwrap();
}

async fn error(session: &Session, sql: &str) -> (ErrorKind, String) {
    let error = session.collect(sql).await.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_can_answers_all_of_it() {
    let session = in_order("1GB").await;
    let host = host_only();
    host.register_batch("t", rows(0, 6_000)).unwrap();
    let count = "SELECT k, round(sum(v / 3.0)), round(stddev(v)) FROM t GROUP BY k";
    assert_eq!(answer(&session, count).await, answer(&host, count).await);
    assert_eq!(sides(&session), ((0, 0), (1, 6_000)));
    let explained = answer(&session, &format!("EXPLAIN {SUM}")).await.join("\n");
    assert!(explained.contains("float_sums=ordered"), "{explained}");
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(answer(&session, count).await, answer(&host, count).await);
    assert_eq!(sides(&session).0, (0, 0));
    // Without the promise the level is the other one.
    let any = "SET tidegate.float_sums = 'any'";
    session.collect(any).await.unwrap();
    let explained = answer(&session, &format!("EXPLAIN {SUM}")).await.join("\n");
    assert!(explained.contains("float_sums=unordered"), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_keep_the_promise() {
    let session = in_order("1GB").await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let prepared = "SELECT sum(v / 3.0) FROM t WHERE v > $1";
    let prepared = session.prepare(prepared).await.unwrap();
    prepared.collect(&[3_i64.into()]).await.unwrap();
    let report = session.last_report().unwrap();
    assert_eq!(report.regions[0].float_sums, Some("ordered"));
    assert_eq!(sides(&session).0, (0, 0), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_fails_is_not_replaced_by_the_host() {
    for fault in ["fail", "lost"] {
        let session = in_order(&format!("1GB,faults=launch:1={fault}")).await;
        let (kind, message) = error(&session, SUM).await;
        assert_eq!(kind, ErrorKind::Device, "{message}");
        for part in [
            "tidegate.float_sums = 'ordered'",
            "SET tidegate.float_sums = 'any'",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}

/// Sums whose last bits depend on the order of rows, which differs with the number of partitions.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_such_device_adds_exactly() {
    let sql = "SELECT k % 3 AS g, sum(v * 0.1), avg(v * 1e10 / 3.0), var_pop(v * 0.1), corr(v / 7.0, k), \
               regr_slope(v / 7.0, k), sum(v / 3.0) FILTER (WHERE k > 2) FROM t GROUP BY 1";
    let over_groups = "SELECT avg(s) FROM (SELECT k, sum(v / 3.0) AS s FROM t GROUP BY k)";
    let mut answers = Vec::new();
    let device = ["placement = 'device'"];
    for (settings, partitions) in [(&[][..], 1), (&[][..], 5), (&device, 3)] {
        let session = match settings {
            [] => host_only(),
            settings => simulated("1GB", settings).await,
        };
        let batch = rows(0, 6_000);
        // The same rows in another order.
        let (first, rest) = (
            batch.slice(0, 1_000 * partitions),
            batch.slice(1_000 * partitions, 6_000 - 1_000 * partitions),
        );
        let batches = vec![vec![rest], vec![first]];
        let table = MemTable::try_new(batch.schema(), batches).unwrap();
        session
            .context()
            .register_table("t", Arc::new(table))
            .unwrap();
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        session.collect(&set).await.unwrap();
        ordered(&session).await;
        answers.push((
            answer(&session, sql).await,
            answer(&session, over_groups).await,
        ));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    assert_eq!(answers[0].0.len(), 5, "{:?}", answers[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_exact_form_says_why() {
    let check = async |session: &Session, sql: &str, parts: &[&str]| {
        let (kind, message) = error(session, sql).await;
        assert_eq!(kind, ErrorKind::NotSupported, "{message}");
        for part in [
            "float_sums = 'ordered'",
            "no exact form",
            "cast its argument",
        ]
        .iter()
        .chain(parts)
        {
            assert!(message.contains(part), "{part}: {message}");
        }
    };
    let gram = "SELECT gram(v, k) FROM t";
    let host = host_only();
    host.register_batch("t", rows(0, 6_000)).unwrap();
    ordered(&host).await;
    check(&host, gram, &["gram(", "looked for"]).await;
    for function in [
        "skewness",
        "kurtosis",
        "product",
        "entropy",
        "approx_median",
    ] {
        let sql = format!("SELECT {function}(v / 3.0) FROM t");
        check(&host, &sql, &[function]).await;
    }
    for (setting, part) in [
        ("placement = 'host'", "tidegate.placement = 'host'"),
        ("regions = 'additive'", "tidegate.regions = 'additive'"),
    ] {
        let session = in_order("1GB").await;
        let set = format!("SET tidegate.{setting}");
        session.collect(&set).await.unwrap();
        check(&session, gram, &[part]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_round_runs_anywhere() {
    let host = host_only();
    host.register_batch("t", rows(0, 6_000)).unwrap();
    let sql = "SELECT k, sum(v), max(v / 3.0), sum(cast(v + 1 AS DECIMAL(9, 2))) FROM t GROUP BY k";
    let expected = answer(&host, sql).await;
    ordered(&host).await;
    assert_eq!(answer(&host, sql).await, expected);
}
