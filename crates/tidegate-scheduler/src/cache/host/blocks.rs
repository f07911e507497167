//! A column of a row group, kept block by block as pages give it.

use std::sync::Arc;

use arrow_array::Array as _;
use arrow_array::builder::{ArrayBuilder as _, StringViewBuilder};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use tidegate_kernels::host::arrow::{array_of, codes, has_arrays, integers};
use tidegate_kernels::host::{Chunk, Entries, Values};

use super::chunk::ChunkBuilder;
use super::segment::{Codes, Segment, entry_bytes};

/// A chunk in the making, out of blocks.
///
/// What a page has as codes stays codes of the row group's entries. Values are gathered, and encoded as arrays
/// are, where the row group goes on as codes, or ends.
#[derive(Debug)]
pub struct BlocksBuilder {
    data_type: DataType,
    chunk: ChunkBuilder,
    entries: Option<Arc<Entries>>,
    rows: Gathered,
    num_rows: usize,
    /// Which of the rows have a value; `None` if all have.
    valid: Option<BooleanBufferBuilder>,
    /// Rows of the row group.
    num_expected: usize,
    integers: Vec<i64>,
}

/// Rows of one form.
#[derive(Debug)]
enum Gathered {
    Nothing,
    Codes(Codes),
    Bool(Vec<u8>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(StringViewBuilder),
}

impl BlocksBuilder {
    /// Begins a chunk of about so many rows of a type; `None` if such columns are not kept.
    pub fn new(data_type: &DataType, num_expected: usize) -> Option<Self> {
        has_arrays(data_type).then(|| Self {
            data_type: data_type.clone(),
            chunk: ChunkBuilder::default(),
            entries: None,
            rows: Gathered::Nothing,
            num_rows: 0,
            valid: None,
            num_expected,
            integers: Vec::new(),
        })
    }

    /// Adds a block, whose codes are of `entries`: those of all blocks. Returns the bytes that the chunk takes
    /// now at about the most, or `None` if the block is not kept.
    pub fn push(
        &mut self,
        block: &Chunk<'_>,
        entries: Option<&Entries>,
        rows: usize,
    ) -> Option<u64> {
        if !self.goes_on(&block.values) {
            self.seal()?;
            self.rows = self.begin(&block.values, entries)?;
        }
        match (&mut self.rows, block.values) {
            (Gathered::Codes(to), values) => push_codes(to, &values, rows)?,
            (Gathered::Bool(to), Values::Bool(from)) => to.extend(from.get(..rows)?),
            (Gathered::I128(to), Values::I128(from)) => to.extend(from.get(..rows)?),
            (Gathered::F32(to), Values::F32(from)) => to.extend(from.get(..rows)?),
            (Gathered::F64(to), Values::F64(from)) => to.extend(from.get(..rows)?),
            (Gathered::I64(to), Values::I64(from)) => to.extend(from.get(..rows)?),
            (Gathered::I64(to), values) => {
                if !integers(&values, rows, &mut self.integers) {
                    return None;
                }
                to.extend(&self.integers);
            }
            (Gathered::Text(to), Values::Text { array, at }) => {
                for row in at..at + rows {
                    // What lies behind a NULL may be anything.
                    to.append_value(if array.is_null(row) {
                        ""
                    } else {
                        array.value(row)
                    });
                }
            }
            _ => return None,
        }
        self.push_validity(block.validity, rows)?;
        self.num_rows += rows;
        Some(self.chunk.host_bytes() + self.rows.bytes() as u64)
    }

    /// Returns how many rows were added.
    pub fn num_rows(&self) -> u64 {
        self.chunk.num_rows() + self.num_rows as u64
    }

    /// Ends the chunk; `None` if it is not kept.
    pub fn finish(mut self) -> Option<ChunkBuilder> {
        self.seal()?;
        Some(self.chunk)
    }

    /// Returns whether values come behind those that were gathered as they are.
    fn goes_on(&self, values: &Values<'_>) -> bool {
        matches!(
            (&self.rows, values),
            (
                Gathered::Codes(_),
                Values::Codes8(_) | Values::Codes16(_) | Values::Codes32(_) | Values::Constant(_)
            ) | (Gathered::Bool(_), Values::Bool(_))
                | (
                    Gathered::I64(_),
                    Values::I64(_) | Values::I32(_) | Values::Offset { .. }
                )
                | (Gathered::I128(_), Values::I128(_))
                | (Gathered::F32(_), Values::F32(_))
                | (Gathered::F64(_), Values::F64(_))
                | (Gathered::Text(_), Values::Text { .. })
        )
    }

