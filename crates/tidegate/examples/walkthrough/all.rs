//! The walkthroughs of `docs/guide/walkthroughs`, as a module that an example and the bundle share.
//!
//! Each checks its own answers. With a GPU each runs there what can, and without one it says what a GPU
//! would have run.

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
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

const NAMES: [&str; 7] = [
    "chunked-array",
    "table-in-partitions",
    "delayed-calls",
    "devices",
    "random-sum",
    "moving-partitions",
    "device-slots",
];

/// How walkthroughs are run.
#[derive(Clone, Copy, Default)]
struct Walk {
    /// Over as much data as the posts that they come from, or more.
    full: bool,
    /// Without a GPU that does its part, they fail.
    needs_device: bool,
}

/// Runs the walkthroughs that are named, or all. `full` takes as much data as is worth a GPU, and
/// `require-device` fails where no GPU does its part.
///
/// # Errors
/// Fails with the first walkthrough that does, or for a word that is none of these.
pub(crate) async fn start(words: impl Iterator<Item = String>) -> Outcome {
    let (mut walk, mut names) = (Walk::default(), Vec::new());
    for word in words {
        match word.as_str() {
            "full" => walk.full = true,
            "require-device" => walk.needs_device = true,
            name if NAMES.contains(&name) => names.push(word),
            other => {
                let names = NAMES.join(", ");
                return Err(
                    format!("{other} is none of {names}, nor full or require-device").into(),
                );
            }
        }
    }
    if names.is_empty() {
        names = NAMES.map(String::from).to_vec();
    }
    for name in &names {
        println!("== {name}");
        match name.as_str() {
            "chunked-array" => arrays::doubled(walk).await?,
            "table-in-partitions" => tables::grouped(walk).await?,
            "delayed-calls" => tasks::delayed(walk).await?,
            "devices" => devices::used(walk).await?,
            "random-sum" => arrays::random_sum(walk).await?,
            "moving-partitions" => placed::moved(walk).await?,
            _ => tasks::with_slots(walk).await?,
        }
    }
    Ok(())
}

impl Walk {
    /// Opens a session, which leaves to the GPUs what they can do if there are any.
    async fn session(self) -> Result<Session, Box<dyn Error>> {
        let session = Session::new()?;
        if !session.runtime().devices().is_empty() {
            session.set("tidegate.placement", "device").await?;
        } else if self.needs_device {
            let why = session.runtime().why_no_device();
            return Err(format!("a GPU is required, and there is none: {why}").into());
        }
        Ok(session)
    }

    /// Makes sure that a GPU took rows of the session's last query, if one has to.
    fn check_device(self, session: &Session) -> Outcome {
        if !self.needs_device {
            return Ok(());
        }
        let report = session.last_report().ok_or("no query has run")?;
        let mut places = report.regions.iter().flat_map(|region| &region.places);
        if places.any(|place| place.place != "host" && place.rows > 0) {
            return Ok(());
        }
        Err(format!("no GPU took a row:\n{report}").into())
    }

    /// Runs a query, shows its rows, and says where its regions ran or would have run.
    async fn tell(self, session: &Session, sql: &str) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
        let rows = session.collect(sql).await?;
        println!("{sql}\n{}", pretty_format_batches(&rows)?);
        if !session.runtime().devices().is_empty() {
            if let Some(report) = session.last_report() {
                println!("{report}");
            }
            self.check_device(session)?;
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
                Err(why) => {
                    println!("with a GPU, region {region} would stay on the host: {why}");
                }
            }
        }
        Ok(rows)
    }
}

/// Reads the one number of a result.
fn number(rows: &[RecordBatch]) -> Result<f64, Box<dyn Error>> {
    let column = rows
        .iter()
        .find(|rows| rows.num_rows() > 0)
        .map(|rows| rows.column(0));
    let column = column.ok_or("there is no row")?;
    if column.is_null(0) {
        return Err("the value is NULL".into());
    }
    let value = match column.as_primitive_opt::<Float64Type>() {
        Some(floats) => floats.value(0),
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
