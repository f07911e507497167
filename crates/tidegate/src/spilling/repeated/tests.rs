//! What is asked for, what is cut, and that rows stay what they are.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Int64Array, LargeListArray, ListArray,
    ListBuilder, RecordBatch, StringArray, StringBuilder, StringViewArray, StructArray,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{LongRows, RepeatedRows, count_repeated, longest_row, row_bytes};
use crate::node_rule::NodeRule;

fn context(limit: usize, batch_rows: usize) -> (SessionContext, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool));
    let config = SessionConfig::new()
        .with_batch_size(batch_rows)
        .with_target_partitions(2);
    let ctx = SessionContext::new_with_config_rt(config, Arc::new(runtime.build().unwrap()));
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(64 << 10), "y".into()]));
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![0, 1]));
    let lists = [Some(vec![Some(1); 3000]), None];
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
    let long = RecordBatch::try_from_iter([("s", long), ("k", keys), ("l", lists)]).unwrap();
    ctx.register_batch("long", long).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
    let numbers = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    ctx.register_batch("numbers", numbers).unwrap();
    (ctx, pool)
}

async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let plan = ctx.sql(sql).await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    NodeRule("count_repeated", count_repeated)
        .optimize(plan, &ConfigOptions::new())
        .unwrap()
}

async fn run(ctx: &SessionContext, sql: &str) -> datafusion::error::Result<RecordBatch> {
    let plan = plan(ctx, sql).await;
    let schema = plan.schema();
    let batches = collect(plan, ctx.task_ctx()).await?;
    Ok(concat_batches(&schema, &batches)?)
}

/// Statements that repeat a row of 64 KB 1,500 or 3,000 times.
const REPEATING: [&str; 7] = [
    "SELECT count(*), sum(length(s)) FROM long, numbers",
    "SELECT count(*), sum(length(s)) FROM long JOIN numbers ON n % 2 = k",
    "SELECT count(*), sum(length(s)) FROM numbers JOIN long ON n % 2 = k",
    "SELECT count(*), sum(length(s)) FROM long RIGHT JOIN numbers ON n % 2 = k AND length(s) > n % 2",
    "SELECT count(*), sum(length(s)) FROM long JOIN numbers ON n % 2 >= k",
    "SELECT count(*), sum(length(s)) FROM (SELECT s, unnest(l) FROM long)",
    "SELECT count(*), sum(length(s)) FROM (SELECT s, unnest(unnest([l])) FROM long)",
];

#[tokio::test]
async fn repeated_rows_are_asked_for() {
    for sql in REPEATING {
        let (ctx, pool) = context(256 << 20, 8192);
        let error = run(&ctx, sql).await.expect_err(sql);
        let long = LongRows::of(&error).unwrap_or_else(|| panic!("{sql}: {error}"));
        assert!(long.row_bytes >= 64 << 10, "{sql}: {}", long.row_bytes);
        assert!(
            error.to_string().contains("is repeated up to"),
            "{sql}: {error}"
        );
        drop(error);
        assert_eq!(pool.reserved(), 0, "{sql}: what is asked for is given back");
    }
}

#[tokio::test]
async fn small_batches_of_them_give_the_same_rows() {
    // A list of lists is not cut.
    for sql in &REPEATING[..6] {
        let (all, _) = context(usize::MAX, 8192);
        let (few, _) = context(64 << 20, 16);
        let wanted = run(&all, sql).await.expect(sql);
        let got = run(&few, sql).await.expect(sql);
        assert_eq!(got.columns(), wanted.columns(), "{sql}");
    }
}

#[tokio::test]
async fn short_rows_are_not_looked_at() {
    let (ctx, _) = context(usize::MAX, 8192);
    let plan = plan(
        &ctx,
        "SELECT count(*) FROM numbers a JOIN numbers b ON a.n = b.n",
    )
    .await;
    let drawn = displayable(plan.as_ref()).indent(false);
    assert!(!drawn.to_string().contains("MeasureRows"), "{drawn}");
}

#[tokio::test]
async fn long_lists_are_cut_with_the_elements_beside_them() {
    let longs: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20); 3]));
    let a = [
        Some(vec![Some(1), None, Some(3), Some(4), Some(5)]),
        None,
        Some(vec![]),
    ];
    let b = [
        Some(vec![Some(6), Some(7)]),
        Some(vec![Some(8); 20]),
        Some(vec![Some(9); 40]),
    ];
    let a: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(a));
    let b: ArrayRef = Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(b));
    let batch = RecordBatch::try_from_iter([("s", longs), ("a", a), ("b", b)]).unwrap();
    let sql = "SELECT length(s), unnest(a), unnest(b) FROM t";
    let mut rows = Vec::new();
    for batch_rows in [8192, 3] {
        let (ctx, _) = context(256 << 20, batch_rows);
        ctx.register_batch("t", batch.clone()).unwrap();
        let got = match batch_rows {
            3 => run(&ctx, sql).await.unwrap(),
            _ => {
                let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
                concat_batches(&batches[0].schema(), &batches).unwrap()
            }
        };
        rows.push(got.columns().to_vec());
    }
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0][0].len(), 5 + 20 + 40);
    assert_eq!(rows[0][1].null_count(), 1 + 20 + 40);
}

#[test]
fn bytes_of_rows_are_those_of_copies() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), None, Some("")]));
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a longer one than twelve"; 3]));
    let lists = [Some(vec![Some(1), Some(2)]), None, Some(vec![None])];
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
    let fixed = [Some(vec![Some(1), Some(2)]), None, Some(vec![None, None])];
    let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(
        fixed, 2,
    ));
    assert_eq!(row_bytes(&[Arc::clone(&texts)], 3), [3, 0, 0]);
    assert_eq!(row_bytes(&[views], 3), [16, 16, 16]);
    assert_eq!(row_bytes(&[Arc::clone(&lists)], 3), [16, 0, 8]);
    assert_eq!(row_bytes(&[fixed], 3), [16, 16, 16]);
    let both = StructArray::try_from(vec![("t", Arc::clone(&texts)), ("l", Arc::clone(&lists))]);
    let both: ArrayRef = Arc::new(both.unwrap());
    assert_eq!(row_bytes(&[both], 3), [19, 0, 8]);
    assert_eq!(row_bytes(&[lists.slice(2, 1), texts.slice(0, 1)], 1), [11]);
    assert_eq!(longest_row(&[lists, texts]), 19);
    let nested = lists_of_texts();
    assert_eq!(row_bytes(&[nested], 2), [5, 4]);
}

fn lists_of_texts() -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("ab"), Some("cde")]);
    lists.append_value([Some("fghi")]);
    let lists = lists.finish();
    assert_eq!(lists.values().as_string::<i32>().len(), 3);
    Arc::new(lists)
}

#[test]
fn a_context_without_a_limit_grants_all() {
    let ctx = TaskContext::default();
    let mut repeated = RepeatedRows::new(&ctx);
    repeated.ask(1 << 30, usize::MAX).unwrap();
}
