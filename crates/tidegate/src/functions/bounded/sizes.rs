//! How many bytes a function's values will have.
//!
//! A value that is the same for each row counts once for each row: whoever reads it may write it out. An
//! estimate is for arguments that have passed the function's own coercion; others cost nothing here and are
//! refused by the function.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

use crate::functions::formatted::Length;

/// Computes the bytes of a function's values from its arguments and the number of rows.
type Bytes = fn(&[ColumnarValue], usize) -> u64;

/// What is known of a function's values before they are made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Estimate {
    /// Their bytes, or little more.
    Exact(Bytes),
    /// A bound that may be far above them.
    AtMost(Bytes),
    /// They are no larger than the arguments; this is what is taken meanwhile.
    Meanwhile(Bytes),
    /// They are small; this is how many pairs are compared for them.
    Pairs(Bytes),
    /// They are no larger than the arguments, as what is taken meanwhile.
    Small,
    /// They are small; a pattern takes some hundred times its bytes.
    Pattern,
}

/// Bytes of one element of a list of numbers.
const ELEMENT_BYTES: u64 = 8;

/// Bytes of a string's view and its offset in the list that holds it.
const STRING_BYTES: u64 = 24;

/// Characters of a number, and its separator, written as text.
const NUMBER_CHARS: u64 = 24;

/// Every function whose values may have many times the bytes of its arguments. Those that add their
/// arguments up are here too, because calls nest: each may double what the one before made.
pub(super) const BOUNDED: [(&str, Estimate); 57] = [
    ("regexp_count", Estimate::Pattern),
    ("regexp_instr", Estimate::Pattern),
    ("regexp_like", Estimate::Pattern),
    ("regexp_match", Estimate::Pattern),
    ("damerau_levenshtein", Estimate::Meanwhile(distances)),
    ("jaro_similarity", Estimate::Pairs(pairs_of_characters)),
    (
        "jaro_winkler_similarity",
        Estimate::Pairs(pairs_of_characters),
    ),
    ("levenshtein", Estimate::Pairs(pairs_of_characters)),
    ("strpos", Estimate::Pairs(places_of_a_long_part)),
    ("array_has_all", Estimate::Pairs(pairs_of_elements)),
    ("array_has_any", Estimate::Pairs(pairs_of_elements)),
    ("repeat", Estimate::Exact(repeat)),
    ("lpad", Estimate::Exact(pad)),
    ("rpad", Estimate::Exact(pad)),
    ("replace", Estimate::Exact(replace)),
    ("translate", Estimate::Exact(four_times)),
    ("regexp_replace", Estimate::AtMost(regexp_replace)),
    ("concat", Estimate::Exact(sum)),
    ("concat_ws", Estimate::Exact(concat_ws)),
    ("overlay", Estimate::Exact(sum)),
    ("encode", Estimate::Exact(twice)),
    ("decode", Estimate::Exact(sum)),
    ("upper", Estimate::Exact(twice)),
    ("lower", Estimate::Exact(twice)),
    ("initcap", Estimate::Exact(twice)),
    ("hex", Estimate::Exact(twice)),
    ("bin", Estimate::Exact(eight_times)),
    ("list_grade_up", Estimate::Exact(eight_times)),
    ("regexp_escape", Estimate::Exact(twice)),
    ("to_char", Estimate::AtMost(to_char)),
    ("printf", Estimate::AtMost(formatted)),
    ("format", Estimate::AtMost(formatted)),
    ("array_repeat", Estimate::Exact(array_repeat)),
    ("array_resize", Estimate::Exact(array_resize)),
    ("range", Estimate::Exact(range)),
    ("generate_series", Estimate::Exact(range)),
    ("array_to_string", Estimate::AtMost(array_to_string)),
    ("string_to_array", Estimate::AtMost(string_to_array)),
    ("string_split", Estimate::AtMost(string_to_array)),
    ("make_array", Estimate::Exact(sum)),
    ("array_append", Estimate::Exact(sum)),
    ("array_prepend", Estimate::Exact(sum)),
    ("array_concat", Estimate::Exact(sum)),
    ("array_union", Estimate::Meanwhile(set)),
    ("array_intersect", Estimate::Meanwhile(set)),
    ("array_except", Estimate::Meanwhile(set)),
    ("array_distinct", Estimate::Meanwhile(set)),
    ("json_list", Estimate::AtMost(list_of_text)),
    ("json_keys", Estimate::AtMost(list_of_text)),
    ("regexp_extract_all", Estimate::AtMost(list_of_text)),
    ("parse_path", Estimate::AtMost(list_of_text)),
    ("regexp_split_to_array", Estimate::AtMost(list_of_text)),
    ("array_replace", Estimate::AtMost(array_replace)),
    ("array_replace_n", Estimate::AtMost(array_replace)),
    ("array_replace_all", Estimate::AtMost(array_replace)),
    ("arrays_zip", Estimate::Exact(sum)),
    ("map", Estimate::Exact(sum)),
];

