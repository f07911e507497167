//! Dates and timestamps moved by an interval that is a constant.
//!
//! As Arrow does it: first the months, the day cut to the month's last; then the days; then the
//! nanoseconds, of which a date takes whole days, rounded towards zero, and a timestamp whole units,
//! rounded down once they are added. What leaves the calendar on the way raises. A part that is zero
//! has no code, for most intervals have one part.

use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::types::{MILLISECONDS_PER_DAY, SECONDS_PER_DAY, per_second};
use tidegate_pipeline::{ArithmeticOp, Expr, ExprKind, Interval, ScalarValue};

use super::expr::{CALENDAR, literal};
use super::{Class, Emitter, Scope, Val, Valid};

const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;

/// An interval with its sign, in what the moved value counts.
struct Shift {
    months: i64,
    days: i128,
    /// What the nanoseconds make: days of a date, units of a timestamp.
    rest: i128,
}

impl Shift {
    fn of(op: ArithmeticOp, months: i32, days: i32, nanoseconds: i64, of: &DataType) -> Self {
        let sign = if op == ArithmeticOp::Subtract { -1 } else { 1 };
        let nanoseconds = i128::from(nanoseconds) * sign;
        let rest = match of {
            DataType::Timestamp(unit, _) => {
                nanoseconds.div_euclid(NANOSECONDS_PER_SECOND / i128::from(per_second(*unit)))
            }
            _ => nanoseconds / (i128::from(SECONDS_PER_DAY) * NANOSECONDS_PER_SECOND),
        };
        Self {
            months: i64::from(months) * sign as i64,
            days: i128::from(days) * sign,
            rest,
        }
    }

    /// Returns how many days the months are at least and at most. Cutting the day makes no month
    /// shorter than 28 days, nor longer than 31.
    fn month_days(&self) -> Interval {
        let (short, long) = (i128::from(self.months) * 28, i128::from(self.months) * 31);
        Interval::new(short.min(long), short.max(long))
    }
}

/// Returns whether one of the operands is an interval.
pub(super) fn has_interval(left: &Expr, right: &Expr) -> bool {
    [left, right]
        .iter()
        .any(|side| matches!(side.data_type, DataType::Interval(_)))
}

