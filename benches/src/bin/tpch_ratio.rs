//! Prints our time over stock DataFusion's for each TPC-H query over Parquet.
//!
//! Usage: `tpch_ratio FOLDER [SCALE_FACTOR] [PAIRS] [none|host|gated|auto] [QUERY …]`. Tables are generated
//! into FOLDER once. Each pair runs both engines, in alternating order; what is printed is the median
//! of each and the median of the pairs' ratios. Answers are compared, and a difference is an error.
//! The fourth argument chooses the device: none, a simulated one with everything placed on the host,
//! one whose regions share their scans but leave every morsel to the host (the gate's own cost), or
//! one that is free to take part.

#![expect(clippy::print_stdout, reason = "the table is the program's result")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tidegate::{Session, SimulatedSpec};
use tidegate_benches::Failure;
use tidegate_benches::answers::{median, sorted_lines, timed};
use tidegate_benches::tpch::{TABLES, generate, query, register};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(
        args.next()
            .ok_or("usage: tpch_ratio FOLDER [SF] [PAIRS] [DEVICE]")?,
    );
    let scale_factor = args.next().unwrap_or_else(|| "1".into());
    let pairs: usize = args.next().map_or(Ok(15), |text| text.parse())?;
    let device = args.next().unwrap_or_else(|| "none".into());
    let chosen: Vec<usize> = args.map(|text| text.parse()).collect::<Result<_, _>>()?;

    let folder = generate(&folder, &scale_factor).await?;
    let ours = our_session(&folder, &device).await?;
    let stock = stock_session(&folder).await?;
    println!("device: {device}, scale factor {scale_factor}, {pairs} pairs, medians in ms");
    println!("query  tidegate     stock   ratio  rows by place");
    let mut logarithms = Vec::new();
    for number in 1..=22 {
        if !chosen.is_empty() && !chosen.contains(&number) {
            continue;
        }
        let row = compare(&ours, &stock, number, pairs).await?;
        let (time, stock_time, ratio) = (row.ours, row.stock, row.ratio);
        let places = rows_by_place(&ours);
        println!("{number:>5} {time:>9.1} {stock_time:>9.1} {ratio:>7.3}  {places}");
        logarithms.push(row.ratio.ln());
    }
    let mean = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
    println!("geometric mean of the ratios: {mean:.3}");
    Ok(())
}

async fn our_session(folder: &Path, device: &str) -> Result<Session, Failure> {
    let mut builder = Session::builder();
    if device != "none" {
        builder = builder.simulate_device(SimulatedSpec::with_memory(2 << 30));
    }
    let session = builder.build()?;
    if device == "host" {
        session.collect("SET tidegate.placement = 'host'").await?;
    }
    if device == "gated" {
        session
            .collect("SET tidegate.replay_placement = 'H'")
            .await?;
    }
    register(&session, folder).await?;
    Ok(session)
}

async fn stock_session(folder: &Path) -> Result<SessionContext, Failure> {
    let ctx = SessionContext::new();
    for table in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        let options = ParquetReadOptions::default();
        ctx.register_parquet(table, path.to_string_lossy().as_ref(), options)
            .await?;
    }
    Ok(ctx)
}

struct Row {
    ours: f64,
    stock: f64,
    ratio: f64,
}

async fn compare(
    ours: &Session,
    stock: &SessionContext,
    number: usize,
    pairs: usize,
) -> Result<Row, Failure> {
    let sql = query(number);
    let (mut our_times, mut stock_times, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=pairs {
        let (our_time, stock_time);
        let (our_rows, stock_rows);
        if pair % 2 == 0 {
            (our_time, our_rows) = timed(ours.collect(sql)).await?;
            (stock_time, stock_rows) =
                timed(async { stock.sql(sql).await?.collect().await }).await?;
        } else {
            (stock_time, stock_rows) =
                timed(async { stock.sql(sql).await?.collect().await }).await?;
            (our_time, our_rows) = timed(ours.collect(sql)).await?;
        }
        if sorted_lines(&our_rows)? != sorted_lines(&stock_rows)? {
            return Err(format!("query {number}: the answers differ").into());
        }
        // The first pair warms both up.
        if pair > 0 {
            our_times.push(our_time);
            stock_times.push(stock_time);
            ratios.push(our_time / stock_time);
        }
    }
    Ok(Row {
        ours: median(our_times),
        stock: median(stock_times),
        ratio: median(ratios),
    })
}

/// Says where the rows of the last query's regions were read.
fn rows_by_place(session: &Session) -> String {
    let mut rows = BTreeMap::new();
    let regions = session
        .last_report()
        .map(|report| report.regions)
        .unwrap_or_default();
    for place in regions.into_iter().flat_map(|region| region.places) {
        *rows.entry(place.place).or_insert(0) += place.rows;
    }
    let told: Vec<String> = rows
        .iter()
        .map(|(place, rows)| format!("{place} {rows}"))
        .collect();
    told.join(", ")
}
