//! What leaves an execution: on the host already, but not yet rows.
//!
//! What is left to do is the host's, so that the device's thread need not wait for it.

use std::sync::Arc;
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::channel::oneshot;
use tidegate_pipeline::{EvalError, Interpreter, Pipeline};

use super::inputs::Strings;
use crate::backend::RunError;
use crate::rows::HostRows;
use crate::stored::ColumnDictionary;

/// Rows of a batch that leaves.
const BATCH_ROWS: usize = 8192;

/// More rows are made on a thread of their own, so that whoever waits for them may do other things.
const POLLED_ROWS_MAX: usize = 100_000;

/// The rows of an execution on their way out.
#[derive(Debug)]
pub struct Leaving {
    rows: Rows,
    /// The steps that are left.
    rest: Option<Arc<Pipeline>>,
    /// What runs them, if it was made already.
    interpreter: Option<Box<Interpreter>>,
    host_reason: Option<String>,
    /// What leaves before these.
    before: Vec<Self>,
}

#[derive(Debug)]
enum Rows {
    Batches(Vec<RecordBatch>),
    Columns {
        columns: HostRows,
        schema: SchemaRef,
        dictionaries: Vec<Arc<ColumnDictionary>>,
    },
}

impl Leaving {
    /// Lets batches leave, through the steps of `rest` if there are any.
    pub(super) fn batches(batches: Vec<RecordBatch>, rest: Option<Arc<Pipeline>>) -> Self {
        Self {
            rows: Rows::Batches(batches),
            rest,
            interpreter: None,
            host_reason: None,
            before: Vec::new(),
        }
    }

    /// The same, of columns as a device wrote them; codes are of these dictionaries, by slot.
    pub(super) fn columns(
        columns: HostRows,
        schema: SchemaRef,
        dictionaries: Vec<Arc<ColumnDictionary>>,
        rest: Option<Arc<Pipeline>>,
    ) -> Self {
        Self {
            rows: Rows::Columns {
                columns,
                schema,
                dictionaries,
            },
            rest,
            interpreter: None,
            host_reason: None,
            before: Vec::new(),
        }
    }

    /// Lets all of these leave, one after the other.
    pub(super) fn all(mut parts: Vec<Self>) -> Self {
        let mut last = parts
            .pop()
            .unwrap_or_else(|| Self::batches(Vec::new(), None));
        last.before = parts;
        last
    }

    /// The same, with what runs the steps that are left.
    pub(super) fn by(mut self, interpreter: Option<Box<Interpreter>>) -> Self {
        self.interpreter = interpreter;
        self
    }

    pub(super) fn because(mut self, why: String) -> Self {
        self.host_reason = Some(why);
        self
    }

    /// Returns why the host finished the groups, if the device did not.
    pub fn host_reason(&self) -> Option<&str> {
        self.host_reason.as_deref()
    }

    /// Does what is left, as [`Leaving::into_batches`], without taking long of the polling thread.
    ///
    /// # Errors
    /// As [`Leaving::into_batches`].
    pub async fn leave(self) -> Result<Vec<RecordBatch>, RunError> {
        if self.num_rows() <= POLLED_ROWS_MAX {
            return self.into_batches();
        }
        let (sender, receiver) = oneshot::channel();
        let left = thread::Builder::new()
            .name("tidegate-leaving".to_owned())
            .spawn(move || {
                // Nobody may wait for it any more.
                let _ = sender.send(self.into_batches());
            });
        let ended = |why: String| RunError::Eval(EvalError::Internal { what: why });
        left.map_err(|error| ended(format!("no thread for rows that leave: {error}")))?;
        receiver
            .await
            .map_err(|_| ended("the thread of rows that leave has ended".into()))?
    }

    fn num_rows(&self) -> usize {
        let before = self.before.iter().map(Self::num_rows).sum::<usize>();
        let own = match &self.rows {
            Rows::Batches(batches) => batches.iter().map(RecordBatch::num_rows).sum(),
            Rows::Columns { columns, .. } => columns.num_rows(),
        };
        before + own
    }

    /// Does what is left and returns the rows, in batches of the pipeline's output.
    ///
    /// # Errors
    /// What the rows raise; a NULL in a column declared without.
    pub fn into_batches(self) -> Result<Vec<RecordBatch>, RunError> {
        let mut all = Vec::new();
        for part in self.before {
            all.extend(part.into_batches()?);
        }
        let batches = match self.rows {
            Rows::Batches(batches) => batches,
            Rows::Columns {
                columns,
                schema,
                dictionaries,
            } => {
                let strings = Strings::of(&dictionaries);
                vec![columns.into_batch(&strings.all(), &schema)?]
            }
        };
        let Some(rest) = self.rest else {
            all.extend(batches.iter().flat_map(sliced));
            return Ok(all);
        };
        let mut interpreter = match self.interpreter {
            Some(interpreter) => *interpreter,
            None => Interpreter::new(rest)?,
        };
        for batch in &batches {
            interpreter.fold(batch)?;
        }
        all.extend(interpreter.finish()?);
        Ok(all)
    }
}

fn sliced(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<> {
    let batch = batch.clone();
    let starts = (0..batch.num_rows()).step_by(BATCH_ROWS);
    starts.map(move |start| batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start)))
}
