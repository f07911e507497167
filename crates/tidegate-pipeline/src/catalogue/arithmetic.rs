//! What `+ - * / %` have in common: on numbers, on times, and on SQL's intervals.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::calendar::{CALENDAR, MOVED_BY_MONTHS};
use super::span::{of_parts, parts};
use super::{Arguments, Lowered, Signature};
use crate::check::{Unsupported, decimal_rule};
use crate::expr::ArithmeticOp;
use crate::interval::Interval;
use crate::program::{
    Builder, Comparison, FloatOp, IntegerOp, Nullable, Raised, Rounding, ValueId,
};
use crate::scalar::ScalarValue;
use crate::types::{
    Decimal, MILLISECONDS_PER_DAY, SECONDS_PER_DAY, integer_bits, is_float, per_second,
};

const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;

/// Makes the entry of an operator, which is tested with these pairs of types.
macro_rules! operator {
    ($name:literal, $op:ident, $($pairs:ident),+) => {
        pub(super) static ENTRIES: &[$crate::catalogue::ScalarEntry] =
            &[$crate::catalogue::ScalarEntry {
                name: $name,
                datafusion: &[],
                constants: &[],
                arity: (2, 2),
                types: |signature| {
                    $crate::catalogue::arithmetic::types($crate::expr::ArithmeticOp::$op, signature)
                },
                lower: |builder, arguments| {
                    let op = $crate::expr::ArithmeticOp::$op;
                    $crate::catalogue::arithmetic::lower(op, builder, arguments)
                },
                accuracy: $crate::catalogue::Accuracy::Exact,
                signatures: || {
                    let pairs = &[$($crate::catalogue::arithmetic::$pairs),+];
                    $crate::catalogue::arithmetic::pairs($crate::expr::ArithmeticOp::$op, pairs)
                },
            }];
    };
}
pub(super) use operator;

/// Checks a call of an operator.
pub(super) fn types(op: ArithmeticOp, signature: &Signature) -> Result<(), Unsupported> {
    let [left, right] = signature.arguments.as_slice() else {
        return Err(Unsupported::new(format!("{op} of other than two operands")));
    };
    let given = arithmetic_type(op, left, right)?;
    signature.gives(&format!("{left} {op} {right}"), &given)
}

/// Returns the type that Arrow's kernels, as DataFusion calls them, give for `left op right`.
pub(crate) fn arithmetic_type(
    op: ArithmeticOp,
    left: &DataType,
    right: &DataType,
) -> Result<DataType, Unsupported> {
    use arrow_schema::DataType::{Date32, Date64, Duration, Int64, Interval, Timestamp};

    if left == right && (left.is_integer() || is_float(left)) {
        return Ok(left.clone());
    }
    if let (Some(left), Some(right)) = (Decimal::of(left), Decimal::of(right)) {
        return decimal_rule(op, left, right).map(|rule| rule.result.data_type());
    }
    let add = op == ArithmeticOp::Add;
    let subtract = op == ArithmeticOp::Subtract;
    let zoned = |data_type: &DataType| matches!(data_type, Timestamp(_, Some(_)));
    match (left, right) {
        (Interval(_), zone) | (zone, Interval(_)) if zoned(zone) => Err(Unsupported::new(format!(
            "{left} {op} {right}: interval arithmetic in a time zone"
        ))),
        (Date32, Date32) | (Date64, Date64) if subtract => Ok(Int64),
        (Date32 | Date64 | Timestamp(_, None), Interval(_)) if add || subtract => Ok(left.clone()),
        (Interval(_), Date32 | Date64 | Timestamp(_, None)) if add => Ok(right.clone()),
        (Timestamp(unit, _), Timestamp(_, _)) if subtract && left == right => Ok(Duration(*unit)),
        (Timestamp(unit, _), Duration(by)) if (add || subtract) && unit == by => Ok(left.clone()),
        (Duration(by), Timestamp(unit, _)) if add && unit == by => Ok(right.clone()),
        (Duration(_), Duration(_)) | (Interval(_), Interval(_))
            if (add || subtract) && left == right =>
        {
            Ok(left.clone())
        }
        _ => Err(Unsupported::new(format!("{left} {op} {right}"))),
    }
}

