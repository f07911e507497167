//! A statement with its parameters, ready to run.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tidegate::{Planned, StatementKind};

use crate::wire::wire_schema;

/// A statement with its parameters: what runs, one after the other, and gives one result.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// One for each row of parameters; none if it has run.
    pub(crate) runs: Vec<Planned>,
    /// What it gave, if it has run.
    pub(crate) done: Vec<RecordBatch>,
    /// The columns as they travel; `None` if they are known only when it runs.
    pub(crate) schema: Option<SchemaRef>,
}

impl Job {
    /// Makes a job of a statement that needs no parameters, or has them.
    pub(crate) fn new(runs: Vec<Planned>) -> Self {
        let columns = runs.first().and_then(Planned::schema);
        let schema = columns.map(|columns| wire_schema(&columns));
        let done = Vec::new();
        Self { runs, done, schema }
    }

    /// Returns the columns as they travel; `None` if they are known only when it runs.
    pub(crate) fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Makes a job of what a statement gave.
    pub(crate) fn done(schema: SchemaRef, done: Vec<RecordBatch>) -> Self {
        Self {
            runs: Vec::new(),
            done,
            schema: Some(schema),
        }
    }

    /// Tells whether the statement runs at once, however much else does.
    pub(crate) fn is_control(&self) -> bool {
        let control = |run: &Planned| run.kind() == StatementKind::Control;
        self.runs.iter().all(control)
    }

    /// Tells whether the statement gives rows and changes nothing.
    pub(crate) fn is_query(&self) -> bool {
        let query = |run: &Planned| run.kind() == StatementKind::Query;
        self.runs.iter().all(query)
    }
}
