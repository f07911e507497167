//! From groups to columns: the programs that turn the results of accumulators into what a call gives.
//!
//! The groups may be the host's own, or have come back from a device.

use arrow_array::ArrayRef;
use tidegate_pipeline::program::{Call, Groups, Output, Raise, Sink};
use tidegate_pipeline::{EvalError, RowProgram, Unsupported};

use super::block::BLOCK;
use super::code::{Code, SinkCode};
use super::columns::Column;
use super::compile::compile;
use super::declined::Declined;
use super::execute::{Machine, Source};
use super::groups::results::Results;
use super::machine::Unit;

/// How the results of accumulators become the columns of a call.
#[derive(Clone, Debug)]
pub struct Finish {
    program: RowProgram,
    accumulators: Vec<usize>,
    code: Code,
}

impl Finish {
    /// Compiles the finishes of all calls.
    pub(crate) fn all(groups: &Groups) -> Result<Vec<Self>, Unsupported> {
        groups.calls.iter().map(Self::new).collect()
    }

    fn new(call: &Call) -> Result<Self, Unsupported> {
        let program = &call.finish;
        let coded = vec![false; program.inputs.len()];
        Ok(Self {
            program: program.as_ref().clone(),
            accumulators: call.accumulators.clone(),
            code: compile(program, &coded)?,
        })
    }

    /// Returns the program. Its inputs are the results of the accumulators, in order.
    pub(crate) fn program(&self) -> &RowProgram {
        &self.program
    }

    /// Returns the accumulators that the call reads.
    pub(crate) fn accumulators(&self) -> &[usize] {
        &self.accumulators
    }

    /// Returns the columns that the call gives.
    pub(crate) fn outputs(&self) -> &[Output] {
        match &self.program.sink {
            Sink::Rows(outputs) => outputs,
            Sink::Groups(_) | Sink::Sorted(_) => &[],
        }
    }

    pub(super) fn num_columns(&self) -> usize {
        self.outputs().len()
    }

    /// Appends a call's columns for groups, given the results of all accumulators.
    pub(super) fn append(
        &self,
        results: &[Vec<Results>],
        num_groups: usize,
        columns: &mut [Column],
    ) -> Result<(), Declined> {
        let inputs = self.accumulators.iter().flat_map(|at| &results[*at]);
        match self.run(&inputs.collect::<Vec<_>>(), num_groups, columns)? {
            Some(_) => Err(Declined::Raises),
            None => Ok(()),
        }
    }

    /// Returns a call's columns for groups, given the results of its accumulators in order.
    ///
    /// # Errors
    /// What a group raises.
    pub(crate) fn columns(
        &self,
        inputs: &[&Results],
        num_groups: usize,
    ) -> Result<Vec<ArrayRef>, EvalError> {
        let internal = |why: Declined| EvalError::Internal {
            what: format!("the end of a group: {why}"),
        };
        let columns = self.outputs().iter();
        let columns = columns.map(|output| Column::new(&output.data_type));
        let mut columns: Vec<Column> = columns.collect::<Result<_, _>>().map_err(internal)?;
        let raised = self.run(inputs, num_groups, &mut columns);
        if let Some(raise) = raised.map_err(internal)? {
            return Err(raise.error.error());
        }
        let arrays = columns.into_iter().map(Column::finish);
        arrays.collect::<Result<_, _>>().map_err(internal)
    }

    /// Appends the columns block by block, up to one in which a group raises.
    fn run(
        &self,
        inputs: &[&Results],
        num_groups: usize,
        columns: &mut [Column],
    ) -> Result<Option<&Raise>, Declined> {
        let Unit {
            code,
            mut registers,
        } = Unit::of_rows(self.code.clone(), BLOCK.min(num_groups))?;
        let held = vec![None; inputs.len()];
        for at in (0..num_groups).step_by(BLOCK) {
            let count = BLOCK.min(num_groups - at);
            let chunks: Vec<_> = inputs.iter().map(|input| Some(input.chunk(at))).collect();
            let source = Source::Rows {
                chunks: &chunks,
                held: &held,
                tables: &[],
                selection: None,
            };
            let mut texts = code.texts();
            let mut machine = Machine::new(&mut registers, &mut texts, &mut []);
            machine.run(&code.rest, source, count)?;
            // Every group is selected, so that the code has all raises of the program.
            for (raise, conditions) in self.program.raises.iter().zip(&code.rest_raises) {
                if machine.raises(std::slice::from_ref(conditions), None, count)? {
                    return Ok(Some(raise));
                }
            }
            let SinkCode::Rows(outputs) = &code.sink else {
                return Err(Declined::Unsupported("a finish that groups".to_owned()));
            };
            for (column, (value, valid)) in columns.iter_mut().zip(outputs) {
                machine.append(column, (*value, *valid), count)?;
            }
        }
        Ok(None)
    }
}
