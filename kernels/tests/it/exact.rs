//! Sums of floats without rounding, and what variances come to when only their last steps round.
//!
//! The interpreter adds floats up one after the other, so its error grows with the rows. What is held
//! against a device is made here instead: a [`Sum`] is a fixed-point number as wide as all doubles, and
//! a variance takes a second pass over the differences from the mean.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use tidegate_pipeline::{
    Aggregate, AggregateFunction, AggregateOutput, Expr, Pipeline, Scalar, ScalarValue, Step,
};

use crate::cells::{Cell, rows_of};
use crate::reference::{Column, Rounding, interpret, projecting};

/// Bits of one digit of a sum; what is above them in a digit is carried later.
const DIGIT_BITS: usize = 32;

/// As many digits as have the bits from 2^-1074 to 2^1023, and 64 more for the number of values.
const NUM_DIGITS: usize = 68;

/// A sum of finite doubles, in units of 2^-1074.
#[derive(Clone)]
pub(crate) struct Sum([i64; NUM_DIGITS]);

impl Sum {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = Self([0; NUM_DIGITS]);
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }

    /// Adds a finite value, of which there may be 2^30.
    fn add(&mut self, value: f64) {
        assert!(value.is_finite(), "{value}");
        let exponent = (value.to_bits() >> 52) & 0x7ff;
        let fraction = value.to_bits() & ((1 << 52) - 1);
        let (mantissa, lowest) = match exponent {
            0 => (fraction, 0),
            _ => (fraction | 1 << 52, exponent as usize - 1),
        };
        let mut rest = u128::from(mantissa) << (lowest % DIGIT_BITS);
        for digit in &mut self.0[lowest / DIGIT_BITS..] {
            if rest == 0 {
                break;
            }
            let low = i64::from(rest as u32);
            *digit += if value.is_sign_negative() { -low } else { low };
            rest >>= DIGIT_BITS;
        }
    }

    /// Rounds to the nearest double, to the even one of two.
    pub(crate) fn rounded(&self) -> f64 {
        let mut digits = self.carried();
        let negative = digits[NUM_DIGITS - 1] < 0;
        if negative {
            let negated = Self(digits.map(|digit| -digit));
            digits = negated.carried();
        }
        let bit = |at: usize| digits[at / DIGIT_BITS] >> (at % DIGIT_BITS) & 1;
        let Some(highest) = (0..NUM_DIGITS * DIGIT_BITS).rev().find(|at| bit(*at) == 1) else {
            return 0.0;
        };
        let lowest = highest.saturating_sub(52);
        let mantissa =
            (lowest..=highest).fold(0, |all, at| all | (bit(at) as u64) << (at - lowest));
        let half = lowest > 0 && bit(lowest - 1) == 1;
        let above_half = half && (0..lowest - 1).any(|at| bit(at) == 1);
        let up = above_half || half && mantissa & 1 == 1;
        // The exponent's field is one less than that of a mantissa with its highest bit, which adds to it.
        let bits = ((lowest as u64) << 52) + mantissa + u64::from(up);
        let size = f64::from_bits(bits.min(f64::INFINITY.to_bits()));
        if negative { -size } else { size }
    }

    /// Returns the digits with 32 bits each, but for the last, which has the sign.
    fn carried(&self) -> [i64; NUM_DIGITS] {
        let mut digits = self.0;
        for at in 0..NUM_DIGITS - 1 {
            let carry = digits[at] >> DIGIT_BITS;
            digits[at] -= carry << DIGIT_BITS;
            digits[at + 1] += carry;
        }
        digits
    }
}

/// Replaces the rounded floats of an aggregate's groups by what they are exactly, rounded once or a few
/// times. `upto` ends with the aggregate; `columns` says how its output rounds. Groups of values that are
/// not finite stay.
pub(crate) fn correct(
    rows: &mut [Vec<Cell>],
    columns: &[Column],
    upto: &Pipeline,
    batches: &[RecordBatch],
) {
    let Some((Step::Aggregate(aggregate), before)) = upto.steps.split_last() else {
        panic!("the last step is no aggregate");
    };
    let num_keys = aggregate.keys.len();
    let mut groups: HashMap<Vec<Cell>, Vec<Vec<f64>>> = HashMap::new();
    for mut row in rows_of(&interpret(&unfolded(upto, before, aggregate), batches).unwrap()) {
        let values = row.split_off(num_keys);
        let key = row.into_iter().map(one_zero).collect();
        let of_calls = groups
            .entry(key)
            .or_insert_with(|| vec![Vec::new(); values.len()]);
        for (of_call, value) in of_calls.iter_mut().zip(&values) {
            of_call.extend(value.float());
        }
    }
    for row in rows {
        let key: Vec<Cell> = row[..num_keys].iter().cloned().map(one_zero).collect();
        let Some(of_calls) = groups.get(&key) else {
            continue;
        };
        for (cell, column) in row.iter_mut().zip(columns) {
            let values = &of_calls[column.call];
            let is_finite = !values.is_empty() && values.iter().all(|value| value.is_finite());
            if cell.float().is_none() || column.rounding == Rounding::Exact || !is_finite {
                continue;
            }
            let value = value_of(aggregate, *column, values);
            if value.is_finite() {
                *cell = Cell::Float64(value.to_bits());
            }
        }
    }
}

