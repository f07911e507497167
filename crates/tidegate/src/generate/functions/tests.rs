//! Tests of the table functions' arguments, through the planner.

use datafusion::prelude::SessionContext;

use super::table_functions;

async fn plan(call: &str) -> Result<Vec<String>, String> {
    let ctx = SessionContext::new();
    for (name, function) in table_functions() {
        ctx.register_udtf(name, function);
    }
    let frame = ctx
        .sql(&format!("SELECT * FROM {call}"))
        .await
        .map_err(|err| err.to_string())?;
    Ok(frame
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect())
}

async fn check_error(call: &str, expect: &str) {
    let error = plan(call).await.unwrap_err();
    assert!(error.contains(expect), "{call}: {error}");
}

#[tokio::test]
async fn calls() {
    let columns = plan("tpch('nation', 1)").await.unwrap();
    assert_eq!(
        columns,
        ["n_nationkey", "n_name", "n_regionkey", "n_comment"]
    );
    for call in [
        "tpch('lineitem', 0.01)",
        "tpch('orders', 1e2)",
        "tpch(lower('PART'), 2 * 0.5)",
    ] {
        assert!(plan(call).await.is_ok(), "{call}");
    }
    for call in [
        "h2o_g1(1000, 10)",
        "h2o_g1(1e7, 1e2, 5)",
        "h2o_g1(1e7, 100, 0, 42)",
    ] {
        let columns = plan(call).await.unwrap();
        assert_eq!(
            columns,
            ["id1", "id2", "id3", "id4", "id5", "id6", "v1", "v2", "v3"]
        );
    }
}

#[tokio::test]
async fn tpch_errors() {
    let signature = "tpch(table, scale_factor): ";
    for (call, expect) in [
        ("tpch(42, 1)", "the table must be a string literal, got 42"),
        (
            "tpch(NULL, 1)",
            "the table must be a string literal, got NULL",
        ),
        (
            "tpch('nation', '1')",
            "the scale_factor must be a number, got '1'",
        ),
        (
            "tpch('nation', NULL)",
            "the scale_factor must be a number, got NULL",
        ),
        (
            "tpch('nation', true)",
            "the scale_factor must be a number, got true",
        ),
        ("tpch('nation')", "takes 2 arguments, got 1"),
        ("tpch('nation', 1, 2)", "takes 2 arguments, got 3"),
    ] {
        check_error(call, &format!("{signature}{expect}")).await;
    }
    check_error("tpch('order', 1)", "did you mean 'orders'?").await;
    check_error("tpch('orders', -1)", "must be from 0.0001 to 1000, got -1").await;
}

#[tokio::test]
async fn h2o_g1_errors() {
    let signature = "h2o_g1(rows, groups [, null_percent [, seed]]): ";
    for (call, expect) in [
        (
            "h2o_g1(1.5, 1)",
            "the rows must be a whole number, zero or more, got 1.5",
        ),
        (
            "h2o_g1('10', 1)",
            "the rows must be a whole number, zero or more, got '10'",
        ),
        (
            "h2o_g1(10, -1)",
            "the groups must be a whole number, zero or more, got -1",
        ),
        (
            "h2o_g1(10, NULL)",
            "the groups must be a whole number, zero or more, got NULL",
        ),
        (
            "h2o_g1(10, 1, 300)",
            "the null_percent must be a whole number from 0 to 100, got 300",
        ),
        (
            "h2o_g1(10, 1, 0, -1)",
            "the seed must be a whole number, zero or more, got -1",
        ),
        ("h2o_g1(10)", "takes 2 to 4 arguments, got 1"),
        ("h2o_g1(10, 1, 0, 1, 1)", "takes 2 to 4 arguments, got 5"),
    ] {
        check_error(call, &format!("{signature}{expect}")).await;
    }
    check_error(
        "h2o_g1(10, 20)",
        "groups must be from 1 to the 10 rows, got 20",
    )
    .await;
    check_error("h2o_g1(1e11, 100)", "rows must be from 1 to 10000000000").await;
}
