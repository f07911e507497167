//! A sort-merge join gives the rows of the hash join that it stands for, also when it spills; joins that
//! are known to be small and top-k of few rows stay as they are.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, collect,
};
use datafusion::prelude::SessionConfig;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{bytes_of, merged, sorted_and_cut};

const KINDS: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

fn schema(side: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(format!("{side}_k"), DataType::Int32, true),
        Field::new(format!("{side}_s"), DataType::Utf8View, true),
        Field::new(format!("{side}_v"), DataType::Int64, false),
    ]))
}

/// Makes rows whose keys are few, some of them null, in batches of any length.
fn rows(random: &mut StdRng, side: &str, keys: i32, rows_max: usize) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for _ in 0..random.random_range(0..5) {
        let num_rows = random.random_range(0..=rows_max);
        let mut some = |share: f64| random.random_bool(share);
        let are_there: Vec<[bool; 3]> = (0..num_rows)
            .map(|_| [some(0.9), some(0.9), some(0.9)])
            .collect();
        let mut number = |max: i32| random.random_range(0..max);
        let k: Int32Array = are_there
            .iter()
            .map(|there| there[0].then(|| number(keys)))
            .collect();
        let s: StringViewArray = are_there
            .iter()
            .map(|there| there[1].then(|| format!("a string that is long {}", number(3))))
            .collect();
        let v: Int64Array = are_there
            .iter()
            .map(|_| Some(i64::from(number(10))))
            .collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(k), Arc::new(s), Arc::new(v)];
        batches.push(RecordBatch::try_new(schema(side), columns).unwrap());
    }
    batches
}

fn scan(side: &str, batches: &[RecordBatch]) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(&[batches.to_vec()], schema(side), None).unwrap()
}

/// Keeps pairs whose values are in order; the columns are declared in this order.
fn filter(sides: [JoinSide; 2]) -> JoinFilter {
    let fields = sides.map(|side| Field::new(side.to_string(), DataType::Int64, false));
    let columns = sides.map(|side| ColumnIndex { index: 2, side });
    let column = |side: JoinSide| {
        let place = sides.iter().position(|declared| *declared == side);
        Arc::new(Column::new(&side.to_string(), place.unwrap()))
    };
    let in_order = BinaryExpr::new(
        column(JoinSide::Left),
        Operator::Lt,
        column(JoinSide::Right),
    );
    let schema = Schema::new(fields.to_vec());
    JoinFilter::new(Arc::new(in_order), columns.to_vec(), Arc::new(schema))
}

async fn answer(plan: Arc<dyn ExecutionPlan>, ctx: &Arc<TaskContext>) -> Vec<String> {
    let batches = collect(plan, Arc::clone(ctx)).await.unwrap();
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<String> = table.lines().map(String::from).collect();
    lines.retain(|line| !line.starts_with('+'));
    lines.sort();
    lines
}

fn ctx(batch_size: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_size);
    Arc::new(TaskContext::default().with_session_config(config))
}

fn sorted(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let orders = plan.required_input_ordering();
    let inputs = plan
        .children()
        .into_iter()
        .zip(orders)
        .map(|(input, order)| {
            let order = order.unwrap().into_single();
            let keys = order.into_iter().map(PhysicalSortExpr::from);
            let keys = LexOrdering::new(keys).unwrap();
            Arc::new(SortExec::new(keys, Arc::clone(input))) as Arc<dyn ExecutionPlan>
        });
    let inputs = inputs.collect();
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(inputs, options).unwrap()
}

async fn compare(seed: u64, rows_max: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let keys = [1, 3, 50, 1000][random.random_range(0..4)];
    let left = rows(&mut random, "l", keys, rows_max);
    let right = rows(&mut random, "r", keys, rows_max);
    let with_string = random.random_bool(0.3);
    let columns = if with_string { vec![0, 1] } else { vec![0] };
    let column = |side: &str, index: usize| {
        let name = schema(side).field(index).name().clone();
        Arc::new(Column::new(&name, index)) as _
    };
    let on: Vec<_> = columns
        .iter()
        .map(|index| (column("l", *index), column("r", *index)))
        .collect();
    let batch_size = [1, 2, 7, 64, 8192][random.random_range(0..5)];
    for kind in KINDS {
        let declared = [
            [JoinSide::Left, JoinSide::Right],
            [JoinSide::Right, JoinSide::Left],
        ];
        let filters = declared.map(|sides| Some(filter(sides)));
        for filter in filters.into_iter().chain([None]) {
            for nulls in [
                NullEquality::NullEqualsNothing,
                NullEquality::NullEqualsNull,
            ] {
                let case = format!("seed {seed}, {kind}, {nulls:?}, {filter:?}",);
                let hash = HashJoinExec::try_new(
                    scan("l", &left),
                    scan("r", &right),
                    on.clone(),
                    filter.clone(),
                    &kind,
                    None,
                    PartitionMode::CollectLeft,
                    nulls,
                    false,
                )
                .unwrap();
                let merged = merged(&hash).unwrap().expect(&case);
                assert_eq!(merged.schema(), hash.schema(), "{case}");
                let want = answer(Arc::new(hash), &ctx(8192)).await;
                let got = answer(sorted(&merged), &ctx(batch_size)).await;
                if got != want {
                    let mut message = String::new();
                    writeln!(message, "{case}, batches of {batch_size}").unwrap();
                    writeln!(
                        message,
                        "want\n{}\ngot\n{}",
                        want.join("\n"),
                        got.join("\n")
                    )
                    .unwrap();
                    panic!("{message}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_sort_merge_join_gives_the_rows_of_the_hash_join() {
    for seed in 0..40 {
        compare(seed, 40).await;
    }
}

#[test]
fn what_is_held_is_estimated_from_below_joins() {
    let batch = rows(&mut StdRng::seed_from_u64(7), "l", 5, 100);
    let held: usize = batch.iter().map(RecordBatch::num_rows).sum();
    let scan = scan("l", &batch);
    assert_eq!(bytes_of(&scan), Some(held as u64 * (4 + 32 + 8)));
}

#[test]
fn a_top_k_of_many_rows_becomes_a_sort_and_a_limit() {
    let batches = rows(&mut StdRng::seed_from_u64(7), "l", 5, 100);
    let scan = scan("l", &batches);
    let key = PhysicalSortExpr::new_default(Arc::new(Column::new("l_k", 0)));
    let sort = |fetch| -> Arc<dyn ExecutionPlan> {
        let keys = LexOrdering::new([key.clone()]).unwrap();
        Arc::new(SortExec::new(keys, Arc::clone(&scan)).with_fetch(Some(fetch)))
    };
    // Few rows, whatever the limit; many, but the input has few.
    assert!(sorted_and_cut(&sort(1000), 1).is_none());
    assert!(sorted_and_cut(&sort(2_000_000), 1 << 30).is_none());
    let cut = sorted_and_cut(&sort(2_000_000), 1000).unwrap();
    assert_eq!(cut.name(), "GlobalLimitExec");
    let below = cut.children()[0].downcast_ref::<SortExec>().unwrap();
    assert_eq!(below.fetch(), None);
}
