//! From groups to rows: keys, and the programs that turn the results of accumulators into columns.

use tidegate_pipeline::program::{Call, Groups, Sink};
use tidegate_pipeline::{RowProgram, Unsupported};

use super::block::BLOCK;
use super::code::{Code, SinkCode};
use super::columns::Column;
use super::compile::compile;
use super::execute::{Machine, Source};
use super::groups::results::Results;
use super::machine::Unit;
use super::run::Declined;

/// How the results of accumulators become the columns of a call.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    program: RowProgram,
    accumulators: Vec<usize>,
    code: Code,
}

impl Finish {
    /// Compiles the finishes of all calls.
    pub(super) fn all(groups: &Groups) -> Result<Vec<Self>, Unsupported> {
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

    pub(super) fn num_columns(&self) -> usize {
        match &self.program.sink {
            Sink::Rows(outputs) => outputs.len(),
            Sink::Groups(_) | Sink::Sorted(_) => 0,
        }
    }

    /// Appends a call's columns for groups, given the results of all accumulators.
    pub(super) fn append(
        &self,
        results: &[Vec<Results>],
        num_groups: usize,
        columns: &mut [Column],
    ) -> Result<(), Declined> {
        let inputs = self.accumulators.iter().flat_map(|at| &results[*at]);
        let inputs: Vec<&Results> = inputs.collect();
        let Unit {
            code,
            mut registers,
        } = Unit::new(self.code.clone())?;
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
            if machine.raises(&code.rest_raises, None, count)? {
                return Err(Declined::Raises);
            }
            let SinkCode::Rows(outputs) = &code.sink else {
                return Err(Declined::Unsupported("a finish that groups".to_owned()));
            };
            for (column, (value, valid)) in columns.iter_mut().zip(outputs) {
                machine.append(column, (*value, *valid), count)?;
            }
        }
        Ok(())
    }
}
