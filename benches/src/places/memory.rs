//! Memory tables: one larger than the device's memory, and one that host and device share.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use tidegate::Session;

use super::{Args, Sample, host, session, tell, told};
use crate::answers::median;
use crate::{Failure, lineitem};

/// Rows of each group of `k`.
const GROUP_ROWS: usize = 100;
const BATCH_ROWS: usize = 1 << 20;

/// Columns `k` of a value for each [`GROUP_ROWS`] rows, `g` of ten, `v` of all 64 bits, and `x` between 0 and 1.
fn table(num_rows: usize) -> Result<Arc<MemTable>, Failure> {
    let column = |name, kind| Field::new(name, kind, false);
    let schema = Arc::new(Schema::new(vec![
        column("k", DataType::Int64),
        column("g", DataType::Int64),
        column("v", DataType::Int64),
        column("x", DataType::Float64),
    ]));
    let batch = |rows: std::ops::Range<usize>| {
        let values = |channel, count: u64| {
            let value = move |row: usize| (lineitem::mix(row as u64, channel) % count) as i64;
            Arc::new(Int64Array::from_iter_values(rows.clone().map(value)))
        };
        let unit = |row: usize| (lineitem::mix(row as u64, 3) >> 11) as f64 / (1_u64 << 53) as f64;
        let x = Float64Array::from_iter_values(rows.clone().map(unit));
        let columns = vec![
            values(0, (num_rows / GROUP_ROWS).max(1) as u64) as _,
            values(1, 10) as _,
            values(2, u64::MAX) as _,
            Arc::new(x) as _,
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).ok()
    };
    let starts: Vec<usize> = (0..num_rows).step_by(BATCH_ROWS).collect();
    let num_threads = thread::available_parallelism().map_or(1, usize::from);
    let share = starts.len().div_ceil(num_threads).max(1);
    let partitions: Vec<Vec<RecordBatch>> = thread::scope(|scope| {
        let threads: Vec<_> = starts
            .chunks(share)
            .map(|starts| {
                let rows = |start: &usize| *start..num_rows.min(start + BATCH_ROWS);
                scope.spawn(move || {
                    starts
                        .iter()
                        .filter_map(|start| batch(rows(start)))
                        .collect()
                })
            })
            .collect();
        let made = threads.into_iter().map(|thread| thread.join());
        made.map(|batches| batches.unwrap_or_default()).collect()
    });
    Ok(Arc::new(MemTable::try_new(schema, partitions)?))
}

/// The table's bytes of the columns `k` and `v`, over what a device may take for them.
const TIMES_LARGER: usize = 6;

/// Groups of a hundred rows each; the device may hold a sixth of the two columns' 16 bytes a row. Its form of
/// them takes 12, so that the table is four and a half times larger than the limit.
pub(super) async fn larger(args: &Args) -> Result<(), Failure> {
    let sql = "SELECT k, sum(v % 1000), count(*) FROM t GROUP BY k";
    let table = table(args.rows)?;
    let limit = args.rows * 16 / TIMES_LARGER;
    let answers = host()?;
    answers.register_table("t", Arc::clone(&table) as _)?;
    let expected = Sample::of(&answers, sql).await?;
    tell(&format!(
        "larger: {} rows, {} MB in two columns, device_memory_limit {} MB",
        args.rows,
        args.rows * 16 / 1_000_000,
        limit / 1_000_000
    ));
    told("host", &expected);
    let limit = format!("device_memory_limit = '{limit}'");
    for placement in ["strict", "auto"] {
        let placed = format!("placement = '{placement}'");
        let session = session(args, &[&placed, &limit]).await?;
        session.register_table("t", Arc::clone(&table) as _)?;
        for run in 1..=3 {
            let sample = Sample::of(&session, sql).await?;
            sample.check(placement, &expected.lines)?;
            told(&format!("{placement}, run {run}"), &sample);
        }
    }
    Ok(())
}

