//! Writing cells into Arrow arrays of one exact type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{BooleanBufferBuilder, StringViewBuilder};
use arrow_array::{Array, ArrayRef, BooleanArray, LargeStringArray, StringArray, make_array};
use arrow_buffer::{MutableBuffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::{DataType, IntervalUnit};

use super::EvalError;
use crate::catalogue::span::Span;
use crate::program::cell::Cell;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// Collects the cells of a column.
pub(crate) struct ColumnBuilder {
    data_type: DataType,
    nulls: NullBufferBuilder,
    cells: Cells,
}

enum Cells {
    Boolean(BooleanBufferBuilder),
    /// Values of so many bytes each, as they lie in an array.
    Fixed(usize, MutableBuffer),
    /// Strings, which keep their own nulls.
    Text(StringViewBuilder),
    /// Codes, which have the nulls, of strings.
    Dictionary {
        codes: Box<ColumnBuilder>,
        seen: HashMap<Box<str>, u64>,
        values: Box<ColumnBuilder>,
    },
}

impl ColumnBuilder {
    /// Starts a column of a supported type.
    pub(crate) fn new(data_type: &DataType) -> Result<Self, EvalError> {
        Ok(Self {
            data_type: data_type.clone(),
            nulls: NullBufferBuilder::new(0),
            cells: empty_cells(data_type)?,
        })
    }

    /// Appends a cell, `None` for NULL. Fails on a value of another family or out of the type's range,
    /// neither of which a checked pipeline gives.
    pub(crate) fn push(&mut self, cell: Option<Cell<'_>>) -> Result<(), EvalError> {
        let mismatch =
            || EvalError::internal(format!("{cell:?} in a column of {}", self.data_type));
        match (&mut self.cells, cell) {
            (Cells::Boolean(cells), None) => cells.append(false),
            (Cells::Boolean(cells), Some(Cell::Int(value @ 0..=1))) => cells.append(value != 0),
            (Cells::Fixed(width, bytes), _) => {
                let raw = cell.map_or(Some(0), |cell| raw(&self.data_type, *width, cell));
                let raw = raw.ok_or_else(mismatch)?;
                bytes.extend_from_slice(&raw.to_le_bytes()[..*width]);
            }
            (Cells::Text(cells), None) => cells.append_null(),
            (Cells::Text(cells), Some(Cell::Text(text))) => cells.append_value(text),
            (Cells::Dictionary { codes, .. }, None) => codes.push(None)?,
            (
                Cells::Dictionary {
                    codes,
                    seen,
                    values,
                },
                Some(Cell::Text(text)),
            ) => {
                let known = seen.get(text).copied();
                let code = known.unwrap_or(seen.len() as u64);
                let pushed = codes.push(Some(Cell::Int(code.into())));
                pushed.map_err(|_| EvalError::Overflow {
                    operation: format!("more distinct strings than {} keys", codes.data_type),
                })?;
                if known.is_none() {
                    values.push(cell)?;
                    seen.insert(text.into(), code);
                }
            }
            _ => return Err(mismatch()),
        }
        self.nulls.append(cell.is_some());
        Ok(())
    }

    /// Returns the column written so far and starts over.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, EvalError> {
        let num_rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let cells = std::mem::replace(&mut self.cells, empty_cells(&self.data_type)?);
        Ok(match cells {
            Cells::Boolean(mut cells) => Arc::new(BooleanArray::new(cells.finish(), nulls)),
            Cells::Fixed(_, bytes) => {
                let data = ArrayData::builder(self.data_type.clone()).len(num_rows);
                make_array(data.nulls(nulls).add_buffer(bytes.into()).build()?)
            }
            Cells::Text(mut cells) => {
                let texts = cells.finish();
                match self.data_type {
                    DataType::Utf8 => Arc::new(texts.iter().collect::<StringArray>()),
                    DataType::LargeUtf8 => Arc::new(texts.iter().collect::<LargeStringArray>()),
                    _ => Arc::new(texts),
                }
            }
            Cells::Dictionary {
                mut codes,
                mut values,
                ..
            } => {
                let codes = codes.finish()?.to_data().into_builder();
                let coded = codes.data_type(self.data_type.clone());
                make_array(coded.add_child_data(values.finish()?.to_data()).build()?)
            }
        })
    }
}

fn empty_cells(data_type: &DataType) -> Result<Cells, EvalError> {
    Ok(match data_type {
        DataType::Boolean => Cells::Boolean(BooleanBufferBuilder::new(0)),
        DataType::Dictionary(keys, values) if values.is_string() => Cells::Dictionary {
            codes: Box::new(ColumnBuilder::new(keys)?),
            seen: HashMap::new(),
            values: Box::new(ColumnBuilder::new(values)?),
        },
        text if text.is_string() => Cells::Text(StringViewBuilder::new()),
        other => match other.primitive_width() {
            Some(width @ 1..=16) => Cells::Fixed(width, MutableBuffer::new(0)),
            _ => return Err(EvalError::internal(format!("a column of {other}"))),
        },
    })
}

/// Returns the bits of a value as they lie in an array of a type, whose values have so many bytes; `None` for
/// what the type does not hold.
fn raw(data_type: &DataType, width: usize, cell: Cell<'_>) -> Option<i128> {
    let word = |value: i32| i128::from(value.cast_unsigned());
    let integer = match (data_type, cell) {
        (DataType::Float32, Cell::Float(value)) => return Some((value as f32).to_bits().into()),
        (DataType::Float64, Cell::Float(value)) => return Some(value.to_bits().into()),
        (DataType::Float32 | DataType::Float64, _) => return None,
        (DataType::Interval(unit), Cell::Int(packed)) => {
            let Span {
                months,
                days,
                nanoseconds,
            } = Span::of_packed(packed);
            return Some(match unit {
                IntervalUnit::YearMonth => word(months),
                IntervalUnit::DayTime => {
                    let milliseconds = nanoseconds / NANOSECONDS_PER_MILLISECOND;
                    word(days) | word(i32::try_from(milliseconds).ok()?) << 32
                }
                IntervalUnit::MonthDayNano => {
                    word(months) | word(days) << 32 | i128::from(nanoseconds) << 64
                }
            });
        }
        (_, Cell::Int(value)) => value,
        _ => return None,
    };
    let beyond = 128 - 8 * width as u32;
    let held = match data_type.is_unsigned_integer() {
        true => ((integer << beyond).cast_unsigned() >> beyond).cast_signed(),
        false => integer << beyond >> beyond,
    };
    (held == integer).then_some(integer)
}
