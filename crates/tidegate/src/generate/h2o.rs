//! The table of db-benchmark's group-by task, `G1_{rows}_{groups}_{null_percent}_0`.
//!
//! The columns are those of its `_data/groupby-datagen.R`: `id1` to `id3` are text and `id4` to
//! `id6` are numbers, uniform over 1 to `groups`, and for `id3` and `id6` over 1 to
//! `rows / groups`; `v1` is 1 to 5, `v2` 1 to 15, and `v3` is of [0, 100), then rounded to six
//! digits. With `null_percent`, that share of the distinct values of each `id` column is NULL
//! wherever it would occur, and that share of the rows of each `v` column. Shares are rounded
//! down, as in R.
//!
//! A cell is a function of (seed, column, row) alone, see `counter`, so a row is the same
//! whatever morsel or batch it is read in. The numbers are not R's, so the published checksums
//! do not apply: expect sums of about 3, 8 and 50 times the rows for `v1`, `v2` and `v3`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, RecordBatch, RecordBatchOptions, StringViewArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;

use super::MORSEL_ROWS;
use super::counter::{Shuffle, Stream};
use crate::sources::{Batches, MorselSize, MorselSource, SourceDescription};

const ROWS_MAX: u64 = 10_000_000_000;
/// The greatest id: ids are Int32.
const ID_MAX: u64 = i32::MAX as u64;

/// db-benchmark's group-by table, made when it is read.
#[derive(Clone, Debug)]
pub struct H2oG1Source {
    name: String,
    described: SourceDescription,
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: u64,
    morsel_rows: u64,
    morsels: Vec<MorselSize>,
}

impl H2oG1Source {
    /// Describes the table of `rows` rows and `groups` values of the small ids; makes no rows.
    ///
    /// The columns are nullable if `null_percent` is more than zero.
    ///
    /// # Errors
    /// A plan error that names the argument, unless `rows` is from 1 to 10^10, `groups` from 1 to
    /// `rows`, `null_percent` at most 100, and `groups` and `rows / groups` fit an Int32.
    pub fn try_new(rows: u64, groups: u64, null_percent: u8, seed: u64) -> Result<Self> {
        if !(1..=ROWS_MAX).contains(&rows) {
            return plan_err!("h2o_g1 rows must be from 1 to {ROWS_MAX}, got {rows}");
        }
        if !(1..=rows).contains(&groups) {
            return plan_err!("h2o_g1 groups must be from 1 to the {rows} rows, got {groups}");
        }
        if null_percent > 100 {
            return plan_err!("h2o_g1 null_percent must be from 0 to 100, got {null_percent}");
        }
        if groups > ID_MAX {
            return plan_err!("h2o_g1 groups must be at most {ID_MAX} to fit Int32, got {groups}");
        }
        if rows / groups > ID_MAX {
            return plan_err!(
                "h2o_g1 rows / groups must be at most {ID_MAX} to fit Int32, got {} with \
                 {groups} groups; take at least {} groups",
                rows / groups,
                rows / (ID_MAX + 1) + 1
            );
        }
        Ok(Self::cut(rows, groups, null_percent, seed, MORSEL_ROWS))
    }

    /// Cuts the table into morsels of `morsel_rows` rows.
    fn cut(rows: u64, groups: u64, null_percent: u8, seed: u64, morsel_rows: u64) -> Self {
        let columns = columns(rows, groups, null_percent, seed);
        let nullable = null_percent > 0;
        let fields = columns
            .iter()
            .map(|column| column.field(nullable))
            .collect::<Vec<_>>();
        // Three views of 16 bytes, three Int32 ids, v1, v2 and v3; nine bits of validity.
        let bytes_of = |num_rows: u64| {
            num_rows * (3 * 16 + 3 * 4 + 2 * 4 + 8)
                + if nullable {
                    9 * num_rows.div_ceil(8)
                } else {
                    0
                }
        };
        let morsels = (0..rows.div_ceil(morsel_rows))
            .map(|morsel| {
                let num_rows = morsel_rows.min(rows - morsel * morsel_rows);
                MorselSize {
                    num_rows,
                    num_bytes: bytes_of(num_rows),
                }
            })
            .collect();
        Self {
            name: format!("h2o_g1({rows}, {groups}, {null_percent}, {seed})"),
            described: SourceDescription::H2oG1 {
                rows,
                groups,
                null_percent,
                seed,
            },
            schema: Arc::new(Schema::new(fields)),
            columns,
            rows,
            morsel_rows,
            morsels,
        }
    }

    fn batch(
        &self,
        rows: Range<u64>,
        schema: &SchemaRef,
        projection: &[usize],
    ) -> Result<RecordBatch> {
        let options =
            RecordBatchOptions::new().with_row_count(Some((rows.end - rows.start) as usize));
        let arrays = projection
            .iter()
            .map(|&column| self.columns[column].array(rows.clone()))
            .collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            arrays,
            &options,
        )?)
    }
}

