//! The calendar before 1970, at the ends of months and at its own ends.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, Date64Array, Float64Array, Int32Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano};
use chrono::{NaiveDate, NaiveDateTime};

use crate::expr::{ArithmeticOp, DatePart, Expr};
use crate::interpret::EvalError;
use crate::tests::building::{col, eval};

fn days(date: &str) -> i32 {
    let date: NaiveDate = date.parse().unwrap();
    let since = date.signed_duration_since(NaiveDate::default());
    since.num_days().try_into().unwrap()
}

fn seconds(at: &str) -> i64 {
    let at: NaiveDateTime = at.parse().unwrap();
    at.and_utc().timestamp()
}

fn dates(texts: &[&str]) -> ArrayRef {
    let days = texts.iter().map(|text| days(text));
    Arc::new(Date32Array::from_iter_values(days))
}

fn part(part: DatePart, array: ArrayRef) -> Vec<Option<i32>> {
    let expr = Expr::date_part(part, col(0, array.data_type())).unwrap();
    let parts = eval(&expr, vec![array]).unwrap();
    let parts = parts.as_any().downcast_ref::<Int32Array>().unwrap();
    parts.iter().collect()
}

#[test]
fn date_parts() {
    use DatePart::{Day, DayOfWeek, DayOfYear, Hour, Minute, Month, Quarter, Second, Week, Year};
    let cases = [
        ("1998-09-02", [1998, 3, 9, 36, 2, 245, 3]),
        ("1969-12-31", [1969, 4, 12, 1, 31, 365, 3]),
        ("2020-12-31", [2020, 4, 12, 53, 31, 366, 4]),
        ("2021-01-03", [2021, 1, 1, 53, 3, 3, 0]),
        ("1900-03-01", [1900, 1, 3, 9, 1, 60, 4]),
        ("0001-01-01", [1, 1, 1, 1, 1, 1, 1]),
        ("-0044-03-15", [-44, 1, 3, 11, 15, 75, 4]),
    ];
    let fields = [Year, Quarter, Month, Week, Day, DayOfYear, DayOfWeek];
    for (date, expected) in cases {
        for (field, expected) in fields.into_iter().zip(expected) {
            let found = part(field, dates(&[date]));
            assert_eq!(found, [Some(expected)], "{field} of {date}");
            let midnight = i64::from(days(date)) * 86_400;
            let stamp = Arc::new(TimestampSecondArray::from(vec![midnight + 86_399]));
            assert_eq!(
                part(field, stamp),
                [Some(expected)],
                "{field} late on {date}"
            );
        }
        for field in [Hour, Minute, Second] {
            assert_eq!(part(field, dates(&[date])), [Some(0)]);
        }
    }
}

#[test]
fn times_of_day_before_1970() {
    let at = seconds("1969-12-31T23:58:57");
    let stamps: [ArrayRef; 3] = [
        Arc::new(TimestampSecondArray::from(vec![at])),
        Arc::new(TimestampMicrosecondArray::from(vec![
            at * 1_000_000 + 999_999,
        ])),
        Arc::new(TimestampNanosecondArray::from(vec![at * 1_000_000_000 + 1])),
    ];
    for stamp in stamps {
        let fields = [
            DatePart::Hour,
            DatePart::Minute,
            DatePart::Second,
            DatePart::Year,
        ];
        for (field, expected) in fields.into_iter().zip([23, 58, 57, 1969]) {
            assert_eq!(part(field, Arc::clone(&stamp)), [Some(expected)]);
        }
    }
    let date64: ArrayRef = Arc::new(Date64Array::from(vec![Some(-1), None]));
    assert_eq!(part(DatePart::Day, Arc::clone(&date64)), [Some(31), None]);
    assert_eq!(part(DatePart::Hour, date64), [Some(23), None]);
}

#[test]
fn beyond_the_calendar() {
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
    assert_eq!(part(DatePart::Year, far), [None]);
    let far: ArrayRef = Arc::new(Date32Array::from(vec![i32::MAX]));
    assert_eq!(part(DatePart::Year, Arc::clone(&far)), [None]);
    assert_eq!(part(DatePart::Hour, far), [Some(0)]);
}

#[test]
fn epochs() {
    let epoch = |array: ArrayRef| {
        let expr = Expr::date_part(DatePart::Epoch, col(0, array.data_type())).unwrap();
        eval(&expr, vec![array]).unwrap()
    };
    let cases: [(ArrayRef, f64); 4] = [
        (dates(&["1969-12-31"]), -86_400.0),
        (Arc::new(Date64Array::from(vec![1_500])), 1.5),
        (Arc::new(TimestampSecondArray::from(vec![7])), 7.0),
        (
            Arc::new(TimestampNanosecondArray::from(vec![-1_500_000_000])),
            -1.5,
        ),
    ];
    for (array, expected) in cases {
        let expected: ArrayRef = Arc::new(Float64Array::from(vec![expected]));
        assert_eq!(&epoch(array), &expected);
    }
}