/// Lowers an operator.
pub(super) fn lower(
    op: ArithmeticOp,
    builder: &mut Builder,
    arguments: &mut Arguments<'_>,
) -> Lowered {
    let ([left, right], valid) = arguments.strict(builder)?;
    let [left_type, right_type] = arguments.signature.arguments.as_slice() else {
        return Err(Unsupported::new(format!("{op} of other than two operands")));
    };
    let operation = format!("{left_type} {op} {right_type}");
    let overflow = Raised::Overflow {
        operation: operation.clone(),
    };
    let call = Call {
        op,
        operands: (left, right),
        valid,
        overflow,
    };
    let value = match (left_type, right_type) {
        (float, _) if is_float(float) => builder.float2(call.float(), left, right),
        (DataType::Interval(unit), DataType::Interval(_)) => {
            let integer = call.integer().ok_or_else(|| Unsupported::new(operation))?;
            let operands = call.operands;
            add_spans(builder, integer, *unit, operands, valid, &call.overflow)
        }
        (DataType::Interval(_), moved) => call.shift(builder, moved, (right, left))?,
        (moved, DataType::Interval(_)) => call.shift(builder, moved, (left, right))?,
        (DataType::Date32, DataType::Date32) => call.days(builder, 1),
        (DataType::Date64, DataType::Date64) => call.days(builder, MILLISECONDS_PER_DAY),
        (DataType::Timestamp(..) | DataType::Duration(_), _) => {
            let integer = call.integer().ok_or_else(|| Unsupported::new(operation))?;
            let limit = Interval::signed(64);
            builder.checked(integer, limit, call.operands, valid, &call.overflow)
        }
        (left_type, right_type) => match (Decimal::of(left_type), Decimal::of(right_type)) {
            (Some(left), Some(right)) => call.decimal(builder, left, right)?,
            _ => {
                let bits = integer_bits(left_type).ok_or_else(|| Unsupported::new(operation))?;
                call.integers(builder, bits)
            }
        },
    };
    Ok(Nullable { value, valid })
}

/// An operation that is being lowered.
struct Call {
    op: ArithmeticOp,
    operands: (ValueId, ValueId),
    valid: ValueId,
    overflow: Raised,
}

impl Call {
    fn integer(&self) -> Option<IntegerOp> {
        match self.op {
            ArithmeticOp::Add => Some(IntegerOp::Add),
            ArithmeticOp::Subtract => Some(IntegerOp::Subtract),
            ArithmeticOp::Multiply => Some(IntegerOp::Multiply),
            ArithmeticOp::Divide | ArithmeticOp::Modulo => None,
        }
    }

    fn float(&self) -> FloatOp {
        match self.op {
            ArithmeticOp::Add => FloatOp::Add,
            ArithmeticOp::Subtract => FloatOp::Subtract,
            ArithmeticOp::Multiply => FloatOp::Multiply,
            ArithmeticOp::Divide => FloatOp::Divide,
            ArithmeticOp::Modulo => FloatOp::Remainder,
        }
    }

    fn integers(&self, builder: &mut Builder, (bits, signed): (u32, bool)) -> ValueId {
        let (left, right) = self.operands;
        if let Some(op) = self.integer() {
            return builder.wrapping(op, (bits, signed), left, right);
        }
        let limit = if signed {
            Interval::signed(bits)
        } else {
            Interval::unsigned(bits)
        };
        // MIN % −1 is 0.
        let raises_for_least = self.op == ArithmeticOp::Divide;
        self.divide(builder, (left, right), limit, raises_for_least)
    }

    fn decimal(
        &self,
        builder: &mut Builder,
        left_type: Decimal,
        right_type: Decimal,
    ) -> Result<ValueId, Unsupported> {
        let rule = decimal_rule(self.op, left_type, right_type)?;
        let limit = Interval::of_width(left_type.width);
        let left = self.scaled(builder, self.operands.0, rule.left_factor, limit);
        let right = self.scaled(builder, self.operands.1, rule.right_factor, limit);
        Ok(match self.integer() {
            Some(op) => builder.checked(op, limit, (left, right), self.valid, &self.overflow),
            None => self.divide(builder, (left, right), limit, true),
        })
    }

