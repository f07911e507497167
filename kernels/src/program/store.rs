//! Where the groups' state is kept, chosen from the ranges of the keys.

use arrow_schema::DataType;
use tidegate_pipeline::program::{Class, Groups, Output, Type};
use tidegate_pipeline::{Interval, Unsupported};

use super::ProgramOptions;
use super::layout::{AccumulatorPlan, FloatForm, Keeping, Layout, Word, WordOp};
use super::print::RowText;
use super::radix::{RadixLimits, RadixPlan};
use super::slots::SlotKind;
use super::wide::{self, WideKeys, WidePlace};
use crate::encode::Divisor;

/// What bounds the choice of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreLimits {
    /// Shared memory that a block may use, in bytes.
    pub shared_bytes: u64,
    /// Shared memory that the blocks of a multiprocessor may use for cells of each thread's own, in
    /// bytes.
    pub private_bytes: u64,
    /// Global memory that a table addressed by its keys may use, in bytes.
    pub dense_bytes: u64,
    /// Rows that will be folded, as far as that is known: a table is not made much larger.
    pub rows: u64,
    /// What bounds the sorting of rows by partition.
    pub radix: RadixLimits,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            shared_bytes: 96 << 10,
            private_bytes: 228 << 10,
            dense_bytes: 4 << 30,
            rows: 1 << 31,
            radix: RadixLimits::default(),
        }
    }
}

impl StoreLimits {
    /// Lowers the limits to what a device has for a block and for a multiprocessor, in bytes.
    pub fn fit(&mut self, block_bytes: u64, multiprocessor_bytes: u64) {
        self.shared_bytes = self.shared_bytes.min(block_bytes);
        self.private_bytes = self.private_bytes.min(multiprocessor_bytes);
        self.radix.block_bytes = self.radix.block_bytes.min(block_bytes);
        self.radix.table_bytes = self
            .radix
            .table_bytes
            .min(block_bytes.saturating_sub(1 << 10));
    }
}

/// Where the state of groups is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// One group: in registers, reduced over each warp at the end.
    Registers,
    /// A table addressed by the keys in each block's shared memory, in so many copies, of which each
    /// lane uses one.
    Shared {
        /// Copies; a power of two of at most 32.
        replicas: u32,
    },
    /// A table addressed by the keys in each block's shared memory, with cells of its own for each of
    /// so many threads.
    Private {
        /// Threads of a block.
        threads: u32,
    },
    /// A table addressed by the keys in global memory, and the first keys that a block meets in
    /// shared memory.
    Dense,
    /// An open-addressed table in global memory, and the same.
    Hash,
}

impl Store {
    /// Returns the store's name in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Shared { .. } => "shared table",
            Self::Private { .. } => "private cells",
            Self::Dense => "direct-addressed table",
            Self::Hash => "hash table",
        }
    }
}

/// Words among the literals that a key takes: its least value, NULL's index, the stride, the step, and
/// the multiplier and shift that divide a multiple of the step by it.
pub(super) const KEY_LITERALS: usize = 6;

/// One group key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPlan {
    /// The key's type.
    pub data_type: DataType,
    /// The least integer that stands for a key; a key's index is counted from it.
    pub low: i128,
    /// What divides the distances between keys: an index is counted in such steps.
    pub step: u64,
    /// Indices of values. The next one is NULL's, if there is one.
    pub num_values: u128,
    /// Whether NULL is a key.
    pub nullable: bool,
    /// What the index is multiplied by.
    pub stride: u64,
    /// The slot whose dictionary the key's codes are of, if it is a string.
    pub dictionary: Option<usize>,
    /// Where the key is, if the keys need more than 64 bits.
    pub wide: Option<WidePlace>,
}

impl KeyPlan {
    /// Returns the words that a launch is told of the key.
    pub(super) fn literals(&self) -> [u64; KEY_LITERALS] {
        let divisor = Divisor::new(self.step.max(1));
        [
            self.low as u64,
            self.num_values as u64,
            self.stride,
            self.step,
            divisor.inverse(),
            u64::from(divisor.shift()),
        ]
    }
}

/// How a group is told from a place where none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There are no keys, so that there is one group.
    Always,
    /// This word of its state is not 0.
    Word(usize),
    /// Its bit is set in a map beside the table.
    Bit,
    /// Its slot has a key.
    Key,
}

