//! A stage: filters and projections row by row, up to a step that needs all rows, or to the end.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, SchemaRef};

use super::EvalError;
use super::aggregate::Accumulator;
use super::block::{Block, BlockBuilder};
use super::column::Column;
use super::evaluate::{Node, Row};
use super::groups::{GroupTable, encode};
use super::sort::Sorter;
use super::value::Value;
use crate::pipeline::{Aggregate, AggregateOutput, NamedExpr, Step};
use crate::scalar::Scalar;

/// Steps that are run together, and what they have gathered.
pub(crate) struct Stage {
    input: SchemaRef,
    steps: Vec<RowStep>,
    sink: Sink,
    output: SchemaRef,
}

enum RowStep {
    Filter(Node),
    Project(Vec<Node>),
}

/// Where rows go.
enum Sink {
    Rows(BlockBuilder),
    Groups(Groups),
    Sort(Sorter),
}

/// Rows in groups.
struct Groups {
    keys: Vec<Node>,
    calls: Vec<Call>,
    table: GroupTable,
    /// Whether the one group of an aggregate without keys is there.
    started: bool,
    /// A row's key, kept to be written over.
    key: Vec<u8>,
    accumulators: Vec<Accumulator>,
    output: AggregateOutput,
}

struct Call {
    argument: Option<Node>,
    filter: Option<Node>,
}

impl Stage {
    /// Prepares the first steps up to one that blocks, and returns how many they are. `output` is
    /// the schema for a stage that is the last.
    pub(crate) fn new(
        steps: &[Step],
        input: SchemaRef,
        parameters: &[Scalar],
        output: &SchemaRef,
    ) -> Result<(Self, usize), EvalError> {
        let mut schema = input.as_ref().clone();
        let mut row_steps = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let after = step.output_schema(&schema);
            let sink = match step {
                Step::Filter(predicate) => {
                    row_steps.push(RowStep::Filter(Node::new(predicate, parameters)?));
                    None
                }
                Step::Project(columns) => {
                    row_steps.push(RowStep::Project(nodes(columns, parameters)?));
                    None
                }
                Step::Aggregate(aggregate) => {
                    Some(Sink::Groups(Groups::new(aggregate, parameters)?))
                }
                Step::Sort(sort) => {
                    Some(Sink::Sort(Sorter::new(sort, &types(&schema), parameters)?))
                }
            };
            schema = after;
            if let Some(sink) = sink {
                let last = index + 1 == steps.len();
                let stage = Self {
                    input,
                    steps: row_steps,
                    sink,
                    output: if last { output.clone() } else { schema.into() },
                };
                return Ok((stage, index + 1));
            }
        }
        let stage = Self {
            input,
            steps: row_steps,
            sink: Sink::Rows(BlockBuilder::new(&types(&schema))?),
            output: output.clone(),
        };
        Ok((stage, steps.len()))
    }

    /// Returns the schema of what leaves.
    pub(crate) fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// Runs a batch through the steps into the sink.
    pub(crate) fn fold(&mut self, batch: &RecordBatch) -> Result<(), EvalError> {
        self.check_shape(batch)?;
        let arrays = batch.columns().iter();
        let columns: Vec<Column<'_>> = arrays
            .map(|array| Column::new(array.as_ref()))
            .collect::<Result<_, _>>()?;
        let steps = &self.steps;
        let mut buffers: Vec<Vec<Value<'_>>> = steps.iter().map(|_| Vec::new()).collect();
        for index in 0..batch.num_rows() {
            let row = Row::Cells {
                columns: &columns,
                index,
            };
            run(steps, &mut buffers, row, &mut self.sink)?;
        }
        match &mut self.sink {
            Sink::Sort(sorter) => sorter.compact(),
            Sink::Rows(_) | Sink::Groups(_) => Ok(()),
        }
    }

    /// Returns what was gathered.
    pub(crate) fn finish(self) -> Result<Vec<RecordBatch>, EvalError> {
        let blocks: Vec<Block> = match self.sink {
            Sink::Rows(mut rows) => rows.finish()?,
            Sink::Groups(groups) => groups.finish(&types(&self.output))?,
            Sink::Sort(sorter) => sorter.finish()?,
        };
        let batches = blocks.into_iter();
        batches
            .map(|block| block.into_batch(self.output.clone()))
            .collect()
    }

    /// Returns how many groups there are, 0 if the stage does not group.
    pub(crate) fn num_groups(&self) -> usize {
        match &self.sink {
            Sink::Groups(groups) if groups.keys.is_empty() => usize::from(groups.started),
            Sink::Groups(groups) => groups.table.len(),
            Sink::Rows(_) | Sink::Sort(_) => 0,
        }
    }

    /// Returns about how much memory is held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.sink {
            Sink::Rows(rows) => rows.memory_bytes(),
            Sink::Sort(sorter) => sorter.memory_bytes(),
            Sink::Groups(groups) => {
                let accumulators = groups.accumulators.iter();
                let states: usize = accumulators.map(Accumulator::memory_bytes).sum();
                groups.table.memory_bytes() + states
            }
        }
    }

    fn check_shape(&self, batch: &RecordBatch) -> Result<(), EvalError> {
        let expected = self.input.fields();
        if batch.num_columns() != expected.len() {
            return Err(EvalError::ShapeMismatch {
                what: format!(
                    "{} columns where {} are read",
                    batch.num_columns(),
                    expected.len()
                ),
            });
        }
        for (field, array) in expected.iter().zip(batch.columns()) {
            if field.data_type() != array.data_type() {
                return Err(EvalError::ShapeMismatch {
                    what: format!(
                        "column {} is {}, not {}",
                        field.name(),
                        array.data_type(),
                        field.data_type()
                    ),
                });
            }
        }
        Ok(())
    }
}

