//! Random columns of every type, and programs held against the reference interpreter.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, IntervalUnit};

use crate::catalogue::span::Span;
use crate::interpret::builder::ColumnBuilder;
use crate::interpret::column::Column;
use crate::interval::Interval;
use crate::pipeline::{AggregateFunction, Pipeline, Step};
use crate::program::cell::Cell;
use crate::program::{Facts, RowProgram, interpret, lower, verify};
use crate::tests::building::run;
use crate::types::{Decimal, is_float, is_string};
use crate::{Scalar, ScalarValue};

/// Numbers that look random (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    fn wide(&mut self) -> i128 {
        i128::from(self.next()) << 64 | i128::from(self.next())
    }
}

/// What a column is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// One in so many values is NULL; 0 for none.
    pub(crate) nulls: u64,
    /// Numbers are between these, and within their type.
    pub(crate) range: Option<(i128, i128)>,
}

impl Shape {
    /// Every value of the type, with its edges, and NULLs.
    pub(crate) const ALL: Self = Self {
        nulls: 8,
        range: None,
    };

    /// A few small values.
    pub(crate) const SMALL: Self = Self {
        nulls: 0,
        range: Some((1, 9)),
    };

    /// Small values around zero, and NULLs.
    pub(crate) const AROUND: Self = Self {
        nulls: 5,
        range: Some((-50, 200)),
    };
}

const FLOATS: [f64; 16] = [
    0.0,
    -0.0,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1.0,
    -1.5,
    0.1,
    2.5,
    -2.5,
    1e300,
    3e38,
    5e-324,
    -128.9,
    9.3e18,
];

const WORDS: [&str; 15] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "%b%",
    "a_c",
    "été",
    "ÉTÉ",
    "Zz%_\\",
    "\\%",
    "a longer string than a view holds",
    "  ab a ",
    "a,b,,c",
    ",",
];

fn integer(random: &mut Random, limit: Interval, shape: Shape) -> i128 {
    if let Some((low, high)) = shape.range {
        let (low, high) = (
            low.clamp(limit.low, limit.high),
            high.clamp(limit.low, limit.high),
        );
        return low + (random.next() as i128).rem_euclid(high - low + 1);
    }
    let edges = [
        limit.low,
        limit.high,
        limit.low + 1,
        limit.high - 1,
        0,
        1,
        -1,
        2,
        -96_465_293,
    ];
    match random.below(4) {
        0 => (*random.of(&edges)).clamp(limit.low, limit.high),
        1 => (random.next() as i128 % 200 - 100).clamp(limit.low, limit.high),
        2 => {
            let shift = random.below(127);
            (random.wide() >> shift).clamp(limit.low, limit.high)
        }
        _ => (random.next() as i64 as i128 / 1_000).clamp(limit.low, limit.high),
    }
}

fn float(random: &mut Random, shape: Shape) -> f64 {
    if let Some((low, high)) = shape.range {
        let steps = random.below(4 * (high - low) as u64 + 1);
        return low as f64 + steps as f64 / 4.0;
    }
    match random.below(3) {
        0 => *random.of(&FLOATS),
        1 => (random.next() as i64 >> random.below(63)) as f64 / 8.0,
        _ => f64::from_bits(random.next()),
    }
}

fn span<'a>(random: &mut Random, unit: IntervalUnit, shape: Shape) -> Cell<'a> {
    let mut part = |bits: u32| integer(random, Interval::signed(bits), shape);
    let (months, days, nanoseconds) = (part(32) as i32, part(32) as i32, part(64) as i64);
    let span = match unit {
        IntervalUnit::YearMonth => Span::new(months, 0, 0),
        IntervalUnit::DayTime => Span::new(0, days, i64::from(nanoseconds as i32) * 1_000_000),
        IntervalUnit::MonthDayNano => Span::new(months, days, nanoseconds),
    };
    Cell::Int(span.packed())
}

/// Makes a random value of a type, which is there.
pub(crate) fn value(random: &mut Random, data_type: &DataType, shape: Shape) -> Cell<'static> {
    match data_type {
        DataType::Boolean => Cell::bool(random.one_in(2)),
        DataType::Float32 => Cell::Float((float(random, shape) as f32).into()),
        DataType::Float64 => Cell::Float(float(random, shape)),
        DataType::Interval(unit) => span(random, *unit, shape),
        string if is_string(string) => Cell::Text(random.of::<&str>(&WORDS)),
        other => Cell::Int(integer(random, Interval::of_type(other).unwrap(), shape)),
    }
}

/// Makes a random column.
pub(crate) fn column(
    random: &mut Random,
    data_type: &DataType,
    rows: usize,
    shape: Shape,
) -> ArrayRef {
    let mut column = ColumnBuilder::new(data_type).unwrap();
    for _ in 0..rows {
        let is_null = shape.nulls > 0 && random.one_in(shape.nulls);
        let cell = (!is_null).then(|| value(random, data_type, shape));
        column.push(cell).unwrap();
    }
    column.finish().unwrap()
}

/// Lowers a pipeline and checks the programs, from what its types say or from what its input has.
pub(crate) fn programs(
    pipeline: &Pipeline,
    batches: &[RecordBatch],
    are_seen: bool,
) -> Vec<RowProgram> {
    let facts = |column: usize| {
        let data_type = pipeline.input.field(column).data_type();
        match are_seen {
            true => {
                let arrays = batches.iter().map(|batch| batch.column(column).as_ref());
                Facts::seen(data_type, arrays).unwrap()
            }
            false => Facts::declared(data_type),
        }
    };
    let stages = lower(pipeline, &facts).unwrap_or_else(|error| panic!("{pipeline}: {error}"));
    for program in &stages {
        assert_eq!(
            verify(program),
            Vec::<String>::new(),
            "{pipeline}\n{program}"
        );
    }
    stages
}

