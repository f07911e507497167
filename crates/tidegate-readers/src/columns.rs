//! Values of one column, from text to an Arrow array.

use std::sync::Arc;

use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DecimalType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow::array::{
    Array, ArrayRef, BooleanBuilder, PrimitiveArray, PrimitiveBuilder, StringBuilder,
    new_null_array,
};
use arrow::compute::kernels::cast_utils::parse_decimal;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;

use crate::dialect::{NULL_WORDS, TEXT_NULL_WORDS};
use crate::error::type_name;
use crate::numbers::NumberFormat;
use crate::temporal::{self, DateFormat, TimestampFormat};

/// The values of one column of some rows.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) text: &'a str,
    /// Where each value ends, by row and column.
    pub(crate) ends: &'a [usize],
    pub(crate) width: usize,
    pub(crate) place: usize,
}

impl<'a> Values<'a> {
    fn len(&self) -> usize {
        self.ends.len() / self.width
    }

    /// Returns a value; `None` for one that is cut within a character.
    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        let at = row * self.width + self.place;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..self.ends[at])
    }

    fn iter(&self) -> impl Iterator<Item = Option<&'a str>> {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// Reads the values of one column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnReader {
    pub(crate) name: String,
    /// The column's place in the file; `None` if the file does not have it.
    pub(crate) place: Option<usize>,
    pub(crate) data_type: DataType,
    pub(crate) numbers: NumberFormat,
    pub(crate) date: DateFormat,
    pub(crate) timestamp: TimestampFormat,
    /// Words that stand for NULL, if the user said which.
    pub(crate) null_words: Option<Arc<[String]>>,
}

impl ColumnReader {
    /// Returns the values as an array; rows whose value is none of the type are NULL, and added to `bad`.
    pub(crate) fn read(
        &self,
        values: Option<Values<'_>>,
        num_rows: usize,
        bad: &mut Vec<usize>,
    ) -> Result<ArrayRef, ArrowError> {
        let Some(values) = values else {
            return Ok(new_null_array(&self.data_type, num_rows));
        };
        let numbers = self.numbers;
        macro_rules! integers {
            ($type:ty) => {
                self.primitive::<$type>(values, bad, |text| {
                    numbers
                        .integer::<i64>(text)
                        .and_then(|number| number.try_into().ok())
                })
            };
        }
        Ok(match &self.data_type {
            DataType::Utf8 => self.text(values, bad),
            DataType::Boolean => self.booleans(values, bad),
            DataType::Int8 => integers!(Int8Type),
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => {
                self.primitive::<Int64Type>(values, bad, |text| numbers.integer(text))
            }
            DataType::UInt8 => integers!(UInt8Type),
            DataType::UInt16 => integers!(UInt16Type),
            DataType::UInt32 => integers!(UInt32Type),
            // `-0` is none of them for Rust.
            DataType::UInt64 => self.primitive::<UInt64Type>(values, bad, |text| {
                let negative = || numbers.integer::<i64>(text)?.try_into().ok();
                numbers.integer(text).or_else(negative)
            }),
            DataType::Float32 => self.primitive::<Float32Type>(values, bad, |text| {
                numbers.double(text).map(|number| number as f32)
            }),
            DataType::Float64 => {
                self.primitive::<Float64Type>(values, bad, |text| numbers.double(text))
            }
            DataType::Date32 => self.primitive::<Date32Type>(values, bad, |text| self.days(text)),
            DataType::Time64(TimeUnit::Nanosecond) => {
                self.primitive::<Time64NanosecondType>(values, bad, temporal::time)
            }
            DataType::Timestamp(unit, zone) => self.timestamps(values, bad, *unit, zone.clone()),
            DataType::Decimal128(precision, scale) => {
                self.decimals(values, bad, *precision, *scale)?
            }
            _ => self.cast(values, bad)?,
        })
    }

    /// Says what a value should be.
    pub(crate) fn expected(&self) -> String {
        let name = type_name(&self.data_type);
        let written = match &self.data_type {
            DataType::Date32 => format!(" written as {}", self.date.example()),
            DataType::Timestamp(..) => format!(" written as {}", self.timestamp.example()),
            DataType::Float64 | DataType::Float32 if self.numbers.decimal == b',' => {
                " with a decimal comma".into()
            }
            _ => String::new(),
        };
        match self.numbers.is_strict {
            true => format!("{name}{written}, which the rows that were looked at are"),
            false => format!("{name}{written}, the type that was given"),
        }
    }

    /// Reads a date. Where the user says that it is one, a time of day may stand behind it.
    fn days(&self, text: &str) -> Option<i32> {
        let with_time = || match self.numbers.is_strict {
            true => None,
            false => Some(self.timestamp.moment(text)?.days),
        };
        self.date.days(text).or_else(with_time)
    }

    fn is_given_null(&self, text: &str) -> bool {
        let words = self.null_words.as_deref();
        words.is_some_and(|words| words.iter().any(|word| word == text))
    }

