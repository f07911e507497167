//! `time_bucket(width, t)`, `time_bucket(width, t, origin)` and `time_bucket(width, t, offset)`, as DuckDB has them: the
//! beginning of the bucket in which a date or timestamp lies.
//!
//! Buckets of days and times are counted from Monday, 2000-01-03, and those of months and years from January 2000; of an
//! instant in UTC, whatever the zone of the session. Those of constant width are `date_bin`, which runs on devices.

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::datetime::date_bin;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::plain::{self, Parts};

const NAME: &str = "time_bucket";

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// 2000-01-03, from which days are counted, in days since 1970.
const ORIGIN_DAY: i64 = 10_959;

/// January 2000, from which months are counted, in months since the year 0.
const ORIGIN_MONTH: i64 = 24_000;

const NANOSECONDS_OF_DAY: i64 = 86_400_000_000_000;

pub(super) fn function() -> ScalarUDF {
    let parts = Parts {
        names: &[NAME],
        section: DOC_SECTION_DATETIME,
        description: "Returns the beginning of the bucket in which a date or timestamp lies.",
        syntax: "time_bucket(width, t)",
        takes,
        returns: |given| match given {
            [_, time, ..] => time.clone(),
            _ => DataType::Null,
        },
        computes: buckets,
    };
    plain::simplified(parts, simplified)
}

fn takes(given: &[DataType]) -> Result<Vec<DataType>> {
    let (width, time, third) = match given {
        [width, time] => (width, time, None),
        [width, time, third] => (width, time, Some(third)),
        _ => return wrong(),
    };
    let time = match time {
        DataType::Date32 | DataType::Timestamp(..) => time.clone(),
        DataType::Date64 => DataType::Date32,
        of if of.is_string() || of.is_null() => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ => return plan_err!("{NAME} takes an interval and a date or timestamp"),
    };
    if !matches!(width, DataType::Interval(_) | DataType::Null) && !width.is_string() {
        return plan_err!("{NAME} takes an interval first: {NAME}(INTERVAL '1 hour', t)");
    }
    Ok(match third {
        None => vec![INTERVAL, time],
        Some(DataType::Interval(_)) => vec![INTERVAL, time, INTERVAL],
        Some(DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) => {
            vec![INTERVAL, time.clone(), time]
        }
        Some(of) if of.is_string() => {
            return plan_err!(
                "the third argument of {NAME} is a timestamp or an interval; in the zone z it is \
                 timezone(z, {NAME}(width, timezone(z, t)))"
            );
        }
        Some(_) => return wrong(),
    })
}

fn simplified(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    let (width, time, origin) = match args.as_slice() {
        [width, time] => (width, time, None),
        [width, time, origin] => (width, time, Some(origin)),
        _ => return Ok(ExprSimplifyResult::Original(args)),
    };
    let is_whole = matches!(
        width,
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(width)), _)
            if width.months == 0 && nanoseconds(*width) > 0
    );
    let DataType::Timestamp(_, zone) = info.get_data_type(time)? else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    let origin = match origin {
        None => {
            let origin = ORIGIN_DAY * NANOSECONDS_OF_DAY;
            Expr::Literal(ScalarValue::TimestampNanosecond(Some(origin), zone), None)
        }
        Some(origin @ Expr::Literal(ScalarValue::TimestampNanosecond(Some(_), _), _)) => {
            origin.clone()
        }
        Some(_) => return Ok(ExprSimplifyResult::Original(args)),
    };
    Ok(match is_whole {
        true => {
            let call = date_bin().call(vec![width.clone(), time.clone(), origin]);
            ExprSimplifyResult::Simplified(call)
        }
        false => ExprSimplifyResult::Original(args),
    })
}

fn wrong<T>() -> Result<T> {
    plan_err!(
        "{NAME} is written {NAME}(INTERVAL '1 hour', t), with an origin or an offset behind it"
    )
}

fn buckets(given: &[ArrayRef]) -> Result<ArrayRef> {
    let (widths, times, third) = match given {
        [widths, times] => (widths, times, None),
        [widths, times, third] => (widths, times, Some(third)),
        _ => return internal_err!("{NAME} of {} arguments", given.len()),
    };
    let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
    let tick = tick_of(times.data_type())?;
    let ticks = as_ticks(times)?;
    let is_offset = third.is_some_and(|third| third.data_type() == &INTERVAL);
    let origins = match third {
        Some(origins) if !is_offset => Some(as_ticks(origins)?),
        _ => None,
    };
    let mut found = Vec::with_capacity(ticks.len());
    for row in 0..ticks.len() {
        let is_null = given.iter().any(|array| array.is_null(row));
        if is_null {
            found.push(None);
            continue;
        }
        let time = i128::from(ticks.value(row)) * i128::from(tick);
        let offset = match third.and_then(|of| of.as_primitive_opt::<IntervalMonthDayNanoType>()) {
            Some(offsets) => offset(offsets.value(row))?,
            None => 0,
        };
        let origin = origins
            .as_ref()
            .map(|of| i128::from(of.value(row)) * i128::from(tick));
        let begin = bucket(widths.value(row), time - offset, origin)? + offset;
        let begin = i64::try_from(begin.div_euclid(i128::from(tick)));
        found.push(Some(begin.map_err(|_| out_of_range())?));
    }
    let found = Int64Array::from(found);
    Ok(match times.data_type() {
        DataType::Date32 => cast(&cast(&found, &DataType::Int32)?, &DataType::Date32)?,
        of => cast(&found, of)?,
    })
}

