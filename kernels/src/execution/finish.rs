//! The end of an execution: what its groups become.
//!
//! Many groups stay on the device as columns. Steps that follow run there as another execution; before
//! an ordering with a limit only rows that can be among the first ones leave, and the host orders
//! these. Few groups, and whatever a device cannot do, are read back as they are and finished by the
//! host; [`Leaving::host_reason`] then says why.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidegate_device::{DeviceError, Reservation};
use tidegate_pipeline::{Interpreter, Pipeline, Sort, Step, Unsupported};

use super::Input;
use super::inputs::{ColumnView, Inputs, Strings};
use super::{Execution, Leaving};
use crate::backend::{RunError, Unsuited};
use crate::columns;
use crate::engine::{Machine, ResidentChunk, Segments};
use crate::finish::{FinishedGroups, StoredGroups, column_bytes, finish_groups, store_groups};
use crate::groups::{Groups, output_schema};
use crate::host::Finish;
use crate::program::{
    DeviceProgram, FinishLayout, FinishProgram, OutputColumn, ProgramOptions, Sink, SlotFacts,
    declared_facts, declared_program, finish_program, first_aggregate, generate_ordered,
};
use crate::rows::{DeviceRows, download_rows, pick_rows, write_rows};
use crate::stored::ColumnDictionary;
use crate::strings::Dictionary;
use crate::table::GroupTable;
use crate::transfer::referenced_bytes;

/// From what sizes on a device finishes groups.
#[derive(Clone, Copy, Debug)]
pub struct FinishLimits {
    /// Fewer slots are copied to the host as they are, which takes less than a millisecond.
    pub slots_min: u64,
    /// Fewer groups leave before the steps that follow, which the interpreter runs in some
    /// milliseconds, while another program may have to be compiled.
    pub groups_min: u64,
    /// A table of fewer groups that takes no more bytes is copied as it is.
    pub copied_bytes_max: u64,
    /// The most rows of an ordering's limit for which the device looks for the first rows.
    pub first_rows_max: usize,
    /// So many more rows may leave, if that spares the device work.
    pub spare_rows: u64,
}

impl Default for FinishLimits {
    fn default() -> Self {
        Self {
            slots_min: 1 << 16,
            groups_min: 20_000,
            copied_bytes_max: 32 << 20,
            first_rows_max: 1024,
            spare_rows: 1024,
        }
    }
}

/// Why a device did not finish.
enum Halt {
    /// The host can.
    Host(String),
    Failed(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Device(error) => error.into(),
            // Nor can the host tell groups apart of which the table has made one.
            RunError::Unsuited {
                why: Unsuited::FloatRange | Unsuited::KeyRange,
                ..
            } => Self::Host(error.to_string()),
            other => Self::Failed(other),
        }
    }
}

impl From<DeviceError> for Halt {
    fn from(error: DeviceError) -> Self {
        match &error {
            // The groups are as they were.
            DeviceError::LaunchFailed { .. }
            | DeviceError::OutOfMemory { .. }
            | DeviceError::Refused { .. } => Self::Host(error.to_string()),
            DeviceError::Lost { .. } => Self::Failed(error.into()),
        }
    }
}

impl From<Unsupported> for Halt {
    fn from(why: Unsupported) -> Self {
        Self::Host(why.to_string())
    }
}

/// What comes after the first aggregate of a pipeline.
pub(super) struct Ending {
    /// The steps after it, if there are any.
    rest: Option<Arc<Pipeline>>,
    /// What runs them over few groups, if it could be made.
    interpreter: Option<Box<Interpreter>>,
    /// The groups' columns.
    schema: SchemaRef,
}

impl Ending {
    /// Makes the end of a pipeline that groups.
    pub(super) fn of(pipeline: &Pipeline) -> Self {
        let rest = rest_of(pipeline);
        let interpreter = rest.clone().and_then(|rest| Interpreter::new(rest).ok());
        Self {
            schema: Arc::clone(rest.as_ref().map_or(&pipeline.output, |rest| &rest.input)),
            interpreter: interpreter.map(Box::new),
            rest,
        }
    }
}

