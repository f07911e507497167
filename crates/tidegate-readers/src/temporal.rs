//! How dates and timestamps are written.
//!
//! Where a file's values leave open whether the day or the month comes first, the day does, as DuckDB has
//! it: a later value that contradicts is an error which says so.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use serde::{Deserialize, Serialize};

use crate::sniff::Traits;

/// Days from the first of January of the year 1 to that of 1970.
const EPOCH_DAYS: i32 = 719_163;
/// Two digits from here on are a year of the last century.
const LAST_CENTURY: u32 = 69;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// How a date is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DateFormat {
    /// Three numbers with this between them.
    Numbers(Order, u8, Year),
    /// `31-Jan-2024`, with this between the parts.
    DayMonthName(u8),
    /// `Jan 31, 2024`.
    MonthName,
    /// As `strftime` describes it.
    Custom(String),
}

/// What of a date comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Year, month, day.
    Year,
    /// Day, month, year.
    Day,
    /// Month, day, year.
    Month,
}

/// How many digits a year has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Year {
    /// All four.
    Four,
    /// The last two.
    Two,
}

/// How dates may be written, the likelier first.
pub(crate) const DATE_FORMATS: [DateFormat; 15] = [
    DateFormat::Numbers(Order::Year, b'-', Year::Four),
    DateFormat::Numbers(Order::Year, b'/', Year::Four),
    DateFormat::Numbers(Order::Year, b'.', Year::Four),
    DateFormat::Numbers(Order::Day, b'.', Year::Four),
    DateFormat::Numbers(Order::Day, b'/', Year::Four),
    DateFormat::Numbers(Order::Day, b'-', Year::Four),
    DateFormat::Numbers(Order::Month, b'/', Year::Four),
    DateFormat::Numbers(Order::Month, b'-', Year::Four),
    DateFormat::Numbers(Order::Day, b'.', Year::Two),
    DateFormat::Numbers(Order::Day, b'/', Year::Two),
    DateFormat::Numbers(Order::Month, b'/', Year::Two),
    DateFormat::DayMonthName(b'-'),
    DateFormat::DayMonthName(b' '),
    DateFormat::DayMonthName(b'/'),
    DateFormat::MonthName,
];

impl Default for DateFormat {
    fn default() -> Self {
        Self::Numbers(Order::Year, b'-', Year::Four)
    }
}

/// How a timestamp is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimestampFormat {
    /// A date, perhaps with a time of day behind a space or a `T`, and a zone behind that.
    Date(DateFormat),
    /// As `strftime` describes it.
    Custom(String),
}

impl Default for TimestampFormat {
    fn default() -> Self {
        Self::Date(DateFormat::default())
    }
}

impl DateFormat {
    /// Reads a date, in days since 1970.
    pub(crate) fn days(&self, value: &str) -> Option<i32> {
        let date = match self {
            Self::Numbers(order, separator, year) => {
                numbers(value.as_bytes(), *order, *separator, *year)?
            }
            Self::DayMonthName(separator) => {
                let separator = char::from(*separator);
                let (day, rest) = value.split_once(separator)?;
                let (month, year) = rest.split_once(separator)?;
                date(number(year, 4..=4)?, month_of(month)?, number(day, 1..=2)?)?
            }
            Self::MonthName => {
                let (month, rest) = value.split_once(' ')?;
                let (day, year) = rest.split_once(' ')?;
                let day = day.strip_suffix(',').unwrap_or(day);
                date(number(year, 4..=4)?, month_of(month)?, number(day, 1..=2)?)?
            }
            Self::Custom(format) => NaiveDate::parse_from_str(value, format).ok()?,
        };
        Some(chrono::Datelike::num_days_from_ce(&date) - EPOCH_DAYS)
    }

    /// Says how dates of the format look.
    pub(crate) fn example(&self) -> String {
        match self {
            Self::Numbers(order, separator, year) => {
                let year = match year {
                    Year::Four => "%Y",
                    Year::Two => "%y",
                };
                let parts = match order {
                    Order::Year => [year, "%m", "%d"],
                    Order::Day => ["%d", "%m", year],
                    Order::Month => ["%m", "%d", year],
                };
                parts.join(char::from(*separator).to_string().as_str())
            }
            Self::DayMonthName(separator) => {
                ["%d", "%b", "%Y"].join(char::from(*separator).to_string().as_str())
            }
            Self::MonthName => "%b %d, %Y".into(),
            Self::Custom(format) => format.clone(),
        }
    }
}

