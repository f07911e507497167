//! Arrays that devices make: what ran where, what was moved, and that the answers are the host's.

use datafusion::arrow::array::{Array as _, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::functions_aggregate::expr_fn::{array_agg, sum};
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::col;
use tidegate::generate::{Array, ArraySource, Values};
use tidegate::tensors::{elements, tensor};
use tidegate::{Session, SimulatedSpec};

use crate::support::{answer, host_only, lines, sides, simulated};

/// 240 chunks, of which a slice has every second index of both dimensions.
const SLICE: &str = "SELECT count(*), sum(x), min(x), max(x), sum(i), max(j) \
    FROM random_integers([600, 400], -1000, 1000, chunks => [50, 20], seed => 42) \
    WHERE i % 2 = 0 AND j % 2 = 0";

/// Shapes of queries over arrays whose answers do not round.
const QUERIES: [&str; 7] = [
    SLICE,
    "SELECT i, count(*), max(x), min(x) FROM random_normal([300, 70], 10, 1, chunks => [7, 70], seed => 3) \
     WHERE j BETWEEN 3 AND 40 GROUP BY i",
    "SELECT j % 3, count(*), sum(x) FROM arange(5, 5000, step => 7, chunks => 100) AS t(j, x) \
     WHERE x > 300 GROUP BY j % 3",
    "SELECT sum(x) FROM ones([80, 80, 8], chunks => 8) WHERE k = 3 AND i >= 7",
    "SELECT count(*) FROM random_uniform([500, 500], chunks => [100, 100]) WHERE x < 0.25",
    "SELECT count(*) FROM random_uniform([500, 500], chunks => [100, 100]) WHERE i + j < 700",
    "SELECT max(x) FROM random_uniform([50, 50]) WHERE i < 0",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_device_makes_arrays_and_is_given_nothing() {
    let host = host_only();
    for regions in ["auto", "additive", "atomic"] {
        let settings = ["placement = 'strict'", &format!("regions = '{regions}'")];
        let session = simulated("1GB", &settings).await;
        for sql in QUERIES {
            assert_eq!(
                answer(&session, sql).await,
                answer(&host, sql).await,
                "{regions}: {sql}"
            );
            let report = session.last_report().unwrap();
            let places: Vec<_> = report
                .regions
                .iter()
                .flat_map(|region| &region.places)
                .collect();
            assert!(!places.is_empty() || sql.contains("i < 0"), "{sql}");
            for place in places {
                let on_host = place.place == "host";
                assert!(!on_host || place.rows == 0, "{sql}: {report}");
                assert_eq!(place.bytes, 0, "{sql}: {report}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_and_device_share_the_parts() {
    let host = host_only();
    let session = simulated("1GB", &["replay_placement = 'HD'"]).await;
    for sql in QUERIES {
        assert_eq!(
            answer(&session, sql).await,
            answer(&host, sql).await,
            "{sql}"
        );
    }
    answer(&session, SLICE).await;
    assert_eq!(sides(&session), ((120, 30_000), (120, 30_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_device_takes_part() {
    let spec: SimulatedSpec = "1GB,rows=1e6/s".parse().unwrap();
    let session = Session::builder()
        .simulate_device(spec.clone())
        .simulate_device(spec)
        .target_partitions(4)
        .build()
        .unwrap();
    session
        .collect("SET tidegate.placement = 'strict'")
        .await
        .unwrap();
    assert_eq!(
        answer(&session, SLICE).await,
        answer(&host_only(), SLICE).await
    );
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let rows: Vec<u64> = places
        .map(|place| place.rows)
        .filter(|rows| *rows > 0)
        .collect();
    assert_eq!(
        (rows.len(), rows.iter().sum::<u64>()),
        (2, 60_000),
        "{report}"
    );
    assert!(rows.iter().all(|rows| *rows >= 6_000), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_faster_makes_all_of_it() {
    let session = simulated("1GB,launch=1ns,rows=1e12/s", &[]).await;
    assert_eq!(
        answer(&session, SLICE).await,
        answer(&host_only(), SLICE).await
    );
    assert_eq!(sides(&session), ((0, 0), (240, 60_000)));
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("generated on the device"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_makes_what_a_device_could_not() {
    let expected = answer(&host_only(), SLICE).await;
    for fault in ["fail", "lost"] {
        for launch in 1..=3 {
            let spec = format!("1GB,rows=1e6/s,faults=launch:{launch}={fault}");
            let session = simulated(&spec, &["placement = 'device'", "regions = 'additive'"]).await;
            assert_eq!(answer(&session, SLICE).await, expected, "{spec}");
            let (host, device) = sides(&session);
            assert_eq!(host.1 + device.1, 60_000, "{spec}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_tell_what_was_pushed_down_and_kernels_what_makes_it() {
    let session = host_only();
    let explained = answer(&session, &format!("EXPLAIN {SLICE}"))
        .await
        .join("\n");
    for part in [
        "random_integers",
        "i 0..=598 by 2",
        "j 0..=398 by 2",
        "morsels=240",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    assert!(!explained.contains("FilterExec"), "{explained}");
    let sql = format!("EXPLAIN (FORMAT CUDA) {SLICE}");
    let kernel = answer(&session, &sql).await.join("\n");
    assert!(
        kernel.contains("random_integer(p, block.word[0]"),
        "{kernel}"
    );
    session
        .collect("SET tidegate.generate_all = true")
        .await
        .unwrap();
    let explained = answer(&session, &format!("EXPLAIN {SLICE}"))
        .await
        .join("\n");
    assert!(!explained.contains("by 2"), "{explained}");
    assert!(explained.contains("filter"), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_read_arrays_and_tensors() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    let values = Values::Integers { low: 0, count: 10 };
    let array = Array::try_new(vec![4, 3, 5], values, 1).unwrap();
    let source = ArraySource::try_new("digits".into(), array, vec![2, 3, 5], false).unwrap();
    let frame = session.read_array(source).unwrap();
    let order = vec![col("j").sort(true, false), col("k").sort(true, false)];
    let slice = array_agg(col("x")).order_by(order).build().unwrap();
    let slices = frame
        .clone()
        .aggregate(vec![col("i")], vec![slice.alias("x")])
        .unwrap();
    let tensors = slices
        .select(vec![col("i"), tensor(col("x"), &[3, 5]).alias("t")])
        .unwrap();
    let metadata = tensors.schema().field(1).metadata().clone();
    assert_eq!(metadata["ARROW:extension:name"], "arrow.fixed_shape_tensor");
    assert_eq!(metadata["ARROW:extension:metadata"], r#"{"shape":[3,5]}"#);
    let cells = tensors
        .select(vec![elements(col("t")).alias("e")])
        .unwrap()
        .unnest_columns(&["e"])
        .unwrap();
    assert_eq!(cells.count().await.unwrap(), 60);
    let total = frame
        .aggregate(vec![], vec![sum(col("x")).alias("total")])
        .unwrap();
    let total = lines(&total.collect().await.unwrap());
    let sql = "SELECT sum(x) AS total FROM random_integers([4, 3, 5], 0, 10, seed => 1)";
    assert_eq!(total, answer(&session, sql).await);
}

/// What the host folds without rows, in each place, against the same with rows: a filter that lets
/// everything through has them made.
#[tokio::test(flavor = "multi_thread")]
async fn a_fold_without_rows_is_one_with_rows() {
    let aggregates = [
        "count(*)",
        "sum(x)",
        "avg(x + 1)",
        "min(x)",
        "max(2 * x - x / 3)",
        "sum(-x * x)",
        "min(1 / (x - x))",
        "max(0 / (x - x))",
    ];
    let arrays = [
        "random_normal([300, 70], 0, 1, chunks => [7, 70], seed => 3)",
        "random_uniform([300, 70, 3], chunks => 11) WHERE i % 2 = 1 AND j BETWEEN 3 AND 40",
        "random_uniform([5000, 400]) WHERE j % 4 = 2",
        "ones([1])",
        "random_uniform([50, 50]) WHERE i < 0",
    ];
    let plans: [(&str, &[&str]); 3] = [
        ("", &["placement = 'host'"]),
        ("1GB", &["placement = 'host'"]),
        ("1GB", &["replay_placement = 'HD'"]),
    ];
    for (device, settings) in plans {
        let session = match device {
            "" => host_only(),
            device => simulated(device, settings).await,
        };
        for array in arrays {
            let ask = |filter: &str| {
                let calls = aggregates.map(|call| format!("{call}{filter}"));
                format!("SELECT {} FROM {array}", calls.join(", "))
            };
            let (folded, rows) = (ask(""), ask(" FILTER (WHERE x < 1e300)"));
            let plan = answer(&session, &format!("EXPLAIN {folded}"))
                .await
                .join("\n");
            assert!(plan.contains("ArrayFoldExec"), "{plan}");
            let plan = answer(&session, &format!("EXPLAIN {rows}"))
                .await
                .join("\n");
            assert!(!plan.contains("ArrayFoldExec"), "{plan}");
            let (folded, rows) = (
                session.collect(&folded).await.unwrap(),
                session.collect(&rows).await.unwrap(),
            );
            assert_near(&folded[0], &rows[0], &format!("{array} {settings:?}"));
        }
    }
}

/// Checks one row of counts and floats; sums of either may be rounded in another order.
fn assert_near(given: &RecordBatch, wanted: &RecordBatch, what: &str) {
    assert_eq!((given.num_rows(), wanted.num_rows()), (1, 1), "{what}");
    for (given, wanted) in given.columns().iter().zip(wanted.columns()) {
        assert_eq!(given.data_type(), wanted.data_type());
        let (given, wanted) = (
            cast(given, &DataType::Float64).unwrap(),
            cast(wanted, &DataType::Float64).unwrap(),
        );
        let (given, wanted) = (
            given.as_primitive::<Float64Type>(),
            wanted.as_primitive::<Float64Type>(),
        );
        assert_eq!(given.is_null(0), wanted.is_null(0), "{what}");
        let (given, wanted) = (given.value(0), wanted.value(0));
        let is_near = given == wanted
            || given.is_nan() && wanted.is_nan()
            || (given - wanted).abs() <= 1e-9 * wanted.abs().max(1.0);
        assert!(is_near, "{given} {wanted}: {what}");
    }
}
