//! The rows of a batch in other encodings than Arrow's: dictionaries with entries that no row has and with
//! equal entries, codes of every width, constants, raw values above a base, and blocks of plain values
//! among coded ones.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::DataType;
use tidegate_kernels::host::{BLOCK, Chunk, Entries, HostProgram, Raw, Values};
use tidegate_pipeline::types::is_string;

use crate::cells::{Cell, rows_of};

/// A group of rows.
pub(super) struct Recoded {
    columns: Vec<Column>,
    /// Where blocks begin, and the end.
    starts: Vec<usize>,
}

struct Column {
    entries: Option<Entries>,
    blocks: Vec<Block>,
}

/// A block of a column.
struct Block {
    values: Owned,
    validity: Option<Vec<u8>>,
}

enum Owned {
    Codes8(Vec<u8>),
    Codes16(Vec<u16>),
    Codes32(Vec<u32>),
    Constant(u32),
    Offset(i64, i64, Vec<u16>),
    Bool(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(StringViewArray),
}

impl Recoded {
    pub(super) fn new(program: &HostProgram, batch: &RecordBatch, seed: u64) -> Self {
        // Blocks of unequal sizes, as pages give them.
        let mut starts = vec![0];
        let mut size = 1 + seed as usize * 37;
        while starts[starts.len() - 1] < batch.num_rows() {
            let next = starts[starts.len() - 1] + size.min(BLOCK);
            starts.push(next.min(batch.num_rows()));
            size = size * 3 % 2_500 + 1;
        }
        let inputs = program.inputs().iter().enumerate();
        let columns = inputs.map(|(index, input)| {
            let array = batch.column(input.column);
            Column::new(array, &starts, seed.wrapping_add(index as u64))
        });
        Self {
            columns: columns.collect(),
            starts,
        }
    }

    pub(super) fn entries(&self) -> Vec<Option<&Entries>> {
        self.columns
            .iter()
            .map(|column| column.entries.as_ref())
            .collect()
    }

    /// Returns whether every block has codes wherever there are entries.
    pub(super) fn is_coded(&self) -> bool {
        let is_plain = |block: &Block| {
            !matches!(
                block.values,
                Owned::Codes8(_) | Owned::Codes16(_) | Owned::Codes32(_) | Owned::Constant(_)
            )
        };
        !self
            .columns
            .iter()
            .any(|column| column.entries.is_some() && column.blocks.iter().any(is_plain))
    }

    pub(super) fn num_blocks(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn block(&self, at: usize) -> (usize, Vec<Chunk<'_>>) {
        let rows = self.starts[at + 1] - self.starts[at];
        let chunks = self.columns.iter().map(|column| column.blocks[at].chunk());
        (rows, chunks.collect())
    }
}

impl Block {
    fn chunk(&self) -> Chunk<'_> {
        let values = match &self.values {
            Owned::Codes8(codes) => Values::Codes8(codes),
            Owned::Codes16(codes) => Values::Codes16(codes),
            Owned::Codes32(codes) => Values::Codes32(codes),
            Owned::Constant(code) => Values::Constant(*code),
            Owned::Offset(base, factor, raw) => Values::Offset {
                base: *base,
                factor: *factor,
                raw: Raw::U16(raw),
            },
            Owned::Bool(values) => Values::Bool(values),
            Owned::I32(values) => Values::I32(values),
            Owned::I64(values) => Values::I64(values),
            Owned::I128(values) => Values::I128(values),
            Owned::F32(values) => Values::F32(values),
            Owned::F64(values) => Values::F64(values),
            Owned::Text(array) => Values::Text { array, at: 0 },
        };
        Chunk {
            values,
            validity: self.validity.as_deref(),
        }
    }
}

/// Integers beneath a column; of NULLs those of other rows, if there are any.
fn integers(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    let batch = crate::data::batch(vec![array.clone()]);
    let cells = rows_of(&[batch]).into_iter().map(|mut row| row.remove(0));
    cells
        .map(|cell| match cell {
            Cell::Null => Some(None),
            Cell::Integer(value) => Some(Some(value)),
            _ => None,
        })
        .collect()
}

fn filled<T: Clone + Default>(values: &[Option<T>]) -> Vec<T> {
    let some = values.iter().flatten().next().cloned().unwrap_or_default();
    values
        .iter()
        .map(|value| value.clone().unwrap_or_else(|| some.clone()))
        .collect()
}

impl Column {
    fn new(array: &ArrayRef, starts: &[usize], seed: u64) -> Self {
        let is_valid: Vec<bool> = match array.logical_nulls() {
            None => vec![true; array.len()],
            Some(nulls) => nulls.iter().collect(),
        };
        let validity = |rows: std::ops::Range<usize>| {
            let bytes: Vec<u8> = is_valid[rows]
                .iter()
                .map(|valid| u8::from(*valid))
                .collect();
            bytes.contains(&0).then_some(bytes)
        };
        match array.data_type() {
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                let values = filled(&values.iter().collect::<Vec<_>>());
                coded(
                    &values,
                    |value| value.to_bits(),
                    Entries::F64,
                    &|part| Owned::F64(part.to_vec()),
                    starts,
                    seed,
                    &validity,
                )
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>();
                let values = filled(&values.iter().collect::<Vec<_>>());
                coded(
                    &values,
                    |value| value.to_bits(),
                    Entries::F32,
                    &|part| Owned::F32(part.to_vec()),
                    starts,
                    seed,
                    &validity,
                )
            }
            string if is_string(string) => {
                let batch = crate::data::batch(vec![array.clone()]);
                let text = |mut row: Vec<Cell>| match row.remove(0) {
                    Cell::Text(text) => Some(text),
                    _ => None,
                };
                let values: Vec<Option<String>> = rows_of(&[batch]).into_iter().map(text).collect();
                let entries =
                    |values: Vec<String>| Entries::Text(StringViewArray::from_iter_values(values));
                let plain = |part: &[String]| Owned::Text(StringViewArray::from_iter_values(part));
                coded(
                    &filled(&values),
                    |text| text,
                    entries,
                    &plain,
                    starts,
                    seed,
                    &validity,
                )
            }
            data_type => {
                let is_bool = *data_type == DataType::Boolean;
                let values = filled(&integers(array).unwrap());
                let fits =
                    |low: i128, high: i128| values.iter().all(|value| (low..=high).contains(value));
                let plain = |part: &[i128]| plain_integers(part, is_bool, seed);
                let entries = |entries: Vec<i128>| match () {
                    () if fits(i32::MIN.into(), i32::MAX.into()) => {
                        Entries::I32(entries.iter().map(|value| *value as i32).collect())
                    }
                    () if fits(i64::MIN.into(), i64::MAX.into()) => {
                        Entries::I64(entries.iter().map(|value| *value as i64).collect())
                    }
                    () => Entries::I128(entries),
                };
                coded(
                    &values,
                    |value| value,
                    entries,
                    &plain,
                    starts,
                    seed,
                    &validity,
                )
            }
        }
    }
}

