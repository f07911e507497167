//! Times whole statements over a table that a device holds: as text and prepared, with what of it the
//! kernels take, and their answers checked against the host's.
//!
//! [`start`] is given the words of a command line and returns how the process ends.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use clap::Parser;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use tidegate::{Prepared, QueryReport, Session, SimulatedSpec};

use crate::{Failure, lineitem};

#[derive(Parser)]
struct Args {
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000_000)]
    rows: usize,
    /// Timed runs of each way; the median is printed.
    #[arg(long, default_value_t = 21)]
    runs: usize,
    /// Rows of each of the table's batches.
    #[arg(long, default_value_t = 1 << 20)]
    batch_rows: usize,
    /// Runs on a simulated device, to see the program work.
    #[arg(long)]
    simulate: bool,
    /// Leaves the answers unchecked: the host takes its time over many rows.
    #[arg(long)]
    unchecked: bool,
}

/// A query with its parameters in place, the same with parameters, and two lists of values; the text
/// has the first of them.
struct Query {
    name: &'static str,
    text: &'static str,
    prepared: &'static str,
    values: [Vec<ScalarValue>; 2],
}

fn queries() -> Vec<Query> {
    let decimal = |cents| ScalarValue::Decimal128(Some(cents), 15, 2);
    let day = |days| ScalarValue::Date32(Some(days));
    let q6 = |from, to, low, high, less| {
        let prices = [decimal(low), decimal(high), decimal(less)];
        [day(from), day(to)].into_iter().chain(prices).collect()
    };
    vec![
        Query {
            name: "Q6",
            text: "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem \
                   WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
                   AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
            prepared: "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem \
                       WHERE l_shipdate >= $1 AND l_shipdate < $2 \
                       AND l_discount BETWEEN $3 AND $4 AND l_quantity < $5",
            values: [q6(8_766, 9_131, 5, 7, 2_400), q6(9_131, 9_496, 2, 4, 3_000)],
        },
        Query {
            name: "Q1",
            text: "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, \
                   sum(l_extendedprice) AS sum_base_price, \
                   sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price, \
                   sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, \
                   avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, \
                   avg(l_discount) AS avg_disc, count(*) AS count_order FROM lineitem \
                   WHERE l_shipdate <= DATE '1998-09-02' \
                   GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
            prepared: "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, \
                       sum(l_extendedprice) AS sum_base_price, \
                       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price, \
                       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, \
                       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, \
                       avg(l_discount) AS avg_disc, count(*) AS count_order FROM lineitem \
                       WHERE l_shipdate <= $1 \
                       GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
            values: [vec![day(10_471)], vec![day(9_500)]],
        },
    ]
}

/// Times what the command line asks for; its first word is the program's name. Prints help, or the
/// mistake in it, and ends the process.
pub fn start(arguments: Vec<OsString>) -> ExitCode {
    let args = Args::parse_from(arguments);
    crate::ended(run(&args))
}

#[expect(clippy::print_stdout, reason = "a table is what this program is for")]
async fn run(args: &Args) -> Result<(), Failure> {
    let began = Instant::now();
    let batches = lineitem::batches(args.rows, args.batch_rows.max(1));
    let table = Arc::new(MemTable::try_new(lineitem::schema(), vec![batches])?);
    let generated = began.elapsed().as_secs_f64();
    let mut builder = Session::builder();
    if args.simulate {
        builder = builder.simulate_device(SimulatedSpec::with_memory(8 << 30));
    }
    let session = builder.build()?;
    session.register_table("lineitem", Arc::clone(&table) as _)?;
    session.collect("SET tidegate.placement = 'strict'").await?;
    let began = Instant::now();
    let told = session.collect("CACHE TABLE lineitem ON DEVICE").await?;
    let cached = began.elapsed().as_secs_f64();
    println!("{}", pretty_format_batches(&told)?);
    let host = Session::builder()
        .visible_devices(Some(String::new()))
        .build()?;
    host.register_table("lineitem", table)?;
    println!(
        "{} rows, generated in {generated:.1} s, cached in {cached:.1} s; median of {}, in ms",
        args.rows, args.runs
    );
    println!(
        "{:<5} {:<30} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "", "wall", "least", "kernel", "outside", "plan", "compile", "queue", "download"
    );
    for query in queries() {
        Ways {
            args,
            session: &session,
            host: &host,
            query: &query,
        }
        .measure()
        .await?;
    }
    Ok(())
}

/// The ways in which one query is run.
struct Ways<'a> {
    args: &'a Args,
    session: &'a Session,
    host: &'a Session,
    query: &'a Query,
}

/// One run: how long it took, what it gave, and what is remembered of it.
struct Sample {
    wall: f64,
    rows: Vec<RecordBatch>,
    report: QueryReport,
}