fn types(schema: &Schema) -> Vec<DataType> {
    let fields = schema.fields().iter();
    fields.map(|field| field.data_type().clone()).collect()
}

fn nodes(columns: &[NamedExpr], parameters: &[Scalar]) -> Result<Vec<Node>, EvalError> {
    let columns = columns.iter();
    columns
        .map(|column| Node::new(&column.expr, parameters))
        .collect()
}

/// Runs the steps over one row; each projection fills a buffer of its own.
fn run<'v>(
    steps: &'v [RowStep],
    buffers: &mut [Vec<Value<'v>>],
    row: Row<'_, 'v>,
    sink: &mut Sink,
) -> Result<(), EvalError> {
    let (Some((step, steps)), Some((buffer, buffers))) =
        (steps.split_first(), buffers.split_first_mut())
    else {
        return sink.push(row);
    };
    match step {
        RowStep::Filter(predicate) => {
            if predicate.evaluate(row)?.is_true() {
                run(steps, buffers, row, sink)?;
            }
            Ok(())
        }
        RowStep::Project(columns) => {
            buffer.clear();
            for column in columns {
                buffer.push(column.evaluate(row)?);
            }
            run(steps, buffers, Row::Values(buffer), sink)
        }
    }
}

impl Sink {
    fn push(&mut self, row: Row<'_, '_>) -> Result<(), EvalError> {
        match self {
            Self::Rows(rows) => rows.push((0..row.width()).map(|column| row.get(column))),
            Self::Groups(groups) => groups.push(row),
            Self::Sort(sorter) => sorter.push(row),
        }
    }
}

impl Groups {
    fn new(aggregate: &Aggregate, parameters: &[Scalar]) -> Result<Self, EvalError> {
        let optional = |expr: &Option<_>| {
            let node = expr.as_ref().map(|expr| Node::new(expr, parameters));
            node.transpose()
        };
        let calls = aggregate.calls.iter().map(|call| {
            Ok(Call {
                argument: optional(&call.argument)?,
                filter: optional(&call.filter)?,
            })
        });
        let grouped = !aggregate.keys.is_empty();
        let accumulators = aggregate.calls.iter();
        let mut groups = Self {
            keys: nodes(&aggregate.keys, parameters)?,
            calls: calls.collect::<Result<_, EvalError>>()?,
            table: GroupTable::default(),
            started: false,
            key: Vec::new(),
            accumulators: accumulators
                .map(|call| Accumulator::new(call, grouped))
                .collect::<Result<_, _>>()?,
            output: aggregate.output,
        };
        if !grouped {
            groups.started = true;
            groups.add_group();
        }
        Ok(groups)
    }

    fn add_group(&mut self) {
        for accumulator in &mut self.accumulators {
            accumulator.add_group();
        }
    }

    fn push<'v>(&'v mut self, row: Row<'_, 'v>) -> Result<(), EvalError> {
        let mut group = 0;
        if !self.keys.is_empty() {
            self.key.clear();
            for key in &self.keys {
                encode(key.evaluate(row)?, &mut self.key);
            }
            let before = self.table.len();
            group = self.table.group(&self.key)?;
            if group == before {
                self.add_group();
            }
        }
        for (call, accumulator) in self.calls.iter().zip(&mut self.accumulators) {
            if let Some(filter) = &call.filter
                && !filter.evaluate(row)?.is_true()
            {
                continue;
            }
            let argument = match &call.argument {
                Some(argument) => Some(argument.evaluate(row)?),
                None => None,
            };
            accumulator.update(group, argument)?;
        }
        Ok(())
    }

    fn finish(self, types: &[DataType]) -> Result<Vec<Block>, EvalError> {
        let count = if self.started { 1 } else { self.table.len() };
        let mut rows = BlockBuilder::new(types)?;
        for group in 0..count {
            let mut row = match self.keys.len() {
                0 => Vec::new(),
                columns => self.table.decode(group, columns)?,
            };
            for accumulator in &self.accumulators {
                accumulator.emit(group, self.output, &mut row)?;
            }
            rows.push(row)?;
        }
        rows.finish()
    }
}
