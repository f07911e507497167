//! Groups out of records, a few partitions at a time, and what leaves of them: states, or values.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_pipeline::program::{Groups, Sink, lower};
use tidegate_pipeline::{AggregateOutput, Facts, Step, Unsupported};

use super::HostProgram;
use super::columns::can_leave;
use super::declined::Declined;
use super::finish::Finish;
use super::groups::records::Partition;
use super::groups::shared::SharedStrings;
use super::sink::GroupState;

/// How the values of groups leave, in place of their states.
#[derive(Debug)]
pub struct GroupValues {
    schema: SchemaRef,
    finishes: Vec<Finish>,
}

impl GroupValues {
    /// Returns the schema of what leaves.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Compiles what leaves of the groups of `program` under a schema: its keys, and the values of its calls.
    ///
    /// # Errors
    /// What the host cannot run.
    pub fn new(program: &HostProgram, output: SchemaRef) -> Result<Self, Unsupported> {
        let mut pipeline = program.pipeline.clone();
        match pipeline.steps.last_mut() {
            Some(Step::Aggregate(aggregate)) => aggregate.output = AggregateOutput::Value,
            _ => return Err(Unsupported::new("values without groups")),
        }
        pipeline.output = output;
        pipeline.validate()?;
        let leaves = pipeline.output.fields().iter();
        if let Some(field) = leaves
            .into_iter()
            .find(|field| !can_leave(field.data_type()))
        {
            let what = format!("a column of {} that leaves, on the host", field.data_type());
            return Err(Unsupported::new(what));
        }
        let inputs = &program.program.inputs;
        let facts = |column: usize| match inputs.iter().find(|input| input.column == column) {
            Some(input) => input.facts,
            None => Facts::declared(pipeline.input.field(column).data_type()),
        };
        let stages = lower(&pipeline, &facts)?;
        let other = "values that need more of a group than its state has";
        let [values] = stages.as_slice() else {
            return Err(Unsupported::new(other));
        };
        let (Sink::Groups(of_values), Sink::Groups(of_states)) =
            (&values.sink, &program.program.sink)
        else {
            return Err(Unsupported::new(other));
        };
        let ops = |program: &tidegate_pipeline::RowProgram| {
            let ops = program.values.iter().map(|value| value.op.clone());
            ops.collect::<Vec<_>>()
        };
        let is_same = of_values.accumulators == of_states.accumulators
            && ops(values) == ops(&program.program);
        if !is_same {
            return Err(Unsupported::new(other));
        }
        Ok(Self {
            finishes: Finish::all(of_values)?,
            schema: pipeline.output,
        })
    }
}

/// Groups that records are merged into, for one thread.
#[derive(Debug)]
pub struct Merge {
    program: Arc<HostProgram>,
    strings: Arc<SharedStrings>,
    groups: GroupState,
}

impl Merge {
    /// Starts without groups, for records that runs of a program made with these strings.
    ///
    /// # Errors
    /// The program makes none.
    pub fn new(program: &Arc<HostProgram>, strings: &Arc<SharedStrings>) -> Result<Self, Declined> {
        let groups = GroupState::of_records(program.program(), groups_of(program)?);
        Ok(Self {
            program: Arc::clone(program),
            strings: Arc::clone(strings),
            groups,
        })
    }

    /// Takes some of a partition's records in; returns whether there were any.
    ///
    /// # Errors
    /// There are more groups than can be counted; the groups are of no use then.
    pub fn add_some(&mut self, partition: &mut Partition) -> Result<bool, Declined> {
        let Some(chunk) = partition.take() else {
            return Ok(false);
        };
        for records in chunk.chunks(self.groups.block_words()) {
            self.groups.merge(records)?;
        }
        Ok(true)
    }

    /// Returns the bytes of the groups.
    pub fn memory_bytes(&self) -> usize {
        self.groups.memory_bytes()
    }

    /// Returns how many groups there are.
    pub fn num_groups(&self) -> usize {
        self.groups.num_groups()
    }

    /// Returns the groups' states, or values, in batches of at most so many rows.
    ///
    /// # Errors
    /// A group's value raises.
    pub fn batches(
        &mut self,
        values: Option<&GroupValues>,
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>, Declined> {
        let strings = self.strings.read();
        match values {
            Some(GroupValues { schema, finishes }) => {
                self.groups.batches(schema, finishes, &strings, batch_rows)
            }
            None => {
                let (schema, finishes) = (self.program.output(), self.program.finishes());
                self.groups.batches(&schema, finishes, &strings, batch_rows)
            }
        }
    }

    /// Forgets the groups.
    pub fn restart(&mut self) {
        self.groups.restart();
    }
}

fn groups_of(program: &HostProgram) -> Result<&Groups, Declined> {
    match &program.program().sink {
        Sink::Groups(groups) => Ok(groups),
        Sink::Rows(_) | Sink::Sorted(_) => {
            Err(Declined::Unsupported("records without groups".to_owned()))
        }
    }
}