    fn scaled(
        &self,
        builder: &mut Builder,
        value: ValueId,
        factor: i128,
        limit: Interval,
    ) -> ValueId {
        scaled(builder, value, factor, limit, self.valid, &self.overflow)
    }

    /// Divides, or takes the remainder; raises for 0, and for the quotient of MIN and −1.
    fn divide(
        &self,
        builder: &mut Builder,
        (left, right): (ValueId, ValueId),
        limit: Interval,
        raises_for_least: bool,
    ) -> ValueId {
        if builder.interval(right).contains(0) {
            let zero = builder.int(0);
            let is_zero = builder.compare(Comparison::Equal, right, zero);
            builder.raise(is_zero, self.valid, Raised::DivideByZero);
        }
        let has_least = limit.low < 0 && builder.interval(left).contains(limit.low);
        if raises_for_least && has_least && builder.interval(right).contains(-1) {
            let (least, minus_one) = (builder.int(limit.low), builder.int(-1));
            let is_least = builder.compare(Comparison::Equal, left, least);
            let is_minus_one = builder.compare(Comparison::Equal, right, minus_one);
            let both = builder.and(is_least, is_minus_one);
            builder.raise(both, self.valid, self.overflow.clone());
        }
        match self.op {
            ArithmeticOp::Modulo => builder.remainder(left, right),
            _ => builder.divide(Rounding::Zero, left, right, limit),
        }
    }

    /// Returns the days between two dates, of which each is so many units.
    fn days(&self, builder: &mut Builder, units: i64) -> ValueId {
        let (left, right) = self.operands;
        let between = builder.wrapping(IntegerOp::Subtract, (64, true), left, right);
        builder.divide_by(Rounding::Zero, between, i128::from(units))
    }

    /// Moves a date or timestamp by an interval, as Arrow does: first the months, the day cut to the
    /// month's last; then the days; then the nanoseconds, of which a date takes whole days, rounded
    /// towards zero, and a timestamp whole units, rounded down once they are added. What leaves the
    /// calendar on the way raises.
    fn shift(
        &self,
        builder: &mut Builder,
        data_type: &DataType,
        (moved, span): (ValueId, ValueId),
    ) -> Result<ValueId, Unsupported> {
        let by = self.steps(builder, data_type, span);
        let per_day = match data_type {
            DataType::Date32 => 1,
            DataType::Date64 => i128::from(MILLISECONDS_PER_DAY),
            DataType::Timestamp(unit, None) => i128::from(SECONDS_PER_DAY * per_second(*unit)),
            other => return Err(Unsupported::new(format!("{other} moved by an interval"))),
        };
        if !matches!(data_type, DataType::Timestamp(..)) {
            // Arrow rounds towards zero here, and keeps no time of day.
            let days = builder.divide_by(Rounding::Zero, moved, per_day);
            let mut days = self.held(builder, days, CALENDAR);
            days = self.moved_by_months(builder, days, by.months);
            for step in [by.days, by.rest] {
                days = self.added(builder, days, step, CALENDAR);
            }
            return Ok(times(builder, days, per_day));
        }
        let calendar = Interval::new(CALENDAR.low * per_day, (CALENDAR.high + 1) * per_day - 1);
        let mut moved = self.held(builder, moved, calendar);
        if by.months.is_some() {
            let day = builder.divide_by(Rounding::Down, moved, per_day);
            let units = builder.int(per_day);
            // Of the dividend's sign, so that what lies before 1970 is moved up.
            let rest = builder.remainder(moved, units);
            let above = builder.exact(IntegerOp::Add, rest, units);
            let time = builder.remainder(above, units);
            let day = self.moved_by_months(builder, day, by.months);
            let start = times(builder, day, per_day);
            moved = builder.exact(IntegerOp::Add, start, time);
        }
        let days = by.days.map(|days| match builder.scalar(days) {
            Some(_) => {
                let units = builder.interval(days).low * per_day;
                builder.literal(units)
            }
            None => times(builder, days, per_day),
        });
        moved = self.added(builder, moved, days, calendar);
        moved = self.added(builder, moved, by.rest, calendar);
        // Only nanoseconds can leave 64 bits within the calendar.
        Ok(self.held(builder, moved, Interval::signed(64)))
    }

