//! What operations mean for one row, and what kernels give for a block of them.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::super::cell::Cell;
use super::super::{Class, FloatOp, IntegerOp, Overflow, Rounding};
use crate::catalogue::{Body, TextArgument};

/// Calls a kernel for each row. The texts that it makes are kept in `made`.
pub(super) fn kernel<'a>(
    body: &Body,
    arguments: &[&[Cell<'a>]],
    rows: usize,
    made: &'a OnceCell<Vec<String>>,
) -> Vec<Cell<'a>> {
    let argument = |index: usize, row: usize| {
        let cells = arguments.get(index);
        cells.map_or(Cell::Int(0), |cells| cells[row])
    };
    let int = |index: usize, row: usize| argument(index, row).int() as i64;
    let float = |index: usize, row: usize| argument(index, row).float();
    let single = |index: usize, row: usize| argument(index, row).float() as f32;
    let text = |index: usize, row: usize| argument(index, row).text();
    let rows = 0..rows;
    match body {
        Body::Float(body) => rows.map(|row| Cell::Float(body(float(0, row)))).collect(),
        Body::Float2(body) => rows
            .map(|row| Cell::Float(body(float(0, row), float(1, row))))
            .collect(),
        Body::Single(body) => rows
            .map(|row| Cell::Float(body(single(0, row)).into()))
            .collect(),
        Body::Single2(body) => rows
            .map(|row| Cell::Float(body(single(0, row), single(1, row)).into()))
            .collect(),
        Body::Int(body) => rows
            .map(|row| Cell::Int(i128::from(body(int(0, row)))))
            .collect(),
        Body::Int2(body) => rows
            .map(|row| Cell::Int(i128::from(body(int(0, row), int(1, row)))))
            .collect(),
        Body::Unpack(body) => rows
            .map(|row| Cell::Int(i128::from(body(argument(0, row).int()))))
            .collect(),
        Body::Pack(body) => rows
            .map(|row| Cell::Int(body(int(0, row), int(1, row), int(2, row))))
            .collect(),
        Body::Matches(body) => rows
            .map(|row| Cell::bool(body(text(0, row), text(1, row))))
            .collect(),
        Body::Pattern(prepare) => {
            let mut prepared = None;
            rows.map(|row| {
                let pattern = text(1, row);
                let known = prepared.take().filter(|(known, _)| *known == pattern);
                let (_, matches) =
                    prepared.insert(known.unwrap_or_else(|| (pattern, prepare(pattern))));
                Cell::bool(matches(text(0, row)))
            })
            .collect()
        }
        Body::Slice(body) => rows
            .map(|row| Cell::Text(body(text(0, row), int(1, row), int(2, row))))
            .collect(),
        Body::TextInt(body) => rows
            .map(|row| Cell::Int(i128::from(body(text(0, row)))))
            .collect(),
        Body::Text2Int(body) => rows
            .map(|row| Cell::Int(i128::from(body(text(0, row), text(1, row)))))
            .collect(),
        Body::Text(body) => texts(*body, arguments, rows.len(), made),
    }
}

fn texts<'a>(
    body: for<'t> fn(&[TextArgument<'t>]) -> Cow<'t, str>,
    arguments: &[&[Cell<'a>]],
    rows: usize,
    made: &'a OnceCell<Vec<String>>,
) -> Vec<Cell<'a>> {
    let mut owned = Vec::new();
    let mut places = Vec::new();
    let mut row_arguments = Vec::with_capacity(arguments.len());
    let cells = (0..rows).map(|row| {
        row_arguments.clear();
        row_arguments.extend(arguments.iter().map(|cells| match cells[row] {
            Cell::Text(text) => TextArgument::Text(text),
            other => TextArgument::Int(other.int() as i64),
        }));
        match body(&row_arguments) {
            Cow::Borrowed(text) => Cell::Text(text),
            Cow::Owned(text) => {
                owned.push(text);
                places.push(row);
                Cell::Text("")
            }
        }
    });
    let mut cells: Vec<Cell<'a>> = cells.collect();
    let held = made.get_or_init(|| owned);
    for (row, text) in places.into_iter().zip(held) {
        cells[row] = Cell::Text(text);
    }
    cells
}