/// Returns the beginning of a bucket, all in nanoseconds since 1970.
fn bucket(width: IntervalMonthDayNano, time: i128, origin: Option<i128>) -> Result<i128> {
    let span = nanoseconds(width);
    match (width.months, span) {
        (0, 1..) => {
            let first = i128::from(ORIGIN_DAY) * i128::from(NANOSECONDS_OF_DAY);
            let origin = origin.unwrap_or(first);
            Ok((time - origin).div_euclid(span) * span + origin)
        }
        (1.., 0) => {
            let width = i64::from(width.months);
            let origin = origin.map_or(Ok(ORIGIN_MONTH), month_of)?;
            let month = (month_of(time)? - origin).div_euclid(width) * width + origin;
            beginning_of(month).ok_or_else(out_of_range)
        }
        (0.., 0..) if width.months > 0 => {
            exec_err!("{NAME}: a width of months has neither days nor hours")
        }
        _ => exec_err!("{NAME}: the width is more than zero"),
    }
}

/// Returns the nanoseconds of an interval's days and time.
fn nanoseconds(of: IntervalMonthDayNano) -> i128 {
    i128::from(of.days) * i128::from(NANOSECONDS_OF_DAY) + i128::from(of.nanoseconds)
}

fn offset(of: IntervalMonthDayNano) -> Result<i128> {
    match of.months {
        0 => Ok(nanoseconds(of)),
        _ => exec_err!("{NAME}: an offset has days and hours; give an origin instead of months"),
    }
}

/// Returns the month of a time, counted since the year 0.
fn month_of(time: i128) -> Result<i64> {
    let seconds = i64::try_from(time.div_euclid(1_000_000_000)).ok();
    let date = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    let date = date.ok_or_else(out_of_range)?;
    Ok(i64::from(date.year()) * 12 + i64::from(date.month0()))
}

fn beginning_of(month: i64) -> Option<i128> {
    let year = i32::try_from(month.div_euclid(12)).ok()?;
    let of_year = u32::try_from(month.rem_euclid(12)).ok()?;
    let date = NaiveDate::from_ymd_opt(year, of_year + 1, 1)?;
    let seconds = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp();
    Some(i128::from(seconds) * 1_000_000_000)
}

fn out_of_range() -> datafusion::error::DataFusionError {
    exec_datafusion_err!("{NAME}: the beginning of the bucket is out of range")
}

/// Returns the nanoseconds of one step of a type of times.
fn tick_of(data_type: &DataType) -> Result<i64> {
    Ok(match data_type {
        DataType::Date32 => NANOSECONDS_OF_DAY,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        other => return internal_err!("{NAME} of {other}"),
    })
}

/// Returns the steps of dates or timestamps.
fn as_ticks(times: &ArrayRef) -> Result<Int64Array> {
    let numbers = match times.data_type() {
        DataType::Date32 => cast(&cast(times, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(times, &DataType::Int64)?,
    };
    let numbers: Arc<dyn Array> = numbers;
    Ok(numbers.as_primitive::<Int64Type>().clone())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::IntervalMonthDayNano;

    use super::{NANOSECONDS_OF_DAY, bucket};

    #[track_caller]
    fn check(width: (i32, i32, i64), day: i64, origin: Option<i64>, expect: i64) {
        let nanoseconds = |day: i64| i128::from(day) * i128::from(NANOSECONDS_OF_DAY);
        let (months, days, nanos) = width;
        let width = IntervalMonthDayNano::new(months, days, nanos);
        let found = bucket(width, nanoseconds(day), origin.map(nanoseconds)).unwrap();
        assert_eq!(found, nanoseconds(expect));
    }

    #[test]
    fn buckets_begin_where_those_of_duckdb_do() {
        // 2024-07-03 is a Wednesday, and day 19,907.
        check((0, 7, 0), 19_907, None, 19_905);
        check((1, 0, 0), 19_907, None, 19_905);
        check((12, 0, 0), 19_907, None, 19_723);
        check((0, 7, 0), 19_907, Some(19_723), 19_905);
        // March to July 1999, before the origin.
        check((5, 0, 0), 10_773, None, 10_651);
        check((0, 1, 0), -1, None, -1);
    }

    #[test]
    fn widths_of_nothing_or_of_both_are_errors() {
        for (months, days) in [(0, 0), (-1, 0), (1, 1), (0, -1)] {
            let width = IntervalMonthDayNano::new(months, days, 0);
            assert!(bucket(width, 0, None).is_err());
        }
    }
}
