//! `date_bin(stride, a[, origin])`: the start of the bin of so many nanoseconds in which a timestamp lies;
//! NULL where 64 bits of nanoseconds do not hold a step of it, as DataFusion has it.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::catalogue::{Accuracy, Arguments, Lowered, Options, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::program::{Builder, Comparison, IntegerOp, Nullable, Rounding, ValueId};
use crate::scalar::{Scalar, ScalarValue};
use crate::types::{SECONDS_PER_DAY, per_second};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "date_bin",
    datafusion: &["date_bin"],
    constants: &[0, 2],
    arity: (1, 1),
    types: |signature| {
        Bins::of(signature)?;
        signature.gives("date_bin", &signature.arguments[0])
    },
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

/// Where bins begin and how long they are, in nanoseconds.
struct Bins {
    stride: i64,
    origin: i64,
    /// Nanoseconds of the timestamp's unit.
    unit: i64,
}

impl Bins {
    fn of(signature: &Signature) -> Result<Self, Unsupported> {
        let DataType::Timestamp(unit, _) = signature.arguments[0] else {
            let of = &signature.arguments[0];
            return Err(Unsupported::new(format!("date_bin of {of}")));
        };
        let mut constants = signature.constants().iter();
        let stride = match constants.next().map(|constant| &constant.value) {
            Some(ScalarValue::Interval {
                months: 0,
                days,
                nanoseconds,
            }) => {
                let days = i64::from(*days).checked_mul(SECONDS_PER_DAY * 1_000_000_000);
                days.and_then(|days| days.checked_add(*nanoseconds))
            }
            _ => None,
        };
        let stride = stride.filter(|stride| *stride > 0);
        let stride = stride.ok_or_else(|| Unsupported::new("date_bin by months or backwards"))?;
        let origin = match constants.next() {
            None => 0,
            Some(Scalar {
                data_type: DataType::Timestamp(TimeUnit::Nanosecond, _),
                value: ScalarValue::Int(origin),
            }) => *origin,
            Some(other) => {
                return Err(Unsupported::new(format!("date_bin from {other}")));
            }
        };
        Ok(Self {
            stride,
            origin,
            unit: 1_000_000_000 / per_second(unit),
        })
    }
}

/// Keeps a value within 64 bits, and notes where it was not.
fn held(builder: &mut Builder, value: ValueId, outside: &mut ValueId) -> ValueId {
    let (value, is_outside) = builder.limited(value, Interval::signed(64));
    *outside = builder.or(*outside, is_outside);
    value
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    use IntegerOp::{Add, Multiply, Subtract};

    let bins = Bins::of(arguments.signature)?;
    let ([value], valid) = arguments.strict(builder)?;
    let mut outside = builder.bool(false);
    let [unit, origin, stride] =
        [bins.unit, bins.origin, bins.stride].map(|constant| builder.int(constant.into()));
    let nanoseconds = builder.exact(Multiply, value, unit);
    let nanoseconds = held(builder, nanoseconds, &mut outside);
    let since = builder.exact(Subtract, nanoseconds, origin);
    let since = held(builder, since, &mut outside);
    let rest = builder.remainder(since, stride);
    let delta = builder.exact(Subtract, since, rest);
    let delta = held(builder, delta, &mut outside);
    let zero = builder.int(0);
    let is_before = builder.compare(Comparison::Less, rest, zero);
    let before = builder.exact(Subtract, delta, stride);
    let delta = builder.select(is_before, before, delta);
    let delta = held(builder, delta, &mut outside);
    let start = builder.exact(Add, delta, origin);
    let start = held(builder, start, &mut outside);
    let is_inside = builder.not(outside);
    Ok(Nullable {
        value: builder.divide_by(Rounding::Zero, start, bins.unit.into()),
        valid: builder.and(valid, is_inside),
    })
}

fn signatures() -> Vec<Signature> {
    let strides = [(0, 900_000_000_000), (1, 0), (7, 3_600_000_000_000), (0, 1)];
    let mut signatures = Vec::new();
    for unit in [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ] {
        let of = DataType::Timestamp(unit, None);
        for (days, nanoseconds) in strides {
            let stride = Scalar {
                data_type: DataType::Interval(IntervalUnit::MonthDayNano),
                value: ScalarValue::Interval {
                    months: 0,
                    days,
                    nanoseconds,
                },
            };
            let origin = Scalar {
                data_type: DataType::Timestamp(TimeUnit::Nanosecond, None),
                value: ScalarValue::Int(-86_399_999_999_999),
            };
            for constants in [vec![stride.clone()], vec![stride, origin]] {
                let options = Options::Constants(constants);
                signatures.push(Signature::with(vec![of.clone()], of.clone(), options));
            }
        }
    }
    signatures
}
