//! Text that stands for something else: `sha1(x)`, `url_encode(s)`, `url_decode(s)`, and `format_bytes(n)`, a number of bytes
//! in words, as DuckDB has them.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::{
    DOC_SECTION_HASHING, DOC_SECTION_OTHER, DOC_SECTION_STRING,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha1::{Digest, Sha1};

use super::plain::{self, Parts};

/// What is written as `%XX`: all but letters, digits and what RFC 3986 leaves as it is beside them.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Units of bytes, each 1,024 of the one before.
const BINARY: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// Units of bytes, each 1,000 of the one before.
const DECIMAL: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];

pub(super) fn functions() -> [ScalarUDF; 5] {
    let sha1 = Parts {
        names: &["sha1"],
        section: DOC_SECTION_HASHING,
        description: "Returns the SHA-1 of a string or binary value, in hexadecimal digits.",
        syntax: "sha1(x)",
        takes: |given| match given {
            [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Binary]),
            [of] if of.is_binary() => Ok(vec![DataType::Binary]),
            _ => plan_err!("sha1 takes a string or a binary value"),
        },
        returns: |_| DataType::Utf8View,
        computes: |given| match given {
            [values] => {
                let values = values.as_binary::<i32>().iter();
                let digests = values.map(|value| value.map(|bytes| hex(&Sha1::digest(bytes))));
                Ok(Arc::new(StringViewArray::from_iter(digests)))
            }
            _ => internal_err!("sha1 of {} arguments", given.len()),
        },
    };
    let encode = Parts {
        names: &["url_encode"],
        section: DOC_SECTION_STRING,
        description: "Writes what may not stand in a URL as %XX.",
        syntax: "url_encode(s)",
        takes: |given| one_string("url_encode", given),
        returns: |_| DataType::Utf8View,
        computes: |given| texts(given, |text| Ok(url_encoded(text))),
    };
    let decode = Parts {
        names: &["url_decode"],
        section: DOC_SECTION_STRING,
        description: "Reads the %XX of a URL.",
        syntax: "url_decode(s)",
        takes: |given| one_string("url_decode", given),
        computes: |given| texts(given, url_decoded),
        ..encode
    };
    let binary = Parts {
        names: &["format_bytes", "formatreadablesize"],
        section: DOC_SECTION_OTHER,
        description: "Writes a number of bytes in KiB, MiB, GiB, TiB or PiB.",
        syntax: "format_bytes(n)",
        takes: |given| one_integer("format_bytes", given),
        returns: |_| DataType::Utf8View,
        computes: |given| sizes(given, 1_024, BINARY),
    };
    let decimal = Parts {
        names: &["formatreadabledecimalsize"],
        section: DOC_SECTION_OTHER,
        description: "Writes a number of bytes in kB, MB, GB, TB or PB.",
        syntax: "formatreadabledecimalsize(n)",
        takes: |given| one_integer("formatreadabledecimalsize", given),
        computes: |given| sizes(given, 1_000, DECIMAL),
        ..binary
    };
    [sha1, encode, decode, binary, decimal].map(plain::function)
}

fn one_string(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8View]),
        _ => plan_err!("{name} takes a string"),
    }
}

fn one_integer(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if of.is_integer() || of.is_null() => Ok(vec![DataType::Int64]),
        _ => plan_err!("{name} takes a whole number of bytes"),
    }
}

fn texts(given: &[ArrayRef], of: fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let [values] = given else {
        return internal_err!("a text of {} arguments", given.len());
    };
    let values = values.as_string_view().iter();
    let values = values.map(|value| value.map(of).transpose());
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StringViewArray::from_iter(values)))
}

fn sizes(given: &[ArrayRef], step: u64, units: [&str; 5]) -> Result<ArrayRef> {
    let [values] = given else {
        return internal_err!("a size of {} arguments", given.len());
    };
    let values = values.as_primitive::<Int64Type>().iter();
    let values = values.map(|value| value.map(|bytes| size(bytes, step, units)));
    Ok(Arc::new(StringViewArray::from_iter(values)))
}

/// Writes a number of bytes in the largest unit of which there is one, with one digit behind the point, the others cut off.
fn size(bytes: i64, step: u64, units: [&str; 5]) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let count = bytes.unsigned_abs();
    let mut found = None;
    let mut factor = step;
    for unit in units {
        if count >= factor {
            found = Some((factor, unit));
        }
        factor = factor.saturating_mul(step);
    }
    match found {
        Some((factor, unit)) => {
            let tenths = u128::from(count) * 10 / u128::from(factor);
            format!("{sign}{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None if count == 1 => format!("{sign}1 byte"),
        None => format!("{sign}{count} bytes"),
    }
}

fn url_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Reads `%XX` and `+`; a `%` without two digits behind it is itself.
fn url_decoded(text: &str) -> Result<String> {
    let spaced = text.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(read) => Ok(read.into_owned()),
        Err(_) => exec_err!("url_decode: '{text}' stands for no text in UTF-8"),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut written = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(written, "{byte:02x}");
    }
    written
}

#[cfg(test)]
mod tests {
    use super::{BINARY, DECIMAL, Digest, Sha1, hex, size, url_decoded, url_encoded};

    #[test]
    fn digests_are_those_of_the_standard() {
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        for (message, expect) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (long, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
        ] {
            assert_eq!(hex(&Sha1::digest(message)), expect);
        }
    }

    #[test]
    fn addresses_are_written_and_read() {
        let text = "this string has/ special+ chars>~é";
        let written = "this%20string%20has%2F%20special%2B%20chars%3E~%C3%A9";
        assert_eq!(url_encoded(text), written);
        assert_eq!(url_decoded(written).unwrap(), text);
        assert_eq!(url_decoded("a+b%zz%4%").unwrap(), "a b%zz%4%");
        assert!(url_decoded("%C3").is_err());
    }

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        for (bytes, expect) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1023 bytes"),
            (1_099, "1.0 KiB"),
            (-2_048, "-2.0 KiB"),
            (1_500_000_000, "1.3 GiB"),
            (i64::MAX, "8191.9 PiB"),
        ] {
            assert_eq!(size(bytes, 1_024, BINARY), expect);
        }
        assert_eq!(size(16_000, 1_000, DECIMAL), "16.0 kB");
    }
}
