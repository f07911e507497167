//! The function that writes `:00` behind the minutes of timestamps that have no seconds, and `-` for `/` in dates.
//!
//! Texts of any other shape stay, and an array in which nothing is written is returned as it is: whether a text has
//! seconds, and dashes, is told by few of its bytes.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{Expr, ScalarUDF};

use crate::functions::plain::{self, Parts};

static WITH_SECONDS: LazyLock<ScalarUDF> = LazyLock::new(|| {
    plain::total(Parts {
        names: &["with_seconds"],
        section: DOC_SECTION_STRING,
        description: "Writes the seconds of a timestamp that has none.",
        syntax: "with_seconds(text)",
        takes: |_| Ok(vec![DataType::Utf8View]),
        returns: |_| DataType::Utf8View,
        computes: all_completed,
    })
});

/// Builds `with_seconds(text)`, of a `Utf8View`.
pub(super) fn call(text: Expr) -> Expr {
    WITH_SECONDS.call(vec![text])
}

/// Tells whether an expression is such a call.
pub(super) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if *call.func == *WITH_SECONDS)
}

/// Returns the function, for plans that are read from bytes.
pub(in crate::session) fn function() -> ScalarUDF {
    WITH_SECONDS.clone()
}

fn all_completed(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [array] = given else {
        return exec_err!("with_seconds takes a string");
    };
    let texts = array.as_string_view();
    let differs = |text: Option<&str>| {
        text.is_some_and(|text| lacks_seconds(text) || text.as_bytes().get(4) == Some(&b'/'))
    };
    if !texts.iter().any(differs) {
        return Ok(Arc::clone(array));
    }
    let mut all = StringViewBuilder::with_capacity(texts.len());
    for text in texts {
        match text.and_then(completed) {
            Some(completed) => all.append_value(completed),
            None => all.append_option(text),
        }
    }
    Ok(Arc::new(all.finish()))
}

/// Writes `:00` behind the minutes of a timestamp that has none, and `-` for the `/` of `2024/01/05`; `None` for any
/// other text.
pub(super) fn completed(text: &str) -> Option<String> {
    let dashed = with_dashes(text);
    let completed = with_seconds(dashed.as_deref().unwrap_or(text));
    completed.or(dashed)
}

/// Writes `2024/1/5` as `2024-01-05`, with whatever time is behind it.
fn with_dashes(text: &str) -> Option<String> {
    let (year, rest) = text.split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, rest) = rest.split_at_checked(digits)?;
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = year.len() == 4
        && all_digits(year)
        && all_digits(month)
        && (1..=2).contains(&month.len())
        && (1..=2).contains(&day.len())
        && matches!(rest.bytes().next(), None | Some(b' ' | b'T' | b't'));
    is_date.then(|| format!("{year}-{month:0>2}-{day:0>2}{rest}"))
}

fn with_seconds(text: &str) -> Option<String> {
    let (minutes, zone) = text.split_at_checked(SHAPE.len())?;
    lacks_seconds(text).then(|| format!("{minutes}:00{zone}"))
}

/// The shape of a timestamp up to its minutes.
const SHAPE: &[u8] = b"0000-00-00 00:00";

fn lacks_seconds(text: &str) -> bool {
    let Some((minutes, zone)) = text.as_bytes().split_at_checked(SHAPE.len()) else {
        return false;
    };
    if !matches!(zone.first(), None | Some(b'Z' | b'z' | b'+' | b'-' | b' ')) {
        return false;
    }
    let fits = |(given, shape): (&u8, &u8)| match shape {
        b'0' => given.is_ascii_digit(),
        b' ' => matches!(given, b' ' | b'T' | b't'),
        shape => given == shape,
    };
    minutes.iter().zip(SHAPE).all(fits)
}

#[cfg(test)]
mod tests {
    use super::completed;

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
            ("2024-03-01 12:0", None),
            ("2024-03-01", None),
            ("01.03.2024 12:00", None),
            ("2024-03-01 12:00 ", Some("2024-03-01 12:00:00 ")),
            ("äöü4-03-01 12:00", None),
            ("2024-03-01 12:ü0", None),
            ("2024/01/05", Some("2024-01-05")),
            ("2024/1/5 10:00", Some("2024-01-05 10:00:00")),
            ("2024/01/05T10:00:01", Some("2024-01-05T10:00:01")),
            ("2024/01/ü5", None),
            ("01/05/2024", None),
            ("2024/01", None),
        ] {
            assert_eq!(completed(text).as_deref(), expect, "{text}");
        }
    }
}