/// Computes what a column has of these values.
fn value_of(aggregate: &Aggregate, column: Column, values: &[f64]) -> f64 {
    let function = aggregate.calls[column.call].function;
    let count = values.len() as f64;
    let sum = Sum::of(values.iter().copied()).rounded();
    let mean = sum / count;
    let squares = || {
        let square = |value: &f64| (value - mean) * (value - mean);
        let squares: Vec<f64> = values.iter().map(square).collect();
        match squares.iter().all(|square| square.is_finite()) {
            true => Sum::of(squares).rounded(),
            false => f64::INFINITY,
        }
    };
    let variance = || {
        let divisor = if function.is_of_sample() {
            count - 1.0
        } else {
            count
        };
        // The sample of one value for which this is asked has variance 0.
        squares() / divisor.max(1.0)
    };
    match column.rounding {
        Rounding::Exact => panic!("it is exact as it is"),
        Rounding::Sum => match (function, aggregate.output) {
            (AggregateFunction::Avg, AggregateOutput::Value) => mean,
            _ => sum,
        },
        Rounding::Variance => variance(),
        Rounding::Root => variance().sqrt(),
        Rounding::StateMean => mean,
        Rounding::StateSquares => squares(),
    }
}

/// Makes of a pipeline that ends with an aggregate one whose rows are the aggregate's input: the keys, and
/// what each call adds up, which is NULL where it adds nothing.
fn unfolded(upto: &Pipeline, before: &[Step], aggregate: &Aggregate) -> Pipeline {
    let nothing = Expr::parameter(upto.parameters.len(), DataType::Float64).unwrap();
    let keys = aggregate.keys.iter().map(|key| key.expr.clone());
    let values = aggregate.calls.iter().map(|call| {
        let value = match &call.argument {
            Some(value) if value.data_type == DataType::Float64 => value.clone(),
            _ => return nothing.clone(),
        };
        match &call.filter {
            Some(filter) => {
                Expr::case(vec![(filter.clone(), value)], None, DataType::Float64).unwrap()
            }
            None => value,
        }
    });
    let mut pipeline = projecting(upto, before, keys.chain(values).collect());
    pipeline.parameters.push(Scalar {
        data_type: DataType::Float64,
        value: ScalarValue::Null,
    });
    pipeline
}

/// Makes of the two zeros that are one key the one that an aggregate shows.
fn one_zero(cell: Cell) -> Cell {
    match cell {
        Cell::Float64(bits) if f64::from_bits(bits) == 0.0 => Cell::Float64(0),
        Cell::Float32(bits) if f32::from_bits(bits) == 0.0 => Cell::Float32(0),
        other => other,
    }
}

#[test]
fn sums_are_rounded_once() {
    let check = |values: &[f64], expect: f64| {
        let sum = Sum::of(values.iter().copied()).rounded();
        assert_eq!(sum.to_bits(), expect.to_bits(), "{values:?}: {sum:e}");
        let negated = Sum::of(values.iter().map(|value| -value)).rounded();
        assert_eq!(
            negated.abs().to_bits(),
            expect.abs().to_bits(),
            "{values:?}"
        );
    };
    let (tiny, eps) = (f64::from_bits(1), f64::EPSILON);
    check(&[], 0.0);
    check(&[-0.0], 0.0);
    check(&[0.1, 0.2, 0.3, -0.3, -0.2], 0.1);
    check(&[1e308, 1.0, -1e308, tiny], 1.0);
    check(&[tiny, tiny], f64::from_bits(2));
    check(&[f64::MIN_POSITIVE, -tiny], f64::MIN_POSITIVE - tiny);
    // Half a unit goes to the even neighbour, and up if there is more.
    check(&[1.0, eps / 2.0], 1.0);
    check(&[1.0 + eps, eps / 2.0], 1.0 + 2.0 * eps);
    check(&[1.0, eps / 2.0, tiny], 1.0 + eps);
    check(&[2.0 - eps, eps / 2.0], 2.0);
    check(&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX);
    check(&[f64::MAX, f64::MAX], f64::INFINITY);
    check(&vec![0.1; 1 << 12], 0.1 * f64::from(1 << 12));
}
