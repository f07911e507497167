//! A column of a row group, kept block by block as pages give it.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use tidegate_kernels::host::arrow::{array_of, codes, has_arrays, integers};
use tidegate_kernels::host::{Chunk, Entries, Values};

use super::chunk::ChunkBuilder;
use super::segment::{Codes, Segment};
use super::texts::{Interned, Texts};

/// A chunk in the making, out of blocks.
///
/// What a page has as codes stays codes of the row group's entries, unless values take a quarter less; strings
/// that repeat become codes. Values are gathered, and encoded as arrays are, where the form of the pages
/// changes, or the row group ends.
#[derive(Debug)]
pub struct BlocksBuilder {
    data_type: DataType,
    chunk: ChunkBuilder,
    entries: Option<Known>,
    /// Strings did not turn out to be all different.
    interns: bool,
    rows: Gathered,
    num_rows: usize,
    /// Which of the rows have a value; `None` if all have.
    valid: Option<BooleanBufferBuilder>,
    /// Rows of the row group.
    num_expected: usize,
    integers: Vec<i64>,
}

/// What codes are of.
#[derive(Debug)]
enum Known {
    /// Codes stay codes.
    Entries(Arc<Entries>),
    /// Codes become differences from a value: the entries'.
    Differences(i64, Codes),
    /// Codes become doubles.
    F64(Vec<f64>),
}

