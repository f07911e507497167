//! Aggregates over how often each value came: `mode`, `histogram`, `entropy` and `mad`. They are the same
//! wherever rows ran: `mode` of several most frequent values is the least.
//!
//! A group keeps each of its values once, as a row whose bytes order as the values do, and how often it came.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, Documentation};

use super::aggregate::{self, Kind};
use crate::floats::canonical::canonical_array;

/// Bytes of an entry beside those of its row.
const ENTRY_BYTES: usize = 48;

/// What is told of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Mode,
    Histogram,
    Entropy,
    /// The median of the distances from the median (median absolute deviation).
    Mad,
}

impl Told {
    fn description(self) -> &'static str {
        match self {
            Self::Mode => {
                "Returns the most frequent value that is not NULL; of several, the least."
            }
            Self::Histogram => {
                "Returns a map of each value that is not NULL to how often it came, in the order of the values."
            }
            Self::Entropy => {
                "Returns the entropy of the values that are not NULL, in bits: the sum of -p log2 p over how \
                 frequent each is; 0 of none."
            }
            Self::Mad => {
                "Returns the median of the distances of the values that are not NULL from their median, as DOUBLE."
            }
        }
    }

    /// Returns the type of what is told of values of a type.
    fn type_of(self, of: &DataType) -> DataType {
        match self {
            Self::Mode => of.clone(),
            Self::Histogram => DataType::Map(entries(of), false),
            Self::Entropy | Self::Mad => DataType::Float64,
        }
    }
}

/// Returns the functions.
pub(crate) fn functions() -> [AggregateUDF; 4] {
    [Told::Mode, Told::Histogram, Told::Entropy, Told::Mad].map(aggregate::function)
}

/// Returns the type of a function's one argument.
fn only(fields: &[FieldRef]) -> Result<DataType> {
    match fields {
        [field] => Ok(field.data_type().clone()),
        _ => exec_err!("a function of counts takes one argument"),
    }
}

impl Kind for Told {
    fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Histogram => "histogram",
            Self::Entropy => "entropy",
            Self::Mad => "mad",
        }
    }

    fn documentation(self) -> Documentation {
        let call = format!("{}(x)", self.name());
        Documentation::builder(DOC_SECTION_STATISTICAL, self.description(), call).build()
    }

    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let [of] = given else {
            return plan_err!("{name} takes one argument");
        };
        let of = match of {
            DataType::Dictionary(_, of) => of.as_ref(),
            of => of,
        };
        match self {
            Self::Mad if of.is_numeric() || of.is_null() => Ok(vec![DataType::Float64]),
            Self::Mad => plan_err!("{name} takes one number"),
            _ => Ok(vec![of.clone()]),
        }
    }

    fn returns(self, given: &[DataType]) -> DataType {
        given.first().map_or(DataType::Null, |of| self.type_of(of))
    }

    fn state(self, given: &[FieldRef]) -> Result<Vec<(&'static str, DataType)>> {
        Ok(vec![
            ("values", list(only(given)?)),
            ("counts", list(DataType::Int64)),
        ])
    }

    fn keeper(self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let of = only(args.expr_fields)?;
        Ok(Box::new(Counts {
            told: self,
            rows: RowConverter::new(vec![SortField::new(of.clone())])?,
            counts: HashMap::new(),
            // A value is a value of its own, however often it is counted.
            is_distinct: args.is_distinct,
            key_bytes: 0,
            of,
        }))
    }
}

/// Returns the field of a map's entries from values to counts.
fn entries(of: &DataType) -> FieldRef {
    let fields = [
        Field::new("key", of.clone(), false),
        Field::new("value", DataType::UInt64, true),
    ];
    Arc::new(Field::new(
        "entries",
        DataType::Struct(fields.to_vec().into()),
        false,
    ))
}