/// Returns whether a function, by its name, takes lists or maps.
pub(super) fn takes_lists(name: &str) -> bool {
    let others = [
        "cardinality",
        "cosine_distance",
        "empty",
        "flatten",
        "inner_product",
    ];
    name.starts_with("array") || name.starts_with("map") || others.contains(&name)
}

/// Returns the bytes of the arguments that are the same in each row.
pub(super) fn constant_bytes(args: &[ColumnarValue]) -> u64 {
    let constants = args.iter().map(|value| match value {
        ColumnarValue::Scalar(scalar) => scalar_bytes(scalar),
        ColumnarValue::Array(_) => 0,
    });
    constants.sum()
}

/// Returns the bytes of an array's values, without what slices leave out.
pub(super) fn bytes_of(array: &ArrayRef) -> u64 {
    let whole = || array.get_array_memory_size() as u64;
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        _ => {
            let sliced = array.to_data().get_slice_memory_size();
            sliced.map_or_else(|_| whole(), |bytes| bytes as u64)
        }
    }
}

/// The bytes of a value in each row.
enum PerRow {
    Same(u64),
    Each(Vec<u64>),
}

impl PerRow {
    fn at(&self, row: usize) -> u64 {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values.get(row).copied().unwrap_or(0),
        }
    }

    fn map(self, change: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Same(value) => Self::Same(change(value)),
            Self::Each(values) => Self::Each(values.into_iter().map(change).collect()),
        }
    }
}

/// Adds up what a function gives for each row.
fn total(rows: usize, of: impl Fn(usize) -> u64) -> u64 {
    (0..rows).fold(0_u64, |sum, row| sum.saturating_add(of(row)))
}

/// Returns the bytes of an argument in each row: of its text, or of its elements.
fn bytes(value: Option<&ColumnarValue>) -> PerRow {
    match value {
        None => PerRow::Same(0),
        Some(ColumnarValue::Scalar(scalar)) => PerRow::Same(scalar_bytes(scalar)),
        Some(ColumnarValue::Array(array)) => PerRow::Each(array_bytes(array)),
    }
}

fn scalar_bytes(scalar: &ScalarValue) -> u64 {
    if let Some(Some(text)) = scalar.try_as_str() {
        return text.len() as u64;
    }
    match scalar {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.len() as u64,
        scalar if scalar.is_null() => 0,
        scalar if scalar.data_type().is_nested() => scalar
            .to_array()
            .map_or(ELEMENT_BYTES, |array| bytes_of(&array)),
        _ => ELEMENT_BYTES,
    }
}

fn array_bytes(array: &ArrayRef) -> Vec<u64> {
    let from_offsets = |offsets: &[i32], each: u64| {
        let lengths = offsets.windows(2);
        lengths
            .map(|ends| u64::try_from(ends[1] - ends[0]).unwrap_or(0) * each)
            .collect()
    };
    match array.data_type() {
        DataType::Utf8 => from_offsets(array.as_string::<i32>().value_offsets(), 1),
        DataType::Binary => from_offsets(array.as_binary::<i32>().value_offsets(), 1),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).collect(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).collect(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let values = list.values();
            let each = bytes_of(values).div_ceil(values.len().max(1) as u64);
            from_offsets(list.value_offsets(), each)
        }
        _ => {
            let each = bytes_of(array).div_ceil(array.len().max(1) as u64);
            vec![each; array.len()]
        }
    }
}

/// Returns an integer argument in each row; what is negative or NULL is 0.
fn count(value: Option<&ColumnarValue>) -> PerRow {
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    match integers(value) {
        Integers::Same(value) => PerRow::Same(value.map_or(0, positive)),
        Integers::Each(values) => PerRow::Each(
            values
                .into_iter()
                .map(|value| value.map_or(0, positive))
                .collect(),
        ),
    }
}

enum Integers {
    Same(Option<i64>),
    Each(Vec<Option<i64>>),
}

impl Integers {
    fn at(&self, row: usize) -> Option<i64> {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values.get(row).copied().flatten(),
        }
    }
}

