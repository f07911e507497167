//! Kernels over what lies on a device as it is: slots of a group table, and plain columns.
//!
//! They are no program's own: one source holds them all.

use std::sync::LazyLock;

use crate::backend::RunError;
use crate::engine::{Engine, bytes_of_words, read_words};

const PRELUDE: &str = include_str!("../cuda/prelude.cuh");
const STORE: &str = include_str!("../cuda/store.cuh");
const COMPACT: &str = include_str!("../cuda/compact.cuh");
const COLUMNS: &str = include_str!("../cuda/columns.cuh");

/// The fields of a launch, each a word of 64 bits, in order.
const FIELDS: [(&str, &str); 19] = [
    ("const u64*", "state"),
    ("const u32*", "present"),
    ("u64", "num_slots"),
    ("u64", "stride"),
    ("u64", "word"),
    ("u64", "kind"),
    ("u64*", "counter"),
    ("const u8*", "from"),
    ("u8*", "to"),
    ("u64", "num_rows"),
    ("u64", "width"),
    ("const u64*", "words"),
    ("u64", "num_words"),
    ("const u64*", "bound"),
    ("u64", "at"),
    ("u64", "shift"),
    ("u64", "digit_bits"),
    ("u64*", "tiles"),
    ("u64*", "picked"),
];

/// Threads of a block.
const THREADS: u32 = 256;

/// Rows of a tile of `pick_rows`.
const TILE_ROWS: u64 = 2048;

/// Bits of a digit of the selection, at most.
const DIGIT_BITS: u32 = 11;

/// The names of the kernels.
pub const KERNELS: [&str; 6] = [
    "count_groups",
    "count_met",
    "pack_bits",
    "count_digits",
    "pick_rows",
    "gather",
];

/// The source: CUDA C++ without a header.
pub static SOURCE: LazyLock<String> = LazyLock::new(|| {
    let mut text = [PRELUDE, STORE].concat();
    text.push_str("\nstruct Launch {\n");
    for (data_type, name) in FIELDS {
        text.push_str(&format!("    {data_type} {name};\n"));
    }
    text.push_str(&format!(
        "}};\n\n#define TG_BLOCK {THREADS}\n#define TG_TILE {TILE_ROWS}\n"
    ));
    text.push_str(COMPACT);
    text.push_str(COLUMNS);
    text
});

/// The words of a launch.
struct Words([u64; FIELDS.len()]);

impl Words {
    fn new(fields: &[(&str, u64)]) -> Self {
        let mut words = Self([0; FIELDS.len()]);
        fields
            .iter()
            .for_each(|(name, value)| words.set(name, *value));
        words
    }

    fn set(&mut self, field: &str, value: u64) {
        for (word, (_, name)) in self.0.iter_mut().zip(FIELDS) {
            if name == field {
                *word = value;
            }
        }
    }
}

/// How slots of a table are told to hold groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    pub(crate) state: u64,
    pub(crate) present: u64,
    pub(crate) num_slots: u64,
    /// Words from one slot to the next.
    pub(crate) stride: u64,
    pub(crate) told_by: ToldBy,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ToldBy {
    /// This word is not 0.
    Word(u64),
    Bit,
    Key,
}

/// A launch's `kind` where the first word tells a group.
const BY_KEY: u64 = 2;

/// Counts the groups of a table.
///
/// # Errors
/// The device's own.
pub(crate) fn count_groups<E: Engine>(engine: &E, slots: Slots) -> Result<u64, RunError> {
    let counter = engine.alloc(8)?;
    engine.fill(&counter, 0, 8, 0)?;
    let (kind, word) = match slots.told_by {
        ToldBy::Word(word) => (0, word),
        ToldBy::Bit => (1, 0),
        ToldBy::Key => (BY_KEY, 0),
    };
    let words = Words::new(&[
        ("state", slots.state),
        ("present", slots.present),
        ("num_slots", slots.num_slots),
        ("stride", slots.stride),
        ("word", word),
        ("kind", kind),
        ("counter", engine.address(&counter)),
    ]);
    launch(engine, "count_groups", slots.num_slots, &words)?;
    Ok(read_words(engine, &counter, 1)?[0])
}

/// Counts the groups of a hash table in which keys of more than 64 bits have met: some of `num_pairs`
/// pairs of words, from a word of the record on, are no complements.
///
/// # Errors
/// The device's own.
pub(crate) fn count_met<E: Engine>(
    engine: &E,
    slots: Slots,
    first: u64,
    num_pairs: u64,
) -> Result<u64, RunError> {
    let counter = engine.alloc(8)?;
    engine.fill(&counter, 0, 8, 0)?;
    let words = Words::new(&[
        ("state", slots.state),
        ("num_slots", slots.num_slots),
        ("stride", slots.stride),
        ("kind", BY_KEY),
        ("at", first),
        ("num_words", num_pairs),
        ("counter", engine.address(&counter)),
    ]);
    launch(engine, "count_met", slots.num_slots, &words)?;
    Ok(read_words(engine, &counter, 1)?[0])
}