/// Returns the median of values in order, each of which came so many times; of an even number the mean of the
/// two in the middle.
fn median_of(weighted: &[(f64, i64)]) -> Option<f64> {
    let all: i64 = weighted.iter().map(|(_, count)| count).sum();
    let at = |place: i64| {
        let mut end = 0;
        let mut values = weighted.iter();
        let found = values.find(|(_, count)| {
            end += count;
            end > place
        });
        found.map(|(value, _)| *value)
    };
    let (low, high) = (at((all - 1) / 2)?, at(all / 2)?);
    Some(if low == high {
        low
    } else {
        low / 2.0 + high / 2.0
    })
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

/// How often each value came.
#[derive(Debug)]
struct Counts {
    told: Told,
    of: DataType,
    rows: RowConverter,
    counts: HashMap<Box<[u8]>, i64>,
    is_distinct: bool,
    key_bytes: usize,
}

impl Counts {
    fn add(&mut self, values: &ArrayRef, count: impl Fn(usize) -> i64) -> Result<()> {
        let values = canonical_array(values)?;
        let nulls = values.logical_nulls();
        let rows = self.rows.convert_columns(&[values])?;
        for (index, row) in rows.iter().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(index)) {
                continue;
            }
            let count = count(index);
            match self.counts.get_mut(row.as_ref()) {
                Some(_) if self.is_distinct => {}
                Some(known) => *known = known.saturating_add(count),
                None => {
                    self.key_bytes += row.as_ref().len();
                    self.counts.insert(row.as_ref().into(), count);
                }
            }
        }
        Ok(())
    }

    fn mode(&self) -> Result<ScalarValue> {
        let counts = self.counts.iter();
        let most =
            counts.max_by(|(row, count), (other, most)| count.cmp(most).then(other.cmp(row)));
        match most {
            None => ScalarValue::try_from(&self.of),
            Some((row, _)) => {
                let value = self.values(std::iter::once(row))?;
                ScalarValue::try_from_array(&value, 0)
            }
        }
    }

    /// Returns the values in order, with their counts.
    fn in_order(&self) -> Result<(ArrayRef, Vec<i64>)> {
        let mut counts: Vec<_> = self.counts.iter().collect();
        counts.sort_unstable();
        let values = self.values(counts.iter().map(|(row, _)| *row))?;
        Ok((values, counts.iter().map(|(_, count)| **count).collect()))
    }

    fn histogram(&self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return ScalarValue::try_from(&self.told.type_of(&self.of));
        }
        let (values, counts) = self.in_order()?;
        let counts = counts.into_iter().map(|count| count.max(0) as u64);
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        let field = entries(&self.of);
        let DataType::Struct(fields) = field.data_type().clone() else {
            return exec_err!("entries of a histogram are no struct");
        };
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let entries = StructArray::try_new(fields, vec![values, counts], None)?;
        let map = MapArray::try_new(field, offsets, entries, None, false)?;
        Ok(ScalarValue::Map(Arc::new(map)))
    }

    fn entropy(&self) -> f64 {
        // In an order of their own, so that sums have the same last bits wherever rows ran.
        let mut counts: Vec<i64> = self.counts.values().copied().collect();
        counts.sort_unstable();
        let all = counts.iter().sum::<i64>() as f64;
        let share = |count: i64| count as f64 / all;
        let bits = counts
            .iter()
            .map(|&count| -share(count) * share(count).log2());
        // An empty sum is -0.0.
        bits.sum::<f64>() + 0.0
    }

    fn mad(&self) -> Result<Option<f64>> {
        let (values, counts) = self.in_order()?;
        let values = values.as_primitive::<Float64Type>().values().iter();
        let mut weighted: Vec<(f64, i64)> = values.copied().zip(counts).collect();
        let Some(median) = median_of(&weighted) else {
            return Ok(None);
        };
        for (value, _) in &mut weighted {
            *value = (*value - median).abs();
        }
        weighted.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(median_of(&weighted))
    }

    /// Makes values of rows.
    fn values<'a>(&self, rows: impl Iterator<Item = &'a Box<[u8]>>) -> Result<ArrayRef> {
        let parser = self.rows.parser();
        let parsed: Vec<_> = rows.map(|row| parser.parse(row)).collect();
        let columns = self.rows.convert_rows(parsed)?;
        match columns.into_iter().next() {
            Some(values) => Ok(values),
            None => exec_err!("rows of values without a column"),
        }
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values] => self.add(values, |_| 1),
            _ => exec_err!("{} takes one argument", self.told.name()),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values(self.counts.keys())?;
        let counts = self.counts.values().copied().map(Some);
        let counts = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(counts)]);
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let values = ListArray::try_new(field, offsets, values, None)?;
        Ok(vec![
            ScalarValue::List(Arc::new(values)),
            ScalarValue::List(Arc::new(counts)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else {
            return exec_err!("a state of counts has {} columns", states.len());
        };
        let values = values.as_list::<i32>().iter();
        for (values, counts) in values.zip(counts.as_list::<i32>().iter()) {
            let (Some(values), Some(counts)) = (values, counts) else {
                continue;
            };
            let counts = counts.as_primitive::<Int64Type>();
            if counts.len() != values.len() {
                return exec_err!("a state of counts has fewer counts than values");
            }
            self.add(&values, |index| counts.value(index))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.told {
            Told::Mode => self.mode(),
            Told::Histogram => self.histogram(),
            Told::Entropy => Ok(ScalarValue::Float64(Some(self.entropy()))),
            Told::Mad => Ok(ScalarValue::Float64(self.mad()?)),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.key_bytes + self.counts.capacity() * ENTRY_BYTES
    }
}