/// Everything about the groups of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPlan {
    /// The keys, in order.
    pub keys: Vec<KeyPlan>,
    /// Where the keys' literals begin: six words a key.
    pub key_literals: usize,
    /// How many packed keys there can be; `None` if 64 bits do not tell them from [`EMPTY_KEY`].
    pub num_packed: Option<u64>,
    /// The words of keys that need more than 64 bits.
    pub wide: Option<WideKeys>,
    /// What is kept of each group, each thing once.
    pub accumulators: Vec<AccumulatorPlan>,
    /// The accumulators of each call.
    pub calls: Vec<Vec<usize>>,
    /// How each word of a group's state is taken in.
    pub words: Vec<WordOp>,
    /// Where the state is.
    pub store: Store,
    /// How a group is told.
    pub presence: Presence,
    /// Shared memory that a block needs, in bytes.
    pub shared_bytes: u32,
    /// How rows are sorted by partition first, if the store gains by it.
    pub radix: Option<RadixPlan>,
}

/// What a vacant slot of a hash table holds instead of a packed key.
pub const EMPTY_KEY: u64 = u64::MAX;

/// Keys that a block keeps in shared memory in front of a global table that rows are added to as they come.
pub const HOT_KEYS: u32 = 512;

impl GroupPlan {
    /// Returns how many words a group's state has.
    pub fn num_words(&self) -> usize {
        self.words.len()
    }

    /// Returns the words from one slot to the next, and where a group's own begin.
    pub fn record(&self) -> (usize, usize) {
        match self.store {
            Store::Hash => (self.num_words() + 1, 1),
            _ => (self.num_words(), 0),
        }
    }
}

/// The C++ of a key of a row.
#[derive(Clone, Debug)]
pub(super) struct KeyText {
    /// What of it is packed: an integer, the bits of a float, the code of a string.
    pub(super) code: String,
    /// How a variable holds that.
    pub(super) class: Class,
    /// The condition under which it is there, if it may be absent.
    pub(super) valid: Option<String>,
}

/// The keys and words of a grouping, and where they are kept.
pub(super) struct Grouping {
    pub(super) keys: Vec<(KeyPlan, KeyText)>,
    pub(super) layout: Layout,
    /// How many packed keys there can be; `None` if 64 bits do not hold them.
    pub(super) packed: Option<u64>,
    pub(super) store: Store,
    pub(super) presence: Presence,
    pub(super) wide: Option<WideKeys>,
}

impl Grouping {
    /// Chooses where groups are kept, and lays their state out for it.
    ///
    /// # Errors
    /// What a device has no form for.
    pub(super) fn new(
        row: &mut RowText<'_>,
        groups: &Groups,
        options: &ProgramOptions,
    ) -> Result<Self, Unsupported> {
        let mut keys: Vec<_> = groups.keys.iter().map(|key| key_of(row, key)).collect();
        let packed = pack(&mut keys);
        let (program, slots, first_literal) = (row.program, row.slots, row.literals.len());
        let lay = |as_parts: bool, by_word: bool| {
            let floats = FloatForm {
                as_parts,
                is_wide: options.wide_floats,
                is_fixed: options.fixed_floats,
            };
            let keeping = Keeping {
                floats,
                by_word,
                first_literal,
            };
            Layout::new(program, groups, slots, keeping)
        };
        // Cells of their own for all threads are best where there is room for them, be it registers.
        let apart = lay(true, true)?;
        let (store, layout) = match choose_private(&apart.words, packed, options) {
            _ if keys.is_empty() => (Store::Registers, apart),
            Some(store) => (store, apart),
            None => {
                let shared = lay(false, true)?;
                let state_words = shared.global_ops().len() as u64;
                let cell = cell_bytes(&shared.words);
                match choose(packed, (cell, state_words), options.limits) {
                    store @ (Store::Dense | Store::Hash) => (store, lay(false, false)?),
                    store => (store, shared),
                }
            }
        };
        let presence = match (store, layout.tells) {
            (Store::Registers, _) => Presence::Always,
            (Store::Hash, _) => Presence::Key,
            (_, Some(word)) => Presence::Word(word),
            (_, None) => Presence::Bit,
        };
        let mut grouping = Self {
            keys,
            layout,
            packed,
            store,
            presence,
            wide: None,
        };
        row.literals.resize(grouping.layout.num_literals, 0);
        if packed.is_none() && !grouping.fills_one_word() {
            grouping.widen(row.literals.len());
            row.literals.push(options.key_seed);
        }
        Ok(grouping)
    }