impl MorselSource for H2oG1Source {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{} in {} parts", self.name, self.morsels.len()))
    }

    fn description(&self) -> Option<SourceDescription> {
        (self.morsel_rows == MORSEL_ROWS).then(|| self.described.clone())
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn morsels(&self) -> &[MorselSize] {
        &self.morsels
    }

    fn exact_rows(&self) -> bool {
        true
    }

    fn batches(&self, index: usize, projection: &[usize], batch_size: usize) -> Result<Batches> {
        let morsel_count = self.morsels.len();
        if index >= morsel_count {
            return exec_err!(
                "{} has {morsel_count} morsels, no morsel {index}",
                self.name
            );
        }
        // An error here if a column of the projection does not exist.
        let schema = Arc::new(self.schema.project(projection)?);
        let batch_rows = batch_size.max(1);
        let start = index as u64 * self.morsel_rows;
        let end = self.rows.min(start + self.morsel_rows);
        let batches = (start..end).step_by(batch_rows).map(|first| {
            let rows = first..end.min(first.saturating_add(batch_rows as u64));
            self.batch(rows, &schema, projection)
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(batches.into_iter().map(Ok)))
    }
}

/// What a column's numbers look like.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// `id` and the number, padded with zeros to so many digits.
    Text { digits: usize },
    /// The number as Int32.
    Int,
    /// A Float64 of 0 to 100 with six digits instead of the number.
    Percent,
}

/// How a column's NULLs are chosen.
#[derive(Clone, Copy, Debug)]
enum NullOf {
    /// Some of the distinct numbers are NULL wherever they occur.
    Value,
    /// Some of the rows are NULL.
    Row,
}

/// One column: its random numbers, of `1..=max`, and those that are NULL.
#[derive(Clone, Debug)]
struct Column {
    name: &'static str,
    format: Format,
    max: u64,
    numbers: Stream,
    nulls: Option<Nulls>,
}

/// The first `count` of `order`, which are NULL.
#[derive(Clone, Debug)]
struct Nulls {
    of: NullOf,
    order: Shuffle,
    count: u64,
}

fn columns(rows: u64, groups: u64, null_percent: u8, seed: u64) -> Vec<Column> {
    let many = rows / groups;
    let short = Format::Text { digits: 3 };
    let long = Format::Text { digits: 10 };
    let columns = [
        ("id1", short, groups, NullOf::Value),
        ("id2", short, groups, NullOf::Value),
        ("id3", long, many, NullOf::Value),
        ("id4", Format::Int, groups, NullOf::Value),
        ("id5", Format::Int, groups, NullOf::Value),
        ("id6", Format::Int, many, NullOf::Value),
        ("v1", Format::Int, 5, NullOf::Row),
        ("v2", Format::Int, 15, NullOf::Row),
        ("v3", Format::Percent, 100, NullOf::Row),
    ];
    (0_u64..)
        .zip(columns)
        .map(|(index, (name, format, max, of))| {
            let len = match of {
                NullOf::Value => max,
                NullOf::Row => rows,
            };
            let count = len * u64::from(null_percent) / 100;
            // Two channels a column: its numbers, and the order that its NULLs come from.
            let order = Shuffle::new(seed, 2 * index + 1, len);
            Column {
                name,
                format,
                max,
                numbers: Stream::new(seed, 2 * index),
                nulls: (count > 0).then_some(Nulls { of, order, count }),
            }
        })
        .collect()
}

impl Column {
    fn field(&self, nullable: bool) -> Field {
        let data_type = match self.format {
            Format::Text { .. } => DataType::Utf8View,
            Format::Int => DataType::Int32,
            Format::Percent => DataType::Float64,
        };
        Field::new(self.name, data_type, nullable)
    }

    /// Makes the cells of `rows`.
    fn array(&self, rows: Range<u64>) -> Result<ArrayRef> {
        let nulls = self.null_buffer(rows.clone());
        Ok(match self.format {
            Format::Text { digits } => {
                let views: Vec<u128> = rows.map(|row| id_view(self.number(row), digits)).collect();
                Arc::new(StringViewArray::try_new(views.into(), vec![], nulls)?)
            }
            Format::Int => {
                let numbers: Vec<i32> = rows.map(|row| self.number(row) as i32).collect();
                Arc::new(Int32Array::try_new(numbers.into(), nulls)?)
            }
            Format::Percent => {
                let numbers: Vec<f64> = rows.map(|row| self.percent(row)).collect();
                Arc::new(Float64Array::try_new(numbers.into(), nulls)?)
            }
        })
    }

    /// Returns the number of a row, which `try_new` has checked to fit an Int32.
    fn number(&self, row: u64) -> u32 {
        self.numbers.below(self.max, row) as u32 + 1
    }

    fn percent(&self, row: u64) -> f64 {
        (self.numbers.unit(row) * self.max as f64 * 1e6).round() / 1e6
    }

    fn null_buffer(&self, rows: Range<u64>) -> Option<NullBuffer> {
        let Nulls { of, order, count } = self.nulls.as_ref()?;
        let len = (rows.end - rows.start) as usize;
        let valid = BooleanBuffer::collect_bool(len, |offset| {
            let row = rows.start + offset as u64;
            let index = match of {
                NullOf::Value => self.numbers.below(self.max, row),
                NullOf::Row => row,
            };
            order.place(index) >= *count
        });
        Some(NullBuffer::new(valid))
    }
}

/// Makes the view of `id` and a number of at least `digits` digits, which are ten at the most.
///
/// The text has at most 12 bytes, so it lies in the view itself: four bytes of length, then the
/// text, then zeros.
fn id_view(number: u32, digits: usize) -> u128 {
    let mut view = [0_u8; 16];
    let needed = number.max(1).ilog10() as usize + 1;
    let digits = needed.max(digits);
    view[0] = 2 + digits as u8;
    view[4..6].copy_from_slice(b"id");
    let mut rest = number;
    for digit in view[6..6 + digits].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    u128::from_le_bytes(view)
}

#[cfg(test)]
mod tests;
