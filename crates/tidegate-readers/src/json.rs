//! The columns of JSON: fields in the order in which the file has them.
//!
//! A file is objects one after the other (newlines between them or not), or one array of objects; an array of other values
//! has one column, `json`. A field
//! has the type that all of its values share; where they share none, it is text, and objects and lists are the JSON
//! that they are. Strings that are all dates, `2024-01-31`, or times, `2024-01-31T10:00:00Z`, are of those types.

mod fields;
mod formats;
mod fractions;
mod lines;
mod texts;
mod values;

use std::collections::HashSet;
use std::fmt;

use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{DataType, Date32Type, Field, Fields, Schema, TimeUnit};
use chrono::{Datelike, Utc};
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::SniffError;
use crate::sample::Sample;
use crate::sniff::{UTC, WIDE};

pub use fields::ObjectFields;
pub use formats::JsonFormats;
pub use fractions::Fractions;
pub use lines::LineDecoder;
pub use texts::Texts;
pub use values::Wrapper;

/// The most bytes of an object.
pub const OBJECT_BYTES_MAX: usize = 16 << 20;
/// The most fields of an object.
const FIELDS_MAX: usize = 100_000;

/// What a file of JSON is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Objects one after the other.
    Objects,
    /// An array of objects, some of which may be null.
    Array,
    /// An array of other values.
    Values,
}

/// The options of `read_json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GivenJson {
    /// All columns with their types, by name; others are not read.
    pub columns: Option<Vec<(String, DataType)>>,
    /// Types of some columns, by name. One that no looked-at object has is a column too.
    pub types: Vec<(String, DataType)>,
    /// Whether lines that are not objects of the columns are left out.
    pub ignore_errors: bool,
    /// About so many rows are looked at; [`usize::MAX`] for all.
    pub sample_rows: Option<usize>,
    /// How dates and timestamps are written.
    pub formats: JsonFormats,
}

/// What was found of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct SniffedJson {
    /// What it is.
    pub layout: Layout,
    /// The columns, in the file's order.
    pub shape: Shape,
    /// Whether no object may have other fields: all were looked at, or the columns are given.
    pub is_known: bool,
    /// Whether each line is read by itself, and left out if it cannot be.
    pub by_line: bool,
}

/// What values have in common.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Only NULLs were met.
    Null,
    /// True or false.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// A whole number of up to 38 digits.
    Wide,
    /// A number.
    Number,
    /// A date.
    Date,
    /// A time of a day without an offset.
    Timestamp,
    /// A time with an offset.
    Instant,
    /// Text, or values of several kinds.
    Text,
    /// Values of several kinds, some of which have others within them.
    Mixed,
    /// A list.
    List(Box<Shape>),
    /// An object, with its fields in order.
    Object(ObjectFields),
}

impl SniffedJson {
    /// Returns the columns: those that are given, or that were found; all may be NULL.
    pub fn schema(&self, given: &GivenJson) -> Schema {
        let field =
            |(name, data_type): &(String, DataType)| Field::new(name, data_type.clone(), true);
        if let Some(columns) = &given.columns {
            return Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        }
        let mut fields: Vec<Field> = match &self.shape {
            Shape::Object(fields) => fields.iter().map(column_of).collect(),
            _ => Vec::new(),
        };
        for given in given.types.iter().map(field) {
            match fields.iter_mut().find(|field| field.name() == given.name()) {
                Some(field) => *field = given,
                None => fields.push(given),
            }
        }
        Schema::new(fields)
    }

    /// Returns the columns of text in which the file has, or may have, objects or lists.
    pub fn texts(&self, given: &GivenJson, table: &Schema) -> Vec<String> {
        let mut may_be_nested = HashSet::new();
        for (typed, _) in given.columns.iter().flatten().chain(&given.types) {
            may_be_nested.insert(typed.as_str());
        }
        if let Shape::Object(fields) = &self.shape {
            let nested = fields.iter().filter(|(_, shape)| shape.is_nested());
            may_be_nested.extend(nested.map(|(name, _)| name.as_str()));
        }
        let texts = table.fields().iter().filter(|field| {
            *field.data_type() == DataType::Utf8 && may_be_nested.contains(field.name().as_str())
        });
        texts.map(|field| field.name().clone()).collect()
    }
}

/// Returns a field of the file's objects as a column.
fn column_of((name, shape): &(String, Shape)) -> Field {
    let data_type = match shape.is_mixed() {
        true => DataType::Utf8,
        false => shape.data_type(),
    };
    Field::new(name, data_type, true)
}

