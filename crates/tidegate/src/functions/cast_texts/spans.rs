//! Intervals: a unit for each number, where a text has a clock or quarters. A number without a unit before a clock is one
//! of days, as in PostgreSQL.

/// Tells whether a text has neither a clock nor quarters.
pub(super) fn is_plain(text: &str) -> bool {
    !text.contains([':', 'q', 'Q'])
}

/// Returns a text of an interval in which each number has a unit; `None` if neither a clock nor quarters are in it, or
/// such that are not read.
pub(crate) fn with_units(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_clock = |word: &&str| word.contains(':');
    let is_quarter = |word: &&str| {
        ["quarter", "quarters"]
            .iter()
            .any(|unit| word.eq_ignore_ascii_case(unit))
    };
    if !words.iter().any(is_clock) && !words.iter().any(is_quarter) {
        return None;
    }
    let mut spelled: Vec<String> = Vec::with_capacity(words.len() + 1);
    for (place, word) in words.iter().enumerate() {
        if is_clock(word) {
            spelled.push(clock(word)?);
            continue;
        }
        if is_quarter(word) {
            let number = spelled.pop()?.parse::<i64>().ok()?;
            spelled.push(number.checked_mul(3)?.to_string());
            spelled.push("months".to_string());
            continue;
        }
        spelled.push((*word).to_string());
        if words.get(place + 1).is_some_and(is_clock) && word.parse::<i64>().is_ok() {
            spelled.push("days".to_string());
        }
    }
    Some(spelled.join(" "))
}

/// Returns `4 hours 5 minutes 6 seconds` for `04:05:06`, and `-1 hours -30 minutes -0 seconds` for `-1:30`.
fn clock(word: &str) -> Option<String> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let mut parts = digits.split(':');
    let hours = whole(parts.next()?)?;
    let minutes = whole(parts.next()?).filter(|minutes| *minutes < 60)?;
    let seconds = parts.next().unwrap_or("0");
    let (seconds, fraction) = match seconds.split_once('.') {
        Some((seconds, fraction)) => (seconds, format!(".{:0<1}", digits_of(fraction)?)),
        None => (seconds, String::new()),
    };
    let seconds = whole(seconds).filter(|seconds| *seconds < 60)?;
    if parts.next().is_some() {
        return None;
    }
    Some(format!(
        "{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds}{fraction} seconds"
    ))
}

fn whole(text: &str) -> Option<u32> {
    digits_of(text)?.parse().ok()
}

fn digits_of(text: &str) -> Option<&str> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)
}

#[cfg(test)]
mod tests {
    use super::with_units;

    #[test]
    fn clocks_have_units() {
        for (text, expect) in [
            ("04:05:06", Some("4 hours 5 minutes 6 seconds")),
            ("-1:30", Some("-1 hours -30 minutes -0 seconds")),
            (
                "3 days 04:05:06.25",
                Some("3 days 4 hours 5 minutes 6.25 seconds"),
            ),
            ("1 2:03", Some("1 days 2 hours 3 minutes 0 seconds")),
            ("1 year -2 quarters", Some("1 year -6 months")),
            ("quarter", None),
            ("1 day", None),
            ("1:60", None),
            ("1:2:3:4", None),
            ("a:b", None),
            ("1:", None),
        ] {
            assert_eq!(with_units(text).as_deref(), expect, "{text}");
        }
    }
}