    /// Lays keys out that cannot be packed; `seed` is the literal of their hash's seed.
    fn widen(&mut self, seed: usize) {
        let num_words = wide::place(self.keys.iter_mut().map(|(key, _)| key));
        let first = self.layout.add_key_words(num_words);
        self.wide = Some(WideKeys {
            num_words,
            first,
            seed,
        });
    }

    /// Returns whether there is one key, of values that 64 bits count.
    fn fills_one_word(&self) -> bool {
        matches!(self.keys.as_slice(), [(key, _)] if key.num_values <= 1 << 64)
    }
}

/// Returns how many packed keys there are, setting each key's stride; `None` if too many.
fn pack(keys: &mut [(KeyPlan, KeyText)]) -> Option<u64> {
    let mut total: u128 = 1;
    let mut fits = true;
    for (key, _) in keys {
        match u64::try_from(total) {
            Ok(stride) => key.stride = stride,
            Err(_) => fits = false,
        }
        let indices = key.num_values.saturating_add(u128::from(key.nullable));
        total = total.saturating_mul(indices.max(1));
    }
    u64::try_from(total)
        .ok()
        .filter(|total| fits && *total < u64::MAX)
}

/// Returns the bytes that one cell of a shared table takes.
fn cell_bytes(words: &[Word]) -> u64 {
    words.iter().map(word_bytes).sum()
}

/// Returns the store with cells for every thread, if a few groups with many words make it worth its
/// shared memory.
fn choose_private(words: &[Word], packed: Option<u64>, options: &ProgramOptions) -> Option<Store> {
    let packed = packed.filter(|packed| *packed <= PRIVATE_SLOTS_MAX)?;
    // What flushes cells adds and compares.
    let is_combined = |word: &Word| matches!(word.op, WordOp::Combine(_));
    if words.iter().any(is_combined) {
        return None;
    }
    let cell = private_cell_bytes(words);
    if cell < PRIVATE_CELL_MIN {
        return None;
    }
    // As many threads as a multiprocessor has room for; of equals the larger blocks.
    let resident =
        |threads: &u32| threads * private_blocks(packed * cell, *threads, options.limits);
    (2..=options.threads / 32)
        .map(|warps| 32 * warps)
        .max_by_key(resident)
        .filter(|threads| resident(threads) >= PRIVATE_THREADS_MIN)
        .map(|threads| Store::Private { threads })
}

/// Returns how many blocks with cells of each thread's own, of so many bytes, a multiprocessor has room for.
pub(super) fn private_blocks(thread_bytes: u64, threads: u32, limits: StoreLimits) -> u32 {
    let block = thread_bytes * u64::from(threads) + BLOCK_RESERVED_BYTES;
    let room = (limits.private_bytes / block) as u32;
    room.min(PRIVATE_THREADS_MAX / threads)
}

/// Returns the bytes that a thread's own cell of a group takes.
pub(super) fn private_cell_bytes(words: &[Word]) -> u64 {
    words.iter().map(private_bytes).sum()
}

/// Chooses a store that threads share, for cells of so many bytes in shared memory and of so many words in
/// global memory.
fn choose(packed: Option<u64>, (cell, num_words): (u64, u64), limits: StoreLimits) -> Store {
    let Some(packed) = packed else {
        return Store::Hash;
    };
    let one = packed.saturating_mul(cell.max(1));
    if one <= limits.shared_bytes {
        // Copies keep lanes apart; beyond 32 KiB they would cost occupancy.
        let mut replicas = 1;
        while replicas < 32 && one * (replicas * 2) <= 32 << 10 {
            replicas *= 2;
        }
        return Store::Shared {
            replicas: replicas as u32,
        };
    }
    let bytes = packed.saturating_mul(8 * num_words);
    let rows = limits.rows.saturating_mul(4).max(1 << 20);
    if bytes <= limits.dense_bytes && packed <= rows && packed < u64::from(u32::MAX) {
        Store::Dense
    } else {
        Store::Hash
    }
}

