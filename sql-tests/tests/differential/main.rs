//! Random queries over random tables: every lane answers as a plain DataFusion session does.
//!
//! A round makes one table (`t` in memory, `p` the same rows as Parquet) and asks some queries of
//! it. Exact values must be equal; sums, averages and variances of floats may differ by what the
//! order of summation explains. An error on one side must be an error on the other, except that a
//! lane need not raise for rows that a filter drops.
//!
//! `TIDEGATE_FUZZ_SEED` and `TIDEGATE_FUZZ_QUERIES` choose other queries and more of them.

mod compare;
mod queries;
mod tables;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::ParquetReadOptions;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_sql_tests::{Connection, Lane, LaneError};

use crate::compare::difference;
use crate::queries::Query;
use crate::tables::Table;

const SEED: u64 = 20_261_120;
const QUERIES: u64 = 150;
const QUERIES_PER_TABLE: u64 = 10;

/// Failures that are written out before the test gives up.
const FAILURES_MAX: usize = 10;

type Answer = Result<(SchemaRef, Vec<RecordBatch>), LaneError>;

#[tokio::test(flavor = "multi_thread")]
async fn lanes_answer_as_datafusion_does() {
    let seed = number_from_env("TIDEGATE_FUZZ_SEED").unwrap_or(SEED);
    let queries = number_from_env("TIDEGATE_FUZZ_QUERIES").unwrap_or(QUERIES);
    let mut tally = Tally::default();
    for round in 0..queries.div_ceil(QUERIES_PER_TABLE) {
        let asked = QUERIES_PER_TABLE.min(queries - round * QUERIES_PER_TABLE);
        // Each round has a seed of its own, so that it can be asked for alone.
        ask_round(seed + round, asked, &mut tally).await;
        assert!(tally.failures.len() < FAILURES_MAX, "{}", tally.report());
    }
    assert!(tally.failures.is_empty(), "{}", tally.report());
    let answered = tally.asked - tally.raised;
    assert!(
        answered * 10 >= tally.asked * 7,
        "only {answered} of {} queries have an answer to compare",
        tally.asked
    );
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[derive(Default)]
struct Tally {
    asked: u64,
    raised: u64,
    failures: Vec<String>,
}

impl Tally {
    fn report(&self) -> String {
        let rest = format!(
            "{} failures in {} queries",
            self.failures.len(),
            self.asked
        );
        format!("{}\n\n{rest}", self.failures.join("\n\n"))
    }
}

/// Makes one table and asks `queries` of it in every lane.
async fn ask_round(seed: u64, queries: u64, tally: &mut Tally) {
    let mut rng = StdRng::seed_from_u64(seed);
    let table = Table::random(&mut rng);
    let folder = tempfile::tempdir().expect("a scratch folder");
    table.write_parquet(&mut rng, folder.path());

    let stock = connect(Lane::Stock, &table, folder.path()).await;
    let mut lanes = Vec::new();
    for lane in Lane::TESTED {
        lanes.push((lane, connect(lane, &table, folder.path()).await));
    }
    for _ in 0..queries {
        let query = Query::random(&mut rng);
        let expected = stock.collect(&query.sql).await;
        tally.asked += 1;
        tally.raised += u64::from(expected.is_err());
        for (lane, connection) in &lanes {
            let actual = connection.collect(&query.sql).await;
            if let Some(difference) = verdict(&query, &expected, &actual) {
                tally.failures.push(format!(
                    "TIDEGATE_FUZZ_SEED={seed} TIDEGATE_FUZZ_QUERIES={QUERIES_PER_TABLE}, lane {}, \
                     {} rows:\n{}\n{difference}",
                    lane.name(),
                    table.num_rows(),
                    query.sql
                ));
            }
        }
    }
}

async fn connect(lane: Lane, table: &Table, parquet: &std::path::Path) -> Connection {
    let connection = lane.connect().await.expect("the lane opens");
    let memory = MemTable::try_new(table.schema(), table.partitions()).expect("a memory table");
    let context = connection.context();
    context
        .register_table("t", Arc::new(memory))
        .expect("t is registered");
    context
        .register_parquet("p", parquet.display().to_string(), ParquetReadOptions::default())
        .await
        .expect("p is registered");
    connection
}

/// Says what is wrong with a lane's answer, if anything is.
fn verdict(query: &Query, expected: &Answer, actual: &Answer) -> Option<String> {
    match (expected, actual) {
        (Err(_), Err(_)) => None,
        (Err(_), Ok(_)) if query.filtered => None,
        (Err(error), Ok(_)) => Some(format!("DataFusion raises, the lane does not: {error}")),
        (Ok(_), Err(error)) => Some(format!("the lane raises, DataFusion does not: {error}")),
        (Ok(expected), Ok(actual)) => difference(query, expected, actual),
    }
}
