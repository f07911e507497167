//! Functions of users: registered by a program, made by clients, called from frames.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::compute::{binary, unary};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::prelude::col;
use tidegate::{ClientOptions, ErrorKind, PlacementExt, ScalarFunction, Session};
use tidegate_needs::Need;

use crate::support::{answer, host_only, rows, sides, simulated};

/// `x * x + y`, with a body for devices.
fn squared_plus() -> ScalarFunction {
    let arguments = [("x", DataType::Float64), ("y", DataType::Float64)];
    ScalarFunction::new("squared_plus", arguments, DataType::Float64, |args| {
        let (x, y) = (
            args[0].as_primitive::<Float64Type>(),
            args[1].as_primitive::<Float64Type>(),
        );
        let sums = binary::<_, _, _, Float64Type>(x, y, |x, y| x * x + y)?;
        Ok(Arc::new(sums))
    })
    .cuda("x * x + y")
}

fn doubled(name: &str) -> ScalarFunction {
    let argument = [("n", DataType::Int64)];
    ScalarFunction::new(name, argument, DataType::Int64, |args| {
        let n = args[0].as_primitive::<Int64Type>();
        Ok(Arc::new(unary::<_, _, Int64Type>(n, |n| n.wrapping_mul(2))))
    })
}

async fn failure(session: &Session, sql: &str) -> String {
    match session.collect(sql).await {
        Ok(rows) => panic!("{sql} gave {rows:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_function_with_a_cuda_body_runs_where_its_region_runs() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_function(squared_plus()).await.unwrap();
    session.register_batch("t", rows(0, 5000)).unwrap();
    let sql = "SELECT k, count(*), max(squared_plus(v, k)) AS most FROM t WHERE squared_plus(v, 1) > 50 GROUP BY k";
    let given = answer(&session, sql).await;
    let (host, device) = sides(&session);
    assert_eq!(host.1, 0, "{:?}", session.last_report());
    assert_eq!(device.1, 5000);
    let plain = "SELECT k, count(*), max(CAST(v AS DOUBLE) * v + k) AS most FROM t WHERE v * v + 1 > 50 GROUP BY k";
    assert_eq!(given, answer(&host_only_with(rows(0, 5000)), plain).await);
    // The kernel has the body, under the function's name.
    let kernels = session.kernels(sql).await.unwrap();
    let text = &kernels[0].kernel.as_ref().unwrap().text;
    assert!(
        text.contains("#line 1 \"squared_plus\"\nx * x + y"),
        "{text}"
    );
}

fn host_only_with(batch: RecordBatch) -> Session {
    let session = host_only();
    session.register_batch("t", batch).unwrap();
    session
}

#[tokio::test]
async fn a_function_without_one_keeps_its_region_on_the_host_and_says_so() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_function(doubled("doubled")).await.unwrap();
    session.register_batch("t", rows(0, 100)).unwrap();
    let frame = session
        .sql("SELECT sum(doubled(v)) AS s FROM t")
        .await
        .unwrap();
    let placement = frame.placement().await.unwrap();
    assert!(
        placement[0]
            .reasons
            .iter()
            .any(|reason| reason.ends_with("function doubled has no CUDA body")),
        "{placement:?}"
    );
    assert_eq!(
        answer(&session, "SELECT sum(doubled(v)) AS s FROM t").await,
        ["| 9900 |", "| s    |"]
    );
}

#[tokio::test]
async fn nulls_scalars_casts_and_empty_tables() {
    let session = host_only_with(rows(0, 100));
    session.register_function(squared_plus()).await.unwrap();
    let rows = session
        .collect("SELECT squared_plus(3, NULL), squared_plus(2, 1), squared_plus(x => 1, y => v), squared_plus(k, 0) FROM t WHERE v = 11")
        .await
        .unwrap();
    let value = |column: usize| rows[0].column(column).as_primitive::<Float64Type>();
    assert!(value(0).is_null(0) && value(3).is_null(0));
    assert_eq!((value(1).value(0), value(2).value(0)), (5.0, 12.0));
    let empty = answer(&session, "SELECT squared_plus(v, v) FROM t WHERE false").await;
    assert!(empty.len() <= 1, "{empty:?}");
    let message = failure(&session, "SELECT squared_plus(1)").await;
    assert!(
        message.contains("takes 2 arguments, and 1 were given"),
        "{message}"
    );
    let message = failure(&session, "SELECT squared_plus('a', 1)").await;
    assert!(message.contains("argument x is DOUBLE"), "{message}");
}

#[tokio::test]
async fn frames_call_what_registering_returns() {
    let session = host_only_with(rows(0, 10));
    let doubled = session.register_function(doubled("doubled")).await.unwrap();
    let frame = session.sql("SELECT v FROM t").await.unwrap();
    let rows = frame
        .select(vec![doubled.call(vec![col("v")]).alias("w")])
        .unwrap()
        .collect()
        .await
        .unwrap();
    let total: i64 = rows
        .iter()
        .flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec())
        .sum();
    assert_eq!(total, 90);
}

