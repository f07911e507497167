//! The types of columns: what all of their values share.

use std::ops::Range;

use arrow::datatypes::{DataType, TimeUnit};

use super::traits::Traits;
use crate::dialect::{Column, NULL_WORDS};
use crate::error::SniffError;
use crate::given::Given;
use crate::numbers::{self, NumberFormat};
use crate::records::Rows;
use crate::temporal::{self, DATE_FORMATS, TimestampFormat};

/// The zone of timestamps that are written with one.
pub(crate) const UTC: &str = "UTC";
/// The digits of a whole number that 64 bits do not hold.
pub(crate) const WIDE: DataType = DataType::Decimal128(38, 0);
/// SQL's type of a time of day.
pub(crate) const TIME: DataType = DataType::Time64(TimeUnit::Nanosecond);

/// Tells what a value could be; `None` for one that stands for NULL.
pub(super) fn traits_of(value: &[u8], given: &Given) -> Option<Traits> {
    let value = value.trim_ascii();
    let is_null = match &given.null_words {
        Some(words) => words.iter().any(|word| word.as_bytes() == value) || value.is_empty(),
        None => NULL_WORDS.iter().any(|word| word.as_bytes() == value),
    };
    if is_null {
        return None;
    }
    if value.eq_ignore_ascii_case(b"true") || value.eq_ignore_ascii_case(b"false") {
        return Some(Traits::BOOLEAN);
    }
    let mut traits = numbers::traits_of(value);
    if let Ok(text) = std::str::from_utf8(value) {
        traits |= temporal::traits_of(text);
        if let Some(format) = &given.date_format
            && format.days(text).is_some()
        {
            traits |= Traits::GIVEN_DATE;
        }
        if let Some(format) = &given.timestamp_format
            && let Some(moment) = format.moment(text)
        {
            traits |= Traits::GIVEN_TIMESTAMP | moment.traits();
        }
    }
    Some(traits)
}

/// What is known of the values of one column.
#[derive(Clone, Copy, Debug)]
struct Fact {
    traits: Traits,
    has_values: bool,
    /// Whether some value has a comma.
    has_comma: bool,
    /// Whether some value has a point.
    has_point: bool,
    /// Whether some value has a digit: words such as `inf` alone are no numbers.
    has_digit: bool,
}

/// What stands before the fractions of a file's numbers, as far as they tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decimal {
    Point,
    Comma,
    /// No column can be read in one way only, or columns contradict each other.
    Unknown,
}

/// What is known of the values of each column.
#[derive(Clone, Debug)]
pub(super) struct Facts(Vec<Fact>);

impl Facts {
    pub(super) fn of_rows(rows: &Rows, range: Range<usize>, width: usize, given: &Given) -> Self {
        let nothing = Fact {
            traits: Traits::all(),
            has_values: false,
            has_comma: false,
            has_point: false,
            has_digit: false,
        };
        let mut facts = Self(vec![nothing; width]);
        facts.add_rows(rows, range, width, given);
        facts
    }

    /// Adds rows of the file's width, and those that lack values at the end.
    pub(super) fn add_rows(
        &mut self,
        rows: &Rows,
        range: Range<usize>,
        width: usize,
        given: &Given,
    ) {
        for row in range {
            if rows.width(row) < width && !given.null_padding {
                continue;
            }
            for (fact, value) in self.0.iter_mut().zip(rows.values(row)) {
                // What is text already stays text.
                if fact.has_values && fact.traits.is_text() {
                    continue;
                }
                let Some(traits) = traits_of(value, given) else {
                    continue;
                };
                fact.has_values = true;
                fact.traits &= traits;
                fact.has_comma |= value.contains(&b',');
                fact.has_point |= value.contains(&b'.');
                fact.has_digit |= value.iter().any(u8::is_ascii_digit);
            }
        }
    }

    /// Tells whether a column is of another type than text.
    pub(super) fn is_typed(&self, column: usize) -> bool {
        self.0
            .get(column)
            .is_some_and(|fact| fact.has_values && !fact.traits.is_text())
    }

    /// Tells whether a value could be one of a column.
    pub(super) fn admits(&self, column: usize, traits: Traits) -> bool {
        self.0
            .get(column)
            .is_none_or(|fact| !(fact.traits & traits).is_text())
    }

    /// Returns the columns of the file.
    pub(super) fn columns(
        &self,
        names: Vec<String>,
        delimiter: u8,
        given: &Given,
    ) -> Result<Vec<Column>, SniffError> {
        let given_count = given.types_by_place.len();
        if given_count > names.len() && !given.all_text {
            return Err(SniffError::Option(format!(
                "types: {given_count} are given, and the file has {} columns",
                names.len()
            )));
        }
        let decimal = self.decimal();
        let mut columns = Vec::with_capacity(names.len());
        for (place, (name, fact)) in names.into_iter().zip(&self.0).enumerate() {
            let declared = given
                .columns
                .as_ref()
                .and_then(|columns| columns.get(place));
            let declared = declared.map(|(_, data_type)| data_type);
            let typed = given
                .types
                .iter()
                .find(|(typed, _)| typed.eq_ignore_ascii_case(&name));
            let placed = || given.types_by_place.get(place)?.as_ref();
            let typed = typed.map(|(_, data_type)| data_type).or_else(placed);
            let data_type = declared.or(typed);
            columns.push(fact.column(name, decimal, delimiter, data_type, given));
        }
        for (typed, _) in &given.types {
            if !columns
                .iter()
                .any(|column| column.name.eq_ignore_ascii_case(typed))
            {
                let known: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
                return Err(SniffError::Option(format!(
                    "types: there is no column '{typed}'; there are {}",
                    known.join(", ")
                )));
            }
        }
        Ok(columns)
    }

