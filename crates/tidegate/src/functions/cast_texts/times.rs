//! Dates and timestamps: two digits for each part, dashes between those of a date, and seconds.

/// Tells whether a text may be a date or a timestamp of the shape that is written here.
pub(super) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_at = |sign: u8, place: usize| bytes.get(place) == Some(&sign);
    let is_date = is_at(b'-', 4) && is_at(b'-', 7);
    is_date && (bytes.len() == 10 || (bytes.len() >= 19 && is_at(b':', 13) && is_at(b':', 16)))
}

/// Writes `2024/1/5` as `2024-01-05` and `2024-01-05 3:00` as `2024-01-05 03:00:00`; `None` for any other text.
pub(super) fn completed(text: &str) -> Option<String> {
    let (date, time) = match text.find([' ', 'T', 't']) {
        Some(place) => text.split_at_checked(place)?,
        None => (text, ""),
    };
    let date = whole_date(date)?;
    let written = match time.split_at_checked(1) {
        Some((sign, clock)) => format!("{date}{sign}{}", whole_clock(clock)?),
        None => date,
    };
    (written != text).then_some(written)
}

fn whole_date(date: &str) -> Option<String> {
    let sign = if date.contains('/') { '/' } else { '-' };
    let mut parts = date.split(sign);
    let year = parts.next().filter(|year| year.len() == 4)?;
    let (month, day) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let is_date = all_digits(year) && parts.next().is_none();
    is_date.then(|| format!("{year}-{month}-{day}"))
}

/// Writes a time of day with its seconds; a fraction and a zone behind them stay.
fn whole_clock(clock: &str) -> Option<String> {
    let (hours, rest) = leading_digits(clock)?;
    let (minutes, rest) = leading_digits(rest.strip_prefix(':')?)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => leading_digits(rest)?,
        None if rest.starts_with('.') => return None,
        None => ("0", rest),
    };
    let is_end = matches!(
        rest.bytes().next(),
        None | Some(b'.' | b'Z' | b'z' | b'+' | b'-' | b' ')
    );
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    let seconds = two_digits(seconds)?;
    is_end.then(|| format!("{hours}:{minutes}:{seconds}{rest}"))
}

fn leading_digits(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits)
}

/// Writes a number of one or two digits with two.
fn two_digits(number: &str) -> Option<String> {
    let fits = (1..=2).contains(&number.len()) && all_digits(number);
    fits.then(|| format!("{number:0>2}"))
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{completed, is_plain};

    #[test]
    fn only_timestamps_without_seconds_get_some() {
        for (text, expect) in [
            ("2024-03-01 12:00", Some("2024-03-01 12:00:00")),
            ("2024-03-01T12:00Z", Some("2024-03-01T12:00:00Z")),
            ("2024-03-01 12:00+02", Some("2024-03-01 12:00:00+02")),
            (
                "2024-03-01 12:00 Europe/Berlin",
                Some("2024-03-01 12:00:00 Europe/Berlin"),
            ),
            ("2024-03-01 12:00:00", None),
            ("2024-03-01 12:00:00.25+02", None),
            ("2024-03-01 12:0", Some("2024-03-01 12:00:00")),
            ("2024-03-01 3:00", Some("2024-03-01 03:00:00")),
            ("2024-3-1 3:4:5.25", Some("2024-03-01 03:04:05.25")),
            ("2024-03-01 12:00:5", Some("2024-03-01 12:00:05")),
            ("2024-03-01 3", None),
            ("2024-03-01 3:00.5", None),
            ("2024-03-01 003:00", None),
            ("2024-03-01", None),
            ("2024-03-01 ", None),
            ("01.03.2024 12:00", None),
            ("2024-03-01 12:00 ", Some("2024-03-01 12:00:00 ")),
            ("äöü4-03-01 12:00", None),
            ("2024-03-01 12:ü0", None),
            ("2024/01/05", Some("2024-01-05")),
            ("2024/1/5 10:00", Some("2024-01-05 10:00:00")),
            ("2024/01/05T10:00:01", Some("2024-01-05T10:00:01")),
            ("2024/01/ü5", None),
            ("2024/01-05", None),
            ("01/05/2024", None),
            ("2024/01", None),
            ("", None),
        ] {
            assert_eq!(completed(text).as_deref(), expect, "{text}");
            assert!(!(is_plain(text) && expect.is_some()), "{text}");
        }
    }
}
