//! `strptime(s, format)` and `try_strptime(s, format)`: timestamps that are read by a format, as DuckDB has them.
//!
//! A format may leave parts out: those are of midnight on the first of January 1900, and hours of twelve without AM
//! or PM are those of the morning, but for noon. Several formats, as arguments or as a list, are tried in their order.
//! Formats are Python's, with DuckDB's `%g` and `%n` ([`chrono_format`]).

use std::sync::Arc;

use chrono::format::{Item, ParseResult, Parsed, StrftimeItems, parse};
use chrono::{NaiveDateTime, TimeDelta};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, StringViewArray, TimestampNanosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::times::chrono_format;
use super::zones::{exact_zone, instant_of, local_of, session_zone};
use crate::error::{Error, ErrorKind};

const NANOSECONDS: i64 = 1_000_000_000;

/// Returns `strptime` and `try_strptime`.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [false, true].map(|is_lenient| Strptime::new(is_lenient).into())
}

/// Reads a timestamp, without a zone, in nanoseconds. NULL of a string that is NULL, and where all formats are.
///
/// A string that no format fits is an error, or NULL of `try_strptime`. What says an offset is what clocks of the
/// session's time zone show then.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Strptime {
    is_lenient: bool,
    aliases: Vec<String>,
    signature: Signature,
}

impl Strptime {
    fn new(is_lenient: bool) -> Self {
        let aliases: &[&str] = match is_lenient {
            true => &["try_to_timestamp"],
            false => &[],
        };
        Self {
            is_lenient,
            aliases: aliases.iter().map(ToString::to_string).collect(),
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Strptime {
    fn name(&self) -> &str {
        match self.is_lenient {
            true => "try_strptime",
            false => "strptime",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, None))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let refused = || -> Result<Vec<DataType>> {
            plan_err!(
                "{name} takes a string and a format, or a list of formats: {name}(s, '%Y-%m-%d')"
            )
        };
        let [text, formats @ ..] = given else {
            return refused();
        };
        if formats.is_empty() || !is_text(text) {
            return refused();
        }
        let mut coerced = vec![DataType::Utf8View];
        for format in formats {
            coerced.push(match format {
                format if is_text(format) => DataType::Utf8View,
                DataType::List(values)
                | DataType::LargeList(values)
                | DataType::FixedSizeList(values, _)
                    if is_text(values.data_type()) =>
                {
                    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
                }
                _ => return refused(),
            });
        }
        Ok(coerced)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = exact_zone(&session_zone(&args.config_options))?;
        let call = Call {
            name: self.name(),
            is_lenient: self.is_lenient,
            is_python: true,
        };
        let shown = |time: Time| {
            let nanoseconds = time.value.and_utc().timestamp_nanos_opt()?;
            match time.is_instant {
                true => local_of(nanoseconds, NANOSECONDS, &session),
                false => Some(nanoseconds),
            }
        };
        let times = call.read(&args, shown)?;
        let times: TimestampNanosecondArray = times.into_iter().collect();
        as_given(&args, Arc::new(times))
    }
}

fn is_text(given: &DataType) -> bool {
    match given {
        DataType::Dictionary(_, values) => values.is_string(),
        given => given.is_string() || given.is_null(),
    }
}

/// Reads instants by formats of chrono, for a function of the family of `to_timestamp`, whose arguments are texts.
///
/// A time without an offset is what clocks in the zone of the function's type show. NULL of a string that is NULL, and
/// where all formats are.
///
/// # Errors
/// [`ErrorKind::Sql`] for a string that no format fits, and a time out of range.
pub(super) fn instants(
    name: &str,
    args: &ScalarFunctionArgs,
    unit: TimeUnit,
    zone: Option<&Arc<str>>,
) -> Result<ColumnarValue> {
    let in_zone = match zone {
        Some(zone) => Some(exact_zone(zone)?),
        None => None,
    };
    let call = Call {
        name,
        is_lenient: false,
        is_python: false,
    };
    let instant = |time: Time| {
        let utc = time.value.and_utc();
        let (value, per_second) = match unit {
            TimeUnit::Second => (utc.timestamp(), 1),
            TimeUnit::Millisecond => (utc.timestamp_millis(), 1_000),
            TimeUnit::Microsecond => (utc.timestamp_micros(), 1_000_000),
            TimeUnit::Nanosecond => (utc.timestamp_nanos_opt()?, NANOSECONDS),
        };
        match &in_zone {
            Some(zone) if !time.is_instant => instant_of(value, per_second, zone),
            _ => Some(value),
        }
    };
    let instants: Int64Array = call.read(args, instant)?.into_iter().collect();
    let data_type = DataType::Timestamp(unit, zone.cloned());
    as_given(args, cast(&instants, &data_type)?)
}

/// Returns one value if all arguments are of one, else the array.
fn as_given(args: &ScalarFunctionArgs, values: ArrayRef) -> Result<ColumnarValue> {
    match are_constant(&args.args) {
        true => Ok(ScalarValue::try_from_array(&values, 0)?.into()),
        false => Ok(ColumnarValue::Array(values)),
    }
}

fn are_constant(args: &[ColumnarValue]) -> bool {
    let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
    args.iter().all(is_scalar)
}

/// What a string says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time {
    value: NaiveDateTime,
    /// Whether it is in UTC; else it is what some clock shows.
    is_instant: bool,
}

/// A call that reads strings.
struct Call<'a> {
    name: &'a str,
    /// Whether a string that no format fits is NULL.
    is_lenient: bool,
    /// Whether formats are Python's; else they are chrono's.
    is_python: bool,
}

