//! Columns of rows that leave, as Arrow arrays.

use std::sync::Arc;

use arrow_array::builder::{LargeStringBuilder, StringBuilder, StringViewBuilder};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, SchemaRef};
use tidegate_pipeline::types::is_string;

use super::declined::Declined;
use super::ops::arithmetic::Integer;
use super::simd::coded_texts;
use super::vector::{Lane, Vector, mismatch, read};
use crate::groups::arrays::{dictionary_array, nulls_of, plain_array};
use crate::strings::Dictionary;
use crate::strings::Texts;

/// A column under construction.
#[derive(Debug)]
pub(super) struct Column {
    data_type: DataType,
    cells: Cells,
    /// A byte of 1 for each value that is there.
    validity: Vec<u8>,
    has_null: bool,
}

/// Values in the width that the Arrow type has.
#[derive(Debug)]
enum Cells {
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Utf8(StringBuilder),
    LargeUtf8(LargeStringBuilder),
    Utf8View(StringViewBuilder),
    /// All strings of the column at once.
    Views(StringViewArray),
    Dictionary {
        codes: Vec<Option<i128>>,
        values: Dictionary,
    },
}

/// Calls a function with the cells of integers, whatever their width.
macro_rules! by_width {
    ($cells:expr, $values:ident: $type:ident => $call:expr, $other:ident => $otherwise:expr) => {
        match $cells {
            Cells::I8($values) => {
                type $type = i8;
                $call
            }
            Cells::I16($values) => {
                type $type = i16;
                $call
            }
            Cells::I32($values) => {
                type $type = i32;
                $call
            }
            Cells::I64($values) => {
                type $type = i64;
                $call
            }
            Cells::I128($values) => {
                type $type = i128;
                $call
            }
            $other => $otherwise,
        }
    };
}

fn cells_of(data_type: &DataType) -> Option<Cells> {
    use DataType as T;

    Some(match data_type {
        T::Boolean | T::Int8 | T::UInt8 => Cells::I8(Vec::new()),
        T::Int16 | T::UInt16 => Cells::I16(Vec::new()),
        T::Int32 | T::UInt32 | T::Date32 | T::Time32(_) | T::Decimal32(..) => {
            Cells::I32(Vec::new())
        }
        T::Int64
        | T::UInt64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(..)
        | T::Duration(_)
        | T::Decimal64(..) => Cells::I64(Vec::new()),
        T::Decimal128(..) => Cells::I128(Vec::new()),
        T::Float32 => Cells::F32(Vec::new()),
        T::Float64 => Cells::F64(Vec::new()),
        T::Utf8 => Cells::Utf8(StringBuilder::new()),
        T::LargeUtf8 => Cells::LargeUtf8(LargeStringBuilder::new()),
        T::Utf8View => Cells::Utf8View(StringViewBuilder::new()),
        T::Dictionary(..) if is_string(data_type) => Cells::Dictionary {
            codes: Vec::new(),
            values: Dictionary::default(),
        },
        _ => return None,
    })
}

/// Returns whether columns of a type can leave.
pub(super) fn can_leave(data_type: &DataType) -> bool {
    cells_of(data_type).is_some()
}