fn moved(op: ArithmeticOp, from: ArrayRef, by: ArrayRef) -> Result<ArrayRef, EvalError> {
    let data_type = from.data_type().clone();
    let (left, right) = (col(0, &data_type), col(1, by.data_type()));
    let expr = Expr::arithmetic(op, left, right, data_type).unwrap();
    eval(&expr, vec![from, by])
}

fn interval(months: i32, days: i32, nanoseconds: i64) -> ArrayRef {
    let value = IntervalMonthDayNano::new(months, days, nanoseconds);
    Arc::new(IntervalMonthDayNanoArray::from(vec![value]))
}

#[test]
fn months_clamp_the_day() {
    use ArithmeticOp::{Add, Subtract};
    let cases = [
        ("2020-01-31", Add, (1, 0), "2020-02-29"),
        ("2021-01-31", Add, (1, 0), "2021-02-28"),
        ("2021-03-31", Subtract, (1, 0), "2021-02-28"),
        ("2020-02-29", Add, (12, 0), "2021-02-28"),
        ("2020-02-29", Subtract, (48, 0), "2016-02-29"),
        ("1970-01-31", Subtract, (2, 0), "1969-11-30"),
        ("2021-01-31", Add, (1, 1), "2021-03-01"),
        ("1998-12-01", Subtract, (0, 90), "1998-09-02"),
        ("2021-05-31", Add, (-1, 0), "2021-04-30"),
    ];
    for (from, op, (months, days), expected) in cases {
        let found = moved(op, dates(&[from]), interval(months, days, 0)).unwrap();
        assert_eq!(
            &found,
            &dates(&[expected]),
            "{from} {op} {months} months {days} days"
        );
    }
    let month: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![13]));
    let found = moved(Add, dates(&["2020-01-31"]), month).unwrap();
    assert_eq!(&found, &dates(&["2021-02-28"]));
}

#[test]
fn parts_of_a_day() {
    use ArithmeticOp::{Add, Subtract};
    let hour = 3_600_000_000_000;
    // A date knows whole days only; hours short of one are lost.
    let found = moved(Add, dates(&["2020-01-01"]), interval(0, 0, 23 * hour)).unwrap();
    assert_eq!(&found, &dates(&["2020-01-01"]));
    let found = moved(Add, dates(&["2020-01-01"]), interval(0, 0, 25 * hour)).unwrap();
    assert_eq!(&found, &dates(&["2020-01-02"]));
    let day_time: ArrayRef = Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(
        2, 86_400_000,
    )]));
    let found = moved(Subtract, dates(&["2020-01-01"]), day_time).unwrap();
    assert_eq!(&found, &dates(&["2019-12-29"]));

    let stamp = |at: &str| -> ArrayRef { Arc::new(TimestampSecondArray::from(vec![seconds(at)])) };
    let found = moved(Add, stamp("2020-01-31T12:00:00"), interval(1, 0, 13 * hour)).unwrap();
    assert_eq!(&found, &stamp("2020-03-01T01:00:00"));
    let found = moved(Subtract, stamp("1970-01-01T00:00:00"), interval(0, 0, hour)).unwrap();
    assert_eq!(&found, &stamp("1969-12-31T23:00:00"));
    // A second's timestamp is floored.
    let found = moved(Subtract, stamp("2020-01-01T00:00:00"), interval(0, 0, 1)).unwrap();
    assert_eq!(&found, &stamp("2019-12-31T23:59:59"));
}

#[test]
fn interval_first_and_out_of_range() {
    let data_type = arrow_schema::DataType::Date32;
    let by = interval(0, 1, 0);
    let (left, right) = (col(0, by.data_type()), col(1, &data_type));
    let expr = Expr::arithmetic(ArithmeticOp::Add, left, right, data_type).unwrap();
    let found = eval(&expr, vec![by, dates(&["1969-12-31"])]).unwrap();
    assert_eq!(&found, &dates(&["1970-01-01"]));

    for months in [i32::MIN, i32::MAX] {
        for op in [ArithmeticOp::Add, ArithmeticOp::Subtract] {
            let error = moved(op, dates(&["2000-01-01"]), interval(months, 0, 0)).unwrap_err();
            assert!(matches!(error, EvalError::Overflow { .. }), "{error}");
        }
    }
    let late: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![i64::MAX]));
    let error = moved(ArithmeticOp::Add, late, interval(0, 1, 0)).unwrap_err();
    assert!(error.is_arithmetic());
}