impl Call<'_> {
    /// Reads the string of each row by the first format that fits it.
    fn read(
        &self,
        args: &ScalarFunctionArgs,
        value: impl Fn(Time) -> Option<i64>,
    ) -> Result<Vec<Option<i64>>> {
        let Some((texts, formats)) = args.args.split_first() else {
            return exec_err!("{} takes a string and a format", self.name);
        };
        let are_same = are_constant(formats);
        let num_rows = match are_constant(&args.args) {
            true => 1,
            false => args.number_rows,
        };
        let texts = cast(&texts.to_array(num_rows)?, &DataType::Utf8View)?;
        let texts: &StringViewArray = texts.as_string_view();
        let format_rows = if are_same { 1 } else { num_rows };
        let formats = formats.iter().map(|format| format.to_array(format_rows));
        let formats: Vec<ArrayRef> = formats.collect::<Result<_>>()?;
        let mut of_row = match are_same {
            true => self.formats(&formats, 0, true)?,
            false => Vec::new(),
        };
        let mut values = Vec::with_capacity(num_rows);
        for (row, text) in texts.iter().enumerate() {
            if !are_same {
                of_row = self.formats(&formats, row, false)?;
            }
            values.push(match text {
                Some(text) if !of_row.is_empty() => self.value(text, &of_row, &value)?,
                _ => None,
            });
        }
        Ok(values)
    }

    fn value(
        &self,
        text: &str,
        formats: &[Format],
        value: &impl Fn(Time) -> Option<i64>,
    ) -> Result<Option<i64>> {
        let mut why = String::new();
        for format in formats {
            match format.read(text) {
                Ok(time) => match value(time) {
                    Some(value) => return Ok(Some(value)),
                    None => why = "it is out of range".to_string(),
                },
                Err(error) => why = error,
            }
        }
        if self.is_lenient {
            return Ok(None);
        }
        let formats = formats.iter().map(|format| format!("'{}'", format.text));
        let formats = formats.collect::<Vec<_>>().join(" or ");
        let message = format!(
            "{}: '{text}' cannot be read as {formats}: {why}; try_strptime gives NULL for such strings",
            self.name
        );
        Err(Error::new(ErrorKind::Sql, message).into())
    }

    /// Returns the formats of a row. A text that is no format is an error, but for `try_strptime` where it is of a
    /// column.
    fn formats(&self, arrays: &[ArrayRef], row: usize, are_same: bool) -> Result<Vec<Format>> {
        let mut formats = Vec::new();
        for text in arrays.iter().flat_map(|array| texts_at(array, row)) {
            let written = match self.is_python {
                true => chrono_format(&text, true),
                false => text.clone(),
            };
            match Format::of(text, &written) {
                Ok(format) => formats.push(format),
                Err(_) if self.is_lenient && !are_same => {}
                Err(text) => {
                    let message = format!(
                        "{}: '{text}' is no format: a part of it, as %Y, %m or %d, is not known",
                        self.name
                    );
                    return Err(Error::new(ErrorKind::Sql, message).into());
                }
            }
        }
        Ok(formats)
    }
}

/// Returns the texts of an argument in a row: one, or those of a list. Those that are NULL are left out.
fn texts_at(array: &ArrayRef, row: usize) -> Vec<String> {
    if array.is_null(row) {
        return Vec::new();
    }
    let (values, only) = match array.as_list_opt::<i32>() {
        Some(lists) => (lists.value(row), None),
        None => (Arc::clone(array), Some(row)),
    };
    let Ok(values) = cast(&values, &DataType::Utf8View) else {
        return Vec::new();
    };
    let values = values.as_string_view();
    match only {
        Some(row) => vec![values.value(row).to_string()],
        None => values.iter().flatten().map(str::to_owned).collect(),
    }
}

/// A format of chrono that is taken apart.
struct Format {
    /// As the user wrote it.
    text: String,
    items: Vec<Item<'static>>,
    /// Whether the name of a zone stands behind what the items read.
    has_zone: bool,
}

