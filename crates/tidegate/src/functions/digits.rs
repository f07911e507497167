//! `hex(x)` and `bin(x)`, also called `to_binary`: the digits of an integer in base 16 or 2, or of each byte of a string or a
//! blob, as in DuckDB.
//!
//! A negative integer is written in two's complement of 64 bits. Digits above 9 are in upper case; `to_hex`, which is
//! DataFusion's and PostgreSQL's, takes integers alone and writes them in lower case. NULL of NULL.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};

use crate::error::{Error, ErrorKind};

/// The most bytes of the strings of one array, whose offsets have 32 bits.
const ARRAY_BYTES_MAX: usize = i32::MAX as usize;

/// Returns the functions.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    let hex = Parts {
        names: &["hex"],
        section: DOC_SECTION_STRING,
        description: "Writes an integer, or the bytes of a string or a blob, in base 16.",
        syntax: "hex(x)",
        takes: |given| Base::Sixteen.takes(given),
        returns: |_| DataType::Utf8,
        computes: |given| written(Base::Sixteen, given),
    };
    let bin = Parts {
        names: &["bin", "to_binary"],
        section: DOC_SECTION_STRING,
        description: "Writes an integer, or the bytes of a string or a blob, in base 2.",
        syntax: "bin(x)",
        takes: |given| Base::Two.takes(given),
        returns: |_| DataType::Utf8,
        computes: |given| written(Base::Two, given),
    };
    [hex, bin].map(plain::function)
}

#[derive(Clone, Copy)]
enum Base {
    Two,
    Sixteen,
}

impl Base {
    fn name(self) -> &'static str {
        match self {
            Self::Two => "bin",
            Self::Sixteen => "hex",
        }
    }

    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Dictionary(_, values)] if values.is_string() => Ok(vec![DataType::Binary]),
            [given] if given.is_string() || given.is_binary() => Ok(vec![DataType::Binary]),
            [given] if given.is_signed_integer() || given.is_null() => Ok(vec![DataType::Int64]),
            [given] if given.is_unsigned_integer() => Ok(vec![DataType::UInt64]),
            _ => plan_err!("{} takes an integer, a string or a blob", self.name()),
        }
    }

    fn digits_of_byte(self) -> usize {
        match self {
            Self::Two => 8,
            Self::Sixteen => 2,
        }
    }

    fn of_number(self, number: u64) -> String {
        match self {
            Self::Two => format!("{number:b}"),
            Self::Sixteen => format!("{number:X}"),
        }
    }

    fn of_bytes(self, bytes: &[u8]) -> String {
        let mut digits = String::with_capacity(bytes.len() * self.digits_of_byte());
        for byte in bytes {
            // Writing into a string does not fail.
            let _ = match self {
                Self::Two => write!(digits, "{byte:08b}"),
                Self::Sixteen => write!(digits, "{byte:02X}"),
            };
        }
        digits
    }
}

fn written(base: Base, given: &[ArrayRef]) -> Result<ArrayRef> {
    let [given] = given else {
        return exec_err!("{} takes one argument", base.name());
    };
    let written: StringArray = match given.data_type() {
        DataType::Int64 => {
            let numbers = given.as_primitive::<Int64Type>().iter();
            let numbers = numbers.map(|number| number.map(|number| number as u64));
            numbers
                .map(|number| number.map(|number| base.of_number(number)))
                .collect()
        }
        DataType::UInt64 => {
            let numbers = given.as_primitive::<UInt64Type>().iter();
            numbers
                .map(|number| number.map(|number| base.of_number(number)))
                .collect()
        }
        DataType::Binary => {
            let blobs = given.as_binary::<i32>();
            let lengths = blobs.iter().flatten().map(<[u8]>::len);
            let bytes = lengths.sum::<usize>() * base.digits_of_byte();
            if bytes > ARRAY_BYTES_MAX {
                let message = format!(
                    "{}() would make {bytes} bytes at once; lower datafusion.execution.batch_size",
                    base.name()
                );
                return Err(Error::new(ErrorKind::ResourcesExhausted, message).into());
            }
            let mut written = StringBuilder::with_capacity(blobs.len(), bytes);
            for blob in blobs {
                written.append_option(blob.map(|blob| base.of_bytes(blob)));
            }
            written.finish()
        }
        other => return exec_err!("{} does not take {other}", base.name()),
    };
    Ok(Arc::new(written))
}

#[cfg(test)]
mod tests {
    use super::Base;

    #[test]
    fn numbers_and_bytes_are_written_in_their_base() {
        assert_eq!(Base::Sixteen.of_number(255), "FF");
        assert_eq!(Base::Two.of_number(0), "0");
        assert_eq!(Base::Two.of_number(u64::MAX).len(), 64);
        assert_eq!(Base::Sixteen.of_bytes(b"\x00aZ"), "00615A");
        assert_eq!(Base::Two.of_bytes(b"a"), "01100001");
        assert_eq!(Base::Two.of_bytes(b""), "");
    }
}
