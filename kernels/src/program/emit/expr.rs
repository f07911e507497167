//! One node of an expression.

use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::types::{
    DecimalWidth, MILLISECONDS_PER_DAY, SECONDS_PER_DAY, is_float, is_string, per_second,
};
use tidegate_pipeline::{CompareOp, DatePart, Expr, ExprKind, Interval};

use super::super::slots::{may_raise, reads_strings};
use super::shift::has_interval;
use super::{Class, Emitter, Scope, Val, Valid};

impl Emitter<'_> {
    /// Emits an expression and returns its value, or why the device cannot compute it.
    pub(crate) fn value(&mut self, expr: &Expr, scope: &Scope) -> Result<Val, String> {
        if reads_strings(expr) {
            return self.lifted(expr, scope);
        }
        match &expr.kind {
            ExprKind::Column(index) => self.column(*index, scope),
            ExprKind::Parameter(index) => self.parameter(*index),
            _ if is_string(&expr.data_type) => self.lifted(expr, scope),
            ExprKind::Arithmetic { op, left, right } if has_interval(left, right) => {
                self.shift(*op, left, right, scope)
            }
            ExprKind::Arithmetic { op, left, right } => {
                let types = (&left.data_type, &right.data_type);
                let (left, right) = (self.value(left, scope)?, self.value(right, scope)?);
                self.arithmetic(*op, types, left, right)
            }
            ExprKind::Compare { op, left, right } => {
                let (left, right) = (self.value(left, scope)?, self.value(right, scope)?);
                Ok(self.compare(*op, &left, &right))
            }
            ExprKind::And(left, right) => self.connect(left, right, false, scope),
            ExprKind::Or(left, right) => self.connect(left, right, true, scope),
            ExprKind::Not(inner) => {
                let inner = self.value(inner, scope)?;
                Ok(self.boolean(&format!("!{}", inner.code), inner.valid))
            }
            ExprKind::Negate(inner) => {
                let data_type = &inner.data_type;
                let inner = self.value(inner, scope)?;
                self.negate(&inner, data_type)
            }
            ExprKind::IsNull(inner) => {
                let inner = self.value(inner, scope)?;
                Ok(self.boolean(&format!("!({})", inner.valid.code()), Valid::Always))
            }
            ExprKind::IsNotNull(inner) => {
                let inner = self.value(inner, scope)?;
                let code = inner.valid.code().to_owned();
                Ok(self.boolean(&code, Valid::Always))
            }
            ExprKind::Case {
                branches,
                otherwise,
            } => self.case(branches, otherwise.as_deref(), &expr.data_type, scope),
            ExprKind::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated, scope),
            ExprKind::Cast {
                expr: from,
                on_failure,
            } => {
                let value = self.value(from, scope)?;
                self.cast(value, &from.data_type, &expr.data_type, *on_failure)
            }
            ExprKind::DatePart { part, expr } => {
                let value = self.value(expr, scope)?;
                self.date_part(*part, &expr.data_type, value)
            }
            ExprKind::Like { .. } | ExprKind::Substring { .. } => self.lifted(expr, scope),
            ExprKind::Call { function, .. } => Err(format!("{function} is not on a device yet")),
            ExprKind::Custom { function, args } => self.custom(function, args, scope),
        }
    }

    /// Evaluates under a narrower guard, where anything beneath may raise.
    fn guarded(&mut self, expr: &Expr, wanted: &str, scope: &Scope) -> Result<Val, String> {
        if !raises_beneath(expr) {
            return self.value(expr, scope);
        }
        let outer = self.guard.clone();
        self.guard = self.bind(Class::Bool, &format!("{outer} && {wanted}"));
        let value = self.value(expr, scope);
        self.guard = outer;
        value
    }

    fn connect(
        &mut self,
        left: &Expr,
        right: &Expr,
        is_or: bool,
        scope: &Scope,
    ) -> Result<Val, String> {
        let left = self.value(left, scope)?;
        // The right side is not wanted where the left side decides.
        let decided = self.decided(&left, is_or);
        let right = self.guarded(right, &format!("!({decided})"), scope)?;
        let decided_right = self.decided(&right, is_or);
        let holds = format!("{} && {}", self.truth(&left), self.truth(&right));
        let operator = if is_or { "||" } else { "&&" };
        let valid = match (&left.valid, &right.valid) {
            (Valid::Always, Valid::Always) => {
                let code = format!("{} {operator} {}", left.code, right.code);
                return Ok(self.boolean(&code, Valid::Always));
            }
            (left, right) => {
                let (left, right) = (left.code(), right.code());
                let code = format!("({left} && {right}) || {decided} || {decided_right}");
                Valid::If(self.bind(Class::Bool, &code))
            }
        };
        // Where the result is valid, one side decides or both are there.
        let code = if is_or {
            format!("{decided} || {decided_right}")
        } else {
            format!("!({decided} || {decided_right})")
        };
        let value = self.boolean(&code, valid);
        // TRUE is told without asking whether there is a value.
        let holds = match is_or {
            true => value.code.clone(),
            false => self.bind(Class::Bool, &holds),
        };
        let of = (value.code.clone(), value.valid.code().to_owned());
        self.truths.insert(of, holds);
        Ok(value)
    }

    /// Returns the condition under which one side of AND is FALSE, of OR is TRUE.
    fn decided(&self, side: &Val, is_or: bool) -> String {
        let sign = if is_or { "" } else { "!" };
        match &side.valid {
            Valid::Always => format!("({sign}{})", side.code),
            Valid::Never => "false".into(),
            Valid::If(valid) => format!("({valid} && {sign}{})", side.code),
        }
    }

    fn compare(&mut self, op: CompareOp, left: &Val, right: &Val) -> Val {
        let is_equality = matches!(
            op,
            CompareOp::Eq
                | CompareOp::NotEq
                | CompareOp::IsDistinctFrom
                | CompareOp::IsNotDistinctFrom
        );
        let ordered = |value: &Val| match value.class {
            Class::F32 | Class::F64 if is_equality => format!("key_bits({})", value.code),
            Class::F32 | Class::F64 => value.float_order(),
            Class::Bool => format!("(i32){}", value.code),
            _ => value.code.clone(),
        };
        let (a, b) = (ordered(left), ordered(right));
        let sign = match op {
            CompareOp::Eq | CompareOp::IsNotDistinctFrom => "==",
            CompareOp::NotEq | CompareOp::IsDistinctFrom => "!=",
            CompareOp::Lt => "<",
            CompareOp::LtEq => "<=",
            CompareOp::Gt => ">",
            CompareOp::GtEq => ">=",
        };
        let holds = format!("({a} {sign} {b})");
        if !matches!(op, CompareOp::IsDistinctFrom | CompareOp::IsNotDistinctFrom) {
            let valid = self.all_valid(&[left, right]);
            return self.boolean(&holds, valid);
        }
        let (l, r) = (left.valid.code().to_owned(), right.valid.code().to_owned());
        let code = if op == CompareOp::IsNotDistinctFrom {
            format!("({l} && {r}) ? {holds} : ({l} == {r})")
        } else {
            format!("({l} && {r}) ? {holds} : ({l} != {r})")
        };
        self.boolean(&code, Valid::Always)
    }

    fn case(
        &mut self,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        data_type: &DataType,
        scope: &Scope,
    ) -> Result<Val, String> {
        let mut open = "true".to_owned();
        let mut taken: Vec<(String, Val)> = Vec::new();
        for (when, then) in branches {
            let condition = self.guarded(when, &open, scope)?;
            let holds = self.truth(&condition);
            let holds = self.bind(Class::Bool, &format!("{open} && {holds}"));
            let value = self.guarded(then, &holds, scope)?;
            open = self.bind(Class::Bool, &format!("{open} && !{holds}"));
            taken.push((holds, value));
        }
        let last = match otherwise {
            Some(otherwise) => Some(self.guarded(otherwise, &open, scope)?),
            None => None,
        };
        let values: Vec<&Val> = taken.iter().map(|(_, value)| value).chain(&last).collect();
        let class = if is_float(data_type) || *data_type == DataType::Boolean {
            values[0].class
        } else {
            Class::of(hull(&values))
        };
        let name = class.name();
        let first = last.as_ref().map_or_else(
            || format!("({name})0"),
            |value| format!("({name}){}", value.code),
        );
        let code = taken.iter().rev().fold(first, |rest, (holds, value)| {
            format!("{holds} ? ({name}){} : ({rest})", value.code)
        });
        let all_there = last.is_some() && values.iter().all(|value| value.valid == Valid::Always);
        let valid = if all_there {
            Valid::Always
        } else {
            let none = last.as_ref().map_or("false", |value| value.valid.code());
            let code = taken
                .iter()
                .rev()
                .fold(none.to_owned(), |rest, (holds, value)| {
                    format!("{holds} ? {} : ({rest})", value.valid.code())
                });
            Valid::If(self.bind(Class::Bool, &code))
        };
        let range = hull(&values).hull(Interval::of(0));
        let bound = values.iter().map(|value| value.bound).fold(0.0, f64::max);
        Ok(match class {
            Class::Bool => self.boolean(&code, valid),
            Class::F32 | Class::F64 => self.float(class, &code, bound, valid),
            _ => self.integer(&code, range, valid),
        })
    }

    fn in_list(
        &mut self,
        expr: &Expr,
        list: &[Expr],
        negated: bool,
        scope: &Scope,
    ) -> Result<Val, String> {
        let needle = self.value(expr, scope)?;
        let mut found: Vec<String> = Vec::new();
        let mut nulls = Vec::new();
        for item in list {
            // An item is not wanted where the needle is NULL or has been found.
            let wanted = match found.as_slice() {
                [] => needle.valid.code().to_owned(),
                found => format!("{} && !({})", needle.valid.code(), found.join(" || ")),
            };
            let item = self.guarded(item, &wanted, scope)?;
            let bits = |value: &Val| match value.class {
                Class::F32 | Class::F64 => format!("key_bits({})", value.code),
                _ => value.code.clone(),
            };
            let same = format!("{} == {}", bits(&needle), bits(&item));
            match &item.valid {
                Valid::Always => found.push(format!("({same})")),
                Valid::Never => nulls.push("true".to_owned()),
                Valid::If(valid) => {
                    found.push(format!("({valid} && {same})"));
                    nulls.push(format!("!{valid}"));
                }
            }
        }
        let any = if found.is_empty() {
            "false".into()
        } else {
            found.join(" || ")
        };
        let any = self.bind(Class::Bool, &any);
        let valid = if nulls.is_empty() {
            needle.valid.clone()
        } else {
            let code = format!(
                "{} && ({any} || !({}))",
                needle.valid.code(),
                nulls.join(" || ")
            );
            Valid::If(self.bind(Class::Bool, &code))
        };
        let code = if negated { format!("!{any}") } else { any };
        Ok(self.boolean(&code, valid))
    }

    fn date_part(
        &mut self,
        part: DatePart,
        data_type: &DataType,
        value: Val,
    ) -> Result<Val, String> {
        let (per_day, per_second) = match data_type {
            DataType::Date32 => (1, 0),
            DataType::Date64 => (MILLISECONDS_PER_DAY, 1_000),
            DataType::Timestamp(unit, None) => {
                (SECONDS_PER_DAY * per_second(*unit), per_second(*unit))
            }
            other => return Err(format!("date_part of {other} has no device form")),
        };
        if part == DatePart::Epoch {
            let float = format!("(double){}", value.code);
            let code = match data_type {
                DataType::Date32 => format!("{float} * 86400.0"),
                DataType::Timestamp(TimeUnit::Second, _) => float,
                _ => format!("{float} / {per_second}.0"),
            };
            let bound = (value.range.magnitude() as f64) * 86_401.0;
            return Ok(self.float(Class::F64, &code, bound, value.valid));
        }
        if matches!(
            part,
            DatePart::IsoYear
                | DatePart::IsoDayOfWeek
                | DatePart::Millisecond
                | DatePart::Microsecond
                | DatePart::Nanosecond
        ) {
            return Err(format!("date_part of {part} is not on a device yet"));
        }
        self.uses_calendar = true;
        let days = if per_day == 1 {
            value.clone()
        } else {
            let range = Interval::new(
                value.range.low / i128::from(per_day) - 1,
                value.range.high / i128::from(per_day),
            );
            let code = format!("floor_divide({}, {per_day}ll)", value.code);
            self.integer(&code, range, value.valid.clone())
        };
        if per_day == 1 && matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second) {
            return Ok(self.integer("0", Interval::of(0), value.valid));
        }
        let days = self.within_calendar(days);
        let valid = days.valid.clone();
        let day = self.bind(Class::I32, &format!("(i32){}", days.code));
        if matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second) {
            let seconds = format!(
                "(i32)(((i64){} - (i64){day} * {per_day}ll) / {per_second}ll)",
                value.code
            );
            let seconds = self.bind(Class::I32, &seconds);
            let code = match part {
                DatePart::Hour => format!("{seconds} / 3600"),
                DatePart::Minute => format!("{seconds} / 60 % 60"),
                _ => format!("{seconds} % 60"),
            };
            return Ok(self.integer(&code, Interval::new(0, 59), valid));
        }
        let (code, range) = match part {
            DatePart::Year => (
                format!("civil_of({day}).year"),
                Interval::new(-270_000, 270_000),
            ),
            DatePart::Quarter => (
                format!("(civil_of({day}).month - 1) / 3 + 1"),
                Interval::new(1, 4),
            ),
            DatePart::Month => (format!("civil_of({day}).month"), Interval::new(1, 12)),
            DatePart::Day => (format!("civil_of({day}).day"), Interval::new(1, 31)),
            DatePart::DayOfYear => (
                format!("day_of_year(civil_of({day}))"),
                Interval::new(1, 366),
            ),
            DatePart::DayOfWeek => (format!("iso_weekday({day}) % 7"), Interval::new(0, 6)),
            _ => (format!("iso_week({day})"), Interval::new(1, 53)),
        };
        Ok(self.integer(&code, range, valid))
    }

    /// Makes days outside of the calendar NULL.
    pub(crate) fn within_calendar(&mut self, days: Val) -> Val {
        if days.range.is_within(CALENDAR) {
            return days;
        }
        let Interval { low, high } = CALENDAR;
        let inside = self.bind(
            Class::Bool,
            &format!("{0} >= {low} && {0} <= {high}", days.code),
        );
        let valid = match &days.valid {
            Valid::Always => Valid::If(inside.clone()),
            Valid::Never => Valid::Never,
            Valid::If(valid) => Valid::If(self.bind(Class::Bool, &format!("{valid} && {inside}"))),
        };
        let range =
            Interval::new(days.range.low.max(low), days.range.high.min(high)).hull(Interval::of(0));
        self.integer(
            &format!("(i32)({inside} ? {} : 0)", days.code),
            range,
            valid,
        )
    }
}