/// Returns the bytes that a word takes in shared memory.
fn word_bytes(word: &Word) -> u64 {
    match word.op {
        WordOp::Count | WordOp::Seen => 4,
        WordOp::Add if is_one_plane(word, ONE_PLANE_ROWS) => 4,
        WordOp::Add | WordOp::Max | WordOp::Part | WordOp::Combine(_) => 8,
    }
}

/// The most groups for which each thread has cells of its own, and the fewest bytes of a cell.
const PRIVATE_SLOTS_MAX: u64 = 64;
const PRIVATE_CELL_MIN: u64 = 28;

/// Rows after which a thread's own cells are added to global memory: sums of parts of 41 bits stay in
/// their binade up to here.
pub(super) const PRIVATE_ROWS: i128 = 1 << 11;

/// Fewer resident threads with cells of their own than this do not hide what they wait for.
const PRIVATE_THREADS_MIN: u32 = 192;

/// More resident threads would have fewer than 64 registers, and GPUs of capability 7.5 hold no more.
const PRIVATE_THREADS_MAX: u32 = 1024;

/// Shared memory that a block takes beside what it asks for.
const BLOCK_RESERVED_BYTES: u64 = 1 << 10;

/// Returns whether a word has 64 bits in a cell of a thread's own.
pub(super) fn is_wide_in_private(word: &Word) -> bool {
    private_bytes(word) == 8
}

/// Returns the bytes that a word takes in a cell of a thread's own.
pub(super) fn private_bytes(word: &Word) -> u64 {
    match word.op {
        WordOp::Count | WordOp::Seen => 4,
        WordOp::Add if is_one_plane(word, PRIVATE_ROWS) => 4,
        _ => 8,
    }
}

/// Rows after which a block adds what it has to global memory, if some sum has one plane only.
pub(super) const ONE_PLANE_ROWS: i128 = 1 << 18;

/// Returns whether 32 bits hold the word's sum over so many rows.
pub(super) fn is_one_plane(word: &Word, rows: i128) -> bool {
    word.op == WordOp::Add && word.range.low >= 0 && word.range.high < (1_i128 << 32) / rows
}

/// Plans a key, and binds what of it is packed.
fn key_of(row: &mut RowText<'_>, key: &Output) -> (KeyPlan, KeyText) {
    let id = key.value.value;
    let data = row.program.data(id);
    let (class, code, range) = match data {
        Type::Float32(_) => (Class::I32, row.key_bits(id), Interval::signed(32)),
        Type::Float64(_) => (Class::I64, row.key_bits(id), Interval::signed(64)),
        Type::Text => (row.class(id), row.name(id).to_owned(), row.codes(id)),
        _ => (data.class(), row.name(id).to_owned(), data.interval()),
    };
    let code = match data.is_float() {
        true => row.bind(class, &code),
        false => code,
    };
    let is_always = row.program.is(key.value.valid, true);
    let valid = (!is_always).then(|| row.name(key.value.valid).to_owned());
    // More than 128 bits count are as good as any others beyond 64.
    let num_values = range.num_values().unwrap_or(u128::MAX);
    let step = step_of(row, key);
    let plan = KeyPlan {
        data_type: key.data_type.clone(),
        low: range.low,
        step,
        num_values: (num_values - 1) / u128::from(step) + 1,
        nullable: !is_always,
        stride: 1,
        dictionary: row.dictionary_of(id),
        wide: None,
    };
    (plan, KeyText { code, class, valid })
}

/// Returns what divides the distances between the values of a column that is read as it is; 1 if nothing
/// is known.
fn step_of(row: &RowText<'_>, key: &Output) -> u64 {
    let id = key.value.value;
    let Some(input) = row.program.input_of(id) else {
        return 1;
    };
    let (slot, facts) = &row.slots[input.column];
    let is_integer = matches!(row.program.data(id), Type::Int(_))
        && slot.kind == SlotKind::Integer
        && facts.lookup.is_none()
        && facts.range.is_within(Interval::signed(64));
    if is_integer { facts.step.max(1) } else { 1 }
}
