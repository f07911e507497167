//! The memory of window functions whose values grow with their frame: `array_agg` and `string_agg`.
//!
//! A list of 30,000 integers for each of 30,000 rows takes 7 GB, and no operator reserves it. It is estimated here from
//! the rows that go into the window, and reserved before they do. Frames of a range of values (`RANGE BETWEEN 1 PRECEDING
//! AND …`) are taken for one row: how many rows lie in them is not known.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::partition;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, WindowExpr,
};

/// Aggregates whose values grow with their rows.
const GROWING: [&str; 2] = ["array_agg", "string_agg"];

/// Bytes of a row of a list or text beside its value.
const ENTRY_BYTES: u64 = 8;

/// A window function whose values grow.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    partition_by: Vec<PhysicalExprRef>,
    argument: PhysicalExprRef,
    /// The rows of a frame that has both ends; `None` for one that may be as long as its partition.
    frame_rows: Option<u64>,
    /// Whether a value has each argument once.
    is_distinct: bool,
}

/// How much of a partition a [`Growing`] has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    keys: Option<Vec<ScalarValue>>,
    rows: u64,
    bytes: u64,
    /// The hashes of arguments, if each counts once.
    hashes: HashSet<u64>,
}

/// What the values for the rows of one batch take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Beside those for the rows before, if all are kept.
    pub(super) more: u64,
    /// Alone.
    pub(super) alone: u64,
}

impl Seen {
    /// Counts the values that were not there before.
    fn num_new(&mut self, values: &ArrayRef) -> Result<u64> {
        let mut hashes = vec![0; values.len()];
        create_hashes([values], &RandomState::with_seed(0), &mut hashes)?;
        let before = self.hashes.len();
        self.hashes.extend(hashes);
        Ok((self.hashes.len() - before) as u64)
    }
}

impl Growing {
    pub(super) fn of(expr: &Arc<dyn WindowExpr>) -> Option<Self> {
        let any = expr.as_any();
        let plain = any.downcast_ref::<PlainAggregateWindowExpr>();
        let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>();
        let plain = plain.map(PlainAggregateWindowExpr::get_aggregate_expr);
        let aggregate =
            plain.or_else(|| sliding.map(SlidingAggregateWindowExpr::get_aggregate_expr))?;
        if !GROWING.contains(&aggregate.fun().name()) {
            return None;
        }
        Some(Self {
            partition_by: expr.partition_by().to_vec(),
            argument: aggregate.expressions().into_iter().next()?,
            frame_rows: frame_rows(expr.get_window_frame()),
            is_distinct: aggregate.is_distinct(),
        })
    }

    /// Returns what the values for the rows of a batch take, which follow those before it.
    pub(super) fn taken(&self, batch: &RecordBatch, seen: &mut Seen) -> Result<Taken> {
        let evaluate = |expr: &PhysicalExprRef| -> Result<ArrayRef> {
            expr.evaluate(batch)?.into_array(batch.num_rows())
        };
        let values = evaluate(&self.argument)?;
        let mut taken = Taken::default();
        if let Some(frame_rows) = self.frame_rows {
            let bytes = bytes_of(&values).saturating_mul(frame_rows);
            return Ok(Taken {
                more: bytes,
                alone: bytes,
            });
        }
        let keys = self.partition_by.iter().map(evaluate);
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let ranges = match keys.is_empty() {
            true => std::iter::once(0..batch.num_rows()).collect(),
            false => partition(&keys)?.ranges(),
        };
        for range in ranges {
            let key = keys
                .iter()
                .map(|keys| ScalarValue::try_from_array(keys, range.start));
            let key = key.collect::<Result<Vec<_>>>()?;
            if seen.keys.as_ref() != Some(&key) {
                *seen = Seen {
                    keys: Some(key),
                    ..Seen::default()
                };
            }
            let rows = range.len() as u64;
            let before = seen.rows.saturating_mul(seen.bytes);
            seen.rows += rows;
            let values = values.slice(range.start, range.len());
            let new = match self.is_distinct {
                true => seen.num_new(&values)?,
                false => rows,
            };
            seen.bytes +=
                (u128::from(bytes_of(&values)) * u128::from(new) / u128::from(rows)) as u64;
            let all = seen.rows.saturating_mul(seen.bytes);
            taken.more = taken.more.saturating_add(all - before);
            taken.alone = taken.alone.saturating_add(rows.saturating_mul(seen.bytes));
        }
        Ok(taken)
    }
}