/// Returns the steps after the groups of a pipeline, if there are any.
fn rest_of(pipeline: &Pipeline) -> Option<Arc<Pipeline>> {
    let is_first = |step: &Step| matches!(step, Step::Aggregate(_));
    let position = pipeline.steps.iter().position(is_first)?;
    let (Some(Step::Aggregate(aggregate)), steps) = (
        pipeline.steps.get(position),
        &pipeline.steps[position + 1..],
    ) else {
        return None;
    };
    (!steps.is_empty()).then(|| {
        Arc::new(Pipeline {
            input: output_schema(aggregate),
            parameters: pipeline.parameters.clone(),
            steps: steps.to_vec(),
            output: Arc::clone(&pipeline.output),
        })
    })
}

/// What is done with groups that are rows of another pipeline.
struct RowsOfGroups {
    /// The filters and projections.
    head: Arc<Pipeline>,
    /// The ordering whose first rows are wanted, and how many.
    first: Option<(Sort, usize)>,
    tail: Option<Arc<Pipeline>>,
}

/// What comes after the groups.
enum Next {
    /// They leave, and the host does what is left.
    Leave(Option<Arc<Pipeline>>),
    /// They are rows of another pipeline, some of which leave.
    Rows(RowsOfGroups),
    /// They are grouped again.
    Groups(Arc<Pipeline>),
}

impl Next {
    /// Returns how the groups are written.
    fn layout(&self) -> FinishLayout {
        match self {
            Self::Leave(_) => FinishLayout::Arrow,
            Self::Rows(_) | Self::Groups(_) => FinishLayout::Stored,
        }
    }
}