/// A moment as it is written: its place on the calendar, and how far that is ahead of UTC.
pub(crate) struct Moment {
    pub(crate) days: i32,
    /// Nanoseconds of the day.
    nanos: i64,
    /// Seconds ahead of UTC, where a zone is written.
    pub(crate) zone: Option<i32>,
}

impl Moment {
    /// Tells whether it has a zone, and how fine it is.
    pub(crate) fn traits(&self) -> Traits {
        let zone = match self.zone {
            None => Traits::LOCAL,
            Some(_) => Traits::ZONED,
        };
        match self.nanos % 1_000 {
            0 => zone | Traits::MICROS,
            _ => zone,
        }
    }

    /// Returns the microseconds since 1970 in UTC; `None` for finer moments.
    pub(crate) fn micros(&self) -> Option<i64> {
        if self.nanos % 1_000 != 0 {
            return None;
        }
        let seconds = i64::from(self.days) * 86_400 - i64::from(self.zone.unwrap_or(0));
        Some(seconds * 1_000_000 + self.nanos / 1_000)
    }

    /// Returns the nanoseconds since 1970 in UTC; `None` before 1677 and after 2262.
    pub(crate) fn nanos(&self) -> Option<i64> {
        let seconds = i64::from(self.days) * 86_400 - i64::from(self.zone.unwrap_or(0));
        seconds.checked_mul(1_000_000_000)?.checked_add(self.nanos)
    }
}

impl TimestampFormat {
    /// Reads a timestamp.
    pub(crate) fn moment(&self, value: &str) -> Option<Moment> {
        match self {
            Self::Date(format) => {
                let (date, time) = split_time(value);
                let days = format.days(date)?;
                let Some(time) = time else {
                    return Some(Moment {
                        days,
                        nanos: 0,
                        zone: None,
                    });
                };
                let (nanos, zone) = time_of_day(time)?;
                Some(Moment { days, nanos, zone })
            }
            Self::Custom(format) => {
                if let Ok(zoned) = chrono::DateTime::parse_from_str(value, format) {
                    return Some(moment(zoned.naive_utc(), Some(0)));
                }
                if let Ok(local) = NaiveDateTime::parse_from_str(value, format) {
                    return Some(moment(local, None));
                }
                let date = NaiveDate::parse_from_str(value, format).ok()?;
                Some(moment(date.and_time(NaiveTime::MIN), None))
            }
        }
    }

    /// Says how timestamps of the format look.
    pub(crate) fn example(&self) -> String {
        match self {
            Self::Date(format) => format!("{} %H:%M:%S", format.example()),
            Self::Custom(format) => format.clone(),
        }
    }
}

fn moment(at: NaiveDateTime, zone: Option<i32>) -> Moment {
    let time = at.time();
    let seconds = i64::from(time.num_seconds_from_midnight());
    Moment {
        days: chrono::Datelike::num_days_from_ce(&at.date()) - EPOCH_DAYS,
        nanos: seconds * 1_000_000_000 + i64::from(time.nanosecond()),
        zone,
    }
}

/// Reads a time of day without a zone, in nanoseconds.
pub(crate) fn time(value: &str) -> Option<i64> {
    match time_of_day(value)? {
        (nanos, None) => Some(nanos),
        (_, Some(_)) => None,
    }
}

/// Tells whether a value is a time of day with all of its digits, such as `07:30:00`.
fn is_time(value: &str) -> bool {
    let bytes = value.as_bytes();
    // A comma may be the delimiter.
    let is_plain = matches!(bytes.get(8), None | Some(b'.'));
    bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':') && is_plain && time(value).is_some()
}

/// Tells in which formats a value is a date or a timestamp, and whether it is a time.
pub(crate) fn traits_of(value: &str) -> Traits {
    let bytes = value.as_bytes();
    // The shortest is 1/2/24, the longest a timestamp with its zone.
    if !(6..=40).contains(&bytes.len()) || !bytes.iter().any(u8::is_ascii_digit) {
        return Traits::empty();
    }
    if is_time(value) {
        return Traits::TIME;
    }
    let (date, time) = split_time(value);
    let time = time.map(time_of_day);
    if matches!(time, Some(None)) {
        return Traits::empty();
    }
    let mut traits = Traits::empty();
    for (index, format) in DATE_FORMATS.iter().enumerate() {
        if format.days(date).is_some() {
            traits |= Traits::timestamp(index);
            if time.is_none() {
                traits |= Traits::date(index);
            }
        }
    }
    if traits == Traits::empty() {
        return traits;
    }
    match time.flatten() {
        None => traits | Traits::LOCAL | Traits::ZONED | Traits::MICROS,
        Some((nanos, zone)) => {
            let days = 0;
            traits | Moment { days, nanos, zone }.traits()
        }
    }
}

