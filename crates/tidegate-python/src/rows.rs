//! What a statement gives: all of its rows in memory, or a stream of them, for whoever reads Arrow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Field, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use futures::stream::BoxStream;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::{PyAnyMethods, PyModule, pyclass, pymethods};
use pyo3::types::PyCapsule;
use pyo3::{Bound, PyErr, PyResult, Python};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use tidegate::{CancelHandle, Error, ErrorKind};
use tokio::sync::Mutex;

use crate::error::raise;
use crate::runtime::wait;

/// The columns of a frame or of rows.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Schema(pub(crate) SchemaRef);

#[pymethods]
impl Schema {
    /// The columns' names.
    #[getter]
    fn names(&self) -> Vec<String> {
        let fields = self.0.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// The columns' types, as Arrow calls them.
    #[getter]
    fn types(&self) -> Vec<String> {
        let fields = self.0.fields().iter();
        fields.map(|field| field.data_type().to_string()).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.0.as_ref())?)
    }
}

/// Rows in memory.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

#[pymethods]
impl Rows {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The bytes of all buffers.
    #[getter]
    fn nbytes(&self) -> usize {
        let batches = self.batches.iter();
        batches.map(RecordBatch::get_array_memory_size).sum()
    }

    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(Arc::clone(&self.schema))
    }

    /// The first rows as text, each value cut at so many characters; `None` where it is NULL.
    fn cells(&self, rows_max: usize, chars_max: usize) -> PyResult<Vec<Vec<Option<String>>>> {
        let failed = |error: ArrowError| raise(&Error::new(ErrorKind::Internal, error.to_string()));
        let mut rows = Vec::new();
        for batch in &self.batches {
            let batch = &tidegate::with_span_texts(batch).map_err(failed)?;
            let options = FormatOptions::default().with_display_error(true);
            let columns = batch.columns().iter();
            let formatters =
                columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
            let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            let nulls: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| column.logical_nulls())
                .collect();
            for row in 0..batch.num_rows().min(rows_max - rows.len()) {
                let cell = |(nulls, formatter): (&Option<NullBuffer>, &ArrayFormatter<'_>)| {
                    let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                    is_valid.then(|| cut(&formatter.value(row).to_string(), chars_max))
                };
                rows.push(nulls.iter().zip(&formatters).map(cell).collect());
            }
        }
        Ok(rows)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let arrays: Vec<_> = self.batches.iter().map(|batch| Ok(in_one(batch))).collect();
        let reader = ArrayIterator::new(arrays.into_iter(), field_of(&self.schema));
        Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
    }
}

/// Cuts a text at so many characters.
fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

fn in_one(batch: &RecordBatch) -> ArrayRef {
    Arc::new(StructArray::from(batch.clone()))
}

fn field_of(schema: &SchemaRef) -> FieldRef {
    let field = Field::new_struct("", schema.fields().clone(), false);
    Arc::new(field.with_metadata(schema.metadata().clone()))
}

/// The rows of a statement as they come.
pub(crate) struct Stream {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: BoxStream<'static, Result<RecordBatch, Error>>,
}

impl Stream {
    /// Exports the stream. Each batch is made when it is asked for; a signal's handler that raises ends the
    /// statement.
    pub(crate) fn export<'py>(
        self,
        py: Python<'py>,
        cancel: CancelHandle,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let field = field_of(&self.schema);
        let pulled = Pulled {
            batches: Arc::new(Mutex::new(self.batches)),
            cancel,
            has_ended: false,
        };
        let reader = ArrayIterator::new(pulled, field);
        Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
    }
}

type Shared = Arc<Mutex<BoxStream<'static, Result<RecordBatch, Error>>>>;

async fn next_of(batches: Shared) -> Result<Option<RecordBatch>, Error> {
    batches.lock().await.next().await.transpose()
}

/// The batches of a statement, for Python to ask for one after the other.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Batches {
    schema: SchemaRef,
    batches: Shared,
    cancel: CancelHandle,
}

impl Batches {
    pub(crate) fn new(stream: Stream, cancel: CancelHandle) -> Self {
        Self {
            schema: stream.schema,
            batches: Arc::new(Mutex::new(stream.batches)),
            cancel,
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[pymethods]
impl Batches {
    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(Arc::clone(&self.schema))
    }

    /// Waits for the next batch; `None` at the end. Ctrl-C stops the statement.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Rows>> {
        let next = wait(py, &self.cancel, next_of(Arc::clone(&self.batches)))?;
        Ok(next.map(|batch| Rows {
            schema: Arc::clone(&self.schema),
            batches: vec![batch],
        }))
    }
}

/// Batches that are asked for one by one, from whatever thread.
struct Pulled {
    batches: Shared,
    cancel: CancelHandle,
    has_ended: bool,
}

impl Iterator for Pulled {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let pulled = Python::try_attach(|py| {
            let next = next_of(Arc::clone(&self.batches));
            wait(py, &self.cancel, next).or_else(|raised| match is_raised_again(py, &raised) {
                true => Ok(None),
                // Whoever reads this may not have Python's lock, and so no way to print an exception.
                false => Err(raised.to_string()),
            })
        });
        let item = match pulled {
            Some(Ok(None)) => None,
            Some(Ok(Some(batch))) => return Some(Ok(in_one(&batch))),
            Some(Err(raised)) => Some(Err(ArrowError::ExternalError(raised.into()))),
            None => Some(Err(ArrowError::ExternalError(
                "Python is shutting down".into(),
            ))),
        };
        self.has_ended = true;
        item
    }
}

impl Drop for Pulled {
    fn drop(&mut self) {
        if !self.has_ended {
            self.cancel.cancel();
        }
    }
}

/// Has Ctrl-C raised once more, and returns whether that is sure.
///
/// Who reads a stream makes an error of its own of the stream's, which hides Ctrl-C. So the stream ends as if it had no
/// more rows, and Python raises Ctrl-C when the reader returns to it, before anybody sees what was read. Only Python's own
/// handler is known to raise.
fn is_raised_again(py: Python<'_>, raised: &PyErr) -> bool {
    let raise = || -> PyResult<bool> {
        let signal = PyModule::import(py, "signal")?;
        let handler = signal.call_method1("getsignal", (signal.getattr("SIGINT")?,))?;
        if !handler.is(signal.getattr("default_int_handler")?) {
            return Ok(false);
        }
        let thread = PyModule::import(py, "_thread")?;
        // Last, for Python raises it in whatever it runs next.
        thread.call_method0("interrupt_main")?;
        Ok(true)
    };
    raised.is_instance_of::<PyKeyboardInterrupt>(py) && raise().unwrap_or(false)
}
