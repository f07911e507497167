//! Days and civil dates: the calendar of years from −262143 to 262142.

use super::Accuracy;
use super::kernel::{Body, Kernel};
use crate::interval::Interval;
use crate::program::Type;

/// The days of the calendar, from -262143-01-01 to 262142-12-31: chrono's, and so Arrow's.
pub(super) const CALENDAR: Interval = Interval {
    low: -96_465_292,
    high: 95_026_236,
};

/// Returns year, month and day of the days since 1970-01-01. (Eras of 400 years, whose years begin in
/// March, so that the leap day is their last.)
fn civil_of(days: i64) -> (i64, i64, i64) {
    let shifted = i128::from(days) + 719_468;
    let (era, of_era) = (
        shifted.div_euclid(146_097),
        shifted.rem_euclid(146_097) as i64,
    );
    let of_400 = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_400 + of_400 / 4 - of_400 / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = of_400 + era as i64 * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the days since 1970-01-01.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_400) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = of_400 * 365 + of_400 / 4 - of_400 / 100 + of_year;
    era.saturating_mul(146_097).saturating_add(of_era - 719_468)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the day of so many months later, cut to the month's last.
fn moved_by_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil_of(days);
    let all = (year * 12 + month - 1).saturating_add(months);
    let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
    days_of(year, month, day.min(days_in(year, month)))
}

fn day_of_year(days: i64) -> i64 {
    days - days_of(civil_of(days).0, 1, 1) + 1
}

/// Returns 0 for Sunday.
fn day_of_week(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    days.rem_euclid(7).wrapping_add(4).rem_euclid(7)
}

/// Returns the week of ISO 8601: that of the year in which the week's Thursday lies.
fn week(days: i64) -> i64 {
    let thursday = days
        .saturating_sub((day_of_week(days) + 6) % 7)
        .saturating_add(3);
    (day_of_year(thursday) - 1) / 7 + 1
}

fn within(low: i128, high: i128) -> Type {
    Type::Int(Interval::new(low, high))
}

/// The year of a day.
pub(super) static YEAR: Kernel = Kernel {
    name: "year",
    accuracy: Accuracy::Exact,
    cuda: Some("civil_of((i32){0}).year"),
    body: Body::Int(|days| civil_of(days).0),
    gives: |arguments| {
        let days = arguments[0].interval().clamp_to(CALENDAR);
        let year = |days: i128| i128::from(civil_of(days as i64).0);
        within(year(days.low), year(days.high))
    },
};

/// The month of a day.
pub(super) static MONTH: Kernel = Kernel {
    name: "month",
    accuracy: Accuracy::Exact,
    cuda: Some("civil_of((i32){0}).month"),
    body: Body::Int(|days| civil_of(days).1),
    gives: |_| within(1, 12),
};

/// The day of the month.
pub(super) static DAY: Kernel = Kernel {
    name: "day",
    accuracy: Accuracy::Exact,
    cuda: Some("civil_of((i32){0}).day"),
    body: Body::Int(|days| civil_of(days).2),
    gives: |_| within(1, 31),
};

/// The day of the year.
pub(super) static DAY_OF_YEAR: Kernel = Kernel {
    name: "day of year",
    accuracy: Accuracy::Exact,
    cuda: Some("day_of_year(civil_of((i32){0}))"),
    body: Body::Int(day_of_year),
    gives: |_| within(1, 366),
};

/// The day of the week, Sunday being 0.
pub(super) static DAY_OF_WEEK: Kernel = Kernel {
    name: "day of week",
    accuracy: Accuracy::Exact,
    cuda: Some("iso_weekday((i32){0}) % 7"),
    body: Body::Int(day_of_week),
    gives: |_| within(0, 6),
};

/// The week of ISO 8601.
pub(super) static WEEK: Kernel = Kernel {
    name: "week",
    accuracy: Accuracy::Exact,
    cuda: Some("iso_week((i32){0})"),
    body: Body::Int(week),
    gives: |_| within(1, 53),
};

/// The year in which the Thursday of a day's week lies.
pub(super) static ISO_YEAR: Kernel = Kernel {
    name: "iso year",
    accuracy: Accuracy::Exact,
    cuda: Some("civil_of((i32){0} + 4 - iso_weekday((i32){0})).year"),
    body: Body::Int(|days| {
        let since_monday = (day_of_week(days) + 6) % 7;
        civil_of(days.saturating_sub(since_monday).saturating_add(3)).0
    }),
    gives: |arguments| match (YEAR.gives)(arguments) {
        Type::Int(years) => Type::Int(years + Interval::new(-1, 1)),
        other => other,
    },
};

/// A day, so many months later.
pub(super) static MOVED_BY_MONTHS: Kernel = Kernel {
    name: "moved by months",
    accuracy: Accuracy::Exact,
    cuda: Some("moved_by_months((i32){0}, {1})"),
    body: Body::Int2(moved_by_months),
    // Cutting the day makes no month shorter than 28 days, nor longer than 31.
    gives: |arguments| {
        let months = arguments[1].interval();
        let lengths = Interval::new(28, 31);
        Type::Int(arguments[0].interval() + months * lengths)
    },
};

#[cfg(test)]
mod tests;
