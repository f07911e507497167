//! Random queries over random tables: every lane answers as a plain DataFusion session does.
//!
//! A round makes one table (`t` in memory, `p` the same rows as Parquet) and asks some queries of
//! it. Exact values must be equal; sums, averages and variances of floats may differ by what the
//! order of summation explains. An error on one side must be an error on the other, except that a
//! lane need not raise for rows that a filter drops.
//!
//! `TIDEGATE_FUZZ_SEED` and `TIDEGATE_FUZZ_QUERIES` choose other queries and more of them.

#![expect(clippy::expect_used, reason = "all of it is a test")]

mod compare;
mod queries;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::ParquetReadOptions;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_sql_tests::{Connection, Lane, LaneError, format};

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
    tally.assert_both_sides_worked();
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
    /// Rows that a lane's regions took, by lane and by where: `host` or `device`.
    rows: BTreeMap<(&'static str, String), i64>,
}

impl Tally {
    fn report(&self) -> String {
        let rest = format!("{} failures in {} queries", self.failures.len(), self.asked);
        format!("{}\n\n{rest}", self.failures.join("\n\n"))
    }

    /// Fails where the lanes would have compared the host with itself.
    fn assert_both_sides_worked(&self) {
        let rows =
            |lane: Lane, place: &str| self.rows.get(&(lane.name(), place.to_owned())).copied();
        for (lane, place) in [
            (Lane::Simulated, "host"),
            (Lane::Simulated, "device"),
            (Lane::Atomic, "device"),
        ] {
            let rows = rows(lane, place).unwrap_or(0);
            assert!(
                rows > 1000,
                "{}: {rows} rows on {place}, of {:?}",
                lane.name(),
                self.rows
            );
        }
    }

    async fn count_rows(&mut self, lane: Lane, connection: &Connection) {
        let sql = "SELECT split_part(place, ' ', 1), sum(rows)::bigint FROM system.placements \
                   WHERE rows > 0 GROUP BY 1";
        let (_, batches) = connection.collect(sql).await.expect("the placements");
        for row in format::rows(&batches).expect("text") {
            let rows: i64 = row[1].parse().expect("a number of rows");
            *self.rows.entry((lane.name(), row[0].clone())).or_default() += rows;
        }
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
    for (lane, connection) in &lanes {
        tally.count_rows(*lane, connection).await;
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
        .register_parquet(
            "p",
            parquet.display().to_string(),
            ParquetReadOptions::default(),
        )
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