impl<B: std::fmt::Debug + Send + 'static> Execution<B> {
    /// Ends the execution. What still has to be done on the host is left to what is returned.
    ///
    /// # Errors
    /// What the groups raise; the device's own errors.
    pub async fn finish<M: Machine<Buffer = B>>(
        mut self,
        machine: &M,
        limits: &FinishLimits,
    ) -> Result<Leaving, RunError> {
        self.end(machine, limits).await
    }

    /// As [`Execution::finish`].
    async fn end<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        limits: &FinishLimits,
    ) -> Result<Leaving, RunError> {
        if self.left.is_empty() {
            return self.end_table(machine, limits).await;
        }
        if self.table.is_some() {
            let last = self.end_table(machine, limits).await?;
            self.left.push(last);
        }
        Ok(Leaving::all(std::mem::take(&mut self.left)))
    }

    /// Ends the execution as far as it is in its table, which may stay.
    pub(super) async fn end_table<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        limits: &FinishLimits,
    ) -> Result<Leaving, RunError> {
        if first_aggregate(&self.pipeline).is_none() {
            return Ok(Leaving::batches(std::mem::take(&mut self.rows), None));
        }
        if self.table.is_none() {
            // No row came: the answer over none is the interpreter's.
            return Ok(Leaving::batches(
                Vec::new(),
                Some(Arc::clone(&self.pipeline)),
            ));
        }
        match self.finish_on_device(machine, limits).await {
            Ok(leaving) => Ok(leaving),
            Err(Halt::Failed(error)) => Err(error),
            Err(Halt::Host(why)) => {
                let left = self.finish_on_host(machine, limits).await?;
                Ok(left.because(why))
            }
        }
    }

    /// Returns the program that finishes the groups of a program, or why there is none, if a device is to
    /// finish them.
    pub(super) fn finish_ahead(
        &self,
        program: &DeviceProgram,
        limits: &FinishLimits,
    ) -> Option<Result<FinishProgram, Unsupported>> {
        let Sink::Groups(plan) = &program.sink else {
            return None;
        };
        let is_small = |slots| slots < limits.slots_min;
        if plan.num_packed.is_some_and(is_small) {
            return None;
        }
        let layout = self.next(limits).layout();
        let (finishes, num_literals) = (&program.finishes, program.literals.len());
        Some(finish_program(plan, finishes, num_literals, layout))
    }

    /// Takes the table only if it succeeds.
    async fn finish_on_device<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        limits: &FinishLimits,
    ) -> Result<Leaving, Halt> {
        let Some(table) = self.table.as_ref() else {
            return Err(Halt::Host("there is no table".into()));
        };
        let (num_groups, next) = self.worth_of(machine, table, limits).await?;
        let layout = next.layout();
        let (finishes, num_literals) = (table.finishes(), table.literals().len());
        let program = finish_program(table.plan(), finishes, num_literals, layout)?;
        let outputs: Vec<OutputColumn> = program
            .columns
            .iter()
            .map(|column| column.output.clone())
            .collect();
        let bytes = column_bytes(outputs.iter(), num_groups);
        let memory = machine.budget().reserve(bytes)?;
        let finishing = machine.engine(&program.text, &FinishProgram::KERNELS);
        let engine = finishing.await?;
        let groups = finish_groups(&engine, &program, table, num_groups)?;
        match next {
            Next::Leave(rest) => {
                let rows = download_rows(&engine, &groups.rows, &outputs)?;
                let schema = match &rest {
                    Some(rest) => Arc::clone(&rest.input),
                    None => Arc::clone(&self.pipeline.output),
                };
                let dictionaries = self.inputs.dictionaries.clone();
                Ok(Leaving::columns(rows, schema, dictionaries, rest))
            }
            Next::Groups(pipeline) => {
                let columns = self.stored(machine, &program, groups, memory).await?;
                let mut next = Self::new(machine.budget(), pipeline, &self.options)?;
                let chunk = next.adopt_groups(machine, &columns)?;
                let chunks = [chunk];
                let launching = next.launch(machine, Input::Chunks(&chunks));
                // It may end a table of its own, as this does.
                Box::pin(launching).await?;
                drop(columns);
                // From here on the end is that of the groups' groups.
                *self = next;
                let ending = Box::pin(self.end(machine, limits));
                ending.await.map_err(Halt::Failed)
            }
            Next::Rows(rows) => {
                let columns = self.stored(machine, &program, groups, memory).await?;
                self.write_first(machine, &columns, rows, limits).await
            }
        }
    }

    /// Counts the groups and decides what comes after them, if the device is to finish them.
    async fn worth_of<M: Machine<Buffer = B>>(
        &self,
        machine: &M,
        table: &GroupTable<B>,
        limits: &FinishLimits,
    ) -> Result<(u64, Next), Halt> {
        if !self.retired.is_empty() {
            let why = "groups of several tables are merged by the host";
            return Err(Halt::Host(why.into()));
        }
        let num_slots = table.num_slots();
        if num_slots < limits.slots_min {
            return Err(Halt::Host(format!("{num_slots} slots are copied faster")));
        }
        let counting = machine.engine(&columns::SOURCE, &columns::KERNELS).await?;
        let num_groups = table.count(&counting)?;
        if num_groups >= limits.groups_min {
            return Ok((num_groups, self.next(limits)));
        }
        if table.bytes() <= limits.copied_bytes_max {
            return Err(Halt::Host(format!("{num_groups} groups are copied faster")));
        }
        Ok((num_groups, Next::Leave(rest_of(&self.pipeline))))
    }

    /// Makes finished groups readable by another program.
    async fn stored<M: Machine<Buffer = B>>(
        &self,
        machine: &M,
        program: &FinishProgram,
        groups: FinishedGroups<B>,
        memory: Reservation,
    ) -> Result<GroupColumns<B>, Halt> {
        let engine = machine.engine(&columns::SOURCE, &columns::KERNELS).await?;
        let stored = store_groups(&engine, program, &groups)?;
        let columns = program.columns.iter().zip(&groups.noted);
        let dictionary_of = |slot: usize| Arc::clone(&self.inputs.dictionaries[slot]);
        Ok(GroupColumns {
            stored,
            facts: columns
                .map(|(column, noted)| column.facts(*noted))
                .collect(),
            dictionaries: program
                .columns
                .iter()
                .map(|column| column.output.dictionary.map(dictionary_of))
                .collect(),
            num_rows: groups.rows.num_rows,
            _groups: groups,
            _memory: memory,
        })
    }

    fn over(&self, input: SchemaRef, steps: &[Step], output: SchemaRef) -> Arc<Pipeline> {
        Arc::new(Pipeline {
            input,
            parameters: self.pipeline.parameters.clone(),
            steps: steps.to_vec(),
            output,
        })
    }

    /// Decides what the device does after the groups.
    fn next(&self, limits: &FinishLimits) -> Next {
        let Some(rest) = rest_of(&self.pipeline) else {
            return Next::Leave(None);
        };
        let needs_all = |step: &Step| matches!(step, Step::Aggregate(_) | Step::Sort(_));
        let position = rest.steps.iter().position(needs_all);
        if let Some(position) = position
            && matches!(rest.steps[position], Step::Aggregate(_))
        {
            return match declared_program(&rest, &self.options) {
                Ok(_) => Next::Groups(rest),
                // The interpreter says what the device cannot.
                Err(_) => Next::Leave(Some(rest)),
            };
        }
        let (head, tail) = rest.steps.split_at(position.unwrap_or(rest.steps.len()));
        let schema = head
            .iter()
            .fold(rest.input.as_ref().clone(), |schema: Schema, step| {
                step.output_schema(&schema)
            });
        let schema = if tail.is_empty() {
            Arc::clone(&rest.output)
        } else {
            Arc::new(schema)
        };
        let tail_of = |tail: &[Step]| {
            (!tail.is_empty())
                .then(|| self.over(Arc::clone(&schema), tail, Arc::clone(&rest.output)))
        };
        let head_of = self.over(Arc::clone(&rest.input), head, Arc::clone(&schema));
        let first = match tail.first() {
            Some(Step::Sort(sort)) => sort
                .fetch
                .filter(|fetch| (1..=limits.first_rows_max).contains(fetch))
                .map(|fetch| (sort.clone(), fetch))
                .filter(|(sort, _)| {
                    generate_ordered(&head_of, sort, &declared_facts, &self.options).is_ok()
                }),
            _ => None,
        };
        let says_head = declared_program(&head_of, &self.options).is_ok();
        if !says_head || (head.is_empty() && first.is_none()) {
            return Next::Leave(Some(rest));
        }
        Next::Rows(RowsOfGroups {
            tail: tail_of(tail),
            head: head_of,
            first,
        })
    }

    /// Takes the groups of another execution for the slots.
    fn adopt_groups<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        columns: &GroupColumns<B>,
    ) -> Result<ResidentChunk, Halt> {
        let parameters = &self.pipeline.parameters;
        let mut chunks =
            self.inputs
                .adopt(machine, parameters, &[columns.num_rows], |_, column| {
                    Ok(ColumnView {
                        column: columns.stored.columns[column],
                        facts: &columns.facts[column],
                        dictionary: columns.dictionaries[column].as_ref(),
                    })
                })?;
        chunks
            .pop()
            .ok_or_else(|| Halt::Host("no chunk of the groups".into()))
    }

    /// Runs filters and projections over the groups and lets rows leave: all, or what can be among
    /// the first of an ordering.
    async fn write_first<M: Machine<Buffer = B>>(
        &self,
        machine: &M,
        columns: &GroupColumns<B>,
        RowsOfGroups { head, first, tail }: RowsOfGroups,
        limits: &FinishLimits,
    ) -> Result<Leaving, Halt> {
        let declared = match &first {
            Some((sort, _)) => generate_ordered(&head, sort, &declared_facts, &self.options)
                .map(|(program, _)| program),
            None => declared_program(&head, &self.options),
        };
        let inputs = Inputs::of(&declared?);
        let schema = Arc::clone(&head.output);
        let num_columns = schema.fields().len();
        let mut writer = Self::with_inputs(machine.budget(), head, &self.options, inputs)?;
        writer.order = first.as_ref().map(|(sort, _)| sort.clone());
        let chunk = writer.adopt_groups(machine, columns)?;
        let (program, bits) = writer.program(machine)?;
        let Sink::Rows(outputs) = &program.sink else {
            return Err(Halt::Host("rows were expected".into()));
        };
        let _memory = machine
            .budget()
            .reserve(column_bytes(outputs.iter(), columns.num_rows))?;
        let writing = machine.engine(&program.text, program.kernel_names());
        let engine = writing.await?;
        let segments = Segments::of(&program, &[chunk]);
        let mut rows = write_rows(&engine, &program, outputs, &segments)?;
        if let Some((_, fetch)) = first {
            rows = first_rows(machine, rows, outputs, &bits, fetch as u64, limits).await?;
        }
        let rows = download_rows(&engine, &rows, &outputs[..num_columns])?;
        let dictionaries = writer.inputs.dictionaries.clone();
        Ok(Leaving::columns(rows, schema, dictionaries, tail))
    }

    /// Reads the groups back.
    async fn finish_on_host<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        limits: &FinishLimits,
    ) -> Result<Leaving, RunError> {
        // Few groups came with the last launch: then nothing is asked of the device.
        let mut known = self.table.as_ref().and_then(GroupTable::known);
        let engine = match self.table {
            Some(_) if known.is_none() => {
                let (program, _) = self.program(machine)?;
                let reading = machine.engine(&program.text, program.kernel_names());
                Some(reading.await?)
            }
            _ => None,
        };
        let table = self.table.take();
        if let (Some(table), Some(engine)) = (&table, &engine) {
            known = Some(table.read(engine)?);
        }
        let ending = self.ending.take();
        let ending = ending.unwrap_or_else(|| Ending::of(&self.pipeline));
        let batch = self.merged(table, known, &ending.schema)?;
        Box::pin(finish_batch(machine, &self.options, ending, batch, limits)).await
    }
}