fn plain_integers(part: &[i128], is_bool: bool, seed: u64) -> Owned {
    let fits = |low: i128, high: i128| part.iter().all(|value| (low..=high).contains(value));
    let low = part.iter().copied().min().unwrap_or(0);
    let high = part.iter().copied().max().unwrap_or(0);
    if is_bool {
        return Owned::Bool(part.iter().map(|value| *value as u8).collect());
    }
    if seed.is_multiple_of(2) && fits(i64::MIN.into(), i64::MAX.into()) && high - low < 1 << 16 {
        let raw = part.iter().map(|value| (value - low) as u16);
        return Owned::Offset(low as i64, 1, raw.collect());
    }
    if fits(i32::MIN.into(), i32::MAX.into()) {
        return Owned::I32(part.iter().map(|value| *value as i32).collect());
    }
    if fits(i64::MIN.into(), i64::MAX.into()) {
        return Owned::I64(part.iter().map(|value| *value as i64).collect());
    }
    Owned::I128(part.to_vec())
}

/// Makes a dictionary and codes, with every third block plain where the seed is odd.
fn coded<'a, T: Clone, K: std::hash::Hash + Eq + 'a>(
    values: &'a [T],
    key: impl Fn(&'a T) -> K,
    entries: impl Fn(Vec<T>) -> Entries,
    plain: &dyn Fn(&[T]) -> Owned,
    starts: &[usize],
    seed: u64,
    validity: &dyn Fn(std::ops::Range<usize>) -> Option<Vec<u8>>,
) -> Column {
    let blocks = || starts.windows(2).map(|ends| ends[0]..ends[1]);
    let mut places = std::collections::HashMap::new();
    let mut distinct: Vec<T> = Vec::new();
    let mut codes: Vec<u32> = Vec::new();
    for (row, value) in values.iter().enumerate() {
        let place = *places.entry(key(value)).or_insert(distinct.len());
        if place == distinct.len() {
            distinct.push(value.clone());
        }
        // Every seventh row has an equal entry of its own.
        if row % 7 == 3 && seed % 3 == 1 {
            distinct.push(value.clone());
            codes.push(distinct.len() as u32 - 1);
        } else {
            codes.push(place as u32);
        }
    }
    let is_plain =
        |at: usize| distinct.is_empty() || seed % 4 == 3 || (seed % 2 == 1 && at % 3 == 2);
    let block = |(at, rows): (usize, std::ops::Range<usize>)| {
        let part = &codes[rows.clone()];
        let values = match () {
            () if is_plain(at) => plain(&values[rows.clone()]),
            () if part.iter().all(|code| *code == part[0]) => Owned::Constant(part[0]),
            () if distinct.len() <= 256 => {
                Owned::Codes8(part.iter().map(|code| *code as u8).collect())
            }
            () if distinct.len() <= 1 << 16 => {
                Owned::Codes16(part.iter().map(|code| *code as u16).collect())
            }
            () => Owned::Codes32(part.to_vec()),
        };
        Block {
            values,
            validity: validity(rows),
        }
    };
    Column {
        blocks: blocks().enumerate().map(block).collect(),
        entries: (!distinct.is_empty() && seed % 4 != 3).then(|| entries(distinct.clone())),
    }
}
