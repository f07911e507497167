//! Random queries over random tables: every lane answers as a plain DataFusion session does.
//!
//! Half of the tables have NaN of both signs, infinities, zeros of both signs and subnormals in every
//! float column. What DataFusion makes of these depends on the order of rows, so its session has
//! Tidegate's rule of one NaN and one zero (`tidegate::CanonicalFloats`): lanes are held against the
//! rule on another engine. That the rule itself is right is tested by the files `one_nan.slt`, whose
//! answers were checked by hand.
//!
//! DataFusion joins lists of IN as if there were no NULL (<https://github.com/apache/datafusion/issues/24246>). Where a
//! lane differs, it is held against DataFusion without the rule that does so, which is right then.
//!
//! A round makes one table (`t` in memory, `p` the same rows as Parquet) and asks some queries of
//! it, in one to eight partitions. Sessions stay from one round to the next. Exact values must be equal; sums, averages and variances of floats
//! may differ by what the order of summation explains. An error on one side must be an error on the
//! other, except that a lane need not raise for rows that a filter drops; and what raises in one lane
//! raises in all, unless a limit leaves rows out: which of them are computed depends on time.
//!
//! `TIDEGATE_FUZZ_SEED` and `TIDEGATE_FUZZ_QUERIES` choose other queries and more of them,
//! `TIDEGATE_SLT_LANE` other lanes. Those that need a GPU are left out where there is none, which is
//! a failure under `TIDEGATE_REQUIRE=device`.

#![expect(clippy::expect_used, reason = "all of it is a test")]

mod combined;
mod compare;
mod queries;
mod shapes;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::ParquetReadOptions;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tidegate_needs::Need;

use self::compare::difference;
use self::queries::Query;
use self::tables::Table;
use crate::format;
use crate::gpus::{Gpus, NoGpu};
use crate::lane::{Connection, Lane, LaneError};
use crate::replanned::REFUSED;

const SEED: u64 = 20_261_120;
const QUERIES: u64 = 150;
const QUERIES_PER_TABLE: u64 = 10;

/// Partitions that plans may have.
const PARTITIONS: [usize; 5] = [1, 2, 3, 4, 8];

/// What keeps plain DataFusion from refusing aggregates over `IS TRUE`, of which the answer is right, and from losing
/// rows of MIN and MAX (<https://github.com/apache/datafusion/issues/24816>). Tidegate's sessions have both.
const STOCK_SETTINGS: [&str; 2] = [
    "SET datafusion.execution.skip_physical_aggregate_schema_check = true",
    "SET datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown = false",
];

/// The rule of DataFusion that joins lists of IN.
const JOINS_LISTS: &str = "simplify_expressions";

/// What DataFusion says of a function that it has only with [`JOINS_LISTS`].
const UNSIMPLIFIED: &str = "should have been simplified";

/// Failures that are written out before the test gives up.
const FAILURES_MAX: usize = 10;

type Answer = Result<(SchemaRef, Vec<RecordBatch>), LaneError>;

/// Asks all of the queries in each lane. Needs a runtime of several threads.
///
/// # Panics
/// Panics if a lane answers otherwise than DataFusion, or if its queries did not run where they
/// should.
pub async fn lanes_answer_as_datafusion_does() {
    let (lanes, gpus) = lanes();
    let engines = Engines::open(&lanes, &gpus).await;
    let seed = number_from_env("TIDEGATE_FUZZ_SEED").unwrap_or(SEED);
    let queries = number_from_env("TIDEGATE_FUZZ_QUERIES").unwrap_or(QUERIES);
    let mut tally = Tally::default();
    for round in 0..queries.div_ceil(QUERIES_PER_TABLE) {
        let asked = QUERIES_PER_TABLE.min(queries - round * QUERIES_PER_TABLE);
        // Each round has a seed of its own, so that it can be asked for alone.
        ask_round(seed + round, asked, &engines, &mut tally).await;
        assert!(tally.failures.len() < FAILURES_MAX, "{}", tally.report());
    }
    assert!(tally.failures.is_empty(), "{}", tally.report());
    tally.assert_both_sides_worked(&lanes);
    for replanned in engines
        .lanes
        .iter()
        .filter_map(|(_, lane)| lane.replanned())
    {
        let asked = tally.asked;
        assert!(
            replanned * 20 >= asked,
            "only {replanned} of {asked} queries were planned again"
        );
    }
    assert!(
        tally.undecided <= 3 + tally.asked / 1_000,
        "{} answers were compared with none",
        tally.undecided
    );
    let answered = tally.asked - tally.raised;
    assert!(
        answered * 10 >= tally.asked * 7,
        "only {answered} of {} queries have an answer to compare",
        tally.asked
    );
}

