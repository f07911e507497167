//! `t + INTERVAL …` and `t - INTERVAL …` of instants, by the clocks of a time zone.
//!
//! Months and then days are added to what clocks in the zone of the timestamp show, and the rest to the instant, as in
//! PostgreSQL. Where clocks are set, the rules are those of [`zones`](super::zones); Arrow has an error for a time that no
//! clock shows, or two.

use std::sync::Arc;

use chrono::{DateTime, Months, NaiveTime};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ScalarUDF, cast};

use super::plain::{self, Parts};
use super::zones::{exact_zone, instant_of, is_utc, local_of};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const SECONDS_OF_DAY: i64 = 86_400;
const NANOSECONDS_OF_SECOND: i64 = 1_000_000_000;

/// Returns the functions, for plans that are read from bytes.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [plus(), minus()]
}

fn plus() -> ScalarUDF {
    plain::function(Parts {
        names: &["instant_plus"],
        section: DOC_SECTION_DATETIME,
        description: "Adds an interval to an instant, by the clocks of its time zone.",
        syntax: "instant_plus(t, i)",
        takes: |given| takes("instant_plus", given),
        returns: of_first,
        computes: |given| sums(given, Some),
    })
}

fn minus() -> ScalarUDF {
    plain::function(Parts {
        names: &["instant_minus"],
        section: DOC_SECTION_DATETIME,
        description: "Subtracts an interval from an instant, by the clocks of its time zone.",
        syntax: "instant_minus(t, i)",
        takes: |given| takes("instant_minus", given),
        returns: of_first,
        computes: |given| sums(given, negative),
    })
}

fn takes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [
            instant @ DataType::Timestamp(_, Some(_)),
            DataType::Interval(_),
        ] => Ok(vec![instant.clone(), INTERVAL]),
        _ => plan_err!("{name} takes a timestamp with a time zone and an interval"),
    }
}

fn of_first(given: &[DataType]) -> DataType {
    given.first().cloned().unwrap_or(DataType::Null)
}

/// Returns the sum or difference of an instant and an interval as a call; `None` of anything else, and of UTC, where
/// clocks are never set.
pub(crate) fn sum(of: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    use DataType::{Interval, Timestamp};
    let is_sum = match of.op {
        Operator::Plus => true,
        Operator::Minus => false,
        _ => return None,
    };
    // Columns of an outer query are of no schema that is known here, but know their type.
    let left = of.left.get_type(schema).ok()?;
    let right = of.right.get_type(schema).ok()?;
    let (instant, interval, by) = match (&left, &right) {
        (Timestamp(_, Some(zone)), Interval(_)) if !is_utc(zone) => (&of.left, &of.right, &right),
        (Interval(_), Timestamp(_, Some(zone))) if is_sum && !is_utc(zone) => {
            (&of.right, &of.left, &left)
        }
        _ => return None,
    };
    let interval = match *by == INTERVAL {
        true => interval.as_ref().clone(),
        false => cast(interval.as_ref().clone(), INTERVAL),
    };
    let function = match is_sum {
        true => plus(),
        false => minus(),
    };
    Some(function.call(vec![instant.as_ref().clone(), interval]))
}

fn negative(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: interval.months.checked_neg()?,
        days: interval.days.checked_neg()?,
        nanoseconds: interval.nanoseconds.checked_neg()?,
    })
}

/// Adds to each instant what `by` makes of its interval.
fn sums(
    given: &[ArrayRef],
    by: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let [instants, intervals] = given else {
        return internal_err!("a sum of {} arguments", given.len());
    };
    let DataType::Timestamp(unit, Some(name)) = instants.data_type() else {
        return internal_err!("a sum of {}", instants.data_type());
    };
    let zone = exact_zone(name)?;
    Ok(match unit {
        TimeUnit::Second => all::<TimestampSecondType>(instants, intervals, 1, &zone, by)?,
        TimeUnit::Millisecond => {
            all::<TimestampMillisecondType>(instants, intervals, 1_000, &zone, by)?
        }
        TimeUnit::Microsecond => {
            all::<TimestampMicrosecondType>(instants, intervals, 1_000_000, &zone, by)?
        }
        TimeUnit::Nanosecond => {
            all::<TimestampNanosecondType>(instants, intervals, NANOSECONDS_OF_SECOND, &zone, by)?
        }
    })
}