/// Holds the programs of a pipeline, made from what its types say and from what its input has, against
/// each other: values, NULLs, and errors.
pub(crate) fn hold(pipeline: &Pipeline, batches: &[RecordBatch]) {
    let expected = run(pipeline, batches);
    for are_seen in [false, true] {
        let stages = programs(pipeline, batches, are_seen);
        let found = interpret::run(&stages, batches, &pipeline.output);
        let differs = |what: String| {
            let shown: Vec<String> = stages.iter().map(ToString::to_string).collect();
            let num_rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let input = if num_rows <= 4 {
                format!("{batches:?}\n")
            } else {
                String::new()
            };
            panic!("{pipeline}\n{what}\n{}{input}", shown.join("\n"));
        };
        match (&expected, &found) {
            (Err(expected), Err(found)) if expected.to_string() == found.to_string() => {}
            (Ok(expected), Ok(found)) => {
                if let Some(what) = difference(pipeline, expected, found) {
                    differs(what);
                }
            }
            (Ok(_), Err(found)) => differs(format!("{found}, and no error was expected")),
            (Err(expected), Ok(_)) => differs(format!("no error instead of {expected}")),
            (Err(expected), Err(found)) => differs(format!("{found} instead of {expected}")),
        }
    }
}

/// Returns where two results differ.
fn difference(
    pipeline: &Pipeline,
    expected: &[RecordBatch],
    found: &[RecordBatch],
) -> Option<String> {
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if rows(expected) != rows(found) {
        return Some(format!(
            "{} rows instead of {}",
            rows(found),
            rows(expected)
        ));
    }
    let rounds = rounds(pipeline);
    for (expected, found) in expected.iter().zip(found) {
        for (index, (left, right)) in expected.columns().iter().zip(found.columns()).enumerate() {
            let (one, other) = (Column::new(left).unwrap(), Column::new(right).unwrap());
            for row in 0..left.len() {
                let (one, other) = (one.get(row), other.get(row));
                if !same(one, other, rounds) {
                    let name = pipeline.output.field(index).name();
                    return Some(format!(
                        "{name} of row {row} is {other:?} instead of {one:?}"
                    ));
                }
            }
        }
    }
    None
}

/// Returns whether a pipeline sums floats, which the reference does in order.
fn rounds(pipeline: &Pipeline) -> bool {
    pipeline.steps.iter().any(|step| match step {
        Step::Aggregate(aggregate) => aggregate.calls.iter().any(|call| {
            let sums = matches!(
                call.function,
                AggregateFunction::Sum | AggregateFunction::Avg
            );
            let argument = call.argument.as_ref();
            sums && argument.is_some_and(|argument| is_float(&argument.data_type))
        }),
        Step::Filter(_) | Step::Project(_) | Step::Sort(_) => false,
    })
}

/// Returns whether two values are the same; floats to the bit, unless they are rounded otherwise.
pub(crate) fn same(one: Option<Cell<'_>>, other: Option<Cell<'_>>, rounds: bool) -> bool {
    match (one, other) {
        (Some(Cell::Float(one)), Some(Cell::Float(other))) => {
            let is_near = rounds && (one - other).abs() <= one.abs().max(1e3) * 1e-9;
            one.is_nan() && other.is_nan() || one.to_bits() == other.to_bits() || is_near
        }
        (one, other) => one == other,
    }
}

/// Holds a pipeline over a batch, over each of its rows where the batch raises, and over no rows.
pub(crate) fn hold_rows(pipeline: &Pipeline, batch: &RecordBatch) {
    hold(pipeline, &[batch.slice(0, 0)]);
    hold(pipeline, std::slice::from_ref(batch));
    if run(pipeline, std::slice::from_ref(batch)).is_err() {
        for row in 0..batch.num_rows() {
            hold(pipeline, &[batch.slice(row, 1)]);
        }
    }
}

/// Makes a batch of random columns `a`, `b`, ….
pub(crate) fn random_batch(
    random: &mut Random,
    types: &[DataType],
    rows: usize,
    shape: Shape,
) -> RecordBatch {
    let columns = types
        .iter()
        .map(|data_type| column(random, data_type, rows, shape));
    let columns: Vec<Arc<dyn Array>> = columns.collect();
    crate::tests::building::batch(columns)
}

/// Makes a literal of a value.
pub(crate) fn scalar(cell: Option<Cell<'_>>, data_type: &DataType) -> Scalar {
    let value = match (cell, data_type) {
        (None, _) => ScalarValue::Null,
        (Some(Cell::Text(text)), _) => ScalarValue::Utf8(text.into()),
        (Some(Cell::Float(value)), _) => ScalarValue::Float(value),
        (Some(Cell::Int(value)), DataType::Boolean) => ScalarValue::Boolean(value != 0),
        (Some(Cell::Int(packed)), DataType::Interval(_)) => {
            let span = Span::of_packed(packed);
            ScalarValue::Interval {
                months: span.months,
                days: span.days,
                nanoseconds: span.nanoseconds,
            }
        }
        (Some(Cell::Int(value)), of) if of.is_unsigned_integer() => ScalarValue::UInt(value as u64),
        (Some(Cell::Int(value)), of) if Decimal::of(of).is_some() => ScalarValue::Decimal(value),
        (Some(Cell::Int(value)), _) => ScalarValue::Int(value as i64),
    };
    Scalar {
        data_type: data_type.clone(),
        value,
    }
}
