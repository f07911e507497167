//! Runs programs: the meaning of every operation, and nothing else. Rows are evaluated in blocks, an operation
//! at a time.

mod evaluate;
mod groups;
mod operations;
mod sort;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{RowProgram, Sink};
use crate::interpret::EvalError;
use crate::interpret::block::BlockBuilder;
use crate::interpret::builder::ColumnBuilder;
use crate::interpret::column::Column;
use evaluate::{BLOCK_ROWS, Block, Texts};
use groups::Table;
use sort::Sorter;

/// Runs the programs of a pipeline's stages over batches of its input, and returns what leaves under the
/// pipeline's output schema, in batches of at most 8192 rows. Groups are in order of first appearance.
///
/// # Errors
/// What a selected row raises, the first in order; [`EvalError::ShapeMismatch`] for a value outside of the
/// facts of its input, or for columns of other types.
pub fn run(
    stages: &[RowProgram],
    batches: &[RecordBatch],
    output: &SchemaRef,
) -> Result<Vec<RecordBatch>, EvalError> {
    let mut run = Run::new(stages, output)?;
    for batch in batches {
        run.fold(stages, batch)?;
    }
    run.finish(stages)
}

/// What the stages of a pipeline have gathered. Every call is given the stages' programs.
pub(crate) struct Run {
    gathered: Vec<Gathered>,
    schemas: Vec<SchemaRef>,
}

impl Run {
    /// Starts over no rows.
    pub(crate) fn new(stages: &[RowProgram], output: &SchemaRef) -> Result<Self, EvalError> {
        let Some((_, before)) = stages.split_last() else {
            return Err(EvalError::internal("a pipeline without a program"));
        };
        let schemas = before.iter().map(|program| {
            let columns = program.columns();
            let fields = columns.iter();
            let fields =
                fields.map(|column| Field::new(&column.name, column.data_type.clone(), true));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        });
        Ok(Self {
            gathered: stages.iter().map(Gathered::new).collect::<Result<_, _>>()?,
            schemas: schemas.chain([Arc::clone(output)]).collect(),
        })
    }

    /// Takes a batch of the input.
    pub(crate) fn fold(
        &mut self,
        stages: &[RowProgram],
        batch: &RecordBatch,
    ) -> Result<(), EvalError> {
        self.gathered[0].fold(&stages[0], batch)
    }

    /// Runs what is left, and returns the result.
    pub(crate) fn finish(self, stages: &[RowProgram]) -> Result<Vec<RecordBatch>, EvalError> {
        let mut batches = Vec::new();
        let parts = self.gathered.into_iter().zip(self.schemas).zip(stages);
        for (index, ((mut gathered, schema), program)) in parts.enumerate() {
            if index > 0 {
                for batch in &batches {
                    gathered.fold(program, batch)?;
                }
            }
            batches = gathered.finish(program, &schema)?;
        }
        Ok(batches)
    }

    /// Returns how many groups the first stage has.
    pub(crate) fn num_groups(&self) -> usize {
        match self.gathered.first() {
            Some(Gathered::Groups(table)) => table.len(),
            _ => 0,
        }
    }

    /// Returns about how many bytes the first stage holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self.gathered.first() {
            Some(Gathered::Rows(rows)) => rows.memory_bytes(),
            Some(Gathered::Groups(table)) => table.memory_bytes(),
            Some(Gathered::Sorted(sorter)) => sorter.memory_bytes(),
            None => 0,
        }
    }
}

/// What a stage has gathered.
enum Gathered {
    Rows(BlockBuilder),
    Groups(Box<Table>),
    Sorted(Sorter),
}

impl Gathered {
    fn new(program: &RowProgram) -> Result<Self, EvalError> {
        Ok(match &program.sink {
            Sink::Rows(outputs) => Self::Rows(BlockBuilder::new(
                outputs.iter().map(|column| &column.data_type),
            )?),
            Sink::Groups(groups) => Self::Groups(Box::new(Table::new(groups)?)),
            Sink::Sorted(sorted) => Self::Sorted(Sorter::new(program, sorted)?),
        })
    }

    /// Takes the selected rows of a batch.
    fn fold(&mut self, program: &RowProgram, batch: &RecordBatch) -> Result<(), EvalError> {
        match (self, &program.sink) {
            (Self::Rows(rows), Sink::Rows(outputs)) => {
                for_each_row(program, batch, |block, row| {
                    rows.push(outputs.iter().map(|output| block.get(output.value, row)))
                })
            }
            (Self::Groups(table), Sink::Groups(groups)) => {
                for_each_row(program, batch, |block, row| table.take(groups, block, row))
            }
            (Self::Sorted(sorter), Sink::Sorted(sorted)) => {
                for_each_row(program, batch, |block, row| sorter.take(sorted, block, row))?;
                sorter.compact()
            }
            _ => Err(EvalError::internal("another program than before")),
        }
    }

    fn finish(
        self,
        program: &RowProgram,
        output: &SchemaRef,
    ) -> Result<Vec<RecordBatch>, EvalError> {
        let blocks = match (self, &program.sink) {
            (Self::Rows(mut rows), _) => rows.finish()?,
            (Self::Sorted(sorter), _) => sorter.finish()?,
            (Self::Groups(table), Sink::Groups(groups)) => {
                let columns = program.columns();
                let types: Vec<DataType> =
                    columns.into_iter().map(|column| column.data_type).collect();
                let mut rows = BlockBuilder::new(&types)?;
                table.finish(groups, &mut rows)?;
                rows.finish()?
            }
            (Self::Groups(_), _) => return Err(EvalError::internal("another program than before")),
        };
        let blocks = blocks.into_iter();
        blocks
            .map(|block| block.into_batch(Arc::clone(output)))
            .collect()
    }
}

/// Evaluates a program over the rows of a batch, and hands over those that are selected.
fn for_each_row(
    program: &RowProgram,
    batch: &RecordBatch,
    mut take: impl FnMut(&Block<'_>, usize) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    let columns = columns_of(program, batch)?;
    for start in (0..batch.num_rows()).step_by(BLOCK_ROWS) {
        let rows = BLOCK_ROWS.min(batch.num_rows() - start);
        let texts = Texts::of(program);
        let input = |index: usize, row: usize| columns[index].get(start + row);
        let block = Block::new(program, &texts, rows, input)?;
        for row in 0..rows {
            if block.is_true(program.selected, row) {
                take(&block, row)?;
            }
        }
    }
    Ok(())
}

/// Evaluates the one output of a program over every row of a batch.
pub(crate) fn column(program: &RowProgram, batch: &RecordBatch) -> Result<ArrayRef, EvalError> {
    let Sink::Rows(outputs) = &program.sink else {
        return Err(EvalError::internal("an expression over groups"));
    };
    let [output] = outputs.as_slice() else {
        return Err(EvalError::internal("an expression of several columns"));
    };
    let mut column = ColumnBuilder::new(&output.data_type)?;
    for_each_row(program, batch, |block, row| {
        column.push(block.get(output.value, row))
    })?;
    column.finish()
}

/// Prepares the columns that a program reads.
fn columns_of<'a>(
    program: &RowProgram,
    batch: &'a RecordBatch,
) -> Result<Vec<Column<'a>>, EvalError> {
    let inputs = program.inputs.iter();
    let columns = inputs.map(|input| {
        let array = batch.columns().get(input.column);
        let array = array.filter(|array| *array.data_type() == input.data_type);
        let array = array.ok_or_else(|| EvalError::ShapeMismatch {
            what: format!("column {} is not a {}", input.name, input.data_type),
        })?;
        Column::new(array.as_ref())
    });
    columns.collect()
}
