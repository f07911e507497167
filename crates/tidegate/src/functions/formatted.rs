//! `printf('%05.2f', x)` and `format('{:,} of {}', x, y)`, as DuckDB has them.
//!
//! Both grammars, C's and that of the library fmt, are read into the same pieces ([`grammar`]): text, and places for
//! arguments with a specification of how each is written ([`value`]). A format is read once for as many rows as
//! follow each other with it. NULL among the arguments makes NULL.

mod grammar;
mod value;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};
use crate::error::{Error, ErrorKind};
use grammar::{Grammar, Piece};
use value::Value;

/// Characters that a number may have beside those that its format asks for: those of the largest DOUBLE.
const NUMBER_CHARS: u64 = 350;

/// Returns the functions of a format and of values.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    let printf = Parts {
        names: &["printf"],
        section: DOC_SECTION_STRING,
        description: "Writes values by a format of C.",
        syntax: Grammar::C.example(),
        takes: |given| Grammar::C.takes(given),
        returns: |_| DataType::Utf8View,
        computes: |given| Grammar::C.written(given),
    };
    let format = Parts {
        names: &["format"],
        section: DOC_SECTION_STRING,
        description: "Writes values by a format of the library fmt, and of Python.",
        syntax: Grammar::Fmt.example(),
        takes: |given| Grammar::Fmt.takes(given),
        returns: |_| DataType::Utf8View,
        computes: |given| Grammar::Fmt.written(given),
    };
    [printf, format].map(plain::function)
}

/// How long what a format makes may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Length {
    /// Bytes whatever the arguments are.
    fixed: u64,
    /// How often an argument is written, at the most.
    places: u64,
}

impl Length {
    /// Looks at a format.
    pub(crate) fn of(format: &str) -> Self {
        let is_place = |byte: &u8| matches!(byte, b'%' | b'{');
        let places = format.bytes().filter(is_place).count() as u64;
        let widths = format.split(|c: char| !c.is_ascii_digit());
        let widths = widths.filter_map(|digits| digits.parse::<u64>().ok());
        let widths = widths.fold(0_u64, u64::saturating_add);
        // What fills a field may have four bytes.
        let fixed = widths.saturating_mul(4).saturating_add(format.len() as u64);
        Self { fixed, places }
    }

    /// Returns the most bytes that the format makes of arguments of so many bytes together.
    pub(crate) fn bytes_max(self, arguments: u64) -> u64 {
        let written = arguments.saturating_add(NUMBER_CHARS);
        written
            .saturating_mul(self.places)
            .saturating_add(self.fixed)
    }
}

/// Returns as what a value is taken: integers and floating-point numbers as such, all else as text.
fn taken_as(given: &DataType) -> DataType {
    match given {
        DataType::UInt64 => DataType::UInt64,
        given if given.is_integer() => DataType::Int64,
        given if given.is_floating() => DataType::Float64,
        given if given.is_decimal() => given.clone(),
        _ => DataType::Utf8View,
    }
}

impl Grammar {
    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [format, values @ ..] if format.is_string() || format.is_null() => {
                let values = values.iter().map(taken_as);
                Ok(std::iter::once(DataType::Utf8View).chain(values).collect())
            }
            _ => plan_err!(
                "{} takes a format and values, as in {}",
                self.name(),
                self.example()
            ),
        }
    }

    fn written(self, given: &[ArrayRef]) -> Result<ArrayRef> {
        let [formats, values @ ..] = given else {
            return exec_err!("{} takes a format", self.name());
        };
        let formats = formats.as_string_view();
        // A decimal is a number of `f`, and text as it stands.
        let texts = values.iter().map(|value| cast(value, &DataType::Utf8View));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let numbers = values.iter().map(|value| match value.data_type() {
            decimal if decimal.is_decimal() => cast(value, &DataType::Float64),
            _ => Ok(Arc::clone(value)),
        });
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let mut read: Option<(&str, Vec<Piece>)> = None;
        let mut written = StringViewBuilder::with_capacity(formats.len());
        let mut line = String::new();
        for (row, format) in formats.iter().enumerate() {
            let Some(format) = format.filter(|_| values.iter().all(|value| value.is_valid(row)))
            else {
                written.append_null();
                continue;
            };
            if read.as_ref().is_none_or(|(known, _)| *known != format) {
                let pieces = grammar::read(self, format, values.len());
                read = Some((format, pieces.map_err(|why| self.wrong(&why))?));
            }
            let pieces = read.iter().flat_map(|(_, pieces)| pieces);
            line.clear();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => line.push_str(text),
                    Piece::Place { argument, spec } => {
                        let text = texts[*argument].as_string_view().value(row);
                        let value = value_at(&numbers[*argument], text, row);
                        let done = value::write(&mut line, &value, spec);
                        done.map_err(|why| {
                            self.wrong(&format!("argument {}: {why}", argument + 1))
                        })?;
                    }
                }
            }
            written.append_value(&line);
        }
        Ok(Arc::new(written.finish()))
    }

    fn wrong(self, why: &str) -> Error {
        let message = format!("{}: {why}", self.name());
        Error::new(ErrorKind::Sql, message)
    }
}

fn value_at<'a>(array: &ArrayRef, text: &'a str, row: usize) -> Value<'a> {
    match array.data_type() {
        DataType::Int64 => Value::Integer(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt64 => Value::Integer(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Float64 => {
            let number = array.as_primitive::<Float64Type>().value(row);
            Value::Float { number, text }
        }
        _ => Value::Text(text),
    }
}

#[cfg(test)]
mod tests;
