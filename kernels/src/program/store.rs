//! Where the groups' state is kept, chosen from the ranges of the keys.

use arrow_schema::DataType;
use tidegate_pipeline::types::is_float;
use tidegate_pipeline::{Aggregate, Expr, Interval};

use super::ProgramOptions;
use super::emit::{CallPlan, Class, Emitter, Scope, Val, Valid, Word, WordOp, Words};
use super::radix::{RadixLimits, RadixPlan};
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
    /// The calls, in order.
    pub calls: Vec<CallPlan>,
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

/// The words and keys of a grouping, on their way into a plan.
pub(crate) struct Grouping {
    pub(crate) words: Words,
    pub(crate) calls: Vec<CallPlan>,
    pub(crate) keys: Vec<(KeyPlan, Val)>,
    /// The words of the state, by their place in global memory.
    pub(crate) ops: Vec<WordOp>,
    pub(crate) presence: Presence,
    pub(crate) wide: Option<WideKeys>,
}

impl Grouping {
    pub(crate) fn emit(
        emitter: &mut Emitter<'_>,
        aggregate: &Aggregate,
        scope: &Scope,
    ) -> Result<Self, String> {
        let mut words = Words {
            grouped: !aggregate.keys.is_empty(),
            rows: emitter.guard.clone(),
            ..Words::default()
        };
        let mut keys = Vec::new();
        for key in &aggregate.keys {
            keys.push(emit_key(emitter, &key.expr, scope)?);
        }
        if words.grouped {
            words.seen(&emitter.guard.clone());
        }
        let mut calls = Vec::new();
        for call in &aggregate.calls {
            calls.push(emitter.call(call, scope, &mut words)?);
        }
        emitter.float_checks();
        let counted = |word: &&Word| word.op == WordOp::Count && word.condition == words.rows;
        let mut presence = match words.words.iter().find(counted) {
            _ if !words.grouped => Presence::Always,
            Some(word) => Presence::Word(word.index),
            None => Presence::Word(0),
        };
        if let Presence::Word(index) = &mut presence
            && *index > 0
        {
            // A count of all rows tells the group as well.
            *index -= 1;
            words.without_first();
            calls.iter_mut().for_each(CallPlan::without_first);
        }
        let mut ops = Vec::new();
        for word in &words.words {
            ops.push(word.op);
            if word.split {
                ops.push(word.op);
            }
        }
        Ok(Self {
            words,
            calls,
            keys,
            ops,
            presence,
            wide: None,
        })
    }

    /// Leaves it to the store to tell groups, which a table in global memory does by itself.
    pub(crate) fn settle_presence(&mut self, store: Store) {
        let by_itself = match store {
            Store::Registers | Store::Shared { .. } | Store::Private { .. } => return,
            Store::Dense => Presence::Bit,
            Store::Hash => Presence::Key,
        };
        if self
            .words
            .words
            .first()
            .is_some_and(|word| word.op == WordOp::Seen)
        {
            self.words.without_first();
            self.calls.iter_mut().for_each(CallPlan::without_first);
            self.ops.remove(0);
            self.presence = by_itself;
        } else if store == Store::Hash {
            self.presence = by_itself;
        }
    }

