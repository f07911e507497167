//! Runs the files below a folder once per lane that covers them, named `{lane}::{path}`.
//!
//! - `TIDEGATE_SLT_LANE=device,mixed`: only these lanes, also the one that is not run by itself
//! - `TIDEGATE_SLT_COMPLETE=1`: write the stock lane's answers into the files
//! - `TIDEGATE_REQUIRE=device`: a lane that was skipped for want of a GPU is a failure

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sqllogictest::{Runner, default_validator, strict_column_validator};
use tidegate_needs::Need;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::gpus::{Gpus, NoGpu};
use crate::lane::{Connection, Lane, LaneError};

/// Folders whose answers do not come from the stock lane: it has neither our table functions nor
/// our settings, statements and plans, makes no functions, and reads some clauses in another way.
const NOT_STOCK: [&str; 7] = [
    "dialect",
    "explain",
    "functions",
    "generated",
    "settings",
    "summarize",
    "tpch",
];

/// The files of the lane `flight`: what crosses the wire in a way of its own. That the server answers as
/// a session does is tested once for each kind of value, statement and error, not for each query.
const OVER_FLIGHT: [&str; 11] = [
    "dialect/session_zone.slt",
    "dialect/temporary.slt",
    "files/broken.slt",
    "files/parquet.slt",
    "functions/sql.slt",
    "prepared/statements.slt",
    "regress/errors.slt",
    "settings/set.slt",
    "tpch/q09.slt",
    "types/others.slt",
    "types/strings.slt",
];

/// The folders and files of the lane `cluster`: statements that read what several executors can share.
/// What stays on the scheduler runs as in the lane `host`.
const OVER_EXECUTORS: [&str; 17] = [
    "aggregate",
    "files/arrow.slt",
    "files/csv.slt",
    "files/endings.slt",
    "files/parquet.slt",
    "files/readers.slt",
    "generated/arrays.slt",
    "generated/h2o.slt",
    "generated/slices.slt",
    "generated/tensors.slt",
    "generated/tpch.slt",
    "join",
    "setops",
    "sort",
    "subquery",
    "tpch",
    "window",
];

/// The folders and files of the lane `replanned`: statements with joins, in a session that parses as DataFusion does.
const PLANNED_AGAIN: [&str; 8] = [
    "join/equi.slt",
    "join/keys.slt",
    "join/one_nan.slt",
    "join/regions.slt",
    "join/runtime_filters.slt",
    "subquery/set_comparison.slt",
    "subquery/subquery.slt",
    "tpch",
];

/// The folder whose files look at what the sessions on a GPU share: there they run one at a time.
const SHARED: &str = "cache";

/// Lines of one failure's message that are printed.
const MESSAGE_LINES_MAX: usize = 60;

/// What to do with a file.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Check,
    Complete,
}

/// Runs the files below `root` as libtest runs tests: `arguments` are libtest's, the program's name
/// first. Prints help, or the mistake in them, and ends the process.
///
/// # Errors
/// Fails if the files cannot be listed or the environment asks for what there is not; a test that
/// fails is in the exit code.
pub fn main(arguments: Vec<OsString>, root: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::from_iter(arguments);
    let runtime = Arc::new(Runtime::new()?);
    let files = slt_files(root)?;
    let (mut lanes, mode) = lanes_from_env()?;
    lanes.retain(|lane| may_name(&arguments, *lane));
    let gpus = match lanes.iter().any(|lane| lane.needs_gpu()) {
        true => Gpus::open()?,
        false => Gpus::unopened(),
    };

    if let Some(file) = OVER_FLIGHT.iter().find(|file| !root.join(file).exists()) {
        return Err(format!("the lane flight names {file}, which is not there").into());
    }
    if let Some(file) = OVER_EXECUTORS.iter().find(|file| !root.join(file).exists()) {
        return Err(format!("the lane cluster names {file}, which is not there").into());
    }

    let turn = Arc::new(Mutex::new(()));
    let mut trials = Vec::new();
    for lane in lanes {
        if let (true, Some(why)) = (lane.needs_gpu(), gpus.why_none()) {
            trials.push(skipped(lane, why.clone()));
            continue;
        }
        for path in files.clone() {
            let name = path.strip_prefix(root)?.to_owned();
            if !covers(lane, &name) {
                continue;
            }
            let takes_turns = lane.needs_gpu() && name.starts_with(SHARED);
            let turn = takes_turns.then(|| Arc::clone(&turn));
            let (runtime, gpus) = (Arc::clone(&runtime), gpus.clone());
            let run = move || {
                runtime.block_on(async {
                    let _turn = match &turn {
                        Some(turn) => Some(turn.lock().await),
                        None => None,
                    };
                    run_file(lane, gpus, mode, &path).await
                })
            };
            let name = format!("{}::{}", lane.name(), name.display());
            trials.push(Trial::test(name, run));
        }
    }
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// Tells whether a lane runs the file `name`.
fn covers(lane: Lane, name: &Path) -> bool {
    match lane {
        Lane::Stock => !NOT_STOCK.iter().any(|folder| name.starts_with(folder)),
        Lane::Flight => OVER_FLIGHT.iter().any(|file| name == Path::new(file)),
        Lane::Cluster => OVER_EXECUTORS.iter().any(|prefix| name.starts_with(prefix)),
        Lane::Replanned => PLANNED_AGAIN.iter().any(|folder| name.starts_with(folder)),
        Lane::Host | Lane::Simulated | Lane::Atomic | Lane::Device | Lane::Mixed => true,
    }
}

/// Reads which lanes run, and whether they check or complete.
fn lanes_from_env() -> Result<(Vec<Lane>, Mode), LaneError> {
    match std::env::var("TIDEGATE_SLT_COMPLETE").is_ok_and(|value| value == "1") {
        true => Ok((vec![Lane::Stock], Mode::Complete)),
        false => Ok((Lane::chosen()?, Mode::Check)),
    }
}

/// Tells whether `arguments` leave room for a test of `lane`. A process that runs one test by its
/// name opens no GPU for the others.
fn may_name(arguments: &Arguments, lane: Lane) -> bool {
    match &arguments.filter {
        Some(name) if arguments.exact => name.starts_with(lane.name()),
        _ => true,
    }
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
async fn run_file(lane: Lane, gpus: Gpus, mode: Mode, path: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path)?;
    if text.contains("$SCRATCH") && !text.contains("control substitution on") {
        return Err("it names $SCRATCH and lacks 'control substitution on'".into());
    }
    let scratch = tempfile::tempdir()?;
    let mut runner = Runner::new(move || {
        let gpus = gpus.clone();
        async move { lane.connect(&gpus).await }
    });
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

/// Stands for a lane on a machine without a GPU.
fn skipped(lane: Lane, why: NoGpu) -> Trial {
    let name = format!("{}: skipped: no device", lane.name());
    Trial::ignorable_test(name, move || {
        match tidegate_needs::required()?.contains(&Need::Device) {
            true => Err(format!("a device is required, and there is none: {why}").into()),
            false => Ok(Completion::ignored_with(why.to_string())),
        }
    })
}
