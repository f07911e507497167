//! Host and device at one query: what sharing gains, what it may cost, and what happens where a device's
//! memory is short.
//!
//! [`start`] is given the words of a command line and returns how the process ends. Every answer is
//! compared with the host's, and a difference is an error; so is a run that does not do what its name
//! says. Times are printed, and judged by whoever reads them.

mod memory;
mod parquet;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use arrow::array::RecordBatch;
use clap::{Parser, ValueEnum};
use tidegate::{QueryReport, Session, SimulatedSpec};

use crate::Failure;
use crate::answers::{sorted_lines, timed};

#[derive(Parser)]
struct Args {
    /// What to run; all of them by default.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Where the TPC-H tables are, or are put.
    #[arg(long, default_value = "tpch-data")]
    folder: PathBuf,
    /// The TPC-H tables' scale factor.
    #[arg(long, default_value = "10")]
    scale_factor: String,
    /// Rows of the memory tables.
    #[arg(long, default_value_t = 100_000_000)]
    rows: usize,
    /// Timed rounds of what is compared; medians are printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Runs on a simulated device, to see the program work.
    #[arg(long)]
    simulate: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// A group-by over a memory table of at least four times the device's memory limit.
    Larger,
    /// A group-by of few groups over memory tables that no device holds: host, device, both.
    Mixed,
    /// The same statement three times: the third moves nothing.
    Resident,
    /// First runs over Parquet, host against auto.
    Cold,
    /// All TPC-H queries with a device memory limit of 2 GB and with none.
    Tpch,
}

/// Runs what the command line asks for; its first word is the program's name. Prints help, or the
/// mistake in it, and ends the process.
pub fn start(arguments: Vec<OsString>) -> ExitCode {
    let args = Args::parse_from(arguments);
    crate::ended(run(&args))
}

async fn run(args: &Args) -> Result<(), Failure> {
    let chosen = |part| args.parts.is_empty() || args.parts.contains(&part);
    if chosen(Part::Larger) {
        memory::larger(args).await?;
    }
    if chosen(Part::Mixed) {
        memory::mixed(args).await?;
    }
    if chosen(Part::Resident) {
        memory::resident(args).await?;
        parquet::resident(args).await?;
    }
    if chosen(Part::Cold) {
        parquet::cold(args).await?;
    }
    if chosen(Part::Tpch) {
        parquet::tpch(args).await?;
    }
    Ok(())
}

/// Opens a session with the machine's devices, or the simulated one, and these settings.
async fn session(args: &Args, settings: &[&str]) -> Result<Session, Failure> {
    let mut builder = Session::builder();
    if args.simulate {
        builder = builder.simulate_device(SimulatedSpec::with_memory(8 << 30));
    }
    let session = builder.build()?;
    for setting in settings {
        session.collect(&format!("SET tidegate.{setting}")).await?;
    }
    Ok(session)
}

/// Opens a session that sees no device.
fn host() -> Result<Session, Failure> {
    let builder = Session::builder().visible_devices(Some(String::new()));
    Ok(builder.build()?)
}

/// What one run took, gave and did where.
struct Sample {
    millis: f64,
    lines: Vec<String>,
    report: QueryReport,
}

impl Sample {
    async fn of(session: &Session, sql: &str) -> Result<Sample, Failure> {
        let (millis, rows): (f64, Vec<RecordBatch>) = timed(session.collect(sql)).await?;
        Ok(Sample {
            millis,
            lines: sorted_lines(&rows)?,
            report: session.last_report().ok_or("nothing was reported")?,
        })
    }

    /// Fails if the rows are not those expected.
    fn check(&self, what: &str, expected: &[String]) -> Result<(), Failure> {
        match self.lines == expected {
            true => Ok(()),
            false => Err(format!(
                "{what}: {} rows, {} expected, or other values\n{}",
                self.lines.len(),
                expected.len(),
                self.report
            )
            .into()),
        }
    }

    /// Returns the rows that were read on the host and on devices, and the bytes copied to devices.
    fn work(&self) -> Work {
        let mut work = Work::default();
        for place in self.report.regions.iter().flat_map(|region| &region.places) {
            match place.place == "host" {
                true => work.host_rows += place.rows,
                false => {
                    work.device_rows += place.rows;
                    work.device_bytes += place.bytes;
                }
            }
        }
        work
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Work {
    host_rows: u64,
    device_rows: u64,
    device_bytes: u64,
}

/// Prints one line of a result.
#[expect(clippy::print_stdout, reason = "the lines are the program's result")]
fn tell(line: &str) {
    println!("{line}");
}

fn told(name: &str, sample: &Sample) {
    let work = sample.work();
    tell(&format!(
        "{name:<44} {:>9.1} ms   host {:>11} rows   device {:>11} rows {:>9.1} MB",
        sample.millis,
        work.host_rows,
        work.device_rows,
        work.device_bytes as f64 / 1e6
    ));
}