fn all<T>(
    instants: &ArrayRef,
    intervals: &ArrayRef,
    per_second: i64,
    zone: &Tz,
    by: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef>
where
    T: ArrowTimestampType + ArrowPrimitiveType<Native = i64>,
{
    let sums: PrimitiveArray<T> = try_binary(
        instants.as_primitive::<T>(),
        intervals.as_primitive::<IntervalMonthDayNanoType>(),
        |instant, interval| {
            by(interval)
                .and_then(|interval| later(instant, interval, per_second, zone))
                .ok_or_else(|| ArrowError::ComputeError("timestamp out of range".into()))
        },
    )?;
    Ok(Arc::new(sums.with_data_type(instants.data_type().clone())))
}

/// Returns an instant that is an interval later by the clocks of a zone; `None` out of range.
pub(super) fn later(
    instant: i64,
    by: IntervalMonthDayNano,
    per_second: i64,
    zone: &Tz,
) -> Option<i64> {
    let mut at = instant;
    if by.months != 0 {
        let shown = local_of(at, per_second, zone)?;
        at = instant_of(
            months_later(shown, by.months, per_second)?,
            per_second,
            zone,
        )?;
    }
    if by.days != 0 {
        let shown = local_of(at, per_second, zone)?;
        let days = i64::from(by.days).checked_mul(SECONDS_OF_DAY * per_second)?;
        at = instant_of(shown.checked_add(days)?, per_second, zone)?;
    }
    at.checked_add(
        by.nanoseconds
            .div_euclid(NANOSECONDS_OF_SECOND / per_second),
    )
}

/// Adds months to a time that clocks show; a day that a month has not is its last one.
fn months_later(shown: i64, months: i32, per_second: i64) -> Option<i64> {
    let per_day = SECONDS_OF_DAY * per_second;
    let (day, of_day) = (shown.div_euclid(per_day), shown.rem_euclid(per_day));
    let date = DateTime::from_timestamp(day.checked_mul(SECONDS_OF_DAY)?, 0)?.date_naive();
    let by = Months::new(months.unsigned_abs());
    let date = match months < 0 {
        true => date.checked_sub_months(by)?,
        false => date.checked_add_months(by)?,
    };
    let seconds = date.and_time(NaiveTime::MIN).and_utc().timestamp();
    seconds.checked_mul(per_second)?.checked_add(of_day)
}

#[cfg(test)]
mod tests {
    use super::{IntervalMonthDayNano, exact_zone, later};

    const HOUR: i64 = 3_600_000_000_000;

    #[track_caller]
    fn check(zone: &str, from: &str, by: (i32, i32, i64), expect: &str) {
        let zone = exact_zone(zone).unwrap();
        let by = IntervalMonthDayNano::new(by.0, by.1, by.2);
        let seconds = |text: &str| text.parse::<chrono::DateTime<chrono::Utc>>().unwrap();
        for per_second in [1, 1_000, 1_000_000, 1_000_000_000] {
            let found = later(
                seconds(from).timestamp() * per_second,
                by,
                per_second,
                &zone,
            );
            let expect = seconds(expect).timestamp() * per_second;
            assert_eq!(found, Some(expect), "{from} {by:?} {per_second}");
        }
    }

    #[test]
    fn months_and_days_are_those_of_clocks_and_hours_of_instants() {
        let zone = "America/New_York";
        // A time that is shown twice is the later one, a time that no clock shows has the offset of before.
        check(
            zone,
            "2024-11-02T05:30:00Z",
            (0, 1, 0),
            "2024-11-03T06:30:00Z",
        );
        check(
            zone,
            "2024-03-09T07:30:00Z",
            (0, 1, 0),
            "2024-03-10T07:30:00Z",
        );
        check(
            zone,
            "2024-11-02T05:30:00Z",
            (0, 0, 24 * HOUR),
            "2024-11-03T05:30:00Z",
        );
        check(
            zone,
            "2024-11-02T16:00:00Z",
            (0, 1, 0),
            "2024-11-03T17:00:00Z",
        );
        check(
            zone,
            "2024-11-03T17:00:00Z",
            (0, -1, HOUR),
            "2024-11-02T17:00:00Z",
        );
        check(
            zone,
            "2024-02-10T07:30:00Z",
            (1, 0, 0),
            "2024-03-10T07:30:00Z",
        );
        // The last day of a month.
        check(
            "Europe/Berlin",
            "2024-01-30T23:30:00Z",
            (1, 0, 0),
            "2024-02-28T23:30:00Z",
        );
        check(
            "Europe/Berlin",
            "2024-03-30T23:30:00Z",
            (-1, 0, 0),
            "2024-02-28T23:30:00Z",
        );
    }

    #[test]
    fn what_is_out_of_range_is_none() {
        let zone = exact_zone("America/New_York").unwrap();
        for (from, months, days, nanoseconds) in [
            (i64::MAX, 0, 0, 1),
            (i64::MAX, 0, 1, 0),
            (i64::MIN, -1, 0, 0),
            (0, i32::MAX, 0, 0),
            (0, i32::MIN, 0, 0),
            (0, 0, i32::MIN, 0),
        ] {
            let by = IntervalMonthDayNano::new(months, days, nanoseconds);
            assert_eq!(later(from, by, 1_000_000_000, &zone), None, "{from} {by:?}");
        }
    }
}
