//! Python calls as tasks of a session: they take slots and memory, wait for those, and may be made again.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::{pyclass, pymethods};
use pyo3::{Py, PyAny, PyErr, PyResult, Python};
use tidegate::{Error, Handle, Session, Task, TaskError};

use crate::error::{below, raise};
use crate::functions::attached;
use crate::runtime::{runtime, spawn};

/// A call that runs, or ran.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Call(Handle<Py<PyAny>>);

#[pymethods]
impl Call {
    /// Does not make the call if it has not begun, and uses nothing of what it returns.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// What a call takes while it runs: slots by name, bytes, how often it is made again, and its priority.
pub(crate) type CallNeeds = (HashMap<String, u32>, u64, u32, i32);

impl Call {
    /// Submits a call of `body`, whose value or exception `done` is called with.
    pub(crate) fn submit(
        session: &Session,
        name: String,
        body: Py<PyAny>,
        done: Py<PyAny>,
        (slots, memory, retries, priority): CallNeeds,
    ) -> PyResult<Self> {
        let call = Task::call(move |_| attached(|py| body.call0(py)));
        let call = call
            .named(name)
            .memory(memory)
            .retries(retries)
            .priority(priority);
        let slots = slots.into_iter();
        let call = slots.fold(call, |call, (name, count)| call.slots(name, count));
        let submitted = {
            let _inside = runtime()?.enter();
            session.submit(call)
        };
        let handle = submitted.map_err(|error| raise(&error))?;
        let ended = handle.clone();
        spawn(async move {
            let outcome = ended.await;
            // What is called while Python ends is called by nobody.
            let _ = Python::try_attach(|py| tell(py, &done, outcome));
        })?;
        Ok(Self(handle))
    }
}

fn tell(py: Python<'_>, done: &Py<PyAny>, outcome: Result<Arc<Py<PyAny>>, TaskError>) {
    let told = match outcome {
        Ok(value) => done.call1(py, (value.clone_ref(py), py.None())),
        Err(error) => done.call1(py, (py.None(), exception(py, error).into_value(py))),
    };
    if let Err(raised) = told {
        raised.write_unraisable(py, Some(done.bind(py)));
    }
}

/// Returns what the call raised, or the exception for why it was not made.
fn exception(py: Python<'_>, error: TaskError) -> PyErr {
    let raised = match error.root() {
        TaskError::Failed { cause, .. } => below(py, cause.as_ref()),
        _ => None,
    };
    raised.unwrap_or_else(|| raise(&Error::from(error)))
}
