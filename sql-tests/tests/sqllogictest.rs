//! Runs every file under `slt/` once per lane, named `{lane}::{path}`.
//!
//! - `TIDEGATE_SLT_LANE=stock`: only this lane, which may be the one that is not run by itself
//! - `TIDEGATE_SLT_COMPLETE=1`: write the stock lane's answers into the files
//! - `TIDEGATE_REQUIRE_DEVICE=1`: a device lane that was skipped is a failure

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sqllogictest::{Runner, default_validator, strict_column_validator};
use tidegate_sql_tests::{Connection, Lane};
use tokio::runtime::Runtime;

/// Folders whose answers do not come from the stock lane: it has neither our table functions nor
/// our settings and plans.
const NOT_STOCK: [&str; 4] = ["explain", "generated", "settings", "tpch"];

/// Lines of one failure's message that are printed.
const MESSAGE_LINES_MAX: usize = 60;

/// What to do with a file.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Check,
    Complete,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::from_args();
    let runtime = Arc::new(Runtime::new()?);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("slt");
    let files = slt_files(&root)?;
    let (lanes, mode) = lanes_from_env()?;

    let mut trials = Vec::new();
    for lane in lanes {
        for path in files.clone() {
            let name = path.strip_prefix(&root)?.to_owned();
            if lane == Lane::Stock && NOT_STOCK.iter().any(|folder| name.starts_with(folder)) {
                continue;
            }
            let runtime = Arc::clone(&runtime);
            let run = move || runtime.block_on(run_file(lane, mode, &path));
            let name = format!("{}::{}", lane.name(), name.display());
            trials.push(Trial::test(name, run));
        }
    }
    if mode == Mode::Check {
        trials.push(device_lane());
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// Reads which lanes run, and whether they check or complete.
fn lanes_from_env() -> Result<(Vec<Lane>, Mode), String> {
    if flag("TIDEGATE_SLT_COMPLETE") {
        return Ok((vec![Lane::Stock], Mode::Complete));
    }
    let Ok(name) = std::env::var("TIDEGATE_SLT_LANE") else {
        return Ok((Lane::TESTED.to_vec(), Mode::Check));
    };
    match Lane::from_name(&name) {
        Some(lane) => Ok((vec![lane], Mode::Check)),
        None => Err(format!("TIDEGATE_SLT_LANE={name} is no lane")),
    }
}

fn flag(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

/// Lists the `.slt` files below `folder`, sorted.
fn slt_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            paths.extend(slt_files(&path)?);
        } else if path.extension().is_some_and(|ext| ext == "slt") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Runs or completes one file on a session and in a scratch folder of its own.
async fn run_file(lane: Lane, mode: Mode, path: &Path) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let mut runner = Runner::new(move || lane.connect());
    runner.set_var("SCRATCH".to_owned(), scratch.path().display().to_string());
    runner.with_normalizer(verbatim);
    runner.with_column_validator(strict_column_validator);
    match mode {
        Mode::Check => check_file(&mut runner, path).await,
        Mode::Complete => {
            let update = runner.update_test_file(
                path,
                " ",
                default_validator,
                verbatim,
                strict_column_validator,
            );
            update.await.map_err(Failed::from)
        }
    }
}

/// Runs a file to its end and reports every record that failed, not only the first.
async fn check_file<M>(runner: &mut Runner<Connection, M>, path: &Path) -> Result<(), Failed>
where
    M: sqllogictest::MakeConnection<Conn = Connection>,
{
    let mut failures = Vec::new();
    for record in sqllogictest::parse_file(path)? {
        if let Err(error) = runner.run_async(record).await {
            failures.push(shorten(&error.display(false).to_string()));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} records failed\n\n{}",
            failures.len(),
            failures.join("\n\n")
        )
        .into()),
    }
}

/// Keeps a wrong answer of thousands of rows from hiding the other failures.
fn shorten(message: &str) -> String {
    let lines: Vec<_> = message.lines().collect();
    match lines.len() > MESSAGE_LINES_MAX {
        true => {
            let (first, rest) = lines.split_at(MESSAGE_LINES_MAX);
            let last = rest.last().unwrap_or(&"");
            format!(
                "{}\n... {} lines ...\n{last}",
                first.join("\n"),
                rest.len() - 1
            )
        }
        false => message.to_owned(),
    }
}

/// Compares text as it stands: what is between two spaces is part of the answer.
#[expect(clippy::ptr_arg, reason = "the runner wants this very signature")]
fn verbatim(text: &String) -> String {
    text.clone()
}

/// Stands for the lane that needs a GPU until there is one.
fn device_lane() -> Trial {
    let reason = "skipped: no device";
    Trial::ignorable_test(format!("device: {reason}"), move || {
        match flag("TIDEGATE_REQUIRE_DEVICE") {
            true => Err(format!("{reason}, but TIDEGATE_REQUIRE_DEVICE=1").into()),
            false => Ok(Completion::ignored_with(reason)),
        }
    })
}