/// Reads an argument as integers: dates as their days, timestamps as their units.
fn integers(value: Option<&ColumnarValue>) -> Integers {
    let read = |array: &ArrayRef| {
        let ints = match array.data_type() {
            DataType::Date32 => {
                cast(array, &DataType::Int32).and_then(|days| cast(&days, &DataType::Int64))
            }
            _ => cast(array, &DataType::Int64),
        };
        let ints = ints.ok()?;
        Some(ints.as_primitive::<Int64Type>().iter().collect::<Vec<_>>())
    };
    match value {
        None => Integers::Same(None),
        Some(ColumnarValue::Scalar(scalar)) => {
            let array = scalar.to_array().ok();
            let values = array.as_ref().and_then(read);
            Integers::Same(values.and_then(|values| values.first().copied().flatten()))
        }
        Some(ColumnarValue::Array(array)) => match read(array) {
            Some(values) => Integers::Each(values),
            None => Integers::Same(None),
        },
    }
}

/// Each character of one text with each of the other.
fn pairs_of_characters(args: &[ColumnarValue], rows: usize) -> u64 {
    let (left, right) = (bytes(args.first()), bytes(args.get(1)));
    total(rows, |row| left.at(row).saturating_mul(right.at(row)))
}

/// A number of 64 bits for each character of one text and each of the other; those of one row at a time.
fn distances(args: &[ColumnarValue], rows: usize) -> u64 {
    let (left, right) = (bytes(args.first()), bytes(args.get(1)));
    let of_row = |row| left.at(row).saturating_mul(right.at(row));
    (0..rows).map(of_row).max().unwrap_or(0).saturating_mul(8)
}

/// Each place of a text with a part of it. Short parts are told apart by their first bytes.
fn places_of_a_long_part(args: &[ColumnarValue], rows: usize) -> u64 {
    let (text, part) = (bytes(args.first()), bytes(args.get(1)));
    total(rows, |row| match part.at(row) {
        0..=1_024 => 0,
        part => text.at(row).saturating_mul(part),
    })
}

/// Each element of one list with each of the other.
fn pairs_of_elements(args: &[ColumnarValue], rows: usize) -> u64 {
    let (left, right) = (bytes(args.first()), bytes(args.get(1)));
    total(rows, |row| {
        (left.at(row) / ELEMENT_BYTES).saturating_mul(right.at(row) / ELEMENT_BYTES)
    })
}

/// Returns the bytes of the longest pattern, the second argument.
pub(super) fn longest_pattern(args: &[ColumnarValue], rows: usize) -> u64 {
    let pattern = bytes(args.get(1));
    (0..rows).map(|row| pattern.at(row)).max().unwrap_or(0)
}

/// All arguments one behind the other.
pub(super) fn sum(args: &[ColumnarValue], rows: usize) -> u64 {
    let of = |value: &ColumnarValue| match value {
        ColumnarValue::Scalar(scalar) => scalar_bytes(scalar).saturating_mul(rows as u64),
        ColumnarValue::Array(array) => bytes_of(array),
    };
    args.iter().map(of).fold(0, u64::saturating_add)
}

/// Elements are written as rows of bytes, and put into a hash table: some 120 bytes for one of 8.
fn set(args: &[ColumnarValue], rows: usize) -> u64 {
    sum(args, rows).saturating_mul(15)
}

/// A string may begin at every second character.
fn list_of_text(args: &[ColumnarValue], rows: usize) -> u64 {
    let text = bytes(args.first());
    let each = |bytes: u64| bytes.saturating_add((bytes / 2 + 1).saturating_mul(STRING_BYTES));
    total(rows, |row| each(text.at(row)))
}

fn twice(args: &[ColumnarValue], rows: usize) -> u64 {
    sum(args, rows).saturating_mul(2)
}

/// A byte becomes a digit for each of its bits.
fn eight_times(args: &[ColumnarValue], rows: usize) -> u64 {
    sum(args, rows).saturating_mul(8)
}

/// A character of one byte may become one of four.
fn four_times(args: &[ColumnarValue], rows: usize) -> u64 {
    sum(args.get(..1).unwrap_or_default(), rows).saturating_mul(4)
}

fn repeat(args: &[ColumnarValue], rows: usize) -> u64 {
    let (text, times) = (bytes(args.first()), count(args.get(1)));
    total(rows, |row| text.at(row).saturating_mul(times.at(row)))
}

