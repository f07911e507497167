//! `date_part(part, a)` of dates and timestamps: NULL outside of the calendar.

use arrow_schema::{DataType, TimeUnit};

use crate::catalogue::calendar::{
    CALENDAR, DAY, DAY_OF_WEEK, DAY_OF_YEAR, ISO_YEAR, MONTH, WEEK, YEAR,
};
use crate::catalogue::{Accuracy, Arguments, Lowered, Options, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::expr::DatePart;
use crate::program::{Builder, Class, FloatOp, IntegerOp, Nullable, Rounding, ValueId};
use crate::types::{MILLISECONDS_PER_DAY, SECONDS_PER_DAY, per_second};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "date_part",
    datafusion: &[],
    constants: &[],
    arity: (1, 1),
    types,
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

/// Returns how many units of the type a second has, or a day where it counts days.
fn units(data_type: &DataType) -> Result<(i64, i64), Unsupported> {
    match data_type {
        DataType::Date32 => Ok((0, 1)),
        DataType::Date64 => Ok((1_000, MILLISECONDS_PER_DAY)),
        DataType::Timestamp(unit, None) => {
            Ok((per_second(*unit), SECONDS_PER_DAY * per_second(*unit)))
        }
        other => Err(Unsupported::new(format!("date_part of {other}"))),
    }
}

fn types(signature: &Signature) -> Result<(), Unsupported> {
    let argument = &signature.arguments[0];
    units(argument)?;
    let Options::Part(part) = signature.options else {
        return Err(Unsupported::new("date_part without a part"));
    };
    let is_date = matches!(argument, DataType::Date32 | DataType::Date64);
    if part == DatePart::Nanosecond && is_date {
        return Err(Unsupported::new(format!("date_part of {argument}: {part}")));
    }
    signature.gives("date_part", &part.data_type())
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([value], valid) = arguments.strict(builder)?;
    let (per_second, per_day) = units(&arguments.signature.arguments[0])?;
    let Options::Part(part) = arguments.signature.options else {
        return Err(Unsupported::new("date_part without a part"));
    };
    let is_time = matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second);
    if part == DatePart::Epoch {
        let value = epoch(builder, value, per_second);
        return Ok(Nullable { value, valid });
    }
    let is_date = !matches!(arguments.signature.arguments[0], DataType::Timestamp(..));
    let is_within_second = matches!(part, DatePart::Millisecond | DatePart::Microsecond);
    if is_time && per_second == 0 || is_date && is_within_second {
        // Arrow does not look at the date here.
        let value = builder.int(0);
        return Ok(Nullable { value, valid });
    }
    let days = builder.divide_by(Rounding::Down, value, per_day.into());
    let (days, outside) = builder.limited(days, CALENDAR);
    let is_inside = builder.not(outside);
    let value = match part {
        DatePart::Year => builder.call(&YEAR, vec![days]),
        DatePart::Quarter => {
            let month = builder.call(&MONTH, vec![days]);
            let two = builder.int(2);
            let last = builder.exact(IntegerOp::Add, month, two);
            builder.divide_by(Rounding::Zero, last, 3)
        }
        DatePart::Month => builder.call(&MONTH, vec![days]),
        DatePart::Week => builder.call(&WEEK, vec![days]),
        DatePart::Day => builder.call(&DAY, vec![days]),
        DatePart::DayOfYear => builder.call(&DAY_OF_YEAR, vec![days]),
        DatePart::DayOfWeek => builder.call(&DAY_OF_WEEK, vec![days]),
        DatePart::IsoYear => builder.call(&ISO_YEAR, vec![days]),
        DatePart::IsoDayOfWeek => {
            let (one, six, seven) = (builder.int(1), builder.int(6), builder.int(7));
            let day = builder.call(&DAY_OF_WEEK, vec![days]);
            let moved = builder.exact(IntegerOp::Add, day, six);
            let since_monday = builder.remainder(moved, seven);
            builder.exact(IntegerOp::Add, since_monday, one)
        }
        DatePart::Millisecond => within_minute(builder, value, per_second, 1_000),
        DatePart::Microsecond => within_minute(builder, value, per_second, 1_000_000),
        DatePart::Nanosecond => within_minute(builder, value, per_second, 1_000_000_000),
        DatePart::Hour | DatePart::Minute | DatePart::Second | DatePart::Epoch => {
            time_of_day(builder, part, value, per_second)
        }
    };
    Ok(Nullable {
        value,
        valid: builder.and(valid, is_inside),
    })
}

/// Returns the seconds since 1970 as a double.
fn epoch(builder: &mut Builder, value: ValueId, per_second: i64) -> ValueId {
    let value = builder.convert(value, Class::F64);
    match per_second {
        0 => {
            let seconds = builder.float(SECONDS_PER_DAY as f64);
            builder.float2(FloatOp::Multiply, value, seconds)
        }
        1 => value,
        per_second => {
            let units = builder.float(per_second as f64);
            builder.float2(FloatOp::Divide, value, units)
        }
    }
}

/// Returns how many such parts of a second have passed since the minute began.
fn within_minute(builder: &mut Builder, value: ValueId, per_second: i64, parts: i64) -> ValueId {
    let minute = builder.int(i128::from(60 * per_second));
    let rest = builder.remainder(value, minute);
    // Of times before 1970 the remainder is below 0.
    let moved = builder.exact(IntegerOp::Add, rest, minute);
    let units = builder.remainder(moved, minute);
    match parts / per_second {
        0 => builder.divide_by(Rounding::Zero, units, i128::from(per_second / parts)),
        factor => {
            let factor = builder.int(factor.into());
            builder.exact(IntegerOp::Multiply, units, factor)
        }
    }
}

/// Returns a field of the time of day, by remainders of rounding down.
fn time_of_day(builder: &mut Builder, part: DatePart, value: ValueId, per_second: i64) -> ValueId {
    let seconds = builder.divide_by(Rounding::Down, value, per_second.into());
    let (unit, field) = match part {
        DatePart::Hour => (3_600, 24),
        DatePart::Minute => (60, 60),
        _ => (1, 60),
    };
    let units = builder.divide_by(Rounding::Down, seconds, unit);
    let field = builder.int(field);
    // Of the dividend's sign, so that what lies before 1970 is moved up.
    let rest = builder.remainder(units, field);
    let moved = builder.exact(IntegerOp::Add, rest, field);
    builder.remainder(moved, field)
}

fn signatures() -> Vec<Signature> {
    use DatePart::{
        Day, DayOfWeek, DayOfYear, Epoch, Hour, IsoDayOfWeek, IsoYear, Microsecond, Millisecond,
        Minute, Month, Nanosecond, Quarter, Second, Week, Year,
    };

    let parts = [
        Year,
        Quarter,
        Month,
        Week,
        Day,
        DayOfYear,
        DayOfWeek,
        Hour,
        Minute,
        Second,
        Epoch,
        IsoYear,
        IsoDayOfWeek,
        Millisecond,
        Microsecond,
        Nanosecond,
    ];
    let of = [
        DataType::Date32,
        DataType::Date64,
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ];
    let mut signatures = Vec::new();
    for data_type in of {
        for part in parts {
            let is_date = matches!(data_type, DataType::Date32 | DataType::Date64);
            if part == Nanosecond && is_date {
                continue;
            }
            let options = Options::Part(part);
            let arguments = vec![data_type.clone()];
            signatures.push(Signature::with(arguments, part.data_type(), options));
        }
    }
    signatures
}