#[tokio::test]
async fn names_are_given_once_and_dropped_when_nothing_calls_them() {
    let session = host_only();
    session.register_function(doubled("doubled")).await.unwrap();
    for name in ["doubled", "abs", "sum"] {
        let error = session.register_function(doubled(name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sql, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let sql = "CREATE FUNCTION fourfold(n BIGINT) RETURNS BIGINT RETURN doubled(doubled(n))";
    session.collect(sql).await.unwrap();
    assert_eq!(
        answer(&session, "SELECT fourfold(3) AS n").await,
        ["| 12 |", "| n  |"]
    );
    let message = failure(&session, "DROP FUNCTION doubled").await;
    assert!(message.contains("fourfold calls it"), "{message}");
    session.collect("DROP FUNCTION fourfold").await.unwrap();
    session.collect("DROP FUNCTION doubled").await.unwrap();
    let message = failure(&session, "SELECT doubled(1)").await;
    assert!(message.contains("doubled"), "{message}");
}

#[tokio::test]
async fn a_body_that_fails_panics_or_lies_fails_its_statement_alone() {
    let session = host_only_with(rows(0, 10));
    let of = |name: &str, body: fn(&[ArrayRef]) -> Result<ArrayRef, ArrowError>| {
        ScalarFunction::new(name, [("n", DataType::Int64)], DataType::Int64, body)
    };
    let bodies: [(ScalarFunction, &str); 4] = [
        (
            of("fails", |_| Err(ArrowError::ComputeError("no luck".into()))),
            "no luck",
        ),
        (
            of("panics", |_| panic!("oh dear")),
            "its body panicked: oh dear",
        ),
        (
            of("shortens", |_| Ok(Arc::new(Int64Array::from(vec![1])))),
            "1 values of Int64 for 10 rows",
        ),
        (
            of("retypes", |args| {
                Ok(Arc::new(Float64Array::from(vec![0.0; args[0].len()])))
            }),
            "Float64",
        ),
    ];
    for (function, wanted) in bodies {
        let name = function.name().to_string();
        session.register_function(function).await.unwrap();
        let message = failure(&session, &format!("SELECT {name}(v) FROM t")).await;
        assert!(
            message.contains(wanted) && message.contains(&name),
            "{message}"
        );
    }
    assert_eq!(
        answer(&session, "SELECT count(*) AS n FROM t").await,
        ["| 10 |", "| n  |"]
    );
}

#[tokio::test]
async fn a_cuda_body_with_a_type_or_name_that_it_cannot_have_is_refused() {
    let session = host_only();
    let text = ScalarFunction::new("shout", [("s", DataType::Utf8)], DataType::Utf8, |args| {
        Ok(Arc::clone(&args[0]))
    });
    let error = session
        .register_function(text.clone().cuda("s"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("a CUDA body has no Utf8"),
        "{error}"
    );
    session.register_function(text).await.unwrap();
    let odd = ScalarFunction::new(
        "odd",
        [("my x", DataType::Int64)],
        DataType::Int64,
        |args| Ok(Arc::clone(&args[0])),
    );
    let error = session.register_function(odd.cuda("1")).await.unwrap_err();
    assert!(
        error.to_string().contains("\"my x\" is no name in C++"),
        "{error}"
    );
}

/// Needs NVRTC, but no GPU.
#[tokio::test]
async fn a_cuda_body_that_does_not_compile_is_refused_with_its_line() {
    let named = std::env::var_os("TIDEGATE_NVRTC").map(PathBuf::from);
    // …/site-packages/nvidia/cu13/lib/libnvrtc.so.13
    let packages = named.as_deref().and_then(|place| place.ancestors().nth(4));
    let session = Session::builder()
        .site_packages(packages.map(PathBuf::from).into_iter().collect())
        .build()
        .unwrap();
    if let Err(error) = session.kernel_compiler() {
        tidegate_needs::skip(Need::Nvrtc, &error);
        return;
    }
    let error = session
        .register_function(squared_plus().cuda("double z = x;\nreturn z + unknown;"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("squared_plus(2): error")
            && error.to_string().contains("unknown"),
        "{error}"
    );
    session.register_function(squared_plus()).await.unwrap();
}

#[tokio::test]
async fn functions_of_a_client_are_its_own() {
    let server = host_only();
    server.register_function(doubled("doubled")).await.unwrap();
    let client = |user: &str| {
        server.for_client(ClientOptions {
            user: user.into(),
            ..ClientOptions::default()
        })
    };
    let (ada, grace) = (client("ada"), client("grace"));
    ada.collect("CREATE FUNCTION next(n BIGINT) RETURNS BIGINT RETURN doubled(n) + 1")
        .await
        .unwrap();
    assert_eq!(
        answer(&ada, "SELECT next(3) AS n").await,
        ["| 7 |", "| n |"]
    );
    for other in [&grace, &server] {
        let message = failure(other, "SELECT next(3)").await;
        assert!(message.contains("next"), "{message}");
    }
    // What a client drops, the others keep.
    grace.collect("DROP FUNCTION doubled").await.unwrap();
    assert_eq!(
        answer(&ada, "SELECT doubled(3) AS n").await,
        ["| 6 |", "| n |"]
    );
}

#[tokio::test]
async fn prepared_statements_and_known_texts_follow_their_functions() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_batch("t", rows(0, 1000)).unwrap();
    session
        .collect("CREATE FUNCTION f(v BIGINT) RETURNS BIGINT RETURN v + 1")
        .await
        .unwrap();
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let sql = "SELECT sum(f(v)) AS s FROM t";
    let prepared = session
        .prepare("SELECT sum(f(v)) AS s FROM t WHERE v >= $1")
        .await
        .unwrap();
    for _ in 0..3 {
        assert_eq!(answer(&session, sql).await, ["| 500500 |", "| s      |"]);
        let rows = prepared.collect(&[0_i64.into()]).await.unwrap();
        assert_eq!(
            rows[0].column(0).as_primitive::<Int64Type>().value(0),
            500_500
        );
    }
    assert_eq!(
        sides(&session).0.1,
        0,
        "the body runs on the device: {:?}",
        session.last_report()
    );
    session
        .collect("CREATE OR REPLACE FUNCTION f(v BIGINT) RETURNS BIGINT RETURN v")
        .await
        .unwrap();
    assert_eq!(answer(&session, sql).await, ["| 499500 |", "| s      |"]);
    let rows = prepared.collect(&[0_i64.into()]).await.unwrap();
    assert_eq!(
        rows[0].column(0).as_primitive::<Int64Type>().value(0),
        499_500
    );
    session.collect("DROP FUNCTION f").await.unwrap();
    assert!(prepared.collect(&[0_i64.into()]).await.is_err());
    assert!(session.collect(sql).await.is_err());
}

/// States are made from others all the time, and that registers every function under all of its names again, in any
/// order: two functions with one name would take turns.
#[test]
fn a_name_belongs_to_one_function() {
    let session = Session::builder().build().unwrap();
    let state = session.context().state();
    let mut repeated = Vec::new();
    for (key, function) in state.scalar_functions() {
        for name in function.aliases() {
            let owner = state.scalar_functions()[name].name();
            if owner != function.name() {
                repeated.push(format!("{name}: {key} and {owner}"));
            }
        }
    }
    for (key, function) in state.aggregate_functions() {
        for name in function.aliases() {
            let owner = state.aggregate_functions()[name].name();
            if owner != function.name() {
                repeated.push(format!("{name}: {key} and {owner}"));
            }
        }
    }
    assert!(repeated.is_empty(), "{repeated:?}");
}