/// Rows of one form.
#[derive(Debug)]
enum Gathered {
    Nothing,
    Codes(Codes),
    Differences(Codes),
    Bool(Vec<u8>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Interned(Interned),
    Text(Texts),
}

impl BlocksBuilder {
    /// Begins a chunk of about so many rows of a type; `None` if such columns are not kept.
    pub fn new(data_type: &DataType, num_expected: usize) -> Option<Self> {
        has_arrays(data_type).then(|| Self {
            data_type: data_type.clone(),
            chunk: ChunkBuilder::default(),
            entries: None,
            interns: true,
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
        if is_coded(&block.values) && self.entries.is_none() {
            self.entries = Some(Known::new(entries?, self.num_expected));
        }
        if matches!(block.values, Values::Text { .. }) {
            self.intern_codes()?;
        }
        if !self.goes_on(&block.values) {
            self.seal()?;
            self.rows = self.begin(&block.values)?;
        }
        match (&mut self.rows, block.values) {
            (Gathered::Codes(to), values) => push_codes(to, &values, rows)?,
            (Gathered::Differences(to), values) => match (to, &self.entries) {
                (Codes::One(to), Some(Known::Differences(_, Codes::One(of)))) => {
                    gather(to, of, &values, rows)?;
                }
                (Codes::Two(to), Some(Known::Differences(_, Codes::Two(of)))) => {
                    gather(to, of, &values, rows)?;
                }
                (Codes::Four(to), Some(Known::Differences(_, Codes::Four(of)))) => {
                    gather(to, of, &values, rows)?;
                }
                _ => return None,
            },
            (Gathered::F64(to), values) if is_coded(&values) => match &self.entries {
                Some(Known::F64(of)) => gather(to, of, &values, rows)?,
                _ => return None,
            },
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
            (Gathered::Interned(to), Values::Text { array, at }) => {
                to.push(array, at..at + rows, block.validity)?;
                if to.is_tried() && !to.repeats() {
                    self.interns = false;
                    self.rows = Gathered::Text(std::mem::take(to).into_texts()?);
                }
            }
            (Gathered::Text(to), Values::Text { array, at }) => to.push(array, at..at + rows)?,
            _ => return None,
        }
        self.push_validity(block.validity, rows)?;
        self.num_rows += rows;
        let entries = match (&self.rows, &self.entries) {
            (Gathered::Codes(_), Some(Known::Entries(entries))) => entries.size().1,
            _ => 0,
        };
        let bytes = self.rows.bytes() + entries + self.num_rows / 8;
        Some(self.chunk.host_bytes() + bytes as u64)
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
        if is_coded(values) {
            return matches!(
                (&self.rows, &self.entries),
                (Gathered::Codes(_), Some(Known::Entries(_)))
                    | (Gathered::Differences(_), Some(Known::Differences(..)))
                    | (Gathered::F64(_), Some(Known::F64(_)))
            );
        }
        matches!(
            (&self.rows, values),
            (Gathered::Bool(_), Values::Bool(_))
                | (
                    Gathered::I64(_),
                    Values::I64(_) | Values::I32(_) | Values::Offset { .. }
                )
                | (Gathered::I128(_), Values::I128(_))
                | (Gathered::F32(_), Values::F32(_))
                | (Gathered::F64(_), Values::F64(_))
                | (
                    Gathered::Interned(_) | Gathered::Text(_),
                    Values::Text { .. }
                )
        )
    }

    /// Goes on with codes of own where strings come behind codes of the row group's entries.
    fn intern_codes(&mut self) -> Option<()> {
        if let (true, Gathered::Codes(codes), Some(Known::Entries(entries))) =
            (self.interns, &self.rows, &self.entries)
            && let Entries::Text(entries) = &**entries
        {
            let mut interned = Interned::with_capacity(self.num_expected);
            interned.push_codes(codes, entries)?;
            self.rows = Gathered::Interned(interned);
        }
        Some(())
    }

    fn begin(&self, values: &Values<'_>) -> Option<Gathered> {
        let done = usize::try_from(self.chunk.num_rows()).ok()?;
        let left = self.num_expected.saturating_sub(done);
        Some(match values {
            Values::Codes8(_) | Values::Codes16(_) | Values::Codes32(_) | Values::Constant(_) => {
                match self.entries.as_ref()? {
                    Known::Entries(entries) => match entries.size().0 {
                        // There are NULLs alone, and no value that their codes could be of.
                        0 => return None,
                        1..=0x100 => Gathered::Codes(Codes::One(Vec::with_capacity(left))),
                        0x101..=0x1_0000 => Gathered::Codes(Codes::Two(Vec::with_capacity(left))),
                        _ => Gathered::Codes(Codes::Four(Vec::with_capacity(left))),
                    },
                    Known::Differences(_, of) => Gathered::Differences(match of {
                        Codes::One(_) => Codes::One(Vec::with_capacity(left)),
                        Codes::Two(_) => Codes::Two(Vec::with_capacity(left)),
                        Codes::Four(_) => Codes::Four(Vec::with_capacity(left)),
                    }),
                    Known::F64(_) => Gathered::F64(Vec::with_capacity(left)),
                }
            }
            Values::Bool(_) => Gathered::Bool(Vec::with_capacity(left)),
            Values::I32(_) | Values::I64(_) | Values::Offset { .. } => {
                Gathered::I64(Vec::with_capacity(left))
            }
            Values::I128(_) => Gathered::I128(Vec::with_capacity(left)),
            Values::F32(_) => Gathered::F32(Vec::with_capacity(left)),
            Values::F64(_) => Gathered::F64(Vec::with_capacity(left)),
            Values::Text { .. } if self.interns => {
                Gathered::Interned(Interned::with_capacity(left))
            }
            Values::Text { .. } => Gathered::Text(Texts::with_capacity(left)),
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
        let array = |values, nulls| array_of(&values, None, num_rows, nulls, data_type);
        let text = |texts: Texts, nulls| {
            let (array, at) = (&texts.finish()?, 0);
            array_of(
                &Values::Text { array, at },
                None,
                num_rows,
                nulls,
                data_type,
            )
        };
        let array: ArrayRef = match rows {
            Gathered::Nothing => return None,
            Gathered::Codes(mut codes) => {
                codes.shrink();
                let Some(Known::Entries(entries)) = &self.entries else {
                    return None;
                };
                let entries = Arc::clone(entries);
                return self.push_codes(codes, &entries, num_rows, nulls);
            }
            Gathered::Interned(interned) if interned.repeats() || !interned.is_tried() => {
                let (codes, entries) = interned.finish()?;
                return self.push_codes(codes, &Arc::new(entries), num_rows, nulls);
            }
            Gathered::Differences(mut by) => {
                by.shrink();
                let Some(Known::Differences(base, _)) = self.entries else {
                    return None;
                };
                let plain = num_rows * data_type.primitive_width().unwrap_or(0);
                let segment = Segment::of_differences(data_type, num_rows, base, by, nulls);
                self.chunk.push_segment(segment, plain as u64);
                return Some(());
            }
            Gathered::Bool(values) => array(Values::Bool(&values), nulls)?,
            Gathered::I64(values) => array(Values::I64(&values), nulls)?,
            Gathered::I128(values) => array(Values::I128(&values), nulls)?,
            Gathered::F32(values) => Arc::new(Float32Array::new(values.into(), nulls)),
            Gathered::F64(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            Gathered::Interned(interned) => text(interned.into_texts()?, nulls)?,
            Gathered::Text(texts) => text(texts, nulls)?,
        };
        self.chunk.push(&array);
        Some(())
    }

    /// Makes a segment of codes.
    fn push_codes(
        &mut self,
        codes: Codes,
        of: &Arc<Entries>,
        num_rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Option<()> {
        let (num_entries, entry_bytes) = of.size();
        let plain = num_rows * entry_bytes / num_entries.max(1);
        let segment = Segment::of_codes(&self.data_type, num_rows, codes, of, nulls);
        self.chunk.push_segment(segment, plain as u64);
        Some(())
    }
}

impl Known {
    /// Decides what the codes of about so many rows become.
    fn new(entries: &Entries, num_rows: usize) -> Self {
        let (num_entries, entry_bytes) = entries.size();
        let code_bytes = match num_entries {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        // Values are taken where they are a quarter smaller.
        let worth = (code_bytes * num_rows + entry_bytes) / 4 * 3;
        let as_integers = |values: &mut dyn Iterator<Item = i64>| {
            let values: Vec<i64> = values.collect();
            let (least, most) = (values.iter().min()?, values.iter().max()?);
            let by = values.iter().map(|value| value.abs_diff(*least));
            let (bytes, by) = match most.abs_diff(*least) {
                0..=0xff => (1, Codes::One(by.map(|by| by as u8).collect())),
                0x100..=0xffff => (2, Codes::Two(by.map(|by| by as u16).collect())),
                0x1_0000..=0xffff_ffff => (4, Codes::Four(by.map(|by| by as u32).collect())),
                _ => return None,
            };
            (bytes * num_rows <= worth).then_some(Self::Differences(*least, by))
        };
        let as_values = match entries {
            Entries::I32(values) => as_integers(&mut values.iter().copied().map(i64::from)),
            Entries::I64(values) => as_integers(&mut values.iter().copied()),
            Entries::F64(values) if size_of::<f64>() * num_rows <= worth => {
                Some(Self::F64(values.clone()))
            }
            _ => None,
        };
        as_values.unwrap_or_else(|| Self::Entries(Arc::new(owned(entries))))
    }
}

impl Gathered {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Codes(codes) | Self::Differences(codes) => codes.bytes(),
            Self::Bool(values) => values.capacity(),
            Self::I64(values) => values.capacity() * 8,
            Self::I128(values) => values.capacity() * 16,
            Self::F32(values) => values.capacity() * 4,
            Self::F64(values) => values.capacity() * 8,
            Self::Interned(interned) => interned.bytes(),
            Self::Text(texts) => texts.bytes(),
        }
    }
}

fn is_coded(values: &Values<'_>) -> bool {
    matches!(
        values,
        Values::Codes8(_) | Values::Codes16(_) | Values::Codes32(_) | Values::Constant(_)
    )
}

/// Adds the values of codes.
fn gather<T: Copy>(to: &mut Vec<T>, of: &[T], values: &Values<'_>, rows: usize) -> Option<()> {
    fn each<T: Copy, C: Copy + Into<u32>>(to: &mut Vec<T>, of: &[T], codes: &[C]) -> Option<()> {
        // Codes are below the number of entries.
        let last = of.len().checked_sub(1)?;
        let value = |code: &C| of[((*code).into() as usize).min(last)];
        to.extend(codes.iter().map(value));
        Some(())
    }
    match values {
        Values::Codes8(codes) => each(to, of, codes.get(..rows)?),
        Values::Codes16(codes) => each(to, of, codes.get(..rows)?),
        Values::Codes32(codes) => each(to, of, codes.get(..rows)?),
        Values::Constant(code) => {
            let value = *of.get(*code as usize)?;
            to.extend(std::iter::repeat_n(value, rows));
            Some(())
        }
        _ => None,
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

/// Returns a copy that shares nothing with the page that it was read from.
fn owned(entries: &Entries) -> Entries {
    match entries {
        Entries::Text(texts) => Entries::Text(texts.gc()),
        other => other.clone(),
    }
}