impl Shape {
    /// Takes in another value.
    pub fn merge(&mut self, other: Self) {
        let this = std::mem::replace(self, Self::Null);
        *self = match (this, other) {
            (Self::Null, other) => other,
            (this, Self::Null) => this,
            (Self::Integer, Self::Wide) | (Self::Wide, Self::Integer) => Self::Wide,
            (Self::Integer | Self::Wide, Self::Number)
            | (Self::Number, Self::Integer | Self::Wide) => Self::Number,
            (Self::Date, Self::Timestamp) | (Self::Timestamp, Self::Date) => Self::Timestamp,
            (Self::List(mut this), Self::List(other)) => {
                this.merge(*other);
                Self::List(this)
            }
            (Self::Object(mut this), Self::Object(other)) => {
                this.merge(other);
                Self::Object(this)
            }
            (this, other) if this == other => this,
            (this, other) if this.is_nested() || other.is_nested() => Self::Mixed,
            _ => Self::Text,
        };
    }

    fn is_nested(&self) -> bool {
        matches!(self, Self::List(_) | Self::Object(_) | Self::Mixed)
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Null | Self::Text | Self::Mixed => DataType::Utf8,
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Wide => WIDE,
            Self::Number => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            Self::List(item) => DataType::new_list(item.data_type(), true),
            Self::Object(fields) => DataType::Struct(fields_of(fields)),
        }
    }

    /// Tells whether whole numbers of more than 64 bits are in it.
    fn has_wide(&self) -> bool {
        match self {
            Self::Wide => true,
            Self::List(item) => item.has_wide(),
            Self::Object(fields) => fields.iter().any(|(_, shape)| shape.has_wide()),
            _ => false,
        }
    }

    /// Takes such numbers for numbers.
    fn narrow(&mut self) {
        match self {
            Self::Wide => *self = Self::Number,
            Self::List(item) => item.narrow(),
            Self::Object(fields) => fields.narrow(),
            _ => {}
        }
    }

    /// Tells whether values of several kinds, some of them nested, are in it.
    fn is_mixed(&self) -> bool {
        match self {
            Self::Mixed => true,
            Self::List(item) => item.is_mixed(),
            Self::Object(fields) => fields.iter().any(|(_, shape)| shape.is_mixed()),
            _ => false,
        }
    }
}

fn fields_of(fields: &[(String, Shape)]) -> Fields {
    let field = |(name, shape): &(String, Shape)| Field::new(name, shape.data_type(), true);
    fields.iter().map(field).collect()
}

/// Finds what a file of JSON is, and its columns, unless they are given.
///
/// # Errors
/// [`SniffError::Json`] for what is not JSON, or no objects; [`SniffError::Empty`] for no text;
/// [`SniffError::Option`] for lines that are to be left out of an array.
pub fn sniff_json(sample: &Sample, given: &GivenJson) -> Result<SniffedJson, SniffError> {
    let Some(head) = sample.pieces.first() else {
        return Err(SniffError::Empty);
    };
    let text = head
        .bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(&head.bytes);
    let by_line = given.ignore_errors;
    let layout = match text.trim_ascii_start().first() {
        None => return Err(SniffError::Empty),
        Some(b'[') if by_line => {
            let message = "ignore_errors leaves out lines, and the file is an array: without it the first \
                           error is told with its place";
            return Err(SniffError::Option(message.into()));
        }
        Some(b'[') => Layout::Array,
        Some(b'{') => Layout::Objects,
        Some(_) if by_line => Layout::Objects,
        Some(_) => {
            let message = "it is neither objects, {…}, nor an array of objects, [{…}]";
            return Err(SniffError::Json(message.into()));
        }
    };
    let mut shape = match &given.columns {
        Some(_) => Shape::Null,
        None => found_shape(sample, text, layout, by_line)?,
    };
    // The parser makes one number of 1e20 and of its digits.
    let mut pieces = sample.pieces.iter();
    if shape.has_wide() && !pieces.any(|piece| has_long_integer(&piece.bytes)) {
        shape.narrow();
    }
    let (layout, mut shape) = match (layout, shape) {
        (_, shape @ (Shape::Object(_) | Shape::Null)) => (layout, shape),
        (Layout::Array, shape) => (Layout::Values, of_values(shape)),
        (layout, shape) => (layout, shape),
    };
    if !given.formats.is_empty() {
        given.formats.find(sample, layout, &mut shape);
    }
    match shape {
        Shape::Object(_) => {}
        Shape::Null if !by_line || given.columns.is_some() => {}
        _ => {
            let message = "its values are not objects: only objects have columns";
            return Err(SniffError::Json(message.into()));
        }
    }
    if shape == Shape::Null && given.columns.is_none() && !sample.is_whole && !by_line {
        let message = format!("its first object does not end within {} bytes", text.len());
        return Err(SniffError::Json(message));
    }
    Ok(SniffedJson {
        layout,
        shape,
        is_known: sample.is_whole || given.columns.is_some(),
        by_line,
    })
}

