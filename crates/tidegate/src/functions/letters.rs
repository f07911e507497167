//! Formats of dates by letters, as PostgreSQL and Spark have them: `YYYY-MM-DD` is `%Y-%m-%d`.

/// The letters and what they stand for, the longer ones first. `HH` and `mm` depend on the rest of the format.
const LETTERS: [(&str, &str); 45] = [
    ("SSSSSS", "%6f"),
    ("HH24", "%H"),
    ("hh24", "%H"),
    ("HH12", "%I"),
    ("hh12", "%I"),
    ("YYYY", "%Y"),
    ("yyyy", "%Y"),
    ("MMMM", "%B"),
    ("EEEE", "%A"),
    ("MONTH", "%B"),
    ("Month", "%B"),
    ("month", "%B"),
    ("SSS", "%3f"),
    ("MMM", "%b"),
    ("MON", "%b"),
    ("Mon", "%b"),
    ("mon", "%b"),
    ("EEE", "%a"),
    ("DDD", "%j"),
    ("DAY", "%A"),
    ("Day", "%A"),
    ("day", "%A"),
    ("XXX", "%:z"),
    ("YY", "%y"),
    ("yy", "%y"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("dd", "%d"),
    ("DY", "%a"),
    ("Dy", "%a"),
    ("dy", "%a"),
    ("HH", "hour"),
    ("hh", "%I"),
    ("MI", "%M"),
    ("mi", "%M"),
    ("mm", "minute"),
    ("SS", "%S"),
    ("ss", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("TZ", "%Z"),
    ("OF", "%:z"),
    ("a", "%p"),
];

/// Writes a format of letters as chrono has it; `None` for one that has `%`, no letters, or others.
pub(crate) fn by_letters(format: &str) -> Option<String> {
    if format.contains('%') {
        return None;
    }
    let is_of_postgres = ["MI", "mi"].iter().any(|minutes| format.contains(minutes));
    let has_months = format.contains("MM");
    let mut written = String::with_capacity(format.len() * 2);
    let mut found = false;
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if let Some((letters, meaning)) = LETTERS
            .iter()
            .find(|(letters, _)| rest.starts_with(letters))
        {
            written.push_str(match *meaning {
                // An hour of PostgreSQL is one of twelve.
                "hour" if is_of_postgres => "%I",
                "hour" => "%H",
                // Java's minutes are PostgreSQL's months, where nothing else is.
                "minute" if has_months || written.ends_with(':') => "%M",
                "minute" => "%m",
                meaning => meaning,
            });
            found = true;
            rest = &rest[letters.len()..];
            continue;
        }
        if matches!(first, '"' | '\'') {
            let (literal, behind) = rest[1..].split_once(first)?;
            written.push_str(literal);
            rest = behind;
            continue;
        }
        if first.is_alphabetic() && !matches!(first, 'T' | 'Z') {
            return None;
        }
        written.push(first);
        rest = &rest[first.len_utf8()..];
    }
    found.then_some(written)
}

#[cfg(test)]
mod tests {
    use super::by_letters;

    #[test]
    fn letters_are_those_of_postgresql_and_spark() {
        for (format, expect) in [
            ("YYYY-MM-DD", Some("%Y-%m-%d")),
            ("yyyy-mm-dd", Some("%Y-%m-%d")),
            ("DD.MM.YYYY HH24:MI:SS", Some("%d.%m.%Y %H:%M:%S")),
            ("yyyy-MM-dd'T'HH:mm:ss.SSS", Some("%Y-%m-%dT%H:%M:%S.%3f")),
            ("yyyy-MM-ddTHH:mm:ss", Some("%Y-%m-%dT%H:%M:%S")),
            ("HH:MI AM", Some("%I:%M %p")),
            ("hh:mm a", Some("%I:%M %p")),
            ("Day, DD Mon YYYY", Some("%A, %d %b %Y")),
            ("\"week\" YY", Some("week %y")),
            ("%Y-%m-%d", None),
            ("quarter", None),
            ("YYYY quarter", None),
            ("--", None),
            ("", None),
        ] {
            assert_eq!(by_letters(format).as_deref(), expect, "{format}");
        }
    }
}
