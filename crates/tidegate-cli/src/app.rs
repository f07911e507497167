//! Threads with room to plan, a session, and the door that the command line names.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_flight::STATEMENT_STACK_BYTES;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::args::{self, Args, Door, SessionArgs, Source};
use crate::demo::Demo;
use crate::engine::Engine;
use crate::exit::FAILED;
use crate::failure::Failure;
use crate::params::Params;
use crate::run::Runner;
use crate::script::Script;
use crate::session::{builder, session};
use crate::{
    cluster, configuration, connect, console, doctor, kernel, manual, panics, repl, report, serve,
    shell,
};

/// Stack of the thread that everything starts from.
const MAIN_STACK_BYTES: usize = 64 << 20;
/// How long the end waits for work that does not stop when told to.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// Runs what the command line asks for; its first word is the program's name. Prints help, or the
/// mistake in it, and ends the process.
///
/// Panics of the whole process are held back from here on: they are told as errors.
pub fn start(arguments: Vec<OsString>) -> ExitCode {
    ExitCode::from(run(arguments))
}

/// As [`start`], with the exit status as a number, for a program that ends in its own way.
pub fn run(arguments: Vec<OsString>) -> u8 {
    panics::hold_back();
    let args = args::parse(arguments);
    let main = thread::Builder::new()
        .name("tidegate".into())
        .stack_size(MAIN_STACK_BYTES);
    match main
        .spawn(move || run_to_end(args))
        .map(thread::JoinHandle::join)
    {
        Ok(Ok(status)) => status,
        Ok(Err(_)) => {
            let message = panics::take();
            console::error(
                format_args!("internal error: {message}; please report it"),
                None,
            );
            FAILED
        }
        Err(error) => {
            console::error(format_args!("cannot start a thread: {error}"), None);
            FAILED
        }
    }
}

fn run_to_end(args: Args) -> u8 {
    // Signals and timers have a runtime of their own: statements may keep every worker busy.
    let front = Builder::new_current_thread().enable_all().build();
    let (front, workers) = match front.and_then(|front| Ok((front, workers(&args.session)?))) {
        Ok(runtimes) => runtimes,
        Err(error) => {
            console::error(format_args!("cannot start threads: {error}"), None);
            return FAILED;
        }
    };
    let status = front.block_on(open(args, workers.handle()));
    workers.shutdown_timeout(SHUTDOWN_MAX);
    status
}

/// Memory limits below this are kept to by an allocator that keeps little for later.
const SMALL_MEMORY_BYTES: u64 = 1 << 30;

/// Starts the threads that run statements.
fn workers(args: &SessionArgs) -> io::Result<Runtime> {
    let limit = args.memory_limit.as_ref();
    if limit.is_some_and(|limit| limit.0 < SMALL_MEMORY_BYTES) {
        tidegate::keep_heap_small();
    }
    let mut builder = Builder::new_multi_thread();
    builder
        .enable_all()
        .thread_name("tidegate-worker")
        .thread_stack_size(STATEMENT_STACK_BYTES);
    if let Some(threads) = args.threads {
        builder.worker_threads(threads.get());
    }
    builder.build()
}

async fn open(args: Args, workers: &Handle) -> u8 {
    match &args.door {
        Some(Door::Config { reference: true }) => return configuration::reference(),
        Some(Door::Completions { shell }) => return manual::completions(*shell),
        Some(Door::Man { of }) => return manual::page(of.as_deref()),
        _ => {}
    }
    let is_simulated = !args.session.simulate_device.is_empty();
    if let Some(Door::Serve(asked)) = &args.door {
        let builder = builder(args.session);
        return serve::run(asked, &args.output, &args.settings, builder, workers).await;
    }
    if let Some(Door::Cluster { role }) = &args.door {
        return cluster::run(role, &args.output, &args.settings, args.session, workers).await;
    }
    let failed = |failure: Failure| {
        console::error(failure, None);
        FAILED
    };
    let Some(door) = &args.door else {
        return match statements(&args, workers).await {
            Ok(status) => status,
            Err(failure) => failed(failure),
        };
    };
    let session = match session(builder(args.session).file_urls(), &args.settings).await {
        Ok(session) => session,
        Err(failure) => return failed(failure),
    };
    match door {
        Door::Doctor => doctor::run(&session),
        Door::Config { .. } => {
            configuration::run(
                &session,
                workers,
                &args.options,
                &args.settings,
                &args.output,
            )
            .await
        }
        Door::Kernel(asked) => kernel::run(&session, asked).await,
        Door::Report(asked) => report::run(&session, workers, asked).await,
        // These need no session, or make one of their own, above.
        Door::Serve(_) | Door::Cluster { .. } | Door::Completions { .. } | Door::Man { .. } => {
            FAILED
        }
        Door::Demo { scale_factor } => {
            let demo = Demo {
                scale_factor: *scale_factor,
                is_simulated,
            };
            demo.run(session, workers, &args.output).await
        }
    }
}

/// Runs statements, here or on a server: at a prompt, or those that the command line names.
async fn statements(args: &Args, workers: &Handle) -> Result<u8, Failure> {
    let params = Params::read(&args.params).map_err(Failure::Format)?;
    let engine: Arc<dyn Engine> = match &args.connect.connect {
        Some(url) => connect::connect(url, &args.connect, &args.settings, workers).await?,
        None => {
            let builder = builder(args.session.clone()).file_urls().standard_input();
            Arc::new(session(builder, &args.settings).await?)
        }
    };
    let is_prompt = args.sources.is_empty() && at_terminal();
    let rows = is_prompt.then_some(repl::PROMPT_ROWS);
    let mut runner = Runner::new(Arc::clone(&engine), workers, &args.output, rows);
    runner.params = params;
    let status = if is_prompt {
        repl::run(runner).await
    } else {
        let sources = match args.sources.is_empty() {
            true => &[Source::Stdin][..],
            false => &args.sources,
        };
        shell::scripts(runner, sources.iter().map(Script::read), args.keep_going).await
    };
    engine.close().await;
    Ok(status)
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}