    /// Tells what columns of numbers say that can only have a decimal comma, or only a decimal point.
    fn decimal(&self) -> Decimal {
        let only = |these: Traits, others: Traits| {
            self.0.iter().any(|fact| {
                fact.has_values && fact.traits.has_any(these) && !fact.traits.has_any(others)
            })
        };
        match (
            only(Traits::COMMA_NUMBER, Traits::POINT_NUMBER),
            only(Traits::POINT_NUMBER, Traits::COMMA_NUMBER),
        ) {
            (true, false) => Decimal::Comma,
            (false, true) => Decimal::Point,
            _ => Decimal::Unknown,
        }
    }
}

impl Fact {
    fn column(
        &self,
        name: String,
        of_file: Decimal,
        delimiter: u8,
        data_type: Option<&DataType>,
        given: &Given,
    ) -> Column {
        let traits = if self.has_values {
            self.traits
        } else {
            Traits::empty()
        };
        let both = traits.has_any(Traits::POINT) && traits.has_any(Traits::COMMA);
        // `1,234` is a thousand to some and little more than one to others. Where commas separate values, such a one is
        // in quotes for its groups.
        let is_unclear = both
            && self.has_comma
            && delimiter != b','
            && of_file == Decimal::Unknown
            && given.decimal.is_none();
        let decimal = given.decimal.unwrap_or_else(|| {
            let is_comma = match both {
                true => of_file == Decimal::Comma || is_unclear,
                false => traits.has_any(Traits::COMMA),
            };
            if is_comma { b',' } else { b'.' }
        });
        let numbers = NumberFormat {
            decimal,
            is_grouped: if decimal == b'.' {
                self.has_comma
            } else {
                self.has_point
            },
            is_strict: data_type.is_none(),
        };
        let formats = |format: usize| DATE_FORMATS[format].clone();
        let date = traits.dates().next().map(formats);
        let timestamp = traits.timestamps().next().map(formats);
        let found_type = match given.all_text || is_unclear {
            true => DataType::Utf8,
            false => among(&given.candidates, self.data_type(traits, decimal, given)),
        };
        Column {
            name,
            data_type: data_type.cloned().unwrap_or(found_type),
            is_empty: !self.has_values,
            numbers,
            date: given.date_format.clone().or(date).unwrap_or_default(),
            timestamp: given
                .timestamp_format
                .clone()
                .or(timestamp.map(TimestampFormat::Date))
                .unwrap_or_default(),
        }
    }

    fn data_type(&self, traits: Traits, decimal: u8, given: &Given) -> DataType {
        if traits.contains(Traits::BOOLEAN) {
            return DataType::Boolean;
        }
        if traits.contains(Traits::INTEGER) {
            return DataType::Int64;
        }
        let (integer, number) = match decimal {
            b',' => (Traits::COMMA_INTEGER, Traits::COMMA_NUMBER),
            _ => (Traits::POINT_INTEGER, Traits::POINT_NUMBER),
        };
        if traits.contains(integer) {
            return DataType::Int64;
        }
        if traits.contains(number) && self.has_digit {
            return DataType::Float64;
        }
        if traits.contains(Traits::WIDE) {
            return WIDE;
        }
        if traits.contains(Traits::TIME) {
            return TIME;
        }
        let is_date = match given.date_format {
            Some(_) => traits.contains(Traits::GIVEN_DATE),
            None => traits.dates().next().is_some(),
        };
        let is_timestamp = match given.timestamp_format {
            Some(_) => traits.contains(Traits::GIVEN_TIMESTAMP),
            // What was said of dates holds for days without a time as well.
            None if given.date_format.is_some() && traits.dates().next().is_some() => false,
            None => traits.timestamps().next().is_some(),
        };
        if is_date {
            return DataType::Date32;
        }
        if !is_timestamp {
            return DataType::Utf8;
        }
        let unit = match traits.contains(Traits::MICROS) {
            true => TimeUnit::Microsecond,
            false => TimeUnit::Nanosecond,
        };
        match (
            traits.contains(Traits::LOCAL),
            traits.contains(Traits::ZONED),
        ) {
            (true, _) => DataType::Timestamp(unit, None),
            (false, true) => DataType::Timestamp(unit, Some(UTC.into())),
            (false, false) => DataType::Utf8,
        }
    }
}

/// Returns the type that holds values of a type, among those that columns may have; text if none does.
fn among(candidates: &[DataType], found: DataType) -> DataType {
    if candidates.is_empty() {
        return found;
    }
    let first = |is_it: &dyn Fn(&DataType) -> bool| candidates.iter().find(|kind| is_it(kind));
    let is_number = |kind: &DataType| kind.is_floating() || kind.is_decimal();
    let is_moment = |kind: &DataType, has_zone: bool| match kind {
        DataType::Timestamp(_, zone) => zone.is_some() == has_zone,
        _ => false,
    };
    let chosen = match &found {
        kind if kind.is_integer() => first(&DataType::is_integer).or_else(|| first(&is_number)),
        kind if is_number(kind) => first(&is_number),
        DataType::Date32 => first(&|kind| *kind == DataType::Date32)
            .or_else(|| first(&|kind| is_moment(kind, false))),
        DataType::Timestamp(_, zone) => first(&|kind| is_moment(kind, zone.is_some())),
        other => first(&|kind| kind == other),
    };
    chosen.cloned().unwrap_or(DataType::Utf8)
}