/// Returns the result of an operation on integers, if 128 bits hold it.
pub(super) fn exact(op: IntegerOp, left: i128, right: i128) -> Option<i128> {
    match op {
        IntegerOp::Add => left.checked_add(right),
        IntegerOp::Subtract => left.checked_sub(right),
        IntegerOp::Multiply => left.checked_mul(right),
    }
}

/// Returns whether a signed integer of so many bits holds a value.
pub(super) fn fits(value: Option<i128>, bits: u32) -> bool {
    value.is_some_and(|value| wrapped(value, bits, true) == value)
}

/// Computes on integers.
pub(super) fn integer(op: IntegerOp, overflow: Overflow, left: i128, right: i128) -> i128 {
    let modulo = match op {
        IntegerOp::Add => left.wrapping_add(right),
        IntegerOp::Subtract => left.wrapping_sub(right),
        IntegerOp::Multiply => left.wrapping_mul(right),
    };
    match overflow {
        Overflow::Never => modulo,
        Overflow::Wraps { bits, signed } => wrapped(modulo, bits, signed),
        Overflow::Fails { bits } if fits(exact(op, left, right), bits) => modulo,
        Overflow::Fails { .. } => 0,
    }
}

/// Reduces modulo 2^bits.
fn wrapped(value: i128, bits: u32, signed: bool) -> i128 {
    let shift = 128 - bits;
    match signed {
        true => value << shift >> shift,
        false => ((value << shift) as u128 >> shift) as i128,
    }
}

/// Divides, of divisor 0 the dividend.
pub(super) fn divided(rounding: Rounding, left: i128, right: i128) -> i128 {
    let quotient = left.checked_div(right).unwrap_or(left);
    let rest = left.checked_rem(right).unwrap_or(0);
    match rounding {
        Rounding::Zero => quotient,
        Rounding::Down => quotient - i128::from(rest < 0),
        Rounding::Nearest if rest.unsigned_abs() >= (right / 2).unsigned_abs() && right > 1 => {
            quotient + if left < 0 { -1 } else { 1 }
        }
        Rounding::Nearest => quotient,
    }
}

/// Computes on floats of either width.
pub(super) fn computed<T>(op: FloatOp, left: T, right: T) -> T
where
    T: std::ops::Add<Output = T>
        + std::ops::Sub<Output = T>
        + std::ops::Mul<Output = T>
        + std::ops::Div<Output = T>
        + std::ops::Rem<Output = T>,
{
    match op {
        FloatOp::Add => left + right,
        FloatOp::Subtract => left - right,
        FloatOp::Multiply => left * right,
        FloatOp::Divide => left / right,
        FloatOp::Remainder => left % right,
    }
}

/// Converts to a class of numbers.
pub(super) fn converted(cell: Cell<'_>, to: Class) -> Cell<'_> {
    match (to, cell) {
        (Class::F64, Cell::Int(value)) => Cell::Float(value as f64),
        (Class::F32, Cell::Int(value)) => Cell::Float(f64::from(value as f32)),
        (Class::F32, Cell::Float(value)) => Cell::Float(f64::from(value as f32)),
        (Class::I32, Cell::Int(value)) => Cell::Int(i128::from(value as i32)),
        (Class::I64, Cell::Int(value)) => Cell::Int(i128::from(value as i64)),
        (Class::I128, Cell::Float(value)) => Cell::Int(truncated(value).unwrap_or(0)),
        (_, cell) => cell,
    }
}

/// Truncates towards zero; `None` for NaN and what 128 bits cannot hold.
pub(super) fn truncated(value: f64) -> Option<i128> {
    // 2^127 is exact in a double, and the greatest double below it is in range.
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    (-LIMIT..LIMIT).contains(&value).then_some(value as i128)
}