impl Emitter<'_> {
    /// Moves a date or timestamp by an interval, which may come first.
    pub(super) fn shift(
        &mut self,
        op: ArithmeticOp,
        left: &Expr,
        right: &Expr,
        scope: &Scope,
    ) -> Result<Val, String> {
        let (from, by) = match left.data_type {
            DataType::Interval(_) => (right, left),
            _ => (left, right),
        };
        let none = |why: &str| {
            let (left, right) = (&left.data_type, &right.data_type);
            Err(format!("{left} {op} {right}{why} has no device form"))
        };
        let ExprKind::Parameter(parameter) = by.kind else {
            return none(" of an interval that is no constant");
        };
        let per_day = match &from.data_type {
            DataType::Date32 => 1,
            DataType::Date64 => MILLISECONDS_PER_DAY,
            DataType::Timestamp(unit, None) => SECONDS_PER_DAY * per_second(*unit),
            _ => return none(""),
        };
        let value = self.value(from, scope)?;
        let shift = match self.parameters[parameter].value {
            ScalarValue::Interval {
                months,
                days,
                nanoseconds,
            } => Shift::of(op, months, days, nanoseconds, &from.data_type),
            ScalarValue::Null => {
                return Ok(self.integer("0", Interval::of(0), Valid::Never));
            }
            _ => return none(""),
        };
        Ok(match &from.data_type {
            DataType::Date32 => self.shift_date(value, &shift),
            DataType::Date64 => {
                // Arrow rounds towards zero here, and keeps no time of day.
                let range = value.range.divided_by(Interval::of(i128::from(per_day)));
                let code = format!("(i64){} / {per_day}ll", value.code);
                let days = self.integer(&code, range, value.valid);
                let days = self.shift_date(days, &shift);
                self.times(&days, per_day)
            }
            other => {
                let is_fine = matches!(other, DataType::Timestamp(TimeUnit::Nanosecond, _));
                let moved = self.shift_timestamp(value, &shift, per_day);
                match is_fine {
                    // Only nanoseconds can leave 64 bits within the calendar.
                    true => self.held_within(moved, Interval::signed(64)),
                    false => moved,
                }
            }
        })
    }

    fn shift_date(&mut self, days: Val, shift: &Shift) -> Val {
        let mut days = self.held_within(days, CALENDAR);
        if shift.months != 0 {
            days = self.shift_months(&days, shift);
        }
        for part in [shift.days, shift.rest] {
            days = self.moved(days, part, CALENDAR);
        }
        days
    }

    fn shift_timestamp(&mut self, value: Val, shift: &Shift, per_day: i64) -> Val {
        let day_units = i128::from(per_day);
        let calendar = Interval::new(
            CALENDAR.low * day_units,
            (CALENDAR.high + 1) * day_units - 1,
        );
        let mut value = self.held_within(value, calendar);
        if shift.months != 0 {
            self.uses_calendar = true;
            let range = Interval::new(
                value.range.low.div_euclid(day_units),
                value.range.high.div_euclid(day_units),
            );
            let code = format!("floor_divide({}, {per_day}ll)", value.code);
            let day = self.integer(&code, range, value.valid.clone());
            // Wraps on the way where the first day is not whole in 64 bits.
            let code = format!(
                "(i64)((u64)(i64){} - (u64)(i64){} * {per_day}ull)",
                value.code, day.code
            );
            let of_day = Interval::new(0, day_units - 1);
            let time = self.integer(&code, of_day, value.valid.clone());
            let day = self.shift_months(&day, shift);
            let start = self.times(&day, per_day);
            let exact = start.range + time.range;
            value = self.plain(ArithmeticOp::Add, &start, &time, exact, value.valid);
        }
        value = self.moved(value, shift.days * day_units, calendar);
        self.moved(value, shift.rest, calendar)
    }

    /// Moves days, which are in the calendar, by months.
    fn shift_months(&mut self, days: &Val, shift: &Shift) -> Val {
        self.uses_calendar = true;
        let range = days.range + shift.month_days();
        let months = self.number(i128::from(shift.months));
        let code = format!(
            "({})moved_by_months((i32){}, (i64){})",
            Class::of(range).name(),
            days.code,
            months.code
        );
        let moved = self.integer(&code, range, days.valid.clone());
        self.held_within(moved, CALENDAR)
    }

    /// Adds a constant, unless it is zero; the result has to be within the limit.
    fn moved(&mut self, value: Val, by: i128, limit: Interval) -> Val {
        if by == 0 {
            return value;
        }
        let by = self.number(by);
        let exact = value.range + by.range;
        let valid = value.valid.clone();
        let moved = self.plain(ArithmeticOp::Add, &value, &by, exact, valid);
        self.held_within(moved, limit)
    }

    fn times(&mut self, value: &Val, factor: i64) -> Val {
        let exact = value.range * Interval::of(i128::from(factor));
        let class = Class::of(exact).name();
        let code = format!("wrapping_mul(({class}){}, ({class}){factor}ll)", value.code);
        self.integer(&code, exact, value.valid.clone())
    }

    /// Makes a number a literal of the launch.
    fn number(&mut self, number: i128) -> Val {
        let range = Interval::of(number);
        let class = Class::of(range);
        let at = self.literals.len();
        self.literals.push(number as u64);
        let code = match class {
            Class::I128 => {
                self.literals.push((number >> 64) as u64);
                format!(
                    "(i128)(((u128)p.literals[{}] << 64) | p.literals[{at}])",
                    at + 1
                )
            }
            class => format!("({})p.literals[{at}]", class.name()),
        };
        self.integer(&code, range, Valid::Always)
    }

    /// Raises for what is not within the limit.
    fn held_within(&mut self, value: Val, limit: Interval) -> Val {
        if value.range.is_within(limit) {
            return value;
        }
        // Bounds of more than 64 bits are written with a function of that block.
        self.uses_checked |= value.class == Class::I128;
        let Interval { low, high } = limit;
        let inside = format!(
            "{0} >= {1} && {0} <= {2}",
            value.code,
            literal(low),
            literal(high)
        );
        let inside = self.bind(Class::Bool, &inside);
        self.raise_if(&format!("!{inside}"), &value.valid, "OVERFLOW");
        let range = Interval::new(value.range.low.max(low), value.range.high.min(high))
            .hull(Interval::of(0));
        let class = Class::of(range).name();
        let code = format!("({class})({inside} ? {} : 0)", value.code);
        self.integer(&code, range, value.valid)
    }
}
