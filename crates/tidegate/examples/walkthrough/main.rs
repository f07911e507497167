//! Seven walkthroughs, each told in `docs/guide/walkthroughs`.
//!
//! `cargo run --release --example walkthrough -- <name> [full]`; without a name all of them run, small.
//! Each checks its own answers. Without a GPU each says what a GPU would have run.

#![expect(clippy::print_stdout, reason = "an example shows its answer")]

mod arrays;
mod devices;
mod placed;
mod tables;
mod tasks;

use std::error::Error;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use tidegate::Session;

/// What a walkthrough ends with.
type Outcome = Result<(), Box<dyn Error>>;

/// How large its data is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Small,
    Full,
}

const NAMES: [&str; 7] = [
    "chunked-array",
    "table-in-partitions",
    "delayed-calls",
    "devices",
    "random-sum",
    "moving-partitions",
    "device-slots",
];

#[tokio::main]
async fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let name = args.next();
    let scale = match args.next().as_deref() {
        Some("full") => Scale::Full,
        _ => Scale::Small,
    };
    let names = match &name {
        Some(name) => vec![name.as_str()],
        None => NAMES.to_vec(),
    };
    for name in names {
        println!("== {name}");
        match name {
            "chunked-array" => arrays::doubled().await?,
            "table-in-partitions" => tables::grouped().await?,
            "delayed-calls" => tasks::delayed().await?,
            "devices" => devices::used().await?,
            "random-sum" => arrays::random_sum(scale).await?,
            "moving-partitions" => placed::moved().await?,
            "device-slots" => tasks::with_slots().await?,
            other => return Err(format!("{other} is none of {}", NAMES.join(", ")).into()),
        }
    }
    Ok(())
}

/// Runs a query, shows its rows, and says where its regions ran or would have run.
async fn tell(session: &Session, sql: &str) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
    let rows = session.collect(sql).await?;
    println!("{sql}\n{}", pretty_format_batches(&rows)?);
    if !session.runtime().devices().is_empty() {
        if let Some(report) = session.last_report() {
            println!("{report}");
        }
        return Ok(rows);
    }
    println!("no device here: {}", session.runtime().why_no_device());
    for report in session.kernels(sql).await? {
        let region = report.region;
        match report.kernel {
            Ok(kernel) => println!(
                "with a GPU, region {region} would be one kernel ({}): {}",
                kernel.store,
                report.program.unwrap_or_default()
            ),
            Err(why) => println!("with a GPU, region {region} would stay on the host: {why}"),
        }
    }
    Ok(rows)
}

/// Reads the one float of a result.
fn number(rows: &[RecordBatch]) -> Result<f64, Box<dyn Error>> {
    let column = rows
        .iter()
        .find(|rows| rows.num_rows() > 0)
        .map(|rows| rows.column(0));
    let column = column.ok_or("there is no row")?;
    let value = match column.as_primitive_opt::<Float64Type>() {
        Some(floats) if floats.is_valid(0) => floats.value(0),
        Some(_) => return Err("the value is NULL".into()),
        None => column.as_primitive::<Int64Type>().value(0) as f64,
    };
    Ok(value)
}

/// Makes sure of an answer.
fn expect(what: &str, given: f64, wanted: f64, within: f64) -> Outcome {
    if (given - wanted).abs() <= within {
        return Ok(());
    }
    Err(format!("{what} is {given}, and should be {wanted} within {within}").into())
}