/// Returns the rows of a frame of rows that has both ends.
fn frame_rows(frame: &WindowFrame) -> Option<u64> {
    let is_bounded = |bound: &WindowFrameBound| !bound.is_unbounded();
    if !is_bounded(&frame.start_bound) || !is_bounded(&frame.end_bound) {
        return None;
    }
    let place = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows))) => Some(-i128::from(*rows)),
        WindowFrameBound::Following(ScalarValue::UInt64(Some(rows))) => Some(i128::from(*rows)),
        WindowFrameBound::Preceding(_) | WindowFrameBound::Following(_) => None,
    };
    match (
        frame.units,
        place(&frame.start_bound),
        place(&frame.end_bound),
    ) {
        (WindowFrameUnits::Rows, Some(start), Some(end)) => {
            Some(u64::try_from((end - start + 1).max(0)).unwrap_or(u64::MAX))
        }
        // How many rows lie within a range of values is not known.
        _ => Some(1),
    }
}

/// Returns what values take in a list or text.
fn bytes_of(values: &ArrayRef) -> u64 {
    let rows = values.len() as u64;
    let text: u64 = match values.data_type() {
        DataType::Utf8View => values.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => values.as_binary_view().lengths().map(u64::from).sum(),
        kind => match kind.primitive_width() {
            Some(width) => rows.saturating_mul(width as u64),
            None => values
                .to_data()
                .get_slice_memory_size()
                .map_or(u64::MAX, |bytes| bytes as u64),
        },
    };
    text.saturating_add(rows.saturating_mul(ENTRY_BYTES))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, RecordBatch, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::Column;

    use super::{Growing, Seen, Taken};

    fn batch(keys: &[i64], texts: &[&str]) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("k", DataType::Int64, false),
            Field::new("s", DataType::Utf8View, false),
        ]);
        let keys = Arc::new(Int64Array::from(keys.to_vec()));
        let texts = Arc::new(StringViewArray::from(texts.to_vec()));
        RecordBatch::try_new(Arc::new(schema), vec![keys, texts]).unwrap()
    }

    #[test]
    fn values_grow_with_their_partition_over_batches() {
        let growing = Growing {
            partition_by: vec![Arc::new(Column::new("k", 0))],
            argument: Arc::new(Column::new("s", 1)),
            frame_rows: None,
            is_distinct: false,
        };
        let mut seen = Seen::default();
        // Two rows of 10 bytes, then one: 2 * 20, then 1 * 10.
        let first = growing.taken(&batch(&[1, 1, 2], &["ab", "cd", "ef"]), &mut seen);
        assert_eq!(
            first.unwrap(),
            Taken {
                more: 50,
                alone: 50
            }
        );
        // The partition goes on: 3 * 30 instead of 1 * 10.
        let second = growing.taken(&batch(&[2, 2], &["gh", "ij"]), &mut seen);
        assert_eq!(
            second.unwrap(),
            Taken {
                more: 80,
                alone: 60
            }
        );
    }

    #[test]
    fn frames_with_two_ends_have_as_many_rows() {
        let growing = Growing {
            partition_by: Vec::new(),
            argument: Arc::new(Column::new("s", 1)),
            frame_rows: Some(3),
            is_distinct: false,
        };
        let taken = growing.taken(&batch(&[1, 1], &["ab", "cd"]), &mut Seen::default());
        assert_eq!(
            taken.unwrap(),
            Taken {
                more: 60,
                alone: 60
            }
        );
    }
}
