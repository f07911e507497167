//! `age(a, b)`: what passed from b to a in years, months, days and time of day, as in PostgreSQL.
//!
//! Fields are subtracted one by one, from the later timestamp the earlier one; what is negative borrows from the next, days
//! from the month of the earlier timestamp. Of `a < b` all fields are negative. NULL of NULL. Timestamps count in
//! microseconds. `age(a)` counts to the beginning of today (`forms`).

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate};
use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;

use super::plain::{self, Parts};

const MICROSECONDS_OF_DAY: i64 = 86_400_000_000;

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["age"],
        section: DOC_SECTION_DATETIME,
        description: "Returns the years, months, days and time between two timestamps.",
        syntax: "age(a, b)",
        takes: |given| match given.len() == 2 && given.iter().all(is_time) {
            true => Ok(vec![DataType::Timestamp(TimeUnit::Microsecond, None); 2]),
            false => plan_err!("age takes one or two timestamps or dates: age(a, b), or age(a)"),
        },
        returns: |_| DataType::Interval(IntervalUnit::MonthDayNano),
        computes: ages,
    })
}

fn is_time(given: &DataType) -> bool {
    let is_time = matches!(
        given,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)
    );
    is_time || given.is_string() || given.is_null()
}

fn ages(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [late, early] = given else {
        return exec_err!("age takes two timestamps");
    };
    let late = late.as_primitive::<TimestampMicrosecondType>();
    let early = early.as_primitive::<TimestampMicrosecondType>();
    let ages = late.iter().zip(early.iter()).map(|pair| match pair {
        (Some(late), Some(early)) => match age(late, early) {
            Some(age) => Ok(Some(age)),
            None => Err(exec_datafusion_err!("age: a timestamp is out of range")),
        },
        _ => Ok(None),
    });
    let ages = ages.collect::<Result<IntervalMonthDayNanoArray>>()?;
    Ok(Arc::new(ages))
}

/// Returns what is between two timestamps in microseconds; `None` of one that has no date.
fn age(a: i64, b: i64) -> Option<IntervalMonthDayNano> {
    let (late, early, sign) = if a >= b { (a, b, 1) } else { (b, a, -1) };
    let date = |time: i64| Some(DateTime::from_timestamp_micros(time)?.date_naive());
    let (late_date, early_date) = (date(late)?, date(early)?);
    let of_day = |time: i64| time.rem_euclid(MICROSECONDS_OF_DAY);
    let month = |date: NaiveDate| date.year() * 12 + date.month0() as i32;
    let mut months = month(late_date) - month(early_date);
    let mut days = late_date.day() as i32 - early_date.day() as i32;
    let mut microseconds = of_day(late) - of_day(early);
    if microseconds < 0 {
        microseconds += MICROSECONDS_OF_DAY;
        days -= 1;
    }
    if days < 0 {
        days += i32::from(early_date.num_days_in_month());
        months -= 1;
    }
    Some(IntervalMonthDayNano::new(
        sign * months,
        sign * days,
        i64::from(sign) * microseconds * 1000,
    ))
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDateTime;
    use datafusion::arrow::datatypes::IntervalMonthDayNano;

    use super::age;

    #[track_caller]
    fn check(a: &str, b: &str, months: i32, days: i32, seconds: i64) {
        let at = |text: &str| {
            let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
            time.and_utc().timestamp_micros()
        };
        let expect = IntervalMonthDayNano::new(months, days, seconds * 1_000_000_000);
        assert_eq!(age(at(a), at(b)), Some(expect));
    }

    #[test]
    fn fields_are_subtracted_as_in_postgresql() {
        let june = "1957-06-13 00:00:00";
        check("2001-04-10 00:00:00", june, 43 * 12 + 9, 27, 0);
        check(june, "2001-04-10 00:00:00", -(43 * 12 + 9), -27, 0);
        check("2024-03-01 00:00:00", "2024-01-31 00:00:00", 1, 1, 0);
        check("2024-03-01 00:00:00", "2024-02-29 12:00:00", 0, 0, 43_200);
        check("2024-05-01 01:00:00", "2024-02-29 02:00:00", 2, 0, 82_800);
        check("1969-12-31 23:59:59", "1970-01-01 00:00:00", 0, 0, -1);
        check(june, june, 0, 0, 0);
    }
}