/// The length is in characters, of which the filling may have wider ones.
fn pad(args: &[ColumnarValue], rows: usize) -> u64 {
    let (text, length) = (bytes(args.first()), count(args.get(1)));
    let width = match args.get(2) {
        None => 1,
        Some(ColumnarValue::Scalar(fill)) => match fill.try_as_str() {
            Some(Some(fill)) if !fill.is_ascii() => 4,
            _ => 1,
        },
        Some(ColumnarValue::Array(_)) => 4,
    };
    total(rows, |row| {
        let filled = length.at(row).saturating_mul(width);
        // What is long enough is cut, not filled.
        filled.saturating_add(text.at(row).min(length.at(row).saturating_mul(4)))
    })
}

/// Counts how often the text that is replaced is there, if that may matter.
fn replace(args: &[ColumnarValue], rows: usize) -> u64 {
    let (text, from, to) = (bytes(args.first()), bytes(args.get(1)), bytes(args.get(2)));
    let bound = total(rows, |row| {
        let times = match from.at(row) {
            0 => text.at(row) + 1,
            from => text.at(row) / from,
        };
        text.at(row)
            .saturating_add(times.saturating_mul(to.at(row)))
    });
    let texts = (strings(args.first(), rows), strings(args.get(1), rows));
    let (Some(texts), Some(searched)) = texts else {
        return bound;
    };
    if bound <= super::UNASKED_BYTES_MAX {
        return bound;
    }
    total(rows, |row| {
        let times = match (texts.at(row), searched.at(row)) {
            (Some(text), Some("")) => text.chars().count() + 1,
            (Some(text), Some(from)) => text.matches(from).count(),
            _ => 0,
        };
        text.at(row)
            .saturating_add((times as u64).saturating_mul(to.at(row)))
    })
}

/// The text of an argument in each row.
enum Strings {
    Same(Option<String>),
    Each(ArrayRef),
}

impl Strings {
    fn at(&self, row: usize) -> Option<&str> {
        match self {
            Self::Same(text) => text.as_deref(),
            Self::Each(array) if array.is_null(row) => None,
            Self::Each(array) => Some(array.as_string_view().value(row)),
        }
    }
}

fn strings(value: Option<&ColumnarValue>, rows: usize) -> Option<Strings> {
    match value? {
        ColumnarValue::Scalar(scalar) => {
            Some(Strings::Same(scalar.try_as_str()?.map(str::to_owned)))
        }
        ColumnarValue::Array(array) if array.len() == rows => {
            Some(Strings::Each(cast(array, &DataType::Utf8View).ok()?))
        }
        ColumnarValue::Array(_) => None,
    }
}

/// Each character may be replaced if all are, and each reference to a group brings at most the text.
fn regexp_replace(args: &[ColumnarValue], rows: usize) -> u64 {
    let (text, by) = (bytes(args.first()), bytes(args.get(2)));
    let all = match args.get(3) {
        None => false,
        Some(ColumnarValue::Scalar(flags)) => {
            matches!(flags.try_as_str(), Some(Some(flags)) if flags.contains('g'))
        }
        Some(ColumnarValue::Array(_)) => true,
    };
    total(rows, |row| {
        let (text, by) = (text.at(row), by.at(row));
        let times = if all { text + 1 } else { 1 };
        // A reference takes two characters at least.
        let references = (by / 2).min(64);
        text.saturating_add(times.saturating_mul(by))
            .saturating_add(references.saturating_mul(text))
    })
}

fn concat_ws(args: &[ColumnarValue], rows: usize) -> u64 {
    let separator = bytes(args.first());
    let gaps = args.len().saturating_sub(2) as u64;
    let separators = total(rows, |row| separator.at(row).saturating_mul(gaps));
    sum(args.get(1..).unwrap_or_default(), rows).saturating_add(separators)
}

/// A field of a format has two characters and becomes at most some thirty.
fn to_char(args: &[ColumnarValue], rows: usize) -> u64 {
    let format = bytes(args.get(1)).map(|bytes| bytes.saturating_mul(16));
    total(rows, |row| format.at(row))
}

fn formatted(args: &[ColumnarValue], rows: usize) -> u64 {
    let values = args.iter().skip(1).map(|value| bytes(Some(value)));
    let values: Vec<PerRow> = values.collect();
    let arguments = |row: usize| {
        let bytes = values.iter().map(|value| value.at(row));
        bytes.fold(0_u64, u64::saturating_add)
    };
    match args.first() {
        Some(ColumnarValue::Scalar(format)) => {
            let length = Length::of(format.try_as_str().flatten().unwrap_or_default());
            total(rows, |row| length.bytes_max(arguments(row)))
        }
        Some(ColumnarValue::Array(formats)) => {
            let Some(formats) = formats.as_string_view_opt() else {
                return 0;
            };
            total(rows.min(formats.len()), |row| {
                Length::of(formats.value(row)).bytes_max(arguments(row))
            })
        }
        None => 0,
    }
}

