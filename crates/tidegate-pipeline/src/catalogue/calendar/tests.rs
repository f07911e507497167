//! Days are those of chrono.

use chrono::{Datelike, Months, NaiveDate};

use super::{CALENDAR, civil_of, day_of_week, day_of_year, days_of, moved_by_months, week};

#[test]
fn days_are_those_of_chrono() {
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
    let far = (CALENDAR.low as i64..=CALENDAR.high as i64).step_by(9_973);
    let ends = [CALENDAR.low as i64, CALENDAR.high as i64];
    for days in far
        .chain(-1_000_000..-998_000)
        .chain(-800..40_000)
        .chain(ends)
    {
        let date = epoch + chrono::Duration::days(days);
        let (year, month, day) = civil_of(days);
        let found = (year, month, day, days_of(year, month, day));
        let of_chrono = (date.year(), date.month(), date.day());
        let expected = (
            of_chrono.0.into(),
            of_chrono.1.into(),
            of_chrono.2.into(),
            days,
        );
        assert_eq!(found, expected);
        let found = (day_of_year(days), day_of_week(days), week(days));
        let weekday = date.weekday().num_days_from_sunday();
        let expected = (date.ordinal(), weekday, date.iso_week().week());
        let expected = (expected.0.into(), expected.1.into(), expected.2.into());
        assert_eq!(found, expected, "{date}");
        for months in [1, 11, 12, 25, 1_000] {
            if let Some(later) = date.checked_add_months(Months::new(months)) {
                let later = later.signed_duration_since(epoch).num_days();
                assert_eq!(
                    moved_by_months(days, months.into()),
                    later,
                    "{date} {months}"
                );
            }
        }
    }
}