    /// Returns an interval's parts with their sign, in what the moved value counts; literals for those of a
    /// literal, and nothing for a part of one that is zero.
    fn steps(&self, builder: &mut Builder, data_type: &DataType, span: ValueId) -> Steps {
        let per_unit = match data_type {
            DataType::Timestamp(unit, _) => (
                Rounding::Down,
                NANOSECONDS_PER_SECOND / i128::from(per_second(*unit)),
            ),
            _ => (
                Rounding::Zero,
                i128::from(SECONDS_PER_DAY) * NANOSECONDS_PER_SECOND,
            ),
        };
        let is_minus = self.op == ArithmeticOp::Subtract;
        let sign = if is_minus { -1 } else { 1 };
        let parts_of_literal = match builder.scalar(span).map(|scalar| &scalar.value) {
            Some(ScalarValue::Null) => Some([0; 3]),
            Some(ScalarValue::Interval {
                months,
                days,
                nanoseconds,
            }) => Some([
                i128::from(*months),
                i128::from(*days),
                i128::from(*nanoseconds),
            ]),
            _ => None,
        };
        if let Some(parts) = parts_of_literal {
            let [months, days, nanoseconds] = parts.map(|part| part * sign);
            let rest = match per_unit {
                (Rounding::Down, units) => nanoseconds.div_euclid(units),
                (_, units) => nanoseconds / units,
            };
            let mut literal = |part: i128| (part != 0).then(|| builder.literal(part));
            return Steps {
                months: literal(months),
                days: literal(days),
                rest: literal(rest),
            };
        }
        let sign = builder.int(sign);
        let parts = parts(builder, span);
        let signed = parts.map(|part| match is_minus {
            true => builder.exact(IntegerOp::Multiply, part, sign),
            false => part,
        });
        let [months, days, nanoseconds] = signed;
        Steps {
            months: Some(months),
            days: Some(days),
            rest: Some(builder.divide_by(per_unit.0, nanoseconds, per_unit.1)),
        }
    }

    fn moved_by_months(
        &self,
        builder: &mut Builder,
        days: ValueId,
        months: Option<ValueId>,
    ) -> ValueId {
        let Some(months) = months else {
            return days;
        };
        let moved = builder.call(&MOVED_BY_MONTHS, vec![days, months]);
        self.held(builder, moved, CALENDAR)
    }

    fn added(
        &self,
        builder: &mut Builder,
        value: ValueId,
        by: Option<ValueId>,
        limit: Interval,
    ) -> ValueId {
        let Some(by) = by else {
            return value;
        };
        let moved = builder.exact(IntegerOp::Add, value, by);
        self.held(builder, moved, limit)
    }

    fn held(&self, builder: &mut Builder, value: ValueId, limit: Interval) -> ValueId {
        builder.held(value, limit, self.valid, &self.overflow)
    }
}

/// By what a date or timestamp is moved.
struct Steps {
    months: Option<ValueId>,
    days: Option<ValueId>,
    /// What the nanoseconds make: days of a date, units of a timestamp.
    rest: Option<ValueId>,
}

fn times(builder: &mut Builder, value: ValueId, factor: i128) -> ValueId {
    if factor == 1 {
        return value;
    }
    let factor = builder.int(factor);
    builder.exact(IntegerOp::Multiply, value, factor)
}

/// Multiplies a decimal by a power of ten, raising where its width does not hold it.
pub(super) fn scaled(
    builder: &mut Builder,
    value: ValueId,
    factor: i128,
    limit: Interval,
    valid: ValueId,
    overflow: &Raised,
) -> ValueId {
    if factor == 1 {
        return value;
    }
    let factor = builder.int(factor);
    builder.checked(IntegerOp::Multiply, limit, (value, factor), valid, overflow)
}

