//! The native half of the Python package `tidegate`.

use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult, pymodule};

/// The module `tidegate._tidegate`.
#[pymodule]
fn _tidegate(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
