//! A statement that runs while Python does something else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::{FutureExt, TryStreamExt};
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::{PyAnyMethods, pyclass, pymethods};
use pyo3::types::{PyDict, PyDictMethods};
use pyo3::{Bound, Py, PyAny, PyResult, Python};
use tidegate::{CancelHandle, Error, ErrorKind, QueryProgress};

use crate::connection::Engine;
use crate::error::raise;
use crate::rows::{Rows, Stream};
use crate::runtime::{STEP, STOP_MAX, off_the_engine, spawn};

/// A statement that runs, or ran.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Job {
    engine: Engine,
    cancel: CancelHandle,
    outcome: Arc<Outcome>,
}

type Collected = Result<(SchemaRef, Vec<RecordBatch>), Error>;

#[derive(Default)]
struct Outcome {
    collected: Mutex<Option<Collected>>,
    has_ended: Condvar,
    /// What is called at the end.
    callbacks: Mutex<Vec<Py<PyAny>>>,
}

impl Job {
    /// Starts a statement, whose rows are collected.
    pub(crate) fn start(
        engine: Engine,
        cancel: CancelHandle,
        work: impl Future<Output = Result<Stream, Error>> + Send + 'static,
    ) -> PyResult<Self> {
        let outcome = Arc::new(Outcome::default());
        let (handle, inside) = (cancel.clone(), Arc::clone(&outcome));
        let collected = async move {
            let stream = work.await?;
            let schema = Arc::clone(&stream.schema);
            Ok((schema, stream.batches.try_collect::<Vec<_>>().await?))
        };
        spawn(async move {
            let collected = AssertUnwindSafe(collected).catch_unwind();
            let done = tokio::select! {
                done = collected => done.unwrap_or_else(|_| Err(panicked())),
                () = handle.cancelled() => Err(cancelled()),
            };
            inside.end(done);
        })?;
        Ok(Self {
            engine,
            cancel,
            outcome,
        })
    }

    /// Waits for the schema and the batches.
    pub(crate) fn collected(&self, py: Python<'_>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
        match self.wait(py, None, None, true)? {
            Some(rows) => Ok((rows.schema, rows.batches)),
            None => Err(raise(&panicked())),
        }
    }

    fn rows(&self) -> PyResult<Option<Rows>> {
        match &*self.outcome.collected.lock() {
            None => Ok(None),
            Some(Err(error)) => Err(raise(error)),
            Some(Ok((schema, batches))) => Ok(Some(Rows {
                schema: Arc::clone(schema),
                batches: batches.clone(),
            })),
        }
    }
}

impl Outcome {
    fn end(&self, done: Collected) {
        *self.collected.lock() = Some(done);
        self.has_ended.notify_all();
        let callbacks = std::mem::take(&mut *self.callbacks.lock());
        if callbacks.is_empty() {
            return;
        }
        // What is called while Python ends is called by nobody.
        let _ = Python::try_attach(|py| {
            for callback in callbacks {
                call(py, &callback);
            }
        });
    }
}

fn call(py: Python<'_>, callback: &Py<PyAny>) {
    if let Err(raised) = callback.call0(py) {
        raised.write_unraisable(py, Some(callback.bind(py)));
    }
}

#[pymethods]
impl Job {
    /// Returns whether the statement has ended.
    fn done(&self) -> bool {
        self.outcome.collected.lock().is_some()
    }

    /// Stops the statement.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for the rows, for so many seconds at most; `None` if they are not there by then. `tick` is called
    /// about every 50 ms. Ctrl-C stops the statement.
    #[pyo3(signature = (timeout=None, tick=None, cancels=true))]
    fn wait(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        tick: Option<Bound<'_, PyAny>>,
        cancels: bool,
    ) -> PyResult<Option<Rows>> {
        let until = timeout
            .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        loop {
            let left = until.map_or(STEP, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if py.detach(|| self.outcome.wait(left.min(STEP))) {
                return self.rows();
            }
            let ticked = py.check_signals();
            let ticked =
                ticked.and_then(|()| tick.as_ref().map_or(Ok(()), |tick| tick.call0().map(drop)));
            if let Err(raised) = ticked {
                if cancels {
                    self.cancel.cancel();
                    py.detach(|| self.outcome.wait(STOP_MAX));
                }
                return Err(raised);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// Calls a function without arguments when the statement ends, from a thread of the engine; at once if it
    /// has ended.
    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) {
        let mut callbacks = self.outcome.callbacks.lock();
        callbacks.push(callback);
        if !self.done() {
            return;
        }
        let late = std::mem::take(&mut *callbacks);
        drop(callbacks);
        late.iter().for_each(|callback| call(py, callback));
    }

    /// Tells how far the statement has come, as a dict; `None` if that is not known.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        match self.engine.progress(py, &self.cancel)? {
            Some(progress) => Ok(Some(told(py, &progress)?)),
            None => Ok(None),
        }
    }
}

impl Outcome {
    /// Waits for the end; returns whether it has come.
    fn wait(&self, time: Duration) -> bool {
        off_the_engine(|| {
            let mut collected = self.collected.lock();
            if collected.is_none() {
                self.has_ended.wait_for(&mut collected, time);
            }
            collected.is_some()
        })
    }
}

fn told<'py>(py: Python<'py>, progress: &QueryProgress) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("share", progress.share())?;
    told.set_item("seconds", progress.seconds)?;
    told.set_item("seconds_left", progress.seconds_left())?;
    told.set_item("rows_read", progress.rows_read)?;
    told.set_item("rows_total", progress.rows_total)?;
    told.set_item("device_rows", progress.device_rows)?;
    told.set_item("bytes_read", progress.bytes_read)?;
    Ok(told)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the statement was cancelled")
}

fn panicked() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a task of the engine ended without an answer; please report it",
    )
}