    /// Reads a value of another type than text: `Ok(None)` is NULL, `Err` a value of another type.
    fn value<T>(
        &self,
        text: Option<&str>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ()> {
        let text = text.ok_or(())?.trim_ascii();
        if text.is_empty() || self.is_given_null(text) {
            return Ok(None);
        }
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None if self.null_words.is_none() && NULL_WORDS.contains(&text) => Ok(None),
            None => Err(()),
        }
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        values: Values<'_>,
        bad: &mut Vec<usize>,
        parse: impl Fn(&str) -> Option<T::Native>,
    ) -> ArrayRef {
        Arc::new(self.primitives::<T>(values, bad, parse))
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        values: Values<'_>,
        bad: &mut Vec<usize>,
        parse: impl Fn(&str) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(values.len());
        for (row, text) in values.iter().enumerate() {
            let value = self.value(text, &parse).unwrap_or_else(|()| {
                bad.push(row);
                None
            });
            builder.append_option(value);
        }
        builder.finish()
    }

    fn booleans(&self, values: Values<'_>, bad: &mut Vec<usize>) -> ArrayRef {
        let is_strict = self.numbers.is_strict;
        let parse = |text: &str| {
            let lower = text.to_ascii_lowercase();
            match lower.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                "t" | "yes" | "y" | "on" | "1" if !is_strict => Some(true),
                "f" | "no" | "n" | "off" | "0" if !is_strict => Some(false),
                _ => None,
            }
        };
        let mut builder = BooleanBuilder::with_capacity(values.len());
        for (row, text) in values.iter().enumerate() {
            let value = self.value(text, parse).unwrap_or_else(|()| {
                bad.push(row);
                None
            });
            builder.append_option(value);
        }
        Arc::new(builder.finish())
    }

    fn text(&self, values: Values<'_>, bad: &mut Vec<usize>) -> ArrayRef {
        Arc::new(self.strings(values, bad))
    }

    fn strings(&self, values: Values<'_>, bad: &mut Vec<usize>) -> arrow::array::StringArray {
        let bytes = values.text.len() / values.width;
        let mut builder = StringBuilder::with_capacity(values.len(), bytes);
        for (row, text) in values.iter().enumerate() {
            let Some(text) = text else {
                bad.push(row);
                builder.append_null();
                continue;
            };
            let is_null = match &self.null_words {
                Some(_) => self.is_given_null(text),
                None => TEXT_NULL_WORDS.contains(&text),
            };
            builder.append_option((!is_null).then_some(text));
        }
        builder.finish()
    }

    fn timestamps(
        &self,
        values: Values<'_>,
        bad: &mut Vec<usize>,
        unit: TimeUnit,
        zone: Option<Arc<str>>,
    ) -> ArrayRef {
        let has_zone = zone.is_some();
        let is_strict = self.numbers.is_strict;
        let moment = |text: &str| {
            let moment = self.timestamp.moment(text)?;
            // A file that writes zones writes them everywhere, but for dates alone.
            let fits = moment.zone.is_some() == has_zone || !text.contains(':') || !is_strict;
            fits.then_some(moment)
        };
        let scaled = |text: &str, scale: i64| {
            let micros = moment(text)?.micros()?;
            (micros % scale == 0).then_some(micros / scale)
        };
        macro_rules! timestamps {
            ($type:ty, $parse:expr) => {
                Arc::new(
                    self.primitives::<$type>(values, bad, $parse)
                        .with_timezone_opt(zone),
                )
            };
        }
        match unit {
            TimeUnit::Second => {
                timestamps!(TimestampSecondType, |text| scaled(text, 1_000_000))
            }
            TimeUnit::Millisecond => {
                timestamps!(TimestampMillisecondType, |text| scaled(text, 1_000))
            }
            TimeUnit::Microsecond => timestamps!(TimestampMicrosecondType, |text| scaled(text, 1)),
            TimeUnit::Nanosecond => {
                timestamps!(TimestampNanosecondType, |text| moment(text)?.nanos())
            }
        }
    }

    fn decimals(
        &self,
        values: Values<'_>,
        bad: &mut Vec<usize>,
        precision: u8,
        scale: i8,
    ) -> Result<ArrayRef, ArrowError> {
        let numbers = self.numbers;
        let decimals = self.primitives::<Decimal128Type>(values, bad, |text| {
            let mut buffer = [0; 64];
            rounded(numbers.plain(text, &mut buffer)?, precision, scale)
        });
        Ok(Arc::new(
            decimals.with_precision_and_scale(precision, scale)?,
        ))
    }

    /// Has Arrow make another type of text.
    fn cast(&self, values: Values<'_>, bad: &mut Vec<usize>) -> Result<ArrayRef, ArrowError> {
        let strings = self.strings(values, bad);
        let options = CastOptions {
            safe: true,
            ..CastOptions::default()
        };
        let cast = cast_with_options(&strings, &self.data_type, &options)?;
        let is_lost = |row: &usize| cast.is_null(*row) && strings.is_valid(*row);
        bad.extend((0..strings.len()).filter(is_lost));
        Ok(cast)
    }
}

/// Reads a decimal; digits behind its scale round it, as a cast does. Arrow leaves them out.
fn rounded(plain: &str, precision: u8, scale: i8) -> Option<i128> {
    let value = parse_decimal::<Decimal128Type>(plain, precision, scale).ok()?;
    let fraction = plain.split_once('.').map_or("", |(_, fraction)| fraction);
    let next = fraction.as_bytes().get(usize::try_from(scale).ok()?);
    let is_rounded = next.is_some_and(|digit| (b'5'..=b'9').contains(digit));
    // Arrow rounds numbers with an exponent itself.
    if !is_rounded || plain.contains(['e', 'E']) {
        return Some(value);
    }
    let value = match plain.starts_with('-') {
        true => value - 1,
        false => value + 1,
    };
    Decimal128Type::is_valid_decimal_precision(value, precision).then_some(value)
}
