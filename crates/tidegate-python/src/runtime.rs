//! The threads that run statements, of which a process has one set, and how Python waits for them.
//!
//! Whoever waits does so without Python's lock, and looks every 50 ms whether a signal came: Python's
//! handlers run on the main thread only, while it is in Python.

use std::panic::AssertUnwindSafe;
use std::process;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use futures::FutureExt;
use pyo3::{PyErr, PyResult, Python};
use tidegate::{CancelHandle, Error, ErrorKind};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error::raise;

/// How long a wait is before signals are looked at.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// How long a statement that was told to stop is waited for.
pub(crate) const STOP_MAX: Duration = Duration::from_millis(200);

/// The threads, and the process that they are of.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// Returns the process's threads, which the first call starts.
///
/// # Errors
/// In a child of `fork`, which has the memory of its parent and none of its threads.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    let own = process::id();
    if let Some((owner, runtime)) = RUNTIME.get() {
        return match *owner == own {
            true => Ok(runtime),
            false => Err(forked()),
        };
    }
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .thread_name("tidegate-worker")
        .thread_stack_size(tidegate_flight::STATEMENT_STACK_BYTES)
        .build()?;
    // Another thread may have been faster: its runtime counts.
    let (_, runtime) = RUNTIME.get_or_init(|| (own, runtime));
    Ok(runtime)
}

fn forked() -> PyErr {
    let message = "this process was forked from one in which Tidegate had started its threads, which a fork \
                   does not copy: start processes with multiprocessing.get_context('spawn'), or fork before \
                   the first use of tidegate";
    raise(&Error::new(ErrorKind::NotSupported, message))
}

/// Runs a future on the process's threads and waits for it. A signal's handler that raises stops it by
/// `cancel`, and is raised.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    cancel: &CancelHandle,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let task = spawn(async move {
        let done = AssertUnwindSafe(work).catch_unwind().await;
        let _ = sender.send(done.unwrap_or_else(|_| Err(panicked())));
    })?;
    loop {
        // Before the first wait as well: of a stream whose batches come fast none is long.
        if let Err(raised) = py.check_signals() {
            cancel.cancel();
            stop(py, receiver);
            task.abort();
            return Err(raised);
        }
        let (back, received) = receive(py, receiver, STEP);
        receiver = back;
        match received {
            Ok(done) => return done.map_err(|error| raise(&error)),
            Err(RecvTimeoutError::Disconnected) => return Err(raise(&panicked())),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Waits for a statement to end that was told to.
fn stop<T: Send + 'static>(py: Python<'_>, receiver: Receiver<T>) {
    let _ = receive(py, receiver, STOP_MAX);
}

fn receive<T: Send + 'static>(
    py: Python<'_>,
    receiver: Receiver<T>,
    time: Duration,
) -> (Receiver<T>, Result<T, RecvTimeoutError>) {
    py.detach(move || {
        off_the_engine(move || {
            let received = receiver.recv_timeout(time);
            (receiver, received)
        })
    })
}

/// Starts a task on the process's threads.
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> PyResult<JoinHandle<()>> {
    let runtime = runtime()?;
    Ok(off_the_engine(|| runtime.spawn(work)))
}

/// Does something that blocks. A thread of the engine, which runs a Python function, first gives away what it
/// would do next: that may be what it waits for.
pub(crate) fn off_the_engine<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}

fn panicked() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a task of the engine ended without an answer; please report it",
    )
}