    fn begin(&mut self, values: &Values<'_>, entries: Option<&Entries>) -> Option<Gathered> {
        let left = self
            .num_expected
            .saturating_sub(self.chunk.num_rows() as usize);
        Some(match values {
            Values::Codes8(_) | Values::Codes16(_) | Values::Codes32(_) | Values::Constant(_) => {
                let entries = match &self.entries {
                    Some(entries) => entries,
                    None => self.entries.insert(Arc::new(owned(entries?))),
                };
                Gathered::Codes(match num_entries(entries) {
                    // There are NULLs alone, and no value that their codes could be of.
                    0 => return None,
                    1..=0x100 => Codes::One(Vec::with_capacity(left)),
                    0x101..=0x1_0000 => Codes::Two(Vec::with_capacity(left)),
                    _ => Codes::Four(Vec::with_capacity(left)),
                })
            }
            Values::Bool(_) => Gathered::Bool(Vec::with_capacity(left)),
            Values::I32(_) | Values::I64(_) | Values::Offset { .. } => {
                Gathered::I64(Vec::with_capacity(left))
            }
            Values::I128(_) => Gathered::I128(Vec::with_capacity(left)),
            Values::F32(_) => Gathered::F32(Vec::with_capacity(left)),
            Values::F64(_) => Gathered::F64(Vec::with_capacity(left)),
            Values::Text { .. } => Gathered::Text(StringViewBuilder::with_capacity(left)),
        })
    }

    fn push_validity(&mut self, validity: Option<&[u8]>, rows: usize) -> Option<()> {
        let valid = match (&mut self.valid, validity) {
            (None, None) => return Some(()),
            (Some(valid), _) => valid,
            (None, Some(_)) => {
                let mut valid = BooleanBufferBuilder::new(self.num_expected);
                valid.append_n(self.num_rows, true);
                self.valid.insert(valid)
            }
        };
        match validity {
            None => valid.append_n(rows, true),
            Some(bytes) => {
                for byte in bytes.get(..rows)? {
                    valid.append(*byte != 0);
                }
            }
        }
        Some(())
    }

    /// Makes a segment of the rows that were gathered.
    fn seal(&mut self) -> Option<()> {
        let rows = std::mem::replace(&mut self.rows, Gathered::Nothing);
        let num_rows = std::mem::take(&mut self.num_rows);
        let valid = self.valid.take().map(|mut valid| valid.finish());
        let nulls = valid.map(NullBuffer::new);
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if num_rows == 0 {
            return Some(());
        }
        let data_type = &self.data_type;
        let array = |values| array_of(&values, None, num_rows, nulls.clone(), data_type);
        let array = match &rows {
            Gathered::Nothing => return None,
            Gathered::Codes(_) => None,
            Gathered::Bool(values) => Some(array(Values::Bool(values))?),
            Gathered::I64(values) => Some(array(Values::I64(values))?),
            Gathered::I128(values) => Some(array(Values::I128(values))?),
            Gathered::F32(values) => Some(array(Values::F32(values))?),
            Gathered::F64(values) => Some(array(Values::F64(values))?),
            Gathered::Text(texts) => {
                let texts = texts.finish_cloned();
                let values = Values::Text {
                    array: &texts,
                    at: 0,
                };
                Some(array(values)?)
            }
        };
        match (array, rows) {
            (Some(array), _) => {
                self.chunk.push(&array);
            }
            (None, Gathered::Codes(mut codes)) => {
                codes.shrink();
                let entries = self.entries.as_ref()?;
                let plain = num_rows * entry_bytes(entries) / num_entries(entries).max(1);
                let segment = Segment::of_codes(data_type, num_rows, codes, entries, nulls);
                self.chunk.push_segment(segment, plain as u64);
            }
            (None, _) => return None,
        }
        Some(())
    }
}

impl Gathered {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Codes(Codes::One(codes)) => codes.capacity(),
            Self::Codes(Codes::Two(codes)) => codes.capacity() * 2,
            Self::Codes(Codes::Four(codes)) => codes.capacity() * 4,
            Self::Bool(values) => values.capacity(),
            Self::I64(values) => values.capacity() * 8,
            Self::I128(values) => values.capacity() * 16,
            Self::F32(values) => values.capacity() * 4,
            Self::F64(values) => values.capacity() * 8,
            Self::Text(texts) => texts.len() * 16,
        }
    }
}

fn push_codes(to: &mut Codes, values: &Values<'_>, rows: usize) -> Option<()> {
    match (to, values) {
        (Codes::One(to), Values::Codes8(from)) => to.extend(from.get(..rows)?),
        (Codes::Two(to), Values::Codes16(from)) => to.extend(from.get(..rows)?),
        (Codes::Four(to), Values::Codes32(from)) => to.extend(from.get(..rows)?),
        // Codes are below the number of entries, which said how wide they are.
        (Codes::One(to), from) => to.extend(codes(from, rows)?.iter().map(|code| *code as u8)),
        (Codes::Two(to), from) => to.extend(codes(from, rows)?.iter().map(|code| *code as u16)),
        (Codes::Four(to), from) => to.extend(codes(from, rows)?),
    }
    Some(())
}

fn num_entries(entries: &Entries) -> usize {
    match entries {
        Entries::I32(values) => values.len(),
        Entries::I64(values) => values.len(),
        Entries::I128(values) => values.len(),
        Entries::F32(values) => values.len(),
        Entries::F64(values) => values.len(),
        Entries::Text(texts) => texts.len(),
    }
}

/// Returns a copy that shares nothing with the page that it was read from.
fn owned(entries: &Entries) -> Entries {
    match entries {
        Entries::Text(texts) => Entries::Text(texts.gc()),
        other => other.clone(),
    }
}