/// Integers, floats and decimals by ten or six groups, nothing cached.
pub(super) async fn mixed(args: &Args) -> Result<(), Failure> {
    let lines = lineitem::batches(args.rows, BATCH_ROWS);
    let lines = Arc::new(MemTable::try_new(lineitem::schema(), vec![lines])?);
    let pairs = table(args.rows)?;
    tell(&format!(
        "mixed: {} rows, cache off, medians of {} in ms",
        args.rows, args.rounds
    ));
    tell(&format!(
        "{:<44} {:>9} {:>9} {:>9} {:>9}  rows of the device",
        "", "host", "device", "auto", "gain"
    ));
    let queries = [
        (
            "sum of int64, 10 groups",
            "SELECT g, sum(v % 1000) FROM t GROUP BY g",
        ),
        (
            "sum and average of float64, 10 groups",
            "SELECT g, round(sum(x), 3), round(avg(x), 6) FROM t GROUP BY g",
        ),
        (
            "decimals, 6 groups (as TPC-H Q1)",
            "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), \
             avg(l_discount), count(*) FROM l WHERE l_shipdate <= DATE '1998-09-02' \
             GROUP BY l_returnflag, l_linestatus",
        ),
    ];
    for (name, sql) in queries {
        let mut sessions = Vec::new();
        for placement in ["host", "strict", "auto"] {
            let placed = format!("placement = '{placement}'");
            let session = session(args, &[&placed, "cache = 'off'"]).await?;
            session.register_table("t", Arc::clone(&pairs) as _)?;
            session.register_table("l", Arc::clone(&lines) as _)?;
            sessions.push((placement, session));
        }
        mixed_row(args, name, sql, &sessions).await?;
    }
    Ok(())
}

async fn mixed_row(
    args: &Args,
    name: &str,
    sql: &str,
    sessions: &[(&str, Session)],
) -> Result<(), Failure> {
    let mut expected = None;
    let mut times = vec![Vec::new(); sessions.len()];
    let mut shares = Vec::new();
    // The first round compiles, opens and learns.
    for round in 0..=args.rounds {
        for turn in 0..sessions.len() {
            let number = (turn + round) % sessions.len();
            let (placement, session) = &sessions[number];
            let sample = Sample::of(session, sql).await?;
            let expected = expected.get_or_insert_with(|| sample.lines.clone());
            sample.check(&format!("{name}, {placement}"), expected)?;
            let work = sample.work();
            if *placement == "strict" && (work.host_rows > 0 || work.device_rows == 0) {
                return Err(format!("{name}: {}", sample.report).into());
            }
            if round > 0 {
                times[number].push(sample.millis);
                if *placement == "auto" {
                    let all = (work.device_rows + work.host_rows).max(1);
                    shares.push(work.device_rows as f64 / all as f64);
                }
            }
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let [on_host, on_device, auto] = medians[..] else {
        return Err("three ways are compared".into());
    };
    tell(&format!(
        "{name:<44} {on_host:>9.1} {on_device:>9.1} {auto:>9.1} {:>9.2}  {:.0} %",
        on_host.min(on_device) / auto,
        median(shares) * 100.0
    ));
    Ok(())
}

/// The same statement over a memory table again and again.
pub(super) async fn resident(args: &Args) -> Result<(), Failure> {
    let table = table(args.rows)?;
    let sql = "SELECT g, sum(v % 1000), count(*) FROM t GROUP BY g";
    let session = session(args, &[]).await?;
    session.register_table("t", table)?;
    tell(&format!("resident: a memory table of {} rows", args.rows));
    thrice(&session, sql).await
}

/// How long what was read twice may take to come to a device.
const PROMOTION_MAX: Duration = Duration::from_secs(30);

/// Waits until a device keeps something, or the time is over.
async fn promoted(session: &Session) -> Result<(), Failure> {
    let began = Instant::now();
    while began.elapsed() < PROMOTION_MAX {
        let kept = "SELECT 1 FROM system.cache WHERE tier <> 'host' AND device_bytes > 0";
        if session
            .collect(kept)
            .await?
            .iter()
            .any(|rows| rows.num_rows() > 0)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    tell(&format!("brought to the device within {seconds:.2} s"));
    Ok(())
}

/// Runs a statement three times. What it reads comes to the device after the second, in the background,
/// and the third has to move nothing.
pub(super) async fn thrice(session: &Session, sql: &str) -> Result<(), Failure> {
    let mut first = None;
    for run in 1..=3 {
        let sample = Sample::of(session, sql).await?;
        told(&format!("run {run}"), &sample);
        sample.check(
            "the same statement again",
            first.get_or_insert(sample.lines.clone()),
        )?;
        if run == 2 {
            promoted(session).await?;
        }
        let work = sample.work();
        if run == 3 && (work.device_bytes > 0 || work.device_rows == 0 || work.host_rows > 0) {
            return Err(format!("the third run is not resident: {}", sample.report).into());
        }
    }
    Ok(())
}