/// Returns the objects that elements of an array become.
fn of_values(shape: Shape) -> Shape {
    let mut fields = ObjectFields::default();
    fields.add(values::COLUMN.into(), shape, 0);
    Shape::Object(fields)
}

/// Returns whether the head of a sample may end within its first object: a larger head has to be looked at.
pub fn is_cut(sample: &Sample, given: &GivenJson) -> bool {
    let head = Sample {
        pieces: sample.pieces.iter().take(1).cloned().collect(),
        is_whole: true,
    };
    // Lines are looked at one by one, and none may be an object.
    let is_empty = match sniff_json(&head, given) {
        Ok(found) => found.shape == Shape::Null,
        Err(_) => given.ignore_errors,
    };
    given.columns.is_none() && is_empty
}

/// Returns what the objects of a sample have in common; `head` is its first piece without a mark.
fn found_shape(
    sample: &Sample,
    head: &[u8],
    layout: Layout,
    by_line: bool,
) -> Result<Shape, SniffError> {
    let mut shape = Shape::Null;
    let is_whole = sample.pieces.first().is_some_and(|piece| piece.is_last);
    match layout {
        Layout::Array | Layout::Values => array(head, is_whole, &mut shape)?,
        Layout::Objects if by_line => lines(head, is_whole, &mut shape),
        Layout::Objects => objects(head, is_whole, &mut shape)?,
    }
    if layout == Layout::Array {
        return Ok(shape);
    }
    for piece in sample.pieces.iter().skip(1) {
        let start = memchr::memchr(b'\n', &piece.bytes).map_or(piece.bytes.len(), |at| at + 1);
        let text = &piece.bytes[start..];
        if by_line {
            lines(text, piece.is_last, &mut shape);
            continue;
        }
        // A piece of objects that take several lines may begin anywhere.
        let mut of_piece = Shape::Null;
        if objects(text, piece.is_last, &mut of_piece).is_ok() {
            shape.merge(of_piece);
        }
    }
    Ok(shape)
}

/// Adds the lines that are objects.
fn lines(text: &[u8], is_whole: bool, shape: &mut Shape) {
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    if !is_whole {
        lines.pop();
    }
    for line in lines {
        let mut of_line = Shape::Null;
        if objects(line, true, &mut of_line).is_ok() && matches!(of_line, Shape::Object(_)) {
            shape.merge(of_line);
        }
    }
}

/// Makes the objects of an array objects one after the other, in buffers of any size.
#[derive(Debug, Default)]
pub struct Flattener {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Flattener {
    /// Blanks the array's brackets, and the commas between its values; null becomes an object without fields.
    pub fn flatten(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.is_text {
                match *byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_text = false,
                    _ => {}
                }
                continue;
            }
            match *byte {
                b'"' => self.is_text = true,
                b'[' | b'{' => {
                    if self.depth == 0 && *byte == b'[' {
                        *byte = b' ';
                    }
                    self.depth += 1;
                }
                b']' | b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 && *byte == b']' {
                        *byte = b' ';
                    }
                }
                b',' if self.depth == 1 => *byte = b' ',
                b'n' if self.depth == 1 => *byte = b'{',
                b'u' if self.depth == 1 => *byte = b'}',
                b'l' if self.depth == 1 => *byte = b' ',
                _ => {}
            }
        }
    }
}

fn objects(text: &[u8], is_whole: bool, shape: &mut Shape) -> Result<(), SniffError> {
    let values = serde_json::Deserializer::from_slice(text).into_iter::<Shape>();
    for value in values {
        match value {
            Ok(value) => shape.merge(value),
            Err(error) if error.is_eof() && !is_whole => break,
            Err(error) => return Err(wrong(text, 0, &error)),
        }
    }
    Ok(())
}