/// The days from -262143-01-01 to 262142-12-31: the calendar of chrono, and so of Arrow.
pub(super) const CALENDAR: Interval = Interval {
    low: -96465292,
    high: 95026236,
};

fn raises_beneath(expr: &Expr) -> bool {
    may_raise(expr) || expr.children().into_iter().any(raises_beneath)
}

fn hull(values: &[&Val]) -> Interval {
    let ranges = values.iter().map(|value| value.range);
    ranges.reduce(Interval::hull).unwrap_or(Interval::of(0))
}

pub(crate) fn width_range(width: DecimalWidth) -> Interval {
    match width {
        DecimalWidth::W32 => Interval::signed(32),
        DecimalWidth::W64 => Interval::signed(64),
        DecimalWidth::W128 => Interval::ALL,
    }
}

pub(crate) fn bits_of(limit: Interval) -> u32 {
    match Class::of(limit) {
        Class::I32 => 32,
        Class::I64 => 64,
        _ => 128,
    }
}

/// Writes an integer as C++.
pub(crate) fn literal(value: i128) -> String {
    if let Ok(small) = i32::try_from(value)
        && small > i32::MIN
    {
        return small.to_string();
    }
    match i64::try_from(value) {
        Ok(value) if value > i64::MIN => format!("{value}ll"),
        _ => format!("i128_of({}ull, {}ull)", (value >> 64) as u64, value as u64),
    }
}