/// Cuts a time of day off.
fn split_time(value: &str) -> (&str, Option<&str>) {
    let Some(colon) = value.find(':') else {
        return (value, None);
    };
    match value[..colon].rfind([' ', 'T']) {
        Some(at) => (&value[..at], Some(&value[at + 1..])),
        None => (value, None),
    }
}

/// Reads `10:30`, `10:30:05.123`, `1:30 PM`, and a zone behind it: nanoseconds of the day, and seconds ahead
/// of UTC.
fn time_of_day(value: &str) -> Option<(i64, Option<i32>)> {
    let (value, zone) = split_zone(value)?;
    let lower = value.to_ascii_lowercase();
    let (clock, half) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
        (Some(clock), _) => (clock.trim_end(), Some(0)),
        (_, Some(clock)) => (clock.trim_end(), Some(12)),
        _ => (value, None),
    };
    let mut parts = clock.splitn(3, ':');
    let mut hour = number(parts.next()?, 1..=2)?;
    let minute = number(parts.next()?, 2..=2)?;
    if let Some(half) = half {
        if !(1..=12).contains(&hour) {
            return None;
        }
        hour = hour % 12 + half;
    }
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(second) => match second.split_once(['.', ',']) {
            None => (number(second, 2..=2)?, 0),
            Some((second, fraction)) => {
                let digits = number(fraction, 1..=9)?;
                let scale = 10_u32.pow(9 - fraction.len() as u32);
                (number(second, 2..=2)?, i64::from(digits * scale))
            }
        },
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
    Some((seconds * 1_000_000_000 + fraction, zone))
}

fn split_zone(value: &str) -> Option<(&str, Option<i32>)> {
    for utc in ["Z", " UTC", "UTC"] {
        if let Some(clock) = value.strip_suffix(utc) {
            return Some((clock, Some(0)));
        }
    }
    let Some(at) = value.rfind(['+', '-']) else {
        return Some((value, None));
    };
    let sign = if value.as_bytes()[at] == b'-' { -1 } else { 1 };
    let zone = &value[at + 1..];
    let (hours, minutes) = match (zone.split_once(':'), zone.len()) {
        (Some((hours, minutes)), _) => (hours, minutes),
        (None, 4) => zone.split_at_checked(2)?,
        (None, _) => (zone, "00"),
    };
    let (hours, minutes) = (number(hours, 1..=2)?, number(minutes, 2..=2)?);
    if hours > 18 || minutes > 59 {
        return None;
    }
    let seconds = (hours * 3_600 + minutes * 60) as i32;
    Some((value[..at].trim_end(), Some(sign * seconds)))
}

fn numbers(bytes: &[u8], order: Order, separator: u8, year: Year) -> Option<NaiveDate> {
    let mut parts = [(0_u32, 0_usize); 3];
    let mut part = 0;
    for byte in bytes {
        let (value, digits) = parts.get_mut(part)?;
        if byte.is_ascii_digit() {
            *value = *value * 10 + u32::from(byte - b'0');
            *digits += 1;
            if *digits > 4 {
                return None;
            }
        } else if *byte == separator && *digits > 0 {
            part += 1;
        } else {
            return None;
        }
    }
    let [first, second, third] = parts;
    let (y, m, d) = match order {
        Order::Year => (first, second, third),
        Order::Day => (third, second, first),
        Order::Month => (third, first, second),
    };
    let is_short = |(_, digits): (u32, usize)| (1..=2).contains(&digits);
    let year = match (year, y) {
        (Year::Four, (value, 4)) => value,
        (Year::Two, (value, 2)) if value < LAST_CENTURY => 2000 + value,
        (Year::Two, (value, 2)) => 1900 + value,
        _ => return None,
    };
    if !is_short(m) || !is_short(d) {
        return None;
    }
    date(year, m.0, d.0)
}

fn date(year: u32, month: u32, day: u32) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn month_of(name: &str) -> Option<u32> {
    if name.len() < 3 || !name.is_ascii() {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let is_it = |month: &&str| **month == name || (name.len() == 3 && month.starts_with(&name));
    let found = MONTHS.iter().position(is_it)?;
    Some(found as u32 + 1)
}

#[cfg(test)]
mod tests;