impl<B: std::fmt::Debug + Send + 'static> Execution<B> {
    /// Makes one batch of the groups of the last table and of those before.
    fn merged(
        &mut self,
        table: Option<GroupTable<B>>,
        known: Option<Groups>,
        schema: &SchemaRef,
    ) -> Result<RecordBatch, RunError> {
        let mut parts = std::mem::take(&mut self.retired);
        let mut of_keys = Vec::new();
        let mut finishes: Arc<[Finish]> = Arc::new([]);
        let strings = Strings::of(&self.inputs.dictionaries);
        if let Some(table) = table {
            finishes = Arc::clone(table.finishes());
            of_keys = table.plan().keys.iter().map(|key| key.dictionary).collect();
            parts.extend(known.map(|groups| groups.named(&strings.all())));
        }
        let dictionaries: Vec<Option<&Dictionary>> = of_keys
            .into_iter()
            .map(|slot| slot.map(|slot| strings.slot(slot)))
            .collect();
        Ok(Groups::merged(parts).to_batch(&finishes, &dictionaries, schema)?)
    }
}

/// Runs what comes after groups that are on the host: on the device again where there are many and it
/// groups them once more, else it is left to the interpreter.
async fn finish_batch<M: Machine>(
    machine: &M,
    options: &ProgramOptions,
    ending: Ending,
    batch: RecordBatch,
    limits: &FinishLimits,
) -> Result<Leaving, RunError> {
    let Some(rest) = ending.rest else {
        return Ok(Leaving::batches(vec![batch], None));
    };
    let is_worth_it = batch.num_rows() as u64 >= limits.groups_min
        && rest.aggregates()
        && declared_program(&rest, options).is_ok();
    let input = || machine.budget().reserve(referenced_bytes(&batch)).ok();
    if is_worth_it && let Some(_input) = input() {
        let mut next = Execution::new(machine.budget(), Arc::clone(&rest), options)?;
        match next.fold(machine, std::slice::from_ref(&batch)).await {
            Ok(_) => return next.finish(machine, limits).await,
            // The values did not suit: nothing has left, and the host can do it.
            Err(
                RunError::Unsuited { .. }
                | RunError::Device(
                    DeviceError::LaunchFailed { .. } | DeviceError::OutOfMemory { .. },
                ),
            ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Leaving::batches(vec![batch], Some(rest)).by(ending.interpreter))
}

/// Groups as columns on the device.
struct GroupColumns<B> {
    stored: StoredGroups<B>,
    facts: Vec<SlotFacts>,
    dictionaries: Vec<Option<Arc<ColumnDictionary>>>,
    num_rows: u64,
    /// What the stored columns point into.
    _groups: FinishedGroups<B>,
    _memory: Reservation,
}

/// Keeps the rows that can be among the first of an order, whose words are the last columns.
async fn first_rows<M: Machine>(
    machine: &M,
    rows: DeviceRows<M::Buffer>,
    outputs: &[OutputColumn],
    bits: &[u32],
    fetch: u64,
    limits: &FinishLimits,
) -> Result<DeviceRows<M::Buffer>, Halt> {
    let is_counted = rows.num_rows < u64::from(u32::MAX);
    if rows.num_rows <= fetch + limits.spare_rows || !is_counted {
        return Ok(rows);
    }
    let num_columns = outputs.len() - bits.len();
    let (columns, words) = (&outputs[..num_columns], &rows.buffers[num_columns..]);
    let words: Vec<(u64, u32)> = words
        .iter()
        .zip(bits)
        .map(|((word, _), bits)| (machine.address(word), *bits))
        .collect();
    let engine = machine.engine(&columns::SOURCE, &columns::KERNELS).await?;
    let picked = columns::pick_first(&engine, &words, rows.num_rows, fetch, limits.spare_rows)?;
    Ok(pick_rows(&engine, &rows, columns, &picked)?)
}