/// Chooses the lanes and opens the GPUs that they need.
fn lanes() -> (Vec<Lane>, Gpus) {
    let mut lanes = Lane::chosen().expect("lanes");
    // Over Flight, regions run where they run without it, and columns have the wire's plain types.
    lanes.retain(|lane| !matches!(lane, Lane::Stock | Lane::Flight));
    let gpus = match lanes.iter().any(|lane| lane.needs_gpu()) {
        true => Gpus::open().expect("a session"),
        false => Gpus::unopened(),
    };
    if let Some(why) = gpus.why_none() {
        lanes.retain(|lane| !lane.needs_gpu() || skipped(*lane, why));
    }
    assert!(
        !lanes.is_empty(),
        "no lane is left to compare with DataFusion"
    );
    (lanes, gpus)
}

/// Says that a lane is left out, and returns that it is not kept.
fn skipped(lane: Lane, why: &NoGpu) -> bool {
    tidegate_needs::skip(Need::Device, &format!("the lane {}: {why}", lane.name()));
    false
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[derive(Default)]
struct Tally {
    asked: u64,
    raised: u64,
    /// Queries of which DataFusion has no right answer to compare with.
    undecided: u64,
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
    fn assert_both_sides_worked(&self, lanes: &[Lane]) {
        for (lane, place) in [
            (Lane::Simulated, "host"),
            (Lane::Simulated, "device"),
            (Lane::Atomic, "device"),
            (Lane::Device, "device"),
            (Lane::Mixed, "host"),
            (Lane::Mixed, "device"),
        ] {
            let rows = self.rows.get(&(lane.name(), place.to_owned()));
            assert!(
                !lanes.contains(&lane) || rows.is_some_and(|rows| *rows > 1000),
                "{}: {rows:?} rows on {place}, of {:?}",
                lane.name(),
                self.rows
            );
        }
    }

    /// Counts what the connection's process has placed since `query_id`.
    async fn count_rows(&mut self, lane: Lane, connection: &Connection, query_id: i64) {
        let sql = format!(
            "SELECT split_part(place, ' ', 1), sum(rows)::bigint FROM system.placements \
             WHERE rows > 0 AND query_id > {query_id} GROUP BY 1"
        );
        let (_, batches) = connection.collect(&sql).await.expect("the placements");
        for row in format::rows(&batches).expect("text") {
            let rows: i64 = row[1].parse().expect("a number of rows");
            *self.rows.entry((lane.name(), row[0].clone())).or_default() += rows;
        }
    }
}

/// Returns the number of the query that was remembered last: lanes may share their memory.
async fn last_query(connection: &Connection) -> i64 {
    let sql = "SELECT coalesce(max(query_id), 0)::bigint FROM system.queries";
    let (_, batches) = connection.collect(sql).await.expect("the queries");
    let rows = format::rows(&batches).expect("text");
    rows[0][0].parse().expect("a number")
}

/// The sessions that are asked, which stay from one table to the next as a user's do.
struct Engines {
    stock: Connection,
    /// The same without [`JOINS_LISTS`].
    unsimplified: Connection,
    lanes: Vec<(Lane, Connection)>,
}

impl Engines {
    async fn open(lanes: &[Lane], gpus: &Gpus) -> Self {
        let stock = stock(gpus).await;
        let unsimplified = self::stock(gpus).await;
        let context = unsimplified.context();
        assert!(context.remove_optimizer_rule(JOINS_LISTS));
        let mut opened = Vec::new();
        for lane in lanes {
            let connection = lane.connect(gpus).await.expect("the lane opens");
            opened.push((*lane, connection));
        }
        Self {
            stock,
            unsimplified,
            lanes: opened,
        }
    }
}

/// Opens a plain session of DataFusion.
async fn stock(gpus: &Gpus) -> Connection {
    let stock = Lane::Stock.connect(gpus).await.expect("the lane opens");
    for setting in STOCK_SETTINGS {
        stock.collect(setting).await.expect("a setting");
    }
    stock
}

/// Makes one table and asks `queries` of it in every lane.
async fn ask_round(seed: u64, queries: u64, engines: &Engines, tally: &mut Tally) {
    let mut rng = StdRng::seed_from_u64(seed);
    let table = Table::random(&mut rng);
    let folder = tempfile::tempdir().expect("a scratch folder");
    table.write_parquet(&mut rng, folder.path());

    let partitions = *PARTITIONS.choose(&mut rng).expect("counts");
    let stock = &engines.stock;
    show(stock, &table, folder.path(), partitions).await;
    show(&engines.unsimplified, &table, folder.path(), partitions).await;
    let mut asked = Vec::new();
    for _ in 0..queries {
        let query = Query::random(&mut rng);
        let expected = stock.collect(query.for_stock()).await;
        tally.asked += 1;
        tally.raised += u64::from(expected.is_err());
        asked.push((query, expected));
    }
    let mut raises: Vec<Option<(Lane, bool)>> = vec![None; asked.len()];
    for (lane, connection) in &engines.lanes {
        show(connection, &table, folder.path(), partitions).await;
        let before = last_query(connection).await;
        for ((query, expected), raises) in asked.iter().zip(&mut raises) {
            let sql = match lane {
                // It parses as the stock lane does.
                Lane::Replanned => query.for_stock(),
                _ => &query.sql,
            };
            let actual = connection.collect(sql).await;
            let (first, raised) = *raises.get_or_insert((*lane, actual.is_err()));
            // Statements that are mended before they are parsed raise where they are not.
            let parses_alike = *lane != Lane::Replanned;
            let otherwise = (parses_alike && raised != actual.is_err() && !query.is_limited())
                .then(|| format!("raises in one of this lane and {}", first.name()));
            let mut difference = verdict(query, expected, &actual);
            if difference.is_some() && query.sql.contains(" IN (") {
                let expected = engines.unsimplified.collect(query.for_stock()).await;
                difference = match &expected {
                    Err(error) if error.to_string().contains(UNSIMPLIFIED) => {
                        tally.undecided += 1;
                        None
                    }
                    _ => verdict(query, &expected, &actual),
                };
            }
            if *lane == Lane::Replanned && came_too_late(&query.sql, &actual) {
                difference = None;
            }
            if let Some(difference) = difference.or(otherwise) {
                tally.failures.push(format!(
                    "TIDEGATE_FUZZ_SEED={seed} TIDEGATE_FUZZ_QUERIES={QUERIES_PER_TABLE}, lane {}, \
                     {partitions} partitions, {} rows:\n{}\n{difference}",
                    lane.name(),
                    table.num_rows(),
                    query.sql
                ));
            }
        }
        tally.count_rows(*lane, connection, before).await;
    }
}

/// Tells whether memory was refused to the join of a recursion whose first rows had left: nothing is planned again
/// after that.
fn came_too_late(sql: &str, actual: &Answer) -> bool {
    let is_refused = |error: &LaneError| error.to_string().contains(REFUSED);
    sql.starts_with("WITH RECURSIVE") && actual.as_ref().is_err_and(is_refused)
}

/// Puts a table in the place of the one before, and sets how many partitions plans have.
async fn show(connection: &Connection, table: &Table, parquet: &Path, partitions: usize) {
    let setting = format!("SET datafusion.execution.target_partitions = {partitions}");
    connection.collect(&setting).await.expect("a setting");
    let memory = MemTable::try_new(table.schema(), table.partitions()).expect("a memory table");
    let context = connection.context();
    for name in ["t", "p"] {
        context.deregister_table(name).expect("a table goes");
    }
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
}

/// Tells whether DataFusion refuses two columns of one name, which have two names here.
fn is_of_names(error: &LaneError) -> bool {
    let said = error.to_string();
    [
        "require unique expression names",
        "duplicate unqualified field name",
    ]
    .iter()
    .any(|refusal| said.contains(refusal))
}

/// Says what is wrong with a lane's answer, if anything is.
fn verdict(query: &Query, expected: &Answer, actual: &Answer) -> Option<String> {
    match (expected, actual) {
        (Err(_), Err(_)) => None,
        (Err(_), Ok(_)) if query.filtered => None,
        (Err(_), Ok(_)) | (Ok(_), Err(_)) if query.is_limited() => None,
        (Err(error), Ok(_)) if is_of_names(error) => None,
        (Err(error), Ok(_)) => Some(format!("DataFusion raises, the lane does not: {error}")),
        (Ok(_), Err(error)) => Some(format!("the lane raises, DataFusion does not: {error}")),
        (Ok(expected), Ok(actual)) => difference(query, expected, actual),
    }
}