impl Ways<'_> {
    async fn measure(&self) -> Result<(), Failure> {
        let Query {
            text,
            prepared,
            values,
            ..
        } = self.query;
        let expected = [
            self.expected(&values[0]).await?,
            self.expected(&values[1]).await?,
        ];
        let prepared = self.session.prepare(prepared).await?;
        let first = self.sample(self.session.collect(text)).await?;
        self.print("first time, text", vec![first], &expected[..1])?;
        let mut samples = Vec::new();
        for _ in 0..self.args.runs {
            let run = async {
                let frame = self.session.sql(text).await?;
                Ok(frame.collect().await?)
            };
            samples.push(self.sample(run).await?);
        }
        self.print("session.sql(text).collect()", samples, &expected[..1])?;
        let mut samples = Vec::new();
        for _ in 0..self.args.runs {
            samples.push(self.sample(self.session.collect(text)).await?);
        }
        self.print("session.collect(text)", samples, &expected[..1])?;
        let first = self.sample(prepared.collect(&values[0])).await?;
        self.print("first time, prepared", vec![first], &expected[..1])?;
        let samples = self.prepared(&prepared, &values[..1]).await?;
        self.print("prepared, the same values", samples, &expected[..1])?;
        let samples = self.prepared(&prepared, values).await?;
        self.print("prepared, values in turn", samples, &expected)
    }

    async fn prepared(
        &self,
        prepared: &Prepared,
        values: &[Vec<ScalarValue>],
    ) -> Result<Vec<Sample>, Failure> {
        let mut samples = Vec::new();
        // Kernels for the other values are compiled before anything is timed.
        for run in 0..self.args.runs + values.len() {
            let values = &values[run % values.len()];
            samples.push(self.sample(prepared.collect(values)).await?);
        }
        samples.drain(..values.len());
        Ok(samples)
    }

    /// Returns the host's answer, if it is to be compared.
    async fn expected(&self, values: &[ScalarValue]) -> Result<Option<String>, Failure> {
        if self.args.unchecked {
            return Ok(None);
        }
        let prepared = self.host.prepare(self.query.prepared).await?;
        let rows = prepared.collect(values).await?;
        Ok(Some(pretty_format_batches(&rows)?.to_string()))
    }

    async fn sample(
        &self,
        run: impl Future<Output = Result<Vec<RecordBatch>, tidegate::Error>>,
    ) -> Result<Sample, Failure> {
        let began = Instant::now();
        let rows = run.await?;
        let wall = began.elapsed().as_secs_f64();
        let report = self.session.last_report().ok_or("nothing was reported")?;
        Ok(Sample { wall, rows, report })
    }

    /// Checks the samples and prints one line of them.
    #[expect(clippy::print_stdout, reason = "a table is what this program is for")]
    fn print(
        &self,
        way: &str,
        mut samples: Vec<Sample>,
        expected: &[Option<String>],
    ) -> Result<(), Failure> {
        for (run, sample) in samples.iter().enumerate() {
            let query = self.query.name;
            let places = sample
                .report
                .regions
                .iter()
                .flat_map(|region| &region.places);
            if places
                .clone()
                .any(|place| place.place == "host" || place.bytes > 0)
            {
                return Err(format!("{query}, {way}: {}", sample.report).into());
            }
            // As many runs as there are lists of values were dropped before.
            let Some(expected) = &expected[run % expected.len()] else {
                continue;
            };
            let found = pretty_format_batches(&sample.rows)?.to_string();
            if found != *expected {
                let message = format!("{query}, {way}:\n{found}\nthe host has\n{expected}");
                return Err(message.into());
            }
        }
        samples.sort_by(|left, right| left.wall.total_cmp(&right.wall));
        let median = |of: &dyn Fn(&Sample) -> f64| {
            let mut values: Vec<f64> = samples.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN) * 1e3
        };
        let kernel = |sample: &Sample| phases(sample).kernel;
        println!(
            "{:<5} {way:<30} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.3}",
            self.query.name,
            median(&|sample| sample.wall),
            samples.first().map_or(f64::NAN, |sample| sample.wall) * 1e3,
            median(&kernel),
            median(&|sample| sample.wall - kernel(sample)),
            median(&|sample| sample.report.plan_seconds),
            median(&|sample| phases(sample).compile),
            median(&|sample| phases(sample).queue),
            median(&|sample| phases(sample).download),
        );
        Ok(())
    }
}

fn phases(sample: &Sample) -> tidegate::Phases {
    let mut sum = tidegate::Phases::default();
    for region in &sample.report.regions {
        sum += region.phases();
    }
    sum
}
