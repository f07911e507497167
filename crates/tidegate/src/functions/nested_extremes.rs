//! `min` and `max` of lists, structs and maps, in the order of [`nested_order`](super::nested_order): NULL within them is
//! greater than any value. DataFusion's accumulators have it first in some places, and no order for it in others.

use std::cmp::Ordering;
use std::collections::VecDeque;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

use super::nested_order::comparator;
use crate::floats::canonical::canonical_array;

/// Returns an accumulator of the greatest or the least value of a type.
pub(crate) fn accumulator(of: &DataType, is_greatest: bool) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Extreme {
        wanted: wanted(is_greatest),
        kept: ScalarValue::try_new_null(of)?,
    }))
}

/// Returns an accumulator of the greatest or the least value of frames whose first row moves.
pub(crate) fn sliding(of: &DataType, is_greatest: bool) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(SlidingExtreme {
        wanted: wanted(is_greatest),
        none: ScalarValue::try_new_null(of)?,
        kept: VecDeque::new(),
        pushed: 0,
        popped: 0,
    }))
}

/// Returns how a value compares with those before it that it takes the place of.
fn wanted(is_greatest: bool) -> Ordering {
    match is_greatest {
        true => Ordering::Greater,
        false => Ordering::Less,
    }
}

/// Returns the one column that an accumulator is given, with one NaN and one zero.
fn values_of(columns: &[ArrayRef]) -> Result<ArrayRef> {
    match columns {
        [values] => canonical_array(values),
        columns => internal_err!("an extreme of {} columns", columns.len()),
    }
}

/// Returns a row's value, which holds on to nothing of the other rows.
fn value_at(values: &ArrayRef, row: usize) -> Result<ScalarValue> {
    Ok(ScalarValue::try_from_array(values, row)?.compacted())
}

/// The value so far; NULL before the first.
#[derive(Debug)]
struct Extreme {
    wanted: Ordering,
    kept: ScalarValue,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = values_of(columns)?;
        let order = comparator(&values, &values)?;
        let mut best: Option<usize> = None;
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            if best.is_none_or(|best| order(row, best) == self.wanted) {
                best = Some(row);
            }
        }
        let Some(best) = best else {
            return Ok(());
        };
        if !self.kept.is_null() {
            let kept = self.kept.to_array()?;
            if comparator(&values, &kept)?(best, 0) != self.wanted {
                return Ok(());
            }
        }
        self.kept = value_at(&values, best)?;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.kept.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.kept.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.kept.size()
    }
}

/// The values of a frame that are extremes of it once those before them have left, each with its number and as an
/// array of one row.
#[derive(Debug)]
struct SlidingExtreme {
    wanted: Ordering,
    none: ScalarValue,
    kept: VecDeque<(u64, ArrayRef)>,
    pushed: u64,
    popped: u64,
}

impl Accumulator for SlidingExtreme {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = values_of(columns)?;
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = value_at(&values, row)?.to_array()?;
            while let Some((_, last)) = self.kept.back() {
                if comparator(last, &value)?(0, 0) == self.wanted {
                    break;
                }
                self.kept.pop_back();
            }
            self.kept.push_back((self.pushed, value));
            self.pushed += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values] = columns else {
            return internal_err!("an extreme of {} columns", columns.len());
        };
        self.popped += (values.len() - values.null_count()) as u64;
        while self.kept.front().is_some_and(|(at, _)| *at < self.popped) {
            self.kept.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.kept.front() {
            Some((_, value)) => ScalarValue::try_from_array(value, 0),
            None => Ok(self.none.clone()),
        }
    }

    fn size(&self) -> usize {
        let values = self.kept.iter();
        let held: usize = values.map(|(_, value)| value.get_array_memory_size()).sum();
        let places = self.kept.capacity() * size_of::<(u64, ArrayRef)>();
        size_of_val(self) + self.none.size() + places + held
    }
}
