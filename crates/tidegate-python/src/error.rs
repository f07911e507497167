//! Errors as Python's exceptions, by who must act.

use std::error::Error as StdError;

use pyo3::exceptions::PyTypeError;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAnyMethods, PyModule};
use pyo3::{Py, PyAny, PyErr, PyResult, Python};
use tidegate::{Error, ErrorKind, causes};

/// The function of the package that makes an exception of a kind and a message.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes the exception of an error. An exception that a Python function raised below is its cause.
pub(crate) fn raise(error: &Error) -> PyErr {
    Python::attach(|py| make(py, error).unwrap_or_else(|failed| failed))
}

/// Makes the exception for an argument of the wrong type.
pub(crate) fn wrong_type(message: impl Into<String>) -> PyErr {
    PyTypeError::new_err(message.into())
}

fn make(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let make = MAKE.get_or_try_init(py, || {
        let errors = PyModule::import(py, "tidegate._errors")?;
        Ok::<_, PyErr>(errors.getattr("make")?.unbind())
    })?;
    let place = error.place().map(|place| (place.line(), place.column()));
    let arguments = (
        name(error.kind()),
        format!("{error:#}"),
        error.help(),
        place,
    );
    let exception = make.bind(py).call1(arguments)?;
    let raised = PyErr::from_value(exception);
    raised.set_cause(py, below(py, error));
    Ok(raised)
}

/// Finds the exception that a Python function raised.
pub(crate) fn below(py: Python<'_>, error: &(dyn StdError + 'static)) -> Option<PyErr> {
    let raised = causes(error).find_map(|cause| cause.downcast_ref::<PyErr>());
    raised.map(|raised| raised.clone_ref(py))
}

/// Returns what a kind is called in Python.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Sql => "sql",
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::NotSupported => "not_supported",
        ErrorKind::Denied => "denied",
        ErrorKind::ResourcesExhausted => "resources_exhausted",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::TimedOut => "timed_out",
        ErrorKind::Io => "io",
        ErrorKind::Device => "device",
        ErrorKind::Lost => "lost",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Internal => "internal",
    }
}
