//! Formats of dates by letters, as PostgreSQL and Spark have them: `YYYY-MM-DD` is `%Y-%m-%d`.
//!
//! `FM` leaves out the zeros in front of the number behind it. Letters that stand for nothing here, as `WW` or the `th` of
//! `DDth`, make a format none of letters; `to_char` refuses it ([`Lettered`]), for it would write them as they are.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};

use super::with_arguments;
use crate::error::{Error, ErrorKind};

/// The letters and what they stand for, the longer ones first. `HH` and `mm` depend on the rest of the format.
const LETTERS: [(&str, &str); 51] = [
    ("SSSSSS", "%6f"),
    // The day of an ISO year, which there is no other way to write.
    ("IDDD", ""),
    ("IYYY", "%G"),
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
    ("IW", "%V"),
    ("ID", "%u"),
    ("FM", "short"),
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
    ("Q", "%q"),
    ("a", "%p"),
];

/// What stands for numbers, whose zeros in front may be left out.
const NUMBERS: [&str; 11] = [
    "%H", "%I", "%M", "%S", "%V", "%Y", "%G", "%d", "%j", "%m", "%y",
];

/// What a format is, as letters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// As chrono has it.
    Known(String),
    /// It has letters that stand for nothing: these.
    Unknown(String),
    /// It has `%`, or no letters.
    Other,
}

/// Writes a format of letters as chrono has it; `None` for one that has `%`, no letters, or others.
pub(crate) fn by_letters(format: &str) -> Option<String> {
    match read(format) {
        Read::Known(written) => Some(written),
        Read::Unknown(_) | Read::Other => None,
    }
}

/// Reads a format of letters.
pub(super) fn read(format: &str) -> Read {
    if format.contains('%') {
        return Read::Other;
    }
    let is_of_postgres = ["MI", "mi"].iter().any(|minutes| format.contains(minutes));
    let has_months = format.contains("MM");
    let mut written = String::with_capacity(format.len() * 2);
    let (mut found, mut is_short) = (false, false);
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        let known = LETTERS
            .iter()
            .find(|(letters, _)| rest.starts_with(letters));
        if let Some((letters, meaning)) = known {
            let meaning = match *meaning {
                "" => return unknown(rest),
                "short" => "",
                // An hour of PostgreSQL is one of twelve.
                "hour" if is_of_postgres => "%I",
                "hour" => "%H",
                // Java's minutes are PostgreSQL's months, where nothing else is.
                "minute" if has_months || written.ends_with(':') => "%M",
                "minute" => "%m",
                meaning => meaning,
            };
            match is_short && NUMBERS.contains(&meaning) {
                true => written.push_str(&meaning.replace('%', "%-")),
                false => written.push_str(meaning),
            }
            is_short = meaning.is_empty();
            found |= !is_short;
            rest = rest.get(letters.len()..).unwrap_or_default();
            continue;
        }
        let behind = rest.get(first.len_utf8()..).unwrap_or_default();
        if matches!(first, '"' | '\'')
            && let Some((literal, behind)) = behind.split_once(first)
        {
            written.push_str(literal);
            rest = behind;
            continue;
        }
        if first.is_alphabetic() && !matches!(first, 'T' | 'Z') {
            return unknown(rest);
        }
        written.push(first);
        rest = behind;
    }
    match found {
        true => Read::Known(written),
        false => Read::Other,
    }
}

/// Takes the letters that a format goes on with.
fn unknown(rest: &str) -> Read {
    let letters = rest.chars().take_while(|letter| letter.is_alphabetic());
    Read::Unknown(letters.collect())
}

/// Returns `to_char`, made of the one that is registered: its format may be of letters, of which those that stand for
/// nothing are an error.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(super) fn function(registry: &dyn FunctionRegistry) -> Result<ScalarUDF> {
    with_arguments::function(registry, "to_char", write_in_percent)
}

fn write_in_percent(args: &mut [ColumnarValue]) -> Result<()> {
    let [of, format] = args else {
        return Ok(());
    };
    let of = of.data_type();
    // The formats of durations are words.
    if matches!(of, DataType::Duration(_)) {
        return Ok(());
    }
    *format = match &*format {
        ColumnarValue::Scalar(text) => match text.try_as_str().flatten() {
            Some(text) => ScalarValue::Utf8(Some(with_zone(in_percent(text)?, &of))).into(),
            None => ColumnarValue::Scalar(text.clone()),
        },
        ColumnarValue::Array(texts) => ColumnarValue::Array(all_in_percent(texts, &of)?),
    };
    Ok(())
}

/// Writes the name of the zone that values of a type have, as in DuckDB: chrono knows offsets alone, and of times without
/// a zone refuses these, too.
fn with_zone(format: String, of: &DataType) -> String {
    if !format.contains("%Z") && !format.contains("%z") {
        return format;
    }
    let mut written = String::with_capacity(format.len());
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            written.push(letter);
            continue;
        }
        match (letters.next(), of) {
            (Some('Z'), DataType::Timestamp(_, Some(zone))) => {
                written.push_str(&zone.replace('%', "%%"));
            }
            (Some('Z'), _) => {}
            (Some('z'), DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64) => {
                written.push_str("+00");
            }
            (other, _) => {
                written.push('%');
                written.extend(other);
            }
        }
    }
    written
}

fn all_in_percent(texts: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    let Some(formats) = texts.as_string_opt::<i32>() else {
        return Ok(Arc::clone(texts));
    };
    let of_one = |text: &str| in_percent(text).map(|format| with_zone(format, of));
    let written = formats.iter().map(|text| text.map(of_one).transpose());
    let written: StringArray = written.collect::<Result<_>>()?;
    Ok(Arc::new(written))
}

/// Writes a format as chrono has it.
fn in_percent(format: &str) -> Result<String> {
    match read(format) {
        Read::Known(written) => Ok(written),
        Read::Other => Ok(format.to_string()),
        Read::Unknown(letters) => {
            let message = format!(
                "to_char: '{letters}' of the format '{format}' stands for no part of a time: use letters as in \
                 'YYYY-MM-DD HH24:MI:SS', or '%Y-%m-%d %H:%M:%S', and put text in double quotes"
            );
            Err(Error::new(ErrorKind::Sql, message).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};

    use super::{Read, by_letters, read, with_zone};

    #[test]
    fn zones_have_their_names() {
        let times =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into));
        for (format, of, expect) in [
            ("%H %Z", times(Some("Europe/Berlin")), "%H Europe/Berlin"),
            ("%H %z", times(Some("UTC")), "%H %z"),
            ("%H%Z%z", times(None), "%H+00"),
            ("100%%Z", times(None), "100%%Z"),
            ("%Z", DataType::Date32, ""),
        ] {
            assert_eq!(with_zone(format.to_string(), &of), expect);
        }
    }

    #[test]
    fn letters_without_a_meaning_are_named() {
        for (format, letters) in [("DDth", "th"), ("YYYY WW", "WW"), ("quarter", "quarter")] {
            assert_eq!(read(format), Read::Unknown(letters.to_string()));
        }
        assert_eq!(read("--"), Read::Other);
    }

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
            ("FMDD.FMMM.YYYY", Some("%-d.%-m.%Y")),
            ("FMMonth", Some("%B")),
            ("YYYY\"-Q\"Q", Some("%Y-Q%q")),
            ("IYYY-IW-ID", Some("%G-%V-%u")),
            ("IDDD", None),
            ("DDth", None),
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
