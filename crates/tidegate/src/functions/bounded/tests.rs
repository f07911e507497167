//! What is made with memory, and what is refused without.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::prelude::SessionContext;

use super::{FunctionMemory, bound};

async fn one(limit: usize, sql: &str) -> Result<String, String> {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
    let mut state = SessionContext::new().state();
    bound(&mut state, &FunctionMemory::new(Arc::clone(&pool))).unwrap();
    let ctx = SessionContext::new_with_state(state);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("")]));
    let times: ArrayRef = Arc::new(Int64Array::from(vec![1_000_000, 2, 3]));
    let batch = RecordBatch::try_from_iter([("s", texts), ("n", times)]);
    ctx.register_batch("t", batch.unwrap()).unwrap();
    let rows = async { ctx.sql(sql).await?.collect().await };
    let rows = rows.await.map_err(|error| error.to_string())?;
    assert_eq!(
        pool.reserved(),
        0,
        "a function gives back what it has reserved"
    );
    let value = ScalarValue::try_from_array(rows[0].column(0), 0).unwrap();
    Ok(value.to_string())
}

#[tokio::test]
async fn a_value_that_fits_is_made() {
    assert_eq!(
        one(100 << 20, "SELECT length(repeat(s, n)) FROM t").await,
        Ok("2000000".into())
    );
    assert_eq!(
        one(
            100 << 20,
            "SELECT length(regexp_replace(repeat('a', 2000), 'a', s, 'g')) FROM t"
        )
        .await,
        Ok("4000".into())
    );
    assert_eq!(
        one(1, "SELECT replace('aXb', 'X', '--')").await,
        Ok("a--b".into())
    );
}

#[tokio::test]
async fn a_value_without_memory_is_refused_before_it_is_made() {
    for sql in [
        "SELECT length(repeat(s, n * 1000000)) FROM t",
        "SELECT length(lpad(s, 1000000000)) FROM t",
        "SELECT length(rpad('x', 1000000000, 'é'))",
        "SELECT length(replace(repeat('a', 60000), 'a', repeat('b', 60000)))",
        "SELECT length(replace(repeat('a', 60000), '', repeat('b', 60000)))",
        "SELECT length(regexp_replace(repeat('a', 60000), '.', repeat('b', 60000), 'g'))",
        "SELECT cardinality(range(300000000))",
        "SELECT cardinality(generate_series(0, -300000000, -1))",
        "SELECT cardinality(array_repeat(1, 200000000))",
        "SELECT cardinality(array_repeat(array_repeat(1, 8000), 80000))",
        "SELECT cardinality(array_resize([1], 300000000))",
        "SELECT length(array_to_string(range(8000), repeat('x', 60000)))",
        "SELECT length(concat_ws(repeat('x', 60000), repeat('y', 60000000), 'z')) FROM t",
        "SELECT cardinality(generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '2070-01-01', INTERVAL '1 second'))",
        "SELECT cardinality(generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 day')) FROM range(1000)",
    ] {
        let error = one(20 << 20, sql).await.expect_err(sql);
        assert!(
            error.contains("() would make ") && error.contains("at once"),
            "{sql}: {error}"
        );
    }
}
