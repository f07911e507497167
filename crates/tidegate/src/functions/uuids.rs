//! `to_uuid(s)`, which a cast to UUID becomes: the text of a UUID as it is mostly written. `try_to_uuid(s)` is NULL of any
//! other text.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};

/// Digits of a UUID.
const DIGITS: usize = 32;

/// Digits behind which a hyphen stands.
const BEFORE_HYPHENS: [usize; 4] = [8, 12, 16, 20];

pub(super) fn functions() -> [ScalarUDF; 2] {
    let strict = Parts {
        names: &["to_uuid"],
        section: DOC_SECTION_STRING,
        description: "Reads the text of a UUID, and writes it in small letters with hyphens.",
        syntax: "to_uuid(s)",
        takes: |given| one_string("to_uuid", given),
        returns: |_| DataType::Utf8View,
        computes: |given| read(given, true),
    };
    let lenient = Parts {
        names: &["try_to_uuid"],
        section: DOC_SECTION_STRING,
        description: "Reads the text of a UUID; NULL of any other.",
        syntax: "try_to_uuid(s)",
        takes: |given| one_string("try_to_uuid", given),
        returns: |_| DataType::Utf8View,
        computes: |given| read(given, false),
    };
    [strict, lenient].map(plain::function)
}

fn one_string(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8View]),
        _ => plan_err!("{name} takes a string: a UUID is text here"),
    }
}

fn read(given: &[ArrayRef], is_strict: bool) -> Result<ArrayRef> {
    let [texts] = given else {
        return internal_err!("a UUID of {} arguments", given.len());
    };
    let mut found = Vec::with_capacity(texts.len());
    for text in texts.as_string_view() {
        let uuid = text.and_then(uuid);
        if let (None, Some(text), true) = (&uuid, text, is_strict) {
            return exec_err!(
                "'{text}' is no UUID, such as 'f47ac10b-58cc-4372-a567-0e02b2c3d479'"
            );
        }
        found.push(uuid);
    }
    Ok(Arc::new(StringViewArray::from_iter(found)))
}

/// Writes a UUID in small letters with hyphens; braces around it and hyphens may be there.
fn uuid(text: &str) -> Option<String> {
    let text = text.trim();
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let mut written = String::with_capacity(DIGITS + BEFORE_HYPHENS.len());
    let mut count = 0;
    for letter in inner.unwrap_or(text).chars() {
        match letter {
            '-' if count > 0 && count % 4 == 0 => {}
            letter if letter.is_ascii_hexdigit() && count < DIGITS => {
                if BEFORE_HYPHENS.contains(&count) {
                    written.push('-');
                }
                written.push(letter.to_ascii_lowercase());
                count += 1;
            }
            _ => return None,
        }
    }
    (count == DIGITS && !text.ends_with('-')).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn uuids_are_written_in_one_way() {
        let expect = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
        for text in [
            expect,
            "F47AC10B-58CC-4372-A567-0E02B2C3D479",
            "f47ac10b58cc4372a5670e02b2c3d479",
            "{f47ac10b-58cc-4372-a567-0e02b2c3d479}",
        ] {
            assert_eq!(uuid(text).as_deref(), Some(expect));
        }
        for text in [
            "",
            "a",
            &expect[1..],
            &format!("{expect}0"),
            &expect.replace('a', "g"),
        ] {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