/// Packs bytes of 0 or 1 into bits; there are bytes for whole groups of 32 rows.
///
/// # Errors
/// The device's own.
pub(crate) fn pack_bits<E: Engine>(
    engine: &E,
    bytes: &E::Buffer,
    num_rows: u64,
) -> Result<E::Buffer, RunError> {
    let bits = engine.alloc(num_rows.div_ceil(32) * 4)?;
    let words = Words::new(&[
        ("from", engine.address(bytes)),
        ("to", engine.address(&bits)),
        ("num_rows", num_rows),
    ]);
    launch(engine, "pack_bits", num_rows.div_ceil(32), &words)?;
    Ok(bits)
}

/// Rows that were picked of a table of plain columns.
#[derive(Debug)]
pub struct Picked<B> {
    numbers: B,
    /// How many there are.
    pub num_rows: u64,
}

/// Picks the first `wanted` rows of an order, and with them at most `most` that come next. The order
/// is that of words, the greatest first, of each of which so many low bits are used; rows with equal
/// words are in the order of their numbers. There are fewer than 2^32 rows, and no fewer than are
/// wanted.
///
/// # Errors
/// The device's own.
pub fn pick_first<E: Engine>(
    engine: &E,
    words: &[(u64, u32)],
    num_rows: u64,
    wanted: u64,
    most: u64,
) -> Result<Picked<E::Buffer>, RunError> {
    // The rows' numbers make the order total.
    let bits = words.iter().map(|(_, bits)| *bits).chain([32]);
    let addresses: Vec<u64> = words.iter().map(|(address, _)| *address).collect();
    let addresses_at = engine.alloc(addresses.len().max(1) as u64 * 8)?;
    engine.write(&addresses_at, 0, &bytes_of_words(&addresses))?;
    let mut bound = vec![0_u64; words.len() + 1];
    let bound_at = engine.alloc(bound.len() as u64 * 8)?;
    let counts_at = engine.alloc(8 << DIGIT_BITS)?;
    let mut launched = Words::new(&[
        ("num_rows", num_rows),
        ("words", engine.address(&addresses_at)),
        ("num_words", words.len() as u64),
        ("bound", engine.address(&bound_at)),
        ("counter", engine.address(&counts_at)),
    ]);
    // Rows beyond the bound, and those that it is not decided of.
    let mut above = 0;
    let mut candidates = num_rows;
    'words: for (at, bits) in bits.enumerate() {
        let mut rest = bits;
        while rest > 0 {
            if candidates <= wanted + most {
                break 'words;
            }
            let digit_bits = rest.min(DIGIT_BITS);
            rest -= digit_bits;
            launched.set("at", at as u64);
            launched.set("shift", u64::from(rest));
            launched.set("digit_bits", u64::from(digit_bits));
            engine.write(&bound_at, 0, &bytes_of_words(&bound))?;
            engine.fill(&counts_at, 0, 8 << digit_bits, 0)?;
            launch(engine, "count_digits", num_rows, &launched)?;
            let counts = read_words(engine, &counts_at, 1 << digit_bits)?;
            let mut digit = counts.len() - 1;
            while digit > 0 && above + counts[digit] < wanted {
                above += counts[digit];
                digit -= 1;
            }
            bound[at] |= (digit as u64) << rest;
            candidates = above + counts[digit];
        }
    }
    engine.write(&bound_at, 0, &bytes_of_words(&bound))?;
    launched.set("at", words.len() as u64);
    let num_tiles = num_rows.div_ceil(TILE_ROWS);
    let tiles = engine.alloc((num_tiles + 1) * 8)?;
    engine.fill(&tiles, 0, (num_tiles + 1) * 8, 0)?;
    let numbers = engine.alloc(candidates * 8)?;
    launched.set("tiles", engine.address(&tiles));
    launched.set("counter", engine.address(&tiles) + num_tiles * 8);
    launched.set("picked", engine.address(&numbers));
    launch(
        engine,
        "pick_rows",
        num_tiles * u64::from(THREADS),
        &launched,
    )?;
    Ok(Picked {
        numbers,
        num_rows: candidates,
    })
}

/// Copies the picked values of a column of this width.
///
/// # Errors
/// The device's own.
pub fn gather<E: Engine>(
    engine: &E,
    picked: &Picked<E::Buffer>,
    from: &E::Buffer,
    width: u32,
) -> Result<E::Buffer, RunError> {
    let to = engine.alloc(picked.num_rows * u64::from(width))?;
    let words = Words::new(&[
        ("from", engine.address(from)),
        ("to", engine.address(&to)),
        ("num_rows", picked.num_rows),
        ("width", u64::from(width)),
        ("picked", engine.address(&picked.numbers)),
    ]);
    launch(engine, "gather", picked.num_rows, &words)?;
    Ok(to)
}

/// Starts a kernel with about a thread for each item, or as many as run at once.
fn launch<E: Engine>(engine: &E, kernel: &str, items: u64, words: &Words) -> Result<(), RunError> {
    let resident = engine.resident_blocks(kernel, THREADS, 0)?;
    let blocks = items.div_ceil(u64::from(THREADS)).min(u64::from(resident));
    Ok(engine.launch(kernel, blocks.max(1) as u32, THREADS, 0, &words.0)?)
}