/// Adds or subtracts SQL's intervals part by part.
pub(super) fn add_spans(
    builder: &mut Builder,
    op: IntegerOp,
    unit: IntervalUnit,
    (left, right): (ValueId, ValueId),
    valid: ValueId,
    overflow: &Raised,
) -> ValueId {
    let (left, right) = (parts(builder, left), parts(builder, right));
    let limits = [
        Interval::signed(32),
        Interval::signed(32),
        Interval::signed(64),
    ];
    let mut sums = [left[0]; 3];
    for (index, limit) in limits.into_iter().enumerate() {
        let sum = builder.exact(op, left[index], right[index]);
        sums[index] = builder.held(sum, limit, valid, overflow);
    }
    if unit == IntervalUnit::DayTime {
        // The milliseconds beneath are 32 bits wide.
        let milliseconds = builder.divide_by(Rounding::Zero, sums[2], 1_000_000);
        builder.held(milliseconds, Interval::signed(32), valid, overflow);
    }
    of_parts(builder, sums)
}

/// Pairs of numbers.
pub(super) const OPERANDS: &[(DataType, DataType)] = &[
    (DataType::Int8, DataType::Int8),
    (DataType::Int16, DataType::Int16),
    (DataType::Int32, DataType::Int32),
    (DataType::Int64, DataType::Int64),
    (DataType::UInt8, DataType::UInt8),
    (DataType::UInt16, DataType::UInt16),
    (DataType::UInt32, DataType::UInt32),
    (DataType::UInt64, DataType::UInt64),
    (DataType::Float32, DataType::Float32),
    (DataType::Float64, DataType::Float64),
    (DataType::Decimal32(5, 1), DataType::Decimal32(7, 2)),
    (DataType::Decimal64(12, 3), DataType::Decimal64(9, 1)),
    (DataType::Decimal128(15, 2), DataType::Decimal128(15, 2)),
    (DataType::Decimal128(38, 4), DataType::Decimal128(20, 0)),
    (DataType::Decimal128(20, 0), DataType::Decimal128(38, 6)),
];

const MONTHS: DataType = DataType::Interval(IntervalUnit::YearMonth);
const HOURS: DataType = DataType::Interval(IntervalUnit::DayTime);
const MIXED: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const SECONDS: DataType = DataType::Timestamp(TimeUnit::Second, None);
const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const MILLISECONDS: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// Pairs of times.
pub(super) const TIMES: &[(DataType, DataType)] = &[
    (DataType::Date32, DataType::Date32),
    (DataType::Date64, DataType::Date64),
    (NANOSECONDS, NANOSECONDS),
    (SECONDS, DataType::Duration(TimeUnit::Second)),
    (DataType::Duration(TimeUnit::Second), SECONDS),
    (
        DataType::Duration(TimeUnit::Second),
        DataType::Duration(TimeUnit::Second),
    ),
    (MONTHS, MONTHS),
    (HOURS, HOURS),
    (MIXED, MIXED),
    (DataType::Date32, MONTHS),
    (DataType::Date32, HOURS),
    (DataType::Date32, MIXED),
    (MIXED, DataType::Date32),
    (DataType::Date64, HOURS),
    (DataType::Date64, MIXED),
    (SECONDS, MIXED),
    (MILLISECONDS, HOURS),
    (MICROSECONDS, MONTHS),
    (MICROSECONDS, MIXED),
    (NANOSECONDS, MIXED),
    (MIXED, NANOSECONDS),
];

/// Makes the signatures of those pairs that the operator takes.
pub(super) fn pairs(op: ArithmeticOp, of: &[&[(DataType, DataType)]]) -> Vec<Signature> {
    let pairs = of.iter().copied().flatten();
    let signature = |(left, right): &(DataType, DataType)| {
        let result = arithmetic_type(op, left, right).ok()?;
        Some(Signature::new(vec![left.clone(), right.clone()], result))
    };
    pairs.filter_map(signature).collect()
}