impl Column {
    pub(super) fn new(data_type: &DataType) -> Result<Self, Declined> {
        let cells = cells_of(data_type);
        let cells =
            cells.ok_or_else(|| Declined::Unsupported(format!("columns of {data_type}")))?;
        Ok(Self {
            data_type: data_type.clone(),
            cells,
            validity: Vec::new(),
            has_null: false,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.validity.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let cells = match &self.cells {
            Cells::Utf8(builder) => builder.values_slice().len() + self.len() * 4,
            Cells::LargeUtf8(builder) => builder.values_slice().len() + self.len() * 8,
            Cells::Utf8View(builder) => builder.allocated_size(),
            Cells::Views(array) => array.get_array_memory_size(),
            Cells::Dictionary { codes, values } => codes.capacity() * 32 + values.memory_bytes(),
            Cells::F32(values) => values.capacity() * 4,
            Cells::F64(values) => values.capacity() * 8,
            cells => by_width!(cells, values: T => values.capacity() * size_of::<T>(), _other => 0),
        };
        cells + self.validity.capacity()
    }

    fn push_validity(&mut self, valid: bool) {
        self.has_null |= !valid;
        self.validity.push(valid.into());
    }

    /// Appends an integer, which the type holds.
    pub(super) fn push_int(&mut self, value: Option<i128>) -> Result<(), Declined> {
        let bits = value.unwrap_or_default();
        by_width!(&mut self.cells, values: T => values.push(bits as T), _other => return Err(mismatch(Lane::I128)));
        self.push_validity(value.is_some());
        Ok(())
    }

    /// Appends a float; what is for singles is one.
    pub(super) fn push_float(&mut self, value: Option<f64>) -> Result<(), Declined> {
        match &mut self.cells {
            Cells::F32(values) => values.push(value.unwrap_or_default() as f32),
            Cells::F64(values) => values.push(value.unwrap_or_default()),
            _ => return Err(mismatch(Lane::F64)),
        }
        self.push_validity(value.is_some());
        Ok(())
    }

    /// Appends a string.
    pub(super) fn push_text(&mut self, value: Option<&str>) -> Result<(), Declined> {
        match &mut self.cells {
            Cells::Utf8(builder) => builder.append_option(value),
            Cells::LargeUtf8(builder) => builder.append_option(value),
            Cells::Utf8View(builder) => builder.append_option(value),
            Cells::Dictionary { codes, values } => {
                let code = value.map(|value| values.intern(value)).transpose()?;
                codes.push(code.map(i128::from));
            }
            _ => return Err(mismatch(Lane::Text)),
        }
        self.push_validity(value.is_some());
        Ok(())
    }

    /// Fills an empty column with the strings of codes, of which those with a byte of 0 are NULL.
    pub(super) fn fill_with_codes(
        &mut self,
        strings: &Dictionary,
        codes: &[u32],
        valid: Option<&[u8]>,
    ) -> Result<(), Declined> {
        if matches!(self.cells, Cells::Utf8View(_)) && self.validity.is_empty() {
            let nulls = valid.filter(|valid| valid.contains(&0)).map(nulls_of);
            if let Some(array) = coded_texts(strings, codes, nulls) {
                self.cells = Cells::Views(array);
                self.append_validity(valid, codes.len());
                return Ok(());
            }
        }
        for (row, code) in codes.iter().enumerate() {
            let is_there = valid.is_none_or(|valid| valid[row] != 0);
            self.push_text(is_there.then(|| strings.get(*code as usize)))?;
        }
        Ok(())
    }

    fn append_validity(&mut self, valid: Option<&[u8]>, count: usize) {
        match valid {
            None => self.validity.resize(self.validity.len() + count, 1),
            Some(valid) => {
                self.has_null |= valid.contains(&0);
                self.validity.extend_from_slice(valid);
            }
        }
    }

    /// Appends the values of registers.
    pub(super) fn append(
        &mut self,
        vector: &Vector,
        texts: &Texts<'_>,
        valid: Option<&Vector>,
        count: usize,
    ) -> Result<(), Declined> {
        let valid = valid.map(|valid| read::<u8>(valid, count)).transpose()?;
        let is_there = |row: usize| valid.is_none_or(|valid| valid[row] != 0);
        match vector.lane() {
            Lane::Text => {
                for row in 0..count {
                    self.push_text(is_there(row).then(|| texts.get(row)))?;
                }
                return Ok(());
            }
            Lane::Bool => {
                let from = read::<u8>(vector, count)?;
                let Cells::I8(values) = &mut self.cells else {
                    return Err(mismatch(Lane::Bool));
                };
                values.extend(from.iter().map(|value| *value as i8));
            }
            Lane::I32 => self.integers(read::<i32>(vector, count)?)?,
            Lane::I64 => self.integers(read::<i64>(vector, count)?)?,
            Lane::I128 => self.integers(read::<i128>(vector, count)?)?,
            Lane::F32 => match &mut self.cells {
                Cells::F32(values) => values.extend_from_slice(read(vector, count)?),
                _ => return Err(mismatch(Lane::F32)),
            },
            Lane::F64 => match &mut self.cells {
                Cells::F64(values) => values.extend_from_slice(read(vector, count)?),
                _ => return Err(mismatch(Lane::F64)),
            },
        }
        self.append_validity(valid, count);
        Ok(())
    }

    /// Appends integers that the type holds, of which those with a byte of 0 are NULL.
    pub(super) fn append_integers(
        &mut self,
        values: &[i64],
        valid: Option<&[u8]>,
    ) -> Result<(), Declined> {
        self.integers(values)?;
        self.append_validity(valid, values.len());
        Ok(())
    }

    /// Appends integers modulo the width of the type, which holds them.
    fn integers<S: Integer>(&mut self, from: &[S]) -> Result<(), Declined> {
        match &mut self.cells {
            Cells::I8(values) => values.extend(from.iter().map(|value| value.to_64() as i8)),
            Cells::I16(values) => values.extend(from.iter().map(|value| value.to_64() as i16)),
            Cells::I32(values) => values.extend(from.iter().map(|value| value.to_64() as i32)),
            Cells::I64(values) => values.extend(from.iter().map(|value| value.to_64())),
            Cells::I128(values) => values.extend(from.iter().map(|value| value.wide())),
            _ => return Err(mismatch(Lane::I64)),
        }
        Ok(())
    }

    /// Returns the array of what was appended.
    pub(super) fn finish(self) -> Result<ArrayRef, Declined> {
        let rows = self.validity.len();
        let buffer: Buffer = match self.cells {
            Cells::Utf8(mut builder) => return Ok(Arc::new(builder.finish())),
            Cells::LargeUtf8(mut builder) => return Ok(Arc::new(builder.finish())),
            Cells::Utf8View(mut builder) => return Ok(Arc::new(builder.finish())),
            Cells::Views(array) => return Ok(Arc::new(array)),
            Cells::Dictionary { codes, values } => {
                return dictionary_array(&self.data_type, &codes, &values).map_err(refused);
            }
            Cells::F32(values) => ScalarBuffer::from(values).into_inner(),
            Cells::F64(values) => ScalarBuffer::from(values).into_inner(),
            Cells::I8(values) => ScalarBuffer::from(values).into_inner(),
            Cells::I16(values) => ScalarBuffer::from(values).into_inner(),
            Cells::I32(values) => ScalarBuffer::from(values).into_inner(),
            Cells::I64(values) => ScalarBuffer::from(values).into_inner(),
            Cells::I128(values) => ScalarBuffer::from(values).into_inner(),
        };
        let validity = self.has_null.then_some(self.validity.as_slice());
        plain_array(&self.data_type, rows, buffer, validity).map_err(refused)
    }
}

fn refused(error: impl std::fmt::Display) -> Declined {
    Declined::Unsupported(error.to_string())
}

/// Starts the columns of a schema.
pub(super) fn columns_of(schema: &SchemaRef) -> Result<Vec<Column>, Declined> {
    schema
        .fields()
        .iter()
        .map(|field| Column::new(field.data_type()))
        .collect()
}

/// Returns columns as a batch of so many rows.
pub(super) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<Column>,
    rows: usize,
) -> Result<RecordBatch, Declined> {
    let arrays = columns.into_iter().map(Column::finish);
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
    debug_assert!(arrays.iter().all(|array| array.len() == rows));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(refused)
}