fn array_repeat(args: &[ColumnarValue], rows: usize) -> u64 {
    let (element, times) = (bytes(args.first()), count(args.get(1)));
    total(rows, |row| {
        element
            .at(row)
            .max(ELEMENT_BYTES)
            .saturating_mul(times.at(row))
    })
}

fn array_resize(args: &[ColumnarValue], rows: usize) -> u64 {
    let (list, length, element) = (bytes(args.first()), count(args.get(1)), bytes(args.get(2)));
    total(rows, |row| {
        let filled = element.at(row).max(ELEMENT_BYTES);
        list.at(row)
            .saturating_add(length.at(row).saturating_mul(filled))
    })
}

/// Counts the steps from the start to the end.
fn range(args: &[ColumnarValue], rows: usize) -> u64 {
    let (start, end) = match args {
        [end] => (Integers::Same(Some(0)), integers(Some(end))),
        [start, end, ..] => (integers(Some(start)), integers(Some(end))),
        [] => return 0,
    };
    let step = steps(args);
    total(rows, |row| {
        let (Some(start), Some(end)) = (start.at(row), end.at(row)) else {
            return 0;
        };
        let step = step.at(row).max(1);
        (end.abs_diff(start) / step + 1).saturating_mul(ELEMENT_BYTES)
    })
}

/// Returns the size of a range's steps, in the units of its start.
fn steps(args: &[ColumnarValue]) -> PerRow {
    let Some(step) = args.get(2) else {
        return PerRow::Same(1);
    };
    let DataType::Interval(_) = step.data_type() else {
        return match integers(Some(step)) {
            Integers::Same(step) => PerRow::Same(step.map_or(1, i64::unsigned_abs)),
            Integers::Each(steps) => {
                let size = |step: Option<i64>| step.map_or(1, i64::unsigned_abs);
                PerRow::Each(steps.into_iter().map(size).collect())
            }
        };
    };
    let ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(step))) = step else {
        // Whatever it is, it is no shorter than this, and what is too much is refused.
        return PerRow::Same(units(&args[0].data_type(), 1_000_000).max(1));
    };
    let days = u64::from(step.months.unsigned_abs()) * 28 + u64::from(step.days.unsigned_abs());
    let nanos = days
        .saturating_mul(86_400_000_000_000)
        .saturating_add(step.nanoseconds.unsigned_abs());
    PerRow::Same(units(&args[0].data_type(), nanos))
}

/// Returns so many nanoseconds in the units of a date or timestamp.
fn units(of: &DataType, nanos: u64) -> u64 {
    use datafusion::arrow::datatypes::TimeUnit;
    let nanos_in_unit = match of {
        DataType::Date32 => 86_400_000_000_000,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    nanos / nanos_in_unit
}

fn array_to_string(args: &[ColumnarValue], rows: usize) -> u64 {
    let list = bytes(args.first());
    let gap = bytes(args.get(1));
    let null = bytes(args.get(2));
    total(rows, |row| {
        // An element takes a byte at least.
        let elements = list.at(row);
        let gaps = (elements / ELEMENT_BYTES + 1).saturating_mul(
            gap.at(row)
                .saturating_add(null.at(row))
                .saturating_add(NUMBER_CHARS),
        );
        elements.saturating_add(gaps)
    })
}

/// Each character may become a string of its own.
fn string_to_array(args: &[ColumnarValue], rows: usize) -> u64 {
    let text = bytes(args.first());
    let gap = bytes(args.get(1));
    total(rows, |row| {
        let strings = text.at(row) / gap.at(row).max(1) + 1;
        text.at(row)
            .saturating_add(strings.saturating_mul(STRING_BYTES))
    })
}

/// Each element may become the new one.
fn array_replace(args: &[ColumnarValue], rows: usize) -> u64 {
    let (list, by) = (bytes(args.first()), bytes(args.get(2)));
    total(rows, |row| {
        let elements = list.at(row) / ELEMENT_BYTES + 1;
        list.at(row)
            .saturating_add(elements.saturating_mul(by.at(row)))
    })
}
