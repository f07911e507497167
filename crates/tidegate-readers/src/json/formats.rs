//! Dates and times of JSON that are written as the user says.
//!
//! Arrow's reader knows ISO 8601 alone: such columns are read as text, and their values made of it ([`JsonFormats::times`]).
//! Formats hold for fields of the file's objects, and not for what is within lists and objects.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, RecordBatch, RecordBatchOptions,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Flattener, Layout, Shape, Wrapper};
use crate::sample::Sample;
use crate::temporal::{DateFormat, Moment, TimestampFormat};

/// How dates and timestamps are written; `None` is as ISO 8601 has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JsonFormats {
    /// How dates are written.
    pub date: Option<DateFormat>,
    /// How timestamps are written.
    pub timestamp: Option<TimestampFormat>,
}

/// A value of a field.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Other(IgnoredAny),
}

/// What all values of a field are.
#[derive(Clone, Copy)]
struct Fits {
    date: bool,
    local: bool,
    zoned: bool,
}

impl JsonFormats {
    /// Tells whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the columns with text in the place of what the formats say.
    pub fn texts(&self, schema: &Schema) -> Schema {
        let field = |field: &Arc<Field>| match self.reads(field.data_type()) {
            true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
            false => Arc::clone(field),
        };
        Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
    }

    /// Makes these columns of a batch that has text in the place of what the formats say.
    ///
    /// # Errors
    /// [`ArrowError::JsonError`] for a text that is not of its column's format.
    pub fn times(
        &self,
        batch: &RecordBatch,
        schema: &SchemaRef,
    ) -> Result<RecordBatch, ArrowError> {
        let pairs = batch.columns().iter().zip(schema.fields());
        let columns = pairs.map(|(column, field)| match self.reads(field.data_type()) {
            true => self.column(column, field),
            false => Ok(Arc::clone(column)),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
    }

    fn reads(&self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Date32 => self.date.is_some(),
            DataType::Timestamp(..) => self.timestamp.is_some(),
            _ => false,
        }
    }

    fn column(&self, texts: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
        let moment = |text: &str| self.timestamp.as_ref()?.moment(text);
        let array: ArrayRef = match field.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                let nanos = |text: &str| moment(text)?.nanos();
                let nanos = self.values(texts, field, nanos)?;
                Arc::new(TimestampNanosecondArray::from(nanos))
            }
            DataType::Timestamp(..) => {
                let micros = |text: &str| moment(text)?.micros();
                let micros = self.values(texts, field, micros)?;
                Arc::new(TimestampMicrosecondArray::from(micros))
            }
            _ => {
                let days = |text: &str| self.date.as_ref()?.days(text);
                let days = self.values(texts, field, days)?;
                return Ok(Arc::new(Date32Array::from(days)));
            }
        };
        // What has no zone here is in UTC, as what is written with one.
        let DataType::Timestamp(unit, zone) = field.data_type() else {
            return Ok(array);
        };
        let in_unit = cast(&array, &DataType::Timestamp(*unit, None))?;
        match zone {
            Some(_) => {
                let in_utc = DataType::Timestamp(*unit, Some("UTC".into()));
                cast(&cast(&in_unit, &in_utc)?, field.data_type())
            }
            None => Ok(in_unit),
        }
    }

    fn values<T>(
        &self,
        texts: &ArrayRef,
        field: &Field,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<Option<T>>, ArrowError> {
        let mut values = Vec::with_capacity(texts.len());
        for text in texts.as_string::<i32>() {
            let value = text.map(&parse);
            if let (Some(None), Some(text)) = (&value, text) {
                let format = match field.data_type() {
                    DataType::Date32 => self.date.as_ref().map(DateFormat::example),
                    _ => self.timestamp.as_ref().map(TimestampFormat::example),
                };
                return Err(ArrowError::JsonError(format!(
                    "whilst decoding field '{}': \"{text}\" is not written as {}",
                    field.name(),
                    format.unwrap_or_default()
                )));
            }
            values.push(value.flatten());
        }
        Ok(values)
    }

    /// Has the fields of objects be dates and timestamps whose values are all written as the formats say, and those that
    /// are written in another way text.
    pub(super) fn find(&self, sample: &Sample, layout: Layout, shape: &mut Shape) {
        let Shape::Object(fields) = shape else {
            return;
        };
        let found = self.fits(sample, layout);
        fields.change(|name, shape| {
            let fits = found.get(name);
            let is = |what: fn(&Fits) -> bool| fits.is_some_and(what);
            let is_date = matches!(shape, Shape::Date);
            let is_time = matches!(shape, Shape::Timestamp | Shape::Instant);
            if is(|fits| fits.date) {
                *shape = Shape::Date;
            } else if is(|fits| fits.local) {
                *shape = Shape::Timestamp;
            } else if is(|fits| fits.zoned) {
                *shape = Shape::Instant;
            } else if (is_date && self.date.is_some()) || (is_time && self.timestamp.is_some()) {
                *shape = Shape::Text;
            }
        });
    }

    /// Looks at the texts of each field.
    fn fits(&self, sample: &Sample, layout: Layout) -> HashMap<String, Fits> {
        let mut found: HashMap<String, Fits> = HashMap::new();
        for (number, piece) in sample.pieces.iter().enumerate() {
            let start = match number {
                0 if piece.bytes.starts_with(b"\xef\xbb\xbf") => 3,
                0 => 0,
                _ if layout != Layout::Objects => break,
                _ => memchr::memchr(b'\n', &piece.bytes).map_or(piece.bytes.len(), |at| at + 1),
            };
            let mut text = piece.bytes[start..].to_vec();
            match layout {
                Layout::Objects => {}
                Layout::Array => Flattener::default().flatten(&mut text),
                Layout::Values => {
                    let mut objects = Vec::new();
                    Wrapper::default().push(&text, &mut objects);
                    text = objects;
                }
            }
            let objects = serde_json::Deserializer::from_slice(&text);
            for object in objects.into_iter::<HashMap<String, Option<Value>>>() {
                // What is no JSON was said before, or the piece begins within an object.
                let Ok(object) = object else {
                    break;
                };
                for (name, value) in object {
                    let Some(value) = value else {
                        continue;
                    };
                    let fits = self.fits_of(&value);
                    let known = found.entry(name).or_insert(fits);
                    known.date &= fits.date;
                    known.local &= fits.local;
                    known.zoned &= fits.zoned;
                }
            }
        }
        found
    }

    fn fits_of(&self, value: &Value) -> Fits {
        let text = match value {
            Value::Text(text) => text,
            Value::Other(IgnoredAny) => {
                return Fits {
                    date: false,
                    local: false,
                    zoned: false,
                };
            }
        };
        let date = self.date.as_ref().and_then(|format| format.days(text));
        let moment = self.timestamp.as_ref();
        let moment = moment.and_then(|format| format.moment(text));
        // Columns hold microseconds.
        let moment = moment.filter(|moment| moment.micros().is_some());
        let is_zoned = |moment: &Moment| moment.zone.is_some();
        Fits {
            date: date.is_some(),
            local: moment.as_ref().is_some_and(|moment| !is_zoned(moment)),
            zoned: moment.as_ref().is_some_and(is_zoned),
        }
    }
}
