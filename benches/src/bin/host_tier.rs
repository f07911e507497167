//! Prints what the host tier saves: the first run of a TPC-H query over Parquet, which fills it, the
//! second, which reads it, and what both cost without it.
//!
//! Usage: `host_tier FOLDER [SCALE_FACTOR] [ROUNDS] [QUERY …]`; queries 1 and 6 by default. Tables are
//! generated into FOLDER once. Each round takes new sessions, so that each has a first run; the files
//! themselves are in the system's page cache. What is printed are medians in milliseconds: of stock
//! DataFusion's first and second run, of ours with `tidegate.cache = 'off'`, of ours where nothing
//! finds room in the tier, and of ours where all does. `declined` is what it costs to find that out,
//! over `off`, in second runs; `filling` what the first run that keeps costs over the one that does
//! not: medians of the rounds' ratios. Answers are compared, and a difference is an error, as is a
//! second run that does not come from the tier.

#![expect(clippy::print_stdout, reason = "the table is the program's result")]

use std::path::{Path, PathBuf};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tidegate::Session;
use tidegate_benches::Failure;
use tidegate_benches::answers::{median, sorted_lines, timed};
use tidegate_benches::tpch::{TABLES, generate, query, register};

/// Times of one round, first and second run of each.
#[derive(Default)]
struct Times {
    stock: [Vec<f64>; 2],
    off: [Vec<f64>; 2],
    full: [Vec<f64>; 2],
    tier: [Vec<f64>; 2],
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(
        args.next()
            .ok_or("usage: host_tier FOLDER [SF] [ROUNDS] [QUERY]")?,
    );
    let scale_factor = args.next().unwrap_or_else(|| "1".into());
    let rounds: usize = args.next().map_or(Ok(7), |text| text.parse())?;
    let mut chosen: Vec<usize> = args.map(|text| text.parse()).collect::<Result<_, _>>()?;
    if chosen.is_empty() {
        chosen = vec![1, 6];
    }
    let folder = generate(&folder, &scale_factor).await?;
    println!("scale factor {scale_factor}, {rounds} rounds, medians in ms");
    println!(
        "query  stock 1st  stock 2nd  off 1st  off 2nd  full 2nd  tier 1st  tier 2nd  1st/2nd  \
         declined  filling  MB kept"
    );
    for number in chosen {
        let mut times = Times::default();
        let mut kept = 0;
        for round in 0..=rounds {
            kept = measure(&folder, number, round, &mut times).await?;
        }
        print_row(number, times, kept);
    }
    Ok(())
}

fn print_row(number: usize, times: Times, kept: u64) {
    let ratios = |ours: &[f64], theirs: &[f64]| {
        let pairs = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        median(pairs.collect())
    };
    let speedup = ratios(&times.tier[0], &times.tier[1]);
    let declined = ratios(&times.full[1], &times.off[1]);
    let filling = ratios(&times.tier[0], &times.off[0]);
    let [stock_first, stock_second] = times.stock.map(median);
    let [off_first, off_second] = times.off.map(median);
    let [_, full_second] = times.full.map(median);
    let [first, second] = times.tier.map(median);
    println!(
        "{number:>5} {stock_first:>10.1} {stock_second:>10.1} {off_first:>8.1} {off_second:>8.1} \
         {full_second:>9.1} {first:>9.1} {second:>9.1} {speedup:>8.2} {declined:>9.3} \
         {filling:>8.3} {:>8.1}",
        kept as f64 / f64::from(1 << 20)
    );
}

/// Runs one round in an order that changes; returns the bytes that the tier keeps. The first round
/// warms up.
async fn measure(
    folder: &Path,
    number: usize,
    round: usize,
    times: &mut Times,
) -> Result<u64, Failure> {
    let (mut answers, mut kept) = (Vec::new(), 0);
    for turn in 0..4 {
        let (who, taken, rows) = match (turn + round) % 4 {
            0 => {
                let (taken, rows) = stock(folder, number).await?;
                (&mut times.stock, taken, rows)
            }
            1 => {
                let session = ours(folder).await?;
                session.collect("SET tidegate.cache = 'off'").await?;
                let (taken, rows) = twice(&session, number).await?;
                (&mut times.off, taken, rows)
            }
            2 => {
                let session = ours(folder).await?;
                session
                    .collect("SET tidegate.host_cache_limit = '1KB'")
                    .await?;
                let (taken, rows) = twice(&session, number).await?;
                (&mut times.full, taken, rows)
            }
            _ => {
                let session = ours(folder).await?;
                let (taken, rows) = twice(&session, number).await?;
                kept = check_kept(&session).await?;
                (&mut times.tier, taken, rows)
            }
        };
        if round > 0 {
            who.iter_mut()
                .zip(taken)
                .for_each(|(all, one)| all.push(one));
        }
        answers.extend(rows);
    }
    let mut lines = answers.iter().map(|rows| sorted_lines(rows));
    let first = lines.next().transpose()?;
    for other in lines {
        if Some(other?) != first {
            return Err(format!("query {number}: the answers differ").into());
        }
    }
    Ok(kept)
}

async fn ours(folder: &Path) -> Result<Session, Failure> {
    let session = Session::new()?;
    register(&session, folder).await?;
    Ok(session)
}

async fn twice(
    session: &Session,
    number: usize,
) -> Result<([f64; 2], Vec<Vec<RecordBatch>>), Failure> {
    let (first, rows) = timed(session.collect(query(number))).await?;
    let (second, again) = timed(session.collect(query(number))).await?;
    Ok(([first, second], vec![rows, again]))
}

async fn stock(folder: &Path, number: usize) -> Result<([f64; 2], Vec<Vec<RecordBatch>>), Failure> {
    let ctx = SessionContext::new();
    for table in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        let options = ParquetReadOptions::default();
        ctx.register_parquet(table, path.to_string_lossy().as_ref(), options)
            .await?;
    }
    let run = async || ctx.sql(query(number)).await?.collect().await;
    let (first, rows) = timed(run()).await?;
    let (second, again) = timed(run()).await?;
    Ok(([first, second], vec![rows, again]))
}

/// Makes sure that the second run came from the tier; returns the bytes that it keeps.
async fn check_kept(session: &Session) -> Result<u64, Failure> {
    let sql = "SELECT sum(host_bytes), min(hits) FROM system.cache WHERE tier = 'host'";
    let rows = session.collect(sql).await?;
    let number = |column: usize| rows[0].column(column).as_primitive::<UInt64Type>().value(0);
    if number(1) == 0 {
        return Err("the second run did not come from the host tier".into());
    }
    Ok(number(0))
}