fn array(text: &[u8], is_whole: bool, shape: &mut Shape) -> Result<(), SniffError> {
    let mut at = memchr::memchr(b'[', text).map_or(text.len(), |at| at + 1);
    let mut is_first = true;
    loop {
        at += text[at..].len() - text[at..].trim_ascii_start().len();
        match (text.get(at), is_first) {
            (None, _) if is_whole => {
                return Err(SniffError::Json("the array has no end, ]".into()));
            }
            (None, _) | (Some(b']'), _) => return Ok(()),
            (Some(b','), false) => at += 1,
            (Some(_), true) => {}
            (Some(_), false) => {
                return Err(SniffError::Json(
                    "between objects of an array stands a comma".into(),
                ));
            }
        }
        is_first = false;
        let mut values = serde_json::Deserializer::from_slice(&text[at..]).into_iter::<Shape>();
        match values.next() {
            Some(Ok(value)) => shape.merge(value),
            None => return Ok(()),
            Some(Err(error)) if error.is_eof() && !is_whole => return Ok(()),
            Some(Err(error)) => return Err(wrong(text, at, &error)),
        }
        at += values.byte_offset();
    }
}

/// Tells whether some whole number is written with more digits than 64 bits always hold.
fn has_long_integer(text: &[u8]) -> bool {
    const DIGITS_MIN: usize = 19;
    let (mut at, mut is_string) = (0, false);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' if is_string => at += 1,
            b'"' => is_string = !is_string,
            b'-' | b'0'..=b'9' if !is_string => {
                let number = &text[at..];
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let end = number.iter().position(|byte| !is_part(byte));
                let number = &number[..end.unwrap_or(number.len())];
                let digits = number.strip_prefix(b"-").unwrap_or(number);
                if digits.len() >= DIGITS_MIN && digits.iter().all(u8::is_ascii_digit) {
                    return true;
                }
                at += number.len() - 1;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// Says where a text is not JSON.
fn wrong(text: &[u8], from: usize, error: &serde_json::Error) -> SniffError {
    let lines = memchr::memchr_iter(b'\n', &text[..from]).count();
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or_default();
    SniffError::Json(format!("line {}: {what}", lines + error.line()))
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

/// Returns what a string is that is a date, or a time with seconds, as ISO 8601 writes them with four digits of a
/// year and as columns hold it.
fn temporal(text: &str) -> Option<Shape> {
    const DATE: &[u8] = b"0000-00-00";
    const TIME: &[u8] = b"0000-00-00T00:00:00";
    let fits = |shape: &[u8]| {
        let given = text.as_bytes().get(..shape.len());
        given.is_some_and(|given| {
            given.iter().zip(shape).all(|(given, shape)| match shape {
                b'0' => given.is_ascii_digit(),
                b'T' => matches!(given, b'T' | b' '),
                _ => given == shape,
            })
        })
    };
    if text.len() == DATE.len() {
        return (fits(DATE) && Date32Type::parse(text).is_some()).then_some(Shape::Date);
    }
    if !fits(TIME) {
        return None;
    }
    let year = string_to_datetime(&Utc, text).ok()?.year();
    let rest = &text[TIME.len()..];
    let offset = match rest.strip_prefix('.') {
        Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    // Functions read times as nanoseconds, and these are microseconds.
    let is_held = (1678..2262).contains(&year) && rest.len() - offset.len() <= ".000000".len();
    is_held.then_some(match offset.is_empty() {
        true => Shape::Timestamp,
        false => Shape::Instant,
    })
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Boolean)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Integer)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        Ok(match i64::try_from(value) {
            Ok(_) => Shape::Integer,
            Err(_) => Shape::Wide,
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Shape, E> {
        // Between what 64 bits hold, and 38 digits.
        let is_wide = value.fract() == 0.0 && (9e18..1e38).contains(&value.abs());
        Ok(match is_wide {
            true => Shape::Wide,
            false => Shape::Number,
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<Shape, E> {
        Ok(temporal(text).unwrap_or(Shape::Text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Shape, A::Error> {
        let mut item = Shape::Null;
        while let Some(value) = values.next_element::<Shape>()? {
            item.merge(value);
        }
        Ok(Shape::List(Box::new(item)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut fields = ObjectFields::default();
        while let Some((name, shape)) = map.next_entry::<String, Shape>()? {
            if fields.len() >= FIELDS_MAX {
                return Err(A::Error::custom("an object has too many fields"));
            }
            let place = fields.len();
            fields.add(name, shape, place);
        }
        Ok(Shape::Object(fields))
    }
}

#[cfg(test)]
mod tests;
