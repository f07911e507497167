//! From a pipeline to the CUDA C++ of its kernel.
//!
//! A [`DeviceProgram`] covers a pipeline's steps up to and with its first aggregate, or all of them
//! if rows leave; what comes after is done with the groups. In reading order: [`slots`] is what the
//! device reads, `lift` finds it and leaves a pipeline over it, which `tidegate-pipeline` lowers to a row
//! program; `print` writes the program's lines for one row,
//! `load_code` what reads the columns, and [`generated`] what makes them from positions instead, by `generated_code`;
//! `layout` says in which words the groups' state is, `store` chooses where, `store_code`, `private_code` and `register_code` write what keeps it,
//! `radix` what sorts rows with many groups first, `wide` keys of more than 64 bits; `source` and `compact` put the kernel together, `parts` takes it apart for the compiler;
//! `order` adds words to rows by which they are ordered, and `finish` is the kernel that turns groups
//! into columns.

pub mod generated;
mod generated_code;
mod generated_values;
pub mod slots;

mod compact;
mod finish;
mod layout;
mod lift;
mod load_code;
mod order;
mod packet;
mod parts;
mod print;
mod private_code;
mod quick;
mod radix;
mod register_code;
mod shape;
mod source;
mod store;
mod store_code;
mod wide;

use std::sync::Arc;

pub use tidegate_pipeline::Interval;
use tidegate_pipeline::program::{self, Bodies, lower_for};
use tidegate_pipeline::{Aggregate, Pipeline, SortKey, Step, Unsupported};

pub use finish::{FinishLayout, FinishProgram, FinishedColumn, Noted, finish_program};
pub use generated::{Generated, GeneratedColumn, value_type};
pub use generated_values::{ValuesKernel, roots_kernel, values_kernel};
pub use layout::{
    AccumulatorPlan, FloatScaleAt, Image, LOCAL_ROWS_MAX, MomentScale, STATE_ROWS_MAX, Sums, WordOp,
};
pub use order::generate_ordered;
pub use parts::{Part, parts_of};
pub use print::probe;
pub use radix::{RadixLimits, RadixPlan};
pub use slots::{Lookup, Slot, SlotFacts, SlotKind, slot_kind};
pub use source::{NUM_LAUNCH_FIELDS, launch_words, warm_up_source};
pub use store::{EMPTY_KEY, GroupPlan, HOT_KEYS, KeyPlan, Presence, Store, StoreLimits};
pub(crate) use wide::next_seed;
pub use wide::{WideKeys, WidePlace};

use crate::host::Finish;
use print::RowText;

/// How a kernel is to be made.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
    /// About how many bytes of loads each thread has in flight; `None` for what was measured best.
    pub load_bytes: Option<u32>,
    /// What bounds the choice of the store.
    pub limits: StoreLimits,
    /// What keys of more than 64 bits are hashed with at first: an odd number. If two keys meet, the fold
    /// is done again with another.
    pub key_seed: u64,
    /// Float sums are kept in more digits, for values some of which are very small beside others.
    pub wide_floats: bool,
    /// Float sums have the same digits whatever the values are, so that their bits hang on nothing but
    /// the values.
    pub fixed_floats: bool,
    /// Rows after which the groups gathered so far are kept apart, [`STATE_ROWS_MAX`] or fewer: they are
    /// added up at the end, exactly unless floats are kept in digits of several kinds.
    pub state_rows: u64,
    /// The input's columns are made in the kernel, from the rows' positions in an array.
    pub generated: Option<Arc<Generated>>,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self {
            threads: 256,
            load_bytes: None,
            limits: StoreLimits::default(),
            key_seed: 0x9e37_79b9_7f4a_7c15,
            wide_floats: false,
            fixed_floats: false,
            state_rows: STATE_ROWS_MAX,
            generated: None,
        }
    }
}

/// A kernel's source, and what its launcher has to know.
#[derive(Clone, Debug)]
pub struct DeviceProgram {
    /// CUDA C++ without a header.
    pub text: Arc<str>,
    /// What the kernel reads, in the order of its columns, with what was assumed of each.
    pub slots: Vec<(Slot, SlotFacts)>,
    /// The literals of the launch. Those of keys and float sums are filled in by the launcher.
    pub literals: Vec<u64>,
    /// The slots whose values are looked up, each with the first of its three literals: the
    /// addresses of the values as 64-bit words and of a byte of validity for each, and the index of
    /// what NULL has. The launcher fills them in.
    pub lookups: Vec<(usize, usize)>,
    /// The slots whose strings are ordered, each with the literal that says where the order is: a word
    /// for each code, its string's place among all of the dictionary in the upper 32 bits, and the
    /// code in the lower ones. The launcher fills them in.
    pub ranks: Vec<(usize, usize)>,
    /// What becomes of the rows.
    pub sink: Sink,
    /// What groups become.
    pub finishes: Arc<[Finish]>,
    /// How many steps of the pipeline the kernel does.
    pub num_steps: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Rows of a tile.
    pub tile_rows: u32,
}

