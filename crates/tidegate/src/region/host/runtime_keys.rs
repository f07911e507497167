//! Which integers pass a runtime filter, a bit each, found when they are asked for.

use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, InListExpr, Literal};
use tidegate_kernels::host::arrow::{array_of, integers};
use tidegate_kernels::host::{Chunk, Values};

use super::runtime_filter::{Predicate, pass_nulls};

/// Keys that are looked up together.
const SEGMENT: u64 = 1 << 14;

/// A range of so many keys is looked up whatever the rows are.
const RANGE_MIN: u64 = 1 << 16;

/// Rows for each key of a range that is worth looking up.
const ROWS_PER_KEY: u64 = 8;

/// Keys of a range, and which of them pass.
pub(super) struct KeySet {
    data_type: DataType,
    least: i64,
    num_keys: u64,
    segments: Vec<OnceLock<Option<Vec<u64>>>>,
}

impl KeySet {
    /// Prepares the range of keys that a predicate over one column lets pass; `None` if that is not known, or
    /// wide in view of the rows that are read.
    pub(super) fn of(predicate: &Predicate, data_type: &DataType, rows: u64) -> Option<Self> {
        let is_integer = matches!(
            data_type,
            DataType::Int32 | DataType::Int64 | DataType::Date32
        );
        let (least, greatest) = range_of(predicate.expr()).filter(|_| is_integer)?;
        let num_keys = u64::try_from(i128::from(greatest) - i128::from(least) + 1).ok()?;
        if num_keys > RANGE_MIN.max(rows / ROWS_PER_KEY) {
            return None;
        }
        let segments = (0..num_keys.div_ceil(SEGMENT)).map(|_| OnceLock::new());
        Some(Self {
            data_type: data_type.clone(),
            least,
            num_keys,
            segments: segments.collect(),
        })
    }

    /// Returns which rows of a block have a key that passes, a byte of 0 or 1 each; NULLs do. `None` if the block
    /// has other values than integers.
    pub(super) fn contain(
        &self,
        predicate: &Predicate,
        chunk: &Chunk<'_>,
        rows: usize,
    ) -> Option<Vec<u8>> {
        let mut values = Vec::with_capacity(rows);
        if !integers(&chunk.values, rows, &mut values) {
            return None;
        }
        let mut passed = vec![0; rows];
        let mut last: Option<(u64, &[u64])> = None;
        for (passes, value) in passed.iter_mut().zip(&values) {
            let place = value.wrapping_sub(self.least) as u64;
            if place >= self.num_keys {
                continue;
            }
            let segment = place / SEGMENT;
            let bits = match last {
                Some((number, bits)) if number == segment => bits,
                _ => {
                    let bits = self.segment(predicate, segment)?;
                    last = Some((segment, bits));
                    bits
                }
            };
            let bit = place % SEGMENT;
            let word = bits.get((bit / 64) as usize)?;
            *passes = (word >> (bit % 64) & 1) as u8;
        }
        pass_nulls(&mut passed, chunk);
        Some(passed)
    }

    fn segment(&self, predicate: &Predicate, number: u64) -> Option<&[u64]> {
        let segment = self.segments.get(usize::try_from(number).ok()?)?;
        segment
            .get_or_init(|| self.look_up(predicate, number))
            .as_deref()
    }

    /// Asks the predicate about the keys of a segment.
    fn look_up(&self, predicate: &Predicate, number: u64) -> Option<Vec<u64>> {
        let first = number * SEGMENT;
        let keys = first..(first + SEGMENT).min(self.num_keys);
        let keys: Vec<i64> = keys
            .map(|place| self.least.wrapping_add(place as i64))
            .collect();
        let rows = keys.len();
        let keys = array_of(&Values::I64(&keys), None, rows, None, &self.data_type)?;
        let passed = predicate.evaluate(vec![keys], rows)?;
        let mut bits = vec![0_u64; SEGMENT as usize / 64];
        for (place, passes) in passed.into_iter().enumerate() {
            if let Some(word) = bits.get_mut(place / 64) {
                *word |= u64::from(passes) << (place % 64);
            }
        }
        Some(bits)
    }
}

/// Returns a range that has all integers for which an expression over one column is TRUE; `None` if it is not
/// seen. An empty range is one with its ends exchanged.
fn range_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(i64, i64)> {
    const EMPTY: (i64, i64) = (i64::MAX, i64::MIN);
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let is_false = matches!(literal.value(), ScalarValue::Boolean(Some(false) | None));
        return is_false.then_some(EMPTY);
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        let branches = case.when_then_expr().iter().map(|(_, then)| then);
        let mut branches = branches.chain(case.else_expr());
        return branches.try_fold(EMPTY, |all, branch| Some(hull(all, range_of(branch)?)));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        if list.negated() || !is_column(list.expr()) {
            return None;
        }
        let mut values = list.list().iter();
        return values.try_fold(EMPTY, |all, value| {
            let value = integer(value)?;
            Some(hull(all, (value, value)))
        });
    }
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    match binary.op() {
        Operator::And => match (range_of(left), range_of(right)) {
            (Some(one), Some(other)) => Some((one.0.max(other.0), one.1.min(other.1))),
            (one, other) => one.or(other),
        },
        Operator::Or => Some(hull(range_of(left)?, range_of(right)?)),
        _ if !is_column(left) => None,
        Operator::GtEq | Operator::Gt => Some((integer(right)?, i64::MAX)),
        Operator::LtEq | Operator::Lt => Some((i64::MIN, integer(right)?)),
        Operator::Eq => integer(right).map(|value| (value, value)),
        _ => None,
    }
}

fn hull(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.min(other.0), one.1.max(other.1))
}

fn is_column(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<datafusion::physical_expr::expressions::Column>()
}

fn integer(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        _ => None,
    }
}