impl Format {
    /// Takes a format apart; what was written is returned if it is none.
    fn of(text: String, format: &str) -> std::result::Result<Self, String> {
        // Chrono passes over the names of zones.
        let (format, has_zone) = match format.trim_end().strip_suffix(" %Z") {
            Some(before) => (before, true),
            None => (format, false),
        };
        match StrftimeItems::new(format).parse_to_owned() {
            Ok(items) if !format.contains("%Z") => Ok(Self {
                text,
                items,
                has_zone,
            }),
            _ => Err(text),
        }
    }

    /// Reads a string, or says why it is not written so.
    fn read(&self, text: &str) -> std::result::Result<Time, String> {
        let (text, zone) = match (self.has_zone, text.trim_end().rsplit_once(' ')) {
            (true, Some((text, name))) => {
                let zone = exact_zone(name).map_err(|error| error.to_string())?;
                (text, Some(zone))
            }
            _ => (text, None),
        };
        let mut parsed = Parsed::new();
        let read = parse(&mut parsed, text, self.items.iter());
        let read = read.and_then(|()| complete(&mut parsed));
        let offset = parsed.offset().unwrap_or(0);
        let local = read.and_then(|()| parsed.to_naive_datetime_with_offset(offset));
        let local = local.map_err(|error| error.to_string())?;
        let east = match zone {
            Some(zone) => {
                let seconds = local.and_utc().timestamp();
                instant_of(seconds, 1, &zone).map(|instant| seconds - instant)
            }
            None => Some(i64::from(offset)),
        };
        let value = east.and_then(|east| local.checked_sub_signed(TimeDelta::try_seconds(east)?));
        Ok(Time {
            value: value.ok_or("it is out of range")?,
            is_instant: zone.is_some() || parsed.offset().is_some() || parsed.timestamp().is_some(),
        })
    }
}

/// Gives the parts that a format left out: those of midnight on the first of January 1900.
fn complete(parsed: &mut Parsed) -> ParseResult<()> {
    if parsed.timestamp().is_some() {
        return Ok(());
    }
    let years = [
        parsed.year(),
        parsed.year_mod_100(),
        parsed.isoyear(),
        parsed.isoyear_mod_100(),
    ];
    if years.iter().all(Option::is_none) {
        parsed.set_year(1900)?;
    }
    let weeks_and_days = [
        parsed.ordinal(),
        parsed.week_from_sun(),
        parsed.week_from_mon(),
        parsed.isoweek(),
    ];
    if weeks_and_days.iter().all(Option::is_none) {
        if parsed.month().is_none() {
            let quarter = parsed.quarter().unwrap_or(1);
            parsed.set_month(i64::from(quarter) * 3 - 2)?;
        }
        if parsed.day().is_none() {
            parsed.set_day(1)?;
        }
    }
    match (parsed.hour_div_12(), parsed.hour_mod_12()) {
        (None, None) => parsed.set_hour(0)?,
        (None, Some(hour)) => parsed.set_ampm(hour == 0)?,
        (Some(_), None) => parsed.set_hour12(12)?,
        (Some(_), Some(_)) => {}
    }
    if parsed.minute().is_none() {
        parsed.set_minute(0)?;
    }
    if parsed.second().is_none() {
        parsed.set_second(0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[track_caller]
    fn check(text: &str, format: &str, expect: Option<&str>) {
        let format = Format::of(format.to_string(), format).unwrap();
        let read = format.read(text).ok().map(|time| time.value.to_string());
        assert_eq!(read.as_deref(), expect, "{text}");
    }

    #[test]
    fn what_is_left_out_is_midnight_on_the_first_of_january() {
        check("2024-01-05 14", "%Y-%m-%d %H", Some("2024-01-05 14:00:00"));
        check(
            "2024-01-05 03 PM",
            "%Y-%m-%d %I %p",
            Some("2024-01-05 15:00:00"),
        );
        check("12", "%I", Some("1900-01-01 12:00:00"));
        check("2024", "%Y", Some("2024-01-01 00:00:00"));
        check("2024-03", "%Y-%m", Some("2024-03-01 00:00:00"));
        check("14:30", "%H:%M", Some("1900-01-01 14:30:00"));
        check("2024-060", "%Y-%j", Some("2024-02-29 00:00:00"));
        check("2024-02-30", "%Y-%m-%d", None);
        check("2024-02-03 rest", "%Y-%m-%d", None);
        check(
            "2024-01-05 10:00 +0200",
            "%Y-%m-%d %H:%M %z",
            Some("2024-01-05 08:00:00"),
        );
        check(
            "2024-07-05 10:00 Europe/Berlin",
            "%Y-%m-%d %H:%M %Z",
            Some("2024-07-05 08:00:00"),
        );
        check("0", "%s", Some("1970-01-01 00:00:00"));
    }
}
