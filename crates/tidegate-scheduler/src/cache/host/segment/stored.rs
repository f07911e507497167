//! Segments as bytes of a file: the buffers one behind the other, what they mean in memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, StringViewType};
use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, ToByteSlice};
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;

use super::super::disk::ALIGNMENT;
use super::{Differences, Segment, Values};

/// A segment whose buffers lie in a file.
#[derive(Debug)]
pub(in super::super) struct Stored {
    data_type: DataType,
    num_rows: usize,
    nulls: Option<Span>,
    values: StoredValues,
}

#[derive(Debug)]
enum StoredValues {
    Plain(StoredArray),
    Constant { base: i64 },
    One { base: i64, of: Span },
    Two { base: i64, of: Span },
    Four { base: i64, of: Span },
    Codes { codes: Span, of: StoredArray },
}

/// An array without children or offset.
#[derive(Debug)]
struct StoredArray {
    data_type: DataType,
    len: usize,
    nulls: Option<Span>,
    buffers: Vec<Span>,
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: usize,
    bytes: usize,
}

impl Span {
    /// Writes a buffer behind what is there.
    fn write(buffer: &[u8], file: &mut Vec<u8>) -> Self {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        let at = file.len();
        file.extend_from_slice(buffer);
        Self {
            at,
            bytes: buffer.len(),
        }
    }

    fn write_nulls(nulls: Option<&NullBuffer>, file: &mut Vec<u8>) -> Option<Self> {
        nulls.map(|nulls| Self::write(nulls.inner().sliced().as_slice(), file))
    }

    fn of(self, file: &Buffer) -> Option<Buffer> {
        let end = self.at.checked_add(self.bytes)?;
        (end <= file.len()).then(|| file.slice_with_length(self.at, self.bytes))
    }

    fn values<T: ArrowNativeType>(self, file: &Buffer, len: usize) -> Option<ScalarBuffer<T>> {
        let buffer = self.of(file)?;
        (self.bytes == len * size_of::<T>()).then(|| ScalarBuffer::new(buffer, 0, len))
    }

    fn nulls(self, file: &Buffer, len: usize) -> Option<NullBuffer> {
        let buffer = self.of(file)?;
        let enough = buffer.len() >= len.div_ceil(8);
        enough.then(|| NullBuffer::new(BooleanBuffer::new(buffer, 0, len)))
    }
}

impl StoredArray {
    /// Writes an array; `None` if it has children or an offset.
    fn write(array: &ArrayRef, file: &mut Vec<u8>) -> Option<Self> {
        // Views may be of pages of which little is theirs.
        let array: ArrayRef = match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_byte_view_opt::<StringViewType>()?.gc()),
            DataType::BinaryView => Arc::new(array.as_byte_view_opt::<BinaryViewType>()?.gc()),
            // Of bits a slice begins anywhere.
            DataType::Boolean => {
                let bits = array.as_boolean_opt()?;
                let values = BooleanBuffer::new(bits.values().sliced(), 0, bits.len());
                Arc::new(BooleanArray::new(values, bits.nulls().cloned()))
            }
            _ => Arc::clone(array),
        };
        let data = array.to_data();
        if !data.child_data().is_empty() || data.offset() != 0 {
            return None;
        }
        let buffers = data.buffers().iter();
        Some(Self {
            buffers: buffers.map(|buffer| Span::write(buffer, file)).collect(),
            nulls: Span::write_nulls(data.nulls(), file),
            data_type: data.data_type().clone(),
            len: data.len(),
        })
    }

    fn restore(&self, file: &Buffer) -> Option<ArrayRef> {
        let buffers = self.buffers.iter().map(|span| span.of(file));
        let nulls = match self.nulls {
            Some(span) => Some(span.nulls(file, self.len)?),
            None => None,
        };
        let data = ArrayDataBuilder::new(self.data_type.clone())
            .len(self.len)
            .nulls(nulls)
            .buffers(buffers.collect::<Option<_>>()?);
        Some(make_array(data.build().ok()?))
    }
}

impl Segment {
    /// Writes the buffers behind what is in `file`; `None`, with whatever was written, if a type is
    /// not written.
    pub(in super::super) fn store(&self, file: &mut Vec<u8>) -> Option<Stored> {
        let values = match &self.values {
            Values::Plain(array) => StoredValues::Plain(StoredArray::write(array, file)?),
            &Values::Narrowed {
                base,
                ref differences,
            } => match differences {
                Differences::None => StoredValues::Constant { base },
                Differences::One(of) => StoredValues::One {
                    base,
                    of: Span::write(of, file),
                },
                Differences::Two(of) => StoredValues::Two {
                    base,
                    of: Span::write(of.to_byte_slice(), file),
                },
                Differences::Four(of) => StoredValues::Four {
                    base,
                    of: Span::write(of.to_byte_slice(), file),
                },
            },
            Values::Codes { codes, of } => StoredValues::Codes {
                codes: Span::write(codes, file),
                of: StoredArray::write(of, file)?,
            },
        };
        Some(Stored {
            data_type: self.data_type.clone(),
            num_rows: self.num_rows,
            nulls: Span::write_nulls(self.nulls.as_ref(), file),
            values,
        })
    }
}

impl Stored {
    /// Makes the segment of the bytes that were written; `None` if it is not they.
    pub(in super::super) fn restore(&self, file: &Buffer) -> Option<Segment> {
        let num_rows = self.num_rows;
        let narrowed = |base, differences| Values::Narrowed { base, differences };
        let values = match &self.values {
            StoredValues::Plain(array) => Values::Plain(array.restore(file)?),
            &StoredValues::Constant { base } => narrowed(base, Differences::None),
            &StoredValues::One { base, of } => {
                narrowed(base, Differences::One(of.values(file, num_rows)?.to_vec()))
            }
            &StoredValues::Two { base, of } => {
                narrowed(base, Differences::Two(of.values(file, num_rows)?.to_vec()))
            }
            &StoredValues::Four { base, of } => {
                narrowed(base, Differences::Four(of.values(file, num_rows)?.to_vec()))
            }
            StoredValues::Codes { codes, of } => Values::Codes {
                codes: codes.values(file, num_rows)?,
                of: of.restore(file)?,
            },
        };
        let nulls = match self.nulls {
            Some(span) => Some(span.nulls(file, num_rows)?),
            None => None,
        };
        Some(Segment {
            data_type: self.data_type.clone(),
            num_rows,
            nulls,
            values,
        })
    }
}
