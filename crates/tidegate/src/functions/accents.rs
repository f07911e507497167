//! `strip_accents(s)`: a string without the marks above and below its letters, as in DuckDB: `café` becomes `cafe`.
//!
//! Letters are taken apart as Unicode does (NFD), lose their combining diacritical marks, and are put together again (NFC).
//! A letter that is one whole stays: `ø`, `ß`, `ł`; so do marks that belong to one script. NULL of NULL.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::plain::{self, Parts};

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["strip_accents"],
        section: DOC_SECTION_STRING,
        description: "Leaves the accents of letters out.",
        syntax: "strip_accents(s)",
        takes: |given| match given {
            [DataType::Dictionary(_, values)] if values.is_string() => Ok(vec![DataType::Utf8View]),
            [given] if given.is_string() || given.is_null() => Ok(vec![DataType::Utf8View]),
            _ => plan_err!("strip_accents takes a string"),
        },
        returns: |_| DataType::Utf8View,
        computes: all_stripped,
    })
}

fn all_stripped(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts] = given else {
        return exec_err!("strip_accents takes one string");
    };
    let texts = texts.as_string_view();
    if texts.iter().flatten().all(str::is_ascii) {
        return Ok(Arc::new(texts.clone()));
    }
    let mut all = StringViewBuilder::new();
    for text in texts {
        match text {
            Some(text) if !text.is_ascii() => all.append_value(stripped(text)),
            text => all.append_option(text),
        }
    }
    Ok(Arc::new(all.finish()))
}

fn stripped(text: &str) -> String {
    let taken_apart = DecomposingNormalizerBorrowed::new_nfd();
    let put_together = ComposingNormalizerBorrowed::new_nfc();
    let letters = taken_apart.normalize_iter(text.chars());
    let letters = letters.filter(|c| !is_mark(*c));
    put_together.normalize_iter(letters).collect()
}

/// Tells the marks that combine with the letter before them, of no script alone.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::stripped;

    #[test]
    fn letters_lose_their_marks() {
        for (text, expect) in [
            ("café crème", "cafe creme"),
            ("ÄÖÜäöüß", "AOUaouß"),
            ("mu\u{308}de", "mude"),
            ("Đặng Thị Ngọc", "Đang Thi Ngoc"),
            ("Ελλάδα", "Ελλαδα"),
            ("ёлка й", "елка и"),
            ("smørrebrød, łódź", "smørrebrød, łodz"),
            ("日本語 が 한국 हिन्दी", "日本語 が 한국 हिन्दी"),
            ("", ""),
        ] {
            assert_eq!(stripped(text), expect);
        }
    }
}
