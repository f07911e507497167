//! `date_trunc(part, a)` of timestamps without a time zone and of times, down. From weeks on DataFusion goes
//! by nanoseconds, and what their 64 bits do not hold raises.

use arrow_schema::{DataType, TimeUnit};

use crate::catalogue::calendar::{DAY, DAY_OF_WEEK, DAY_OF_YEAR, MONTH, MOVED_BY_MONTHS};
use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, Signature, constants};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::program::{Builder, IntegerOp, Nullable, Raised, Rounding, ValueId};
use crate::types::{SECONDS_PER_DAY, per_second};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "date_trunc",
    datafusion: &["date_trunc"],
    constants: &[0],
    arity: (1, 1),
    types: |signature| {
        Part::of(signature)?;
        signature.gives("date_trunc", &signature.arguments[0])
    },
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

const OUTSIDE: &str =
    "a timestamp that date_trunc reads or gives is out of the range of nanoseconds";

/// To what is truncated.
#[derive(Clone, Copy)]
enum Part {
    /// To so many parts of a second, or seconds.
    Second(Ratio),
    Week,
    Month,
    Quarter,
    Year,
}

/// A span of time.
#[derive(Clone, Copy)]
enum Ratio {
    /// So many seconds.
    Seconds(i64),
    /// One of so many parts of a second.
    Part(i64),
}

impl Ratio {
    /// Returns the span in units of which a second has so many, at least 1.
    fn units(self, per_second: i64) -> i128 {
        i128::from(match self {
            Self::Seconds(seconds) => seconds * per_second,
            Self::Part(parts) => (per_second / parts).max(1),
        })
    }
}

impl Part {
    fn of(signature: &Signature) -> Result<Self, Unsupported> {
        let name = constants::text(signature, 0, "date_trunc")?;
        let refused = || {
            let of = &signature.arguments[0];
            Unsupported::new(format!("date_trunc of {of} to {name}"))
        };
        let part = match name.as_str() {
            "microsecond" => Self::Second(Ratio::Part(1_000_000)),
            "millisecond" => Self::Second(Ratio::Part(1_000)),
            "second" => Self::Second(Ratio::Seconds(1)),
            "minute" => Self::Second(Ratio::Seconds(60)),
            "hour" => Self::Second(Ratio::Seconds(3_600)),
            "day" => Self::Second(Ratio::Seconds(SECONDS_PER_DAY)),
            "week" => Self::Week,
            "month" => Self::Month,
            "quarter" => Self::Quarter,
            "year" => Self::Year,
            _ => return Err(refused()),
        };
        match (&signature.arguments[0], part) {
            (DataType::Timestamp(_, None), _) => Ok(part),
            (DataType::Time32(_) | DataType::Time64(_), Self::Second(_)) if name != "day" => {
                Ok(part)
            }
            _ => Err(refused()),
        }
    }
}

fn unit_of(data_type: &DataType) -> TimeUnit {
    match data_type {
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => *unit,
        _ => TimeUnit::Second,
    }
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let part = Part::of(arguments.signature)?;
    let data_type = arguments.signature.arguments[0].clone();
    let per_second = per_second(unit_of(&data_type));
    let ([value], valid) = arguments.strict(builder)?;
    let value = match part {
        Part::Second(ratio) => {
            let units = ratio.units(per_second);
            let rounding = match data_type {
                DataType::Timestamp(..) => Rounding::Down,
                _ => Rounding::Zero,
            };
            match units {
                1 => value,
                _ => {
                    let whole = builder.divide_by(rounding, value, units);
                    let units = builder.int(units);
                    builder.wrapping(IntegerOp::Multiply, (64, true), whole, units)
                }
            }
        }
        _ => calendar(builder, part, value, valid, per_second),
    };
    Ok(Nullable { value, valid })
}

/// Truncates by the calendar.
fn calendar(
    builder: &mut Builder,
    part: Part,
    value: ValueId,
    valid: ValueId,
    per_second: i64,
) -> ValueId {
    let outside = Raised::Domain { what: OUTSIDE };
    let nanoseconds = i128::from(1_000_000_000 / per_second);
    let long = Interval::signed(64);
    let held = Interval::new(long.low / nanoseconds, long.high / nanoseconds);
    let value = builder.held(value, held, valid, &outside);
    let per_day = i128::from(SECONDS_PER_DAY * per_second);
    let days = builder.divide_by(Rounding::Down, value, per_day);
    let one = builder.int(1);
    let first = match part {
        Part::Week => {
            // Weeks begin on Monday.
            let (six, seven) = (builder.int(6), builder.int(7));
            let day = builder.call(&DAY_OF_WEEK, vec![days]);
            let day = builder.exact(IntegerOp::Add, day, six);
            let since = builder.remainder(day, seven);
            builder.exact(IntegerOp::Subtract, days, since)
        }
        Part::Year => {
            let day = builder.call(&DAY_OF_YEAR, vec![days]);
            let since = builder.exact(IntegerOp::Subtract, day, one);
            builder.exact(IntegerOp::Subtract, days, since)
        }
        Part::Month | Part::Quarter | Part::Second(_) => {
            let day = builder.call(&DAY, vec![days]);
            let since = builder.exact(IntegerOp::Subtract, day, one);
            builder.exact(IntegerOp::Subtract, days, since)
        }
    };
    let first = match part {
        Part::Quarter => {
            let month = builder.call(&MONTH, vec![days]);
            let month = builder.exact(IntegerOp::Subtract, month, one);
            let (zero, three) = (builder.int(0), builder.int(3));
            let since = builder.remainder(month, three);
            let back = builder.exact(IntegerOp::Subtract, zero, since);
            builder.call(&MOVED_BY_MONTHS, vec![first, back])
        }
        _ => first,
    };
    let nanoseconds_of_day = per_day * nanoseconds;
    let held = Interval::new(
        long.low / nanoseconds_of_day,
        long.high / nanoseconds_of_day,
    );
    let first = builder.held(first, held, valid, &outside);
    let per_day = builder.int(per_day);
    builder.exact(IntegerOp::Multiply, first, per_day)
}

fn signatures() -> Vec<Signature> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    let fine = ["microsecond", "millisecond", "second", "minute", "hour"];
    let coarse = ["day", "week", "month", "quarter", "year"];
    let times = [
        DataType::Time32(Second),
        DataType::Time32(Millisecond),
        DataType::Time64(Microsecond),
        DataType::Time64(Nanosecond),
    ];
    let timestamps =
        [Second, Millisecond, Microsecond, Nanosecond].map(|unit| DataType::Timestamp(unit, None));
    let mut signatures = Vec::new();
    for of in timestamps.iter().chain(&times) {
        let has_days = matches!(of, DataType::Timestamp(..));
        for part in fine.iter().chain(coarse.iter().filter(|_| has_days)) {
            signatures.push(constants::signature_of_text(
                vec![of.clone()],
                part,
                of.clone(),
            ));
        }
    }
    signatures
}
