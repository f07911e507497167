//! Row programs on the host: blocks of encoded columns, one loop for each operation and block.
//!
//! The way of a region's rows: a source gives groups of rows as [`block`]s; a [`HostProgram`] is compiled
//! once for a pipeline, and a [`HostRun`] of it folds blocks, one thread each. A run never keeps a part of a
//! block: what it declines ([`Declined`]) it has not changed anything for, and the caller goes on from that
//! block with DataFusion's own operators.
//!
//! Nothing here knows files, plans or scheduling. `unsafe` is in `simd` alone.

pub mod arrow;
pub mod block;
pub mod run;
pub mod simd;

mod allocate;
mod code;
mod columns;
mod compile;
mod declined;
mod execute;
mod finish;
mod groups;
mod load;
mod machine;
mod merge;
mod ops;
mod sink;
mod vector;

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use tidegate_pipeline::program::{Input, Op, Reduce, Sink, Type, Value, lower};
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{Facts, FloatRange, Interval, Pipeline, RowProgram, Unsupported};

use vector::Lane;

pub(crate) use groups::results::{ResultValues, Results};

pub use arrow::ArrowBlocks;
pub use block::{BLOCK, Chunk, Entries, Raw, Values};
pub use declined::Declined;
pub use finish::Finish;
pub use groups::records::{PARTITIONS, Partition};
pub use groups::shared::SharedStrings;
pub use merge::{GroupValues, Merge};
pub use run::{HostRun, Selected};

/// The most comparisons of a program. DataFusion's operators look the values of a long IN list up in a set,
/// where a program compares each row with each of them.
const COMPARISONS_MAX: usize = 128;

/// A pipeline compiled for blocks of rows. It is immutable and shared by all threads that run it.
#[derive(Debug)]
pub struct HostProgram {
    pipeline: Pipeline,
    program: RowProgram,
    inputs: Vec<HostInput>,
    finishes: Vec<Finish>,
}

/// A column that a program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInput {
    /// Its place among the columns of the pipeline's input.
    pub column: usize,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Whether the selection reads it; the other inputs are read only where a row is selected.
    pub filters: bool,
}

impl HostProgram {
    /// Compiles a pipeline of filters and projections with at most one aggregate, the last step, of whose
    /// input columns `facts` is known. Facts are held against every block.
    ///
    /// # Errors
    /// What the host cannot run.
    pub fn new(pipeline: &Pipeline, facts: &dyn Fn(usize) -> Facts) -> Result<Self, Unsupported> {
        // Where floats lie is no matter on the host, so it is not checked either.
        let checked = |column: usize| Facts {
            floats: FloatRange::ALL,
            step: 1,
            ..facts(column)
        };
        let mut stages = lower(pipeline, &checked)?;
        let (Some(program), true) = (stages.pop(), stages.is_empty()) else {
            return Err(Unsupported::new("steps after an aggregate or a sort"));
        };
        if matches!(program.sink, Sink::Sorted(_)) {
            return Err(Unsupported::new("a sort"));
        }
        if let Sink::Groups(groups) = &program.sink {
            let mut reductions = groups.accumulators.iter().map(|kept| kept.reduce);
            if reductions.any(|reduce| matches!(reduce, Reduce::CoMoment { .. })) {
                return Err(Unsupported::new(
                    "a sum of products of distances, on the host",
                ));
            }
        }
        let is_comparison = |value: &&Value| matches!(value.op, Op::Compare { .. });
        let comparisons = program.values.iter().filter(is_comparison).count();
        if comparisons > COMPARISONS_MAX {
            let what = format!("{comparisons} comparisons for each row, on the host");
            return Err(Unsupported::new(what));
        }
        for field in pipeline.output.fields() {
            if !columns::can_leave(field.data_type()) {
                let what = format!("a column of {} that leaves, on the host", field.data_type());
                return Err(Unsupported::new(what));
            }
        }
        // What cannot be computed for rows, or for entries, is found now and not at the first block.
        for coded in [false, true] {
            compile::compile(&program, &vec![coded; program.inputs.len()])?;
        }
        let finishes = sink::finishes(&program)?;
        let inputs = program.inputs.iter().zip(compile::filtering(&program));
        let inputs = inputs.map(|(input, filters)| HostInput {
            column: input.column,
            data_type: input.data_type.clone(),
            filters,
        });
        Ok(Self {
            pipeline: pipeline.clone(),
            inputs: inputs.collect(),
            program,
            finishes,
        })
    }

    /// Returns the lane of an input, and where its integers lie.
    fn lane_of(&self, input: usize) -> (Lane, Interval) {
        let Input {
            data_type, facts, ..
        } = &self.program.inputs[input];
        let lane = match data_type {
            DataType::Boolean => Lane::Bool,
            DataType::Float32 => Lane::F32,
            DataType::Float64 => Lane::F64,
            string if is_string(string) => Lane::Text,
            _ => Lane::of(Type::Int(facts.interval)),
        };
        (lane, facts.interval)
    }

    fn finishes(&self) -> &[Finish] {
        &self.finishes
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns the row program.
    pub fn program(&self) -> &RowProgram {
        &self.program
    }

    /// Returns what is read, in the order of chunks.
    pub fn inputs(&self) -> &[HostInput] {
        &self.inputs
    }

    /// Returns the schema of what leaves.
    pub fn output(&self) -> SchemaRef {
        Arc::clone(&self.pipeline.output)
    }

    /// Starts the strings of records, for all threads that make some.
    pub fn shared_strings(&self) -> Arc<SharedStrings> {
        Arc::new(SharedStrings::new(sink::num_keys(&self.program)))
    }

    /// Starts a run, for one thread.
    pub fn run(self: &Arc<Self>) -> HostRun {
        HostRun::new(Arc::clone(self))
    }
}
