//! Blocks: up to [`BLOCK`] rows of encoded columns, as sources on the host give them.
//!
//! A source reads rows in *groups* (a row group of a file, a record batch, a chunk in the cache). Within a
//! group each column has at most one dictionary, its [`Entries`]; block by block a column is codes of it or
//! plain values, whichever the source has. Nothing is copied for a program that does not need it.

use arrow_array::{Array, StringViewArray};

/// The most rows of a block: registers of a program then stay in the first two levels of cache.
pub const BLOCK: usize = 2048;

/// The distinct values of a column in one group of rows; they need not differ, and none is NULL.
///
/// Integers, decimals, dates and times are integers here, whatever their Arrow type.
#[derive(Clone, Debug)]
pub enum Entries {
    /// Values that 32 bits hold, and booleans.
    I32(Vec<i32>),
    /// Values that 64 bits hold.
    I64(Vec<i64>),
    /// Decimals beyond 64 bits.
    I128(Vec<i128>),
    /// Singles.
    F32(Vec<f32>),
    /// Doubles.
    F64(Vec<f64>),
    /// Strings.
    Text(StringViewArray),
}

impl Entries {
    /// Returns them as values, one for each code.
    pub fn values(&self) -> Values<'_> {
        match self {
            Self::I32(values) => Values::I32(values),
            Self::I64(values) => Values::I64(values),
            Self::I128(values) => Values::I128(values),
            Self::F32(values) => Values::F32(values),
            Self::F64(values) => Values::F64(values),
            Self::Text(array) => Values::Text { array, at: 0 },
        }
    }

    /// Returns how many there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        match self {
            Self::I32(values) => (values.len(), size_of_val(values.as_slice())),
            Self::I64(values) => (values.len(), size_of_val(values.as_slice())),
            Self::I128(values) => (values.len(), size_of_val(values.as_slice())),
            Self::F32(values) => (values.len(), size_of_val(values.as_slice())),
            Self::F64(values) => (values.len(), size_of_val(values.as_slice())),
            Self::Text(array) => (array.len(), array.get_array_memory_size()),
        }
    }
}

/// The values of a column in one block, at least as many as the block has rows.
///
/// Where a value is NULL, what lies here is unspecified, but is some value of the column's type, and a code
/// is below the number of entries.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Codes of the group's entries. The source has checked that each is below their number.
    Codes8(&'a [u8]),
    /// Codes of the group's entries, likewise.
    Codes16(&'a [u16]),
    /// Codes of the group's entries, likewise.
    Codes32(&'a [u32]),
    /// One value of the group's entries for all rows.
    Constant(u32),
    /// `base + factor * raw`, which does not overflow.
    Offset {
        /// What is added.
        base: i64,
        /// What a raw value is multiplied by.
        factor: i64,
        /// The raw values.
        raw: Raw<'a>,
    },
    /// Booleans, a byte of 0 or 1 each.
    Bool(&'a [u8]),
    /// Integers.
    I32(&'a [i32]),
    /// Integers.
    I64(&'a [i64]),
    /// Integers.
    I128(&'a [i128]),
    /// Singles.
    F32(&'a [f32]),
    /// Doubles.
    F64(&'a [f64]),
    /// Strings, from a row of an array on.
    Text {
        /// The array.
        array: &'a StringViewArray,
        /// The row of the array that is the block's first.
        at: usize,
    },
}

/// Unsigned integers below a base.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    /// Of one byte.
    U8(&'a [u8]),
    /// Of two bytes.
    U16(&'a [u16]),
    /// Of four bytes.
    U32(&'a [u32]),
}

/// A column in one block.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its values.
    pub values: Values<'a>,
    /// A byte of 1 for each row that has a value, of 0 for NULL; `None` if all have one.
    pub validity: Option<&'a [u8]>,
}