impl DeviceProgram {
    /// Returns the names of the kernels in the source.
    pub fn kernel_names(&self) -> &'static [&'static str] {
        match &self.sink {
            Sink::Rows(_) => &["write_rows"],
            Sink::Groups(plan) => match (plan.store, &plan.radix) {
                (Store::Hash, None) => &["fold", "absorb", "clear"],
                (Store::Hash, Some(_)) => &[
                    "fold",
                    "absorb",
                    "clear",
                    "estimate",
                    "repartition",
                    "aggregate",
                ],
                (_, Some(_)) => &["fold", "aggregate", "aggregate_shared"],
                (_, None) => &["fold"],
            },
        }
    }
}

/// What becomes of the selected rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Sink {
    /// They are grouped.
    Groups(Box<GroupPlan>),
    /// They are written out, in the order of the input.
    Rows(Vec<OutputColumn>),
}

/// A column that leaves the device.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Bytes of a value as it is written.
    pub width: u32,
    /// Whether a byte of validity is written for each value.
    pub nullable: bool,
    /// The slot whose dictionary the codes are of, if the column holds strings.
    pub dictionary: Option<usize>,
}

/// Writes the kernel of a pipeline.
///
/// `facts_of` tells what is known of the values of a slot; [`SlotFacts::declared`] if nothing is.
///
/// # Errors
/// Why the pipeline has no device form.
pub fn generate(
    pipeline: &Pipeline,
    facts_of: &dyn Fn(&Slot) -> SlotFacts,
    options: &ProgramOptions,
) -> Result<DeviceProgram, Unsupported> {
    let (program, _) = generate_with(pipeline, facts_of, options, &[])?;
    Ok(program)
}

/// Writes the kernel of a pipeline, and of rows also the words of an order: their bits come back.
fn generate_with(
    pipeline: &Pipeline,
    facts_of: &dyn Fn(&Slot) -> SlotFacts,
    options: &ProgramOptions,
    order: &[SortKey],
) -> Result<(DeviceProgram, Vec<u32>), Unsupported> {
    let lifted = lift::lift(pipeline, order)?;
    let facts = |slot: Slot| {
        let facts = match &options.generated {
            Some(generated) => generated.facts(&slot),
            None => facts_of(&slot),
        };
        (slot, facts)
    };
    let slots: Vec<(Slot, SlotFacts)> = lifted.slots.into_iter().map(facts).collect();
    let literals = match &options.generated {
        Some(generated) => {
            generated::check_slots(&slots)?;
            generated.literals()
        }
        None => Vec::new(),
    };
    let of_values = |slot: usize| slots[slot].1.of_values();
    let stages = lower_for(&lifted.pipeline, &of_values, Bodies::Device)?;
    let [program] = stages.as_slice() else {
        return Err(Unsupported::new("more than one stage in a kernel"));
    };
    let row = RowText::new(program, &slots, literals)?;
    let num_steps = lifted.num_steps;
    match &program.sink {
        program::Sink::Groups(groups) => {
            let grouped = source::grouped(row, groups, num_steps, options)?;
            Ok((grouped, Vec::new()))
        }
        _ if options.generated.is_some() => {
            let what = "the rows of a generated array leave from the host";
            Err(Unsupported::new(what))
        }
        program::Sink::Rows(outputs) => compact::compacted(row, outputs, &[], num_steps, options),
        program::Sink::Sorted(sorted) => {
            // The keys are columns behind those that leave.
            let num_columns = sorted.outputs.len() - sorted.keys.len();
            let outputs = &sorted.outputs[..num_columns];
            compact::compacted(row, outputs, &sorted.keys, num_steps, options)
        }
    }
}

/// Writes the program of a pipeline of whose values nothing is known.
///
/// # Errors
/// Why the pipeline has no device form.
pub fn declared_program(
    pipeline: &Pipeline,
    options: &ProgramOptions,
) -> Result<DeviceProgram, Unsupported> {
    generate(pipeline, &declared_facts, options)
}

/// Returns what is known of a slot before its first chunk.
pub(crate) fn declared_facts(slot: &Slot) -> SlotFacts {
    SlotFacts::declared(&slot.expr.data_type, true)
}

/// Returns the aggregate that the program of this pipeline ends with, if it groups.
pub fn first_aggregate(pipeline: &Pipeline) -> Option<&Aggregate> {
    pipeline.steps.iter().find_map(|step| match step {
        Step::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    })
}
