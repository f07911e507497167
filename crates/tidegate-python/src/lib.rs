//! The native half of the Python package `tidegate`: sessions, frames, expressions and rows as Python objects.
//!
//! Everything here is thin: what is not hot is in `python/tidegate`, which calls the classes of this module
//! and is the only one that does. Expressions come in as trees of tuples and become DataFusion's here, so that
//! a frame is planned and placed as a statement is. This crate must not know how anything runs.
//!
//! In reading order: `runtime` (threads, waiting, Ctrl-C), `error`, `connection` (sessions, here and on
//! servers), `literal` and `expr` (trees become expressions), `types`, `frame` (plans), `aggregation`, `joins`, `order`,
//! `job` (a statement that runs), `rows` (what it gives), `functions` (Python functions over batches), `tasks` (Python
//! calls that a session runs).

mod aggregation;
mod connection;
mod error;
mod expr;
mod frame;
mod functions;
mod job;
mod joins;
mod literal;
mod order;
mod remote;
mod rows;
mod runtime;
mod tasks;
mod types;

use std::ffi::OsString;

use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult, Python, pyfunction, pymodule};
use pyo3::wrap_pyfunction;

/// Runs the command `tidegate` with these words, the first of which is the program's name, and returns the
/// status to end the process with.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| tidegate_cli::run(arguments))
}

/// Cuts a text at the semicolons between its statements; a text that cannot be cut is one.
#[pyfunction]
fn statements(text: &str) -> Vec<String> {
    match tidegate::statements::locate(text) {
        Ok(found) => found
            .iter()
            .map(|statement| statement.text().to_owned())
            .collect(),
        Err(_) => vec![text.to_owned()],
    }
}

/// The module `tidegate._tidegate`.
#[pymodule]
fn _tidegate(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::Session>()?;
    module.add_class::<frame::Frame>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<rows::Batches>()?;
    module.add_class::<rows::Schema>()?;
    module.add_class::<functions::Function>()?;
    module.add_class::<tasks::Call>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(statements, module)?)?;
    module.add_function(wrap_pyfunction!(functions::end_functions, module)?)
}
