//! The rows of DataFusion's own accumulators, by group and without, from partitions, states and spilled states.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::functions;

/// Rows with few and many groups, ties, NULLs, NaN and both zeros.
fn rows(seed: i64, count: i64) -> RecordBatch {
    let mixed = move |row: i64| (row * 7919 + seed).rem_euclid(1009);
    let texts = (0..count).map(|row| {
        let number = mixed(row);
        (number % 11 > 0).then(|| format!("a text of more than twelve bytes {number}"))
    });
    let texts: Vec<Option<String>> = texts.collect();
    let floats = (0..count).map(|row| match mixed(row) % 7 {
        0 => None,
        1 => Some(f64::NAN),
        2 => Some(-0.0),
        3 => Some(f64::NEG_INFINITY),
        _ => Some((mixed(row) % 13) as f64),
    });
    let lists = (0..count).map(|row| {
        let number = mixed(row);
        (number % 5 > 0).then(|| vec![Some(number), None])
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "few",
            Arc::new(Int64Array::from_iter_values(
                (0..count).map(|row| mixed(row) % 3),
            )),
        ),
        (
            "many",
            Arc::new(Int64Array::from_iter_values(
                (0..count).map(|row| mixed(row) % 400),
            )),
        ),
        // Unique, so that there is one order.
        (
            "n",
            Arc::new(Int64Array::from_iter_values(
                (0..count).map(|row| row * 4 + seed),
            )),
        ),
        ("f", Arc::new(Float64Array::from_iter(floats))),
        (
            "v",
            Arc::new(StringViewArray::from_iter(
                texts.iter().map(Option::as_deref),
            )),
        ),
        ("s", Arc::new(StringArray::from(texts.clone()))),
        (
            "l",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn answer(sql: &str, with_ours: bool, config: SessionConfig) -> String {
    let ctx = SessionContext::new_with_config(config);
    if with_ours {
        for function in functions() {
            ctx.register_udaf(function);
        }
    }
    let partitions = (0..3).map(|seed| {
        let rows = rows(seed, 700);
        vec![rows.slice(0, 300), rows.slice(300, 0), rows.slice(300, 400)]
    });
    let schema = rows(0, 1).schema();
    let table = MemTable::try_new(schema, partitions.collect()).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
    let rows = ctx.sql(sql).await.expect(sql).collect().await.expect(sql);
    pretty_format_batches(&rows).unwrap().to_string()
}

#[tokio::test]
async fn rows_are_those_of_datafusion() {
    for call in [
        "array_agg(v ORDER BY n)",
        "array_agg(s ORDER BY n DESC)",
        "array_agg(n ORDER BY f, n)",
        "array_agg(n ORDER BY f DESC NULLS LAST, v NULLS FIRST, n)",
        "array_agg(l ORDER BY n)",
        "array_agg(v ORDER BY n) FILTER (WHERE n % 3 = 1)",
        "array_agg(v ORDER BY n) FILTER (WHERE n < 0)",
        "array_agg(f) IGNORE NULLS",
        "string_agg(v, '; ' ORDER BY n)",
        "string_agg(s, '' ORDER BY n DESC) FILTER (WHERE few > 1)",
        "string_agg(v, ', ' ORDER BY n) FILTER (WHERE n < 0)",
        "string_agg(DISTINCT v, ', ' ORDER BY v)",
        "array_agg(DISTINCT n ORDER BY n DESC)",
    ] {
        for sql in [
            format!("SELECT {call} a FROM t"),
            format!("SELECT {call} a FROM t WHERE n < 0"),
            format!("SELECT few, {call} a FROM t GROUP BY few ORDER BY few"),
            format!("SELECT many, {call} a, count(*) c FROM t GROUP BY many ORDER BY many"),
        ] {
            let unordered = call.starts_with("array_agg(f)");
            let config = SessionConfig::new().with_target_partitions(if unordered { 1 } else { 3 });
            let config = config.with_batch_size(97);
            let wanted = answer(&sql, false, config.clone()).await;
            assert_eq!(answer(&sql, true, config).await, wanted, "{sql}");
        }
    }
}

#[tokio::test]
async fn input_in_order_leaves_group_by_group() {
    let lists = |rows: &str| {
        format!("SELECT k, array_agg(n ORDER BY f, n) a FROM ({rows}) GROUP BY k ORDER BY k")
    };
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(50);
    // DataFusion's own accumulators take no heed of their order here.
    let rows = "SELECT many / 2 k, n, f FROM t";
    let wanted = answer(&lists(rows), false, config.clone()).await;
    let rows = format!("{rows} ORDER BY k LIMIT 100000");
    let sql = lists(&rows);
    let plan = answer(&format!("EXPLAIN {sql}"), true, config.clone()).await;
    assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
    assert_eq!(answer(&sql, true, config).await, wanted);
}

#[tokio::test]
async fn partial_groups_that_are_skipped_are_states() {
    let mut config = SessionConfig::new()
        .with_target_partitions(3)
        .with_batch_size(64);
    let execution = &mut config.options_mut().execution;
    execution.skip_partial_aggregation_probe_rows_threshold = 10;
    execution.skip_partial_aggregation_probe_ratio_threshold = 0.0;
    for call in [
        "array_agg(v ORDER BY n) FILTER (WHERE n % 3 = 1)",
        "string_agg(v, ',' ORDER BY n)",
    ] {
        let sql = format!("SELECT many, {call} a FROM t GROUP BY many ORDER BY many");
        let wanted = answer(&sql, false, config.clone()).await;
        assert_eq!(answer(&sql, true, config.clone()).await, wanted, "{sql}");
    }
}