    /// Returns how many packed keys there are, setting each key's stride; `None` if too many.
    pub(crate) fn pack(&mut self) -> Option<u64> {
        let mut total: u128 = 1;
        let mut fits = true;
        for (key, _) in &mut self.keys {
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

    /// Lays keys out that cannot be packed, if there are more than one that fills 64 bits; `seed` is the
    /// literal of their hash's seed. Comes after all else is known of the state's words.
    pub(crate) fn widen(&mut self, seed: usize) {
        if self.fills_one_word() {
            return;
        }
        let num_words = wide::place(self.keys.iter_mut().map(|(key, _)| key));
        let first = wide::add_words(&mut self.words, num_words);
        let num_state = self.words.num_global - first;
        self.ops.extend(vec![WordOp::Max; num_state]);
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

    /// Returns the bytes that one cell of a shared table takes.
    pub(crate) fn cell_bytes(&self) -> u64 {
        self.words.words.iter().map(word_bytes).sum()
    }

    /// Returns the store with cells for every thread, if a few groups with many words make it worth
    /// its shared memory.
    pub(crate) fn choose_private(
        &self,
        packed: Option<u64>,
        options: &ProgramOptions,
    ) -> Option<Store> {
        let packed =
            packed.filter(|packed| *packed <= PRIVATE_SLOTS_MAX && !self.keys.is_empty())?;
        if self.private_cell_bytes() < PRIVATE_CELL_MIN {
            return None;
        }
        // As many threads as a multiprocessor has room for; of equals the larger blocks.
        let resident =
            |threads: &u32| threads * self.private_blocks(packed, *threads, options.limits);
        (2..=options.threads / 32)
            .map(|warps| 32 * warps)
            .max_by_key(resident)
            .filter(|threads| resident(threads) >= PRIVATE_THREADS_MIN)
            .map(|threads| Store::Private { threads })
    }

    /// Returns how many blocks with cells of each thread's own a multiprocessor has room for.
    pub(crate) fn private_blocks(&self, packed: u64, threads: u32, limits: StoreLimits) -> u32 {
        let block = packed * self.private_cell_bytes() * u64::from(threads) + BLOCK_RESERVED_BYTES;
        let room = (limits.private_bytes / block) as u32;
        room.min(PRIVATE_THREADS_MAX / threads)
    }

    fn private_cell_bytes(&self) -> u64 {
        self.words.words.iter().map(private_bytes).sum()
    }

    pub(crate) fn choose(&self, packed: Option<u64>, limits: StoreLimits) -> Store {
        let Some(packed) = packed else {
            return Store::Hash;
        };
        if self.keys.is_empty() {
            return Store::Registers;
        }
        let cell = self.cell_bytes().max(1);
        let one = packed.saturating_mul(cell);
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
        let bytes = packed.saturating_mul(8 * self.ops.len() as u64);
        let rows = limits.rows.saturating_mul(4).max(1 << 20);
        if bytes <= limits.dense_bytes && packed <= rows && packed < u64::from(u32::MAX) {
            Store::Dense
        } else {
            Store::Hash
        }
    }
}

/// Returns the bytes that a word takes in shared memory.
fn word_bytes(word: &Word) -> u64 {
    match word.op {
        WordOp::Count | WordOp::Seen => 4,
        WordOp::Add if is_one_plane(word, ONE_PLANE_ROWS) => 4,
        WordOp::Add | WordOp::Max | WordOp::Part => 8,
    }
}

/// The most groups for which each thread has cells of its own, and the fewest bytes of a cell.
const PRIVATE_SLOTS_MAX: u64 = 64;
const PRIVATE_CELL_MIN: u64 = 28;

/// Rows after which a thread's own cells are added to global memory: sums of parts of 41 bits stay in
/// their binade up to here.
pub(crate) const PRIVATE_ROWS: i128 = 1 << 11;

/// Fewer resident threads with cells of their own than this do not hide what they wait for.
const PRIVATE_THREADS_MIN: u32 = 192;

/// More resident threads would have fewer than 64 registers, and GPUs of capability 7.5 hold no more.
const PRIVATE_THREADS_MAX: u32 = 1024;

/// Shared memory that a block takes beside what it asks for.
const BLOCK_RESERVED_BYTES: u64 = 1 << 10;

/// Returns whether a word has 64 bits in a cell of a thread's own.
pub(crate) fn is_wide_in_private(word: &Word) -> bool {
    private_bytes(word) == 8
}

/// Returns the bytes that a word takes in a cell of a thread's own.
pub(crate) fn private_bytes(word: &Word) -> u64 {
    match word.op {
        WordOp::Count | WordOp::Seen => 4,
        WordOp::Add if is_one_plane(word, PRIVATE_ROWS) => 4,
        _ => 8,
    }
}

/// Rows after which a block adds what it has to global memory, if some sum has one plane only.
pub(crate) const ONE_PLANE_ROWS: i128 = 1 << 18;

/// Returns whether 32 bits hold the word's sum over so many rows.
pub(crate) fn is_one_plane(word: &Word, rows: i128) -> bool {
    word.op == WordOp::Add && word.range.low >= 0 && word.range.high < (1_i128 << 32) / rows
}

fn emit_key(
    emitter: &mut Emitter<'_>,
    expr: &Expr,
    scope: &Scope,
) -> Result<(KeyPlan, Val), String> {
    let data_type = expr.data_type.clone();
    let value = emitter.key(expr, scope)?;
    let dictionary = emitter.dictionary_of(&value);
    let value = if is_float(&data_type) {
        let (class, bits) = if value.class == Class::F32 {
            (Class::I32, 32)
        } else {
            (Class::I64, 64)
        };
        let code = emitter.bind(class, &format!("key_bits({})", value.code));
        Val {
            code,
            class,
            range: Interval::signed(bits),
            bound: 0.0,
            least: 0.0,
            are_singles: false,
            valid: value.valid,
        }
    } else {
        value
    };
    // More than 128 bits count are as good as any others beyond 64.
    let num_values = value.range.num_values().unwrap_or(u128::MAX);
    let step = emitter.step_of(&value);
    let num_values = (num_values - 1) / u128::from(step) + 1;
    let plan = KeyPlan {
        data_type,
        low: value.range.low,
        step,
        num_values,
        nullable: value.valid != Valid::Always,
        stride: 1,
        dictionary,
        wide: None,
    };
    Ok((plan, value))
}
