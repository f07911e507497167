//! Python functions over batches: scalar functions for expressions and SQL, and maps of whole batches.
//!
//! They run on the engine's threads, one batch at a time under Python's lock. What they raise fails the
//! statement, and is the cause of its exception.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use pyo3::prelude::{PyAnyMethods, pyclass, pyfunction, pymethods};
use pyo3::types::PyList;
use pyo3::{Bound, Py, PyAny, PyErr, PyResult, Python};
use pyo3_arrow::{PyArray, PyRecordBatch};

use crate::types::data_type;

/// Threads of the engine that run a Python function now.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether Python ends, so that no function is called any more.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// How long the end of Python waits for functions that run.
const END_MAX: Duration = Duration::from_secs(5);

/// Calls no function any more, and waits for those that run: a thread that is in Python when that ends takes the
/// process with it.
#[pyfunction]
pub(crate) fn end_functions(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let until = Instant::now() + END_MAX;
        while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    });
}

/// A thread in a Python function, until it is dropped.
struct Inside;

impl Inside {
    fn enter() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A scalar function whose body is Python.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Function(pub(crate) Arc<ScalarUDF>);

#[pymethods]
impl Function {
    /// Makes a function of a name and a type from a callable that takes a list of arrays and their length, and
    /// gives an array.
    #[new]
    fn new(
        name: String,
        returns: &Bound<'_, PyAny>,
        body: Py<PyAny>,
        is_volatile: bool,
    ) -> PyResult<Self> {
        let volatility = match is_volatile {
            true => Volatility::Volatile,
            false => Volatility::Immutable,
        };
        let returns = data_type(returns)?;
        let function = PythonFunction {
            name,
            signature: Signature::one_of(
                vec![TypeSignature::VariadicAny, TypeSignature::Nullary],
                volatility,
            ),
            returns,
            body: Arc::new(body),
        };
        Ok(Self(Arc::new(ScalarUDF::new_from_impl(function))))
    }
}

#[derive(Debug)]
struct PythonFunction {
    name: String,
    signature: Signature,
    returns: DataType,
    body: Arc<Py<PyAny>>,
}

impl PartialEq for PythonFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.body, &other.body)
    }
}

impl Eq for PythonFunction {}

impl Hash for PythonFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        Arc::as_ptr(&self.body).hash(state);
    }
}

impl ScalarUDFImpl for PythonFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let num_rows = args.number_rows;
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let arrays = match arrays.first() {
            // Literals alone are one value each, whatever the number of rows.
            Some(first) if first.len() != num_rows => {
                let values = args
                    .args
                    .into_iter()
                    .map(|value| value.into_array(num_rows));
                values.collect::<Result<Vec<_>>>()?
            }
            _ => arrays,
        };
        let given = attached(|py| {
            let arrays = arrays.into_iter().map(|array| {
                PyArray::from_array_ref(array)
                    .to_pyarrow(py)
                    .map(Bound::unbind)
            });
            let arrays = PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?;
            let given = self.body.bind(py).call1((arrays, num_rows))?;
            Ok(given.extract::<PyArray>()?.array().clone())
        })?;
        if given.len() != num_rows {
            return exec_err!(
                "function '{}' gave {} values for {num_rows} rows",
                self.name,
                given.len()
            );
        }
        match cast_to(&given, &self.returns) {
            Ok(made) => Ok(ColumnarValue::Array(made)),
            Err(error) => exec_err!(
                "function '{}' returns {}, and gave other values: {}",
                self.name,
                self.returns,
                what_of(error)
            ),
        }
    }
}

/// Casts what a function gave to the type that it was said to give.
///
/// # Errors
/// Fails for a value that the type does not have.
fn cast_to(array: &ArrayRef, wanted: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    let given = array.data_type();
    if given == wanted {
        return Ok(Arc::clone(array));
    }
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let made = cast_with_options(array, wanted, &strict)?;
    // A cast to whole numbers cuts fractions off.
    if given.is_floating() && wanted.is_integer() {
        let differs = distinct(array, &cast_with_options(&made, given, &strict)?)?;
        if let Some(row) = differs.values().set_indices().next() {
            let value = array_value_to_string(array, row)?;
            return Err(ArrowError::CastError(format!(
                "{value} is not a whole number, as {wanted} has them"
            )));
        }
    }
    Ok(made)
}

/// Makes the closure that maps a batch by a callable, which gives a batch of these columns.
pub(crate) fn mapped(
    body: Py<PyAny>,
    schema: SchemaRef,
) -> impl Fn(RecordBatch) -> std::result::Result<RecordBatch, ArrowError> + Send + Sync + 'static {
    move |batch| {
        let given = attached(|py| {
            let batch = PyRecordBatch::new(batch).into_pyarrow(py)?;
            let given = body.bind(py).call1((batch,))?;
            Ok(given.extract::<PyRecordBatch>()?.into_inner())
        });
        let given = given.map_err(|error| match error {
            DataFusionError::External(raised) => ArrowError::ExternalError(raised),
            other => ArrowError::ExternalError(Box::new(other)),
        })?;
        let mut columns = Vec::new();
        for field in schema.fields() {
            columns.push(column_of(&given, field)?);
        }
        RecordBatch::try_new(Arc::clone(&schema), columns)
    }
}

fn column_of(given: &RecordBatch, field: &Field) -> std::result::Result<ArrayRef, ArrowError> {
    let Some(column) = given.column_by_name(field.name()) else {
        let message = format!(
            "the function gave no column '{}', which its schema has",
            field.name()
        );
        return Err(ArrowError::InvalidArgumentError(message));
    };
    cast_to(column, field.data_type()).map_err(|error| {
        ArrowError::InvalidArgumentError(format!(
            "the function's column '{}' is to be {}, and has other values: {}",
            field.name(),
            field.data_type(),
            what_of(error)
        ))
    })
}

/// Returns what a cast says, without Arrow's word for its kind.
fn what_of(error: ArrowError) -> String {
    match error {
        ArrowError::CastError(what) => what,
        other => other.to_string(),
    }
}

/// Runs Python on a thread of the engine.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let inside = Inside::enter();
    if IS_ENDING.load(Ordering::SeqCst) {
        return exec_err!("the Python interpreter is shutting down");
    }
    let done = Python::try_attach(work);
    drop(inside);
    match done {
        Some(done) => done.map_err(|raised: PyErr| DataFusionError::External(Box::new(raised))),
        None => exec_err!("the Python interpreter is shutting down"),
    }
}
