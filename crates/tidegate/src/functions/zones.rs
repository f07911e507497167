//! `timezone(zone, t)`, which is `t AT TIME ZONE zone`, as PostgreSQL defines it.
//!
//! A timestamp without a zone is what clocks in `zone` show: the result is that instant. An instant (a
//! timestamp with a zone) becomes what clocks in `zone` show then, without a zone. Text and dates are
//! instants, read in the session's time zone.
//!
//! Where clocks are set forward, times that no clock shows are read with the offset of before; where
//! they are set back, times that clocks show twice are the later ones. An offset such as `+02:00` is
//! east of Greenwich (ISO 8601), which PostgreSQL reads as west.

use std::sync::Arc;

use chrono::{DateTime, Offset, TimeDelta, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringArray,
};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::error::{Error, ErrorKind};

/// The time zone of a session that sets none.
pub(crate) const DEFAULT_ZONE: &str = "UTC";

/// The setting of a session's time zone.
pub(crate) const ZONE_SETTING: &str = "datafusion.execution.time_zone";

/// Hours from a time that no clock shows back to an instant that is surely before the clocks were set
/// forward: the greatest offset is 14 hours.
const BEFORE_GAP_HOURS: i64 = 15;

/// Returns the time zone of a session.
pub(crate) fn session_zone(config: &ConfigOptions) -> Arc<str> {
    config
        .execution
        .time_zone
        .as_deref()
        .unwrap_or(DEFAULT_ZONE)
        .into()
}

/// Tells whether a time zone's clocks show UTC.
pub(crate) fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00" | "Z" | "Etc/UTC" | "+00" | "-00:00")
}

/// Reads the name or offset of a time zone as columns name it.
///
/// # Errors
/// [`ErrorKind::Sql`] for an unknown one.
pub(crate) fn exact_zone(name: &str) -> std::result::Result<Tz, Error> {
    name.parse().map_err(|_| {
        let message = format!(
            "time zone '{name}' is not known: use a name such as 'Europe/Berlin', 'UTC', or an offset \
             such as '+02:00', which is east of Greenwich"
        );
        Error::new(ErrorKind::Sql, message)
    })
}

/// Reads a time zone, in whatever case its name is written.
fn zone(name: &str) -> std::result::Result<Tz, Error> {
    let trimmed = name.trim();
    let found = exact_zone(trimmed);
    if found.is_ok() {
        return found;
    }
    let mut capitalized = String::with_capacity(trimmed.len());
    let mut starts_word = true;
    for c in trimmed.chars() {
        match starts_word {
            true => capitalized.extend(c.to_uppercase()),
            false => capitalized.extend(c.to_lowercase()),
        }
        starts_word = !c.is_alphanumeric();
    }
    exact_zone(&capitalized)
        .or_else(|_| exact_zone(&trimmed.to_uppercase()))
        .or(found)
}

/// The function `timezone(zone, t)` of a session.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeZoneFunction {
    signature: Signature,
    /// The zone of the instants that it returns.
    session_zone: Arc<str>,
}

impl TimeZoneFunction {
    /// Returns the function for a session of this time zone.
    pub(crate) fn new(session_zone: Arc<str>) -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            session_zone,
        }
    }
}

impl ScalarUDFImpl for TimeZoneFunction {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(Self::new(session_zone(config)).into())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [zone, t] = given else {
            return plan_err!("timezone takes a time zone and a timestamp");
        };
        if !zone.is_string() && !zone.is_null() {
            return plan_err!("AT TIME ZONE takes the zone as text such as 'UTC', not {zone}");
        }
        let t = match t {
            DataType::Timestamp(..) => t.clone(),
            DataType::Date32 | DataType::Date64 | DataType::Null => self.instant(),
            text if text.is_string() => self.instant(),
            other => {
                return plan_err!("AT TIME ZONE takes a timestamp, a date or text, not {other}");
            }
        };
        Ok(vec![DataType::Utf8, t])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of timezone depends on its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [zone, t] = args.arg_fields else {
            return plan_err!("timezone takes a time zone and a timestamp");
        };
        let DataType::Timestamp(unit, of) = t.data_type() else {
            return internal_err!("timezone of {}", t.data_type());
        };
        let returned = match of {
            None => Some(Arc::clone(&self.session_zone)),
            Some(_) => None,
        };
        let is_nullable = zone.is_nullable() || t.is_nullable();
        let data_type = DataType::Timestamp(*unit, returned);
        Ok(Arc::new(Field::new(self.name(), data_type, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [zones, times] = args.args.as_slice() else {
            return internal_err!("timezone of {} arguments", args.args.len());
        };
        let is_scalar = [zones, times]
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let num_rows = if is_scalar { 1 } else { args.number_rows };
        let zones = match zones {
            ColumnarValue::Scalar(name) => Zones::One(match name.try_as_str().flatten() {
                Some(name) => Some(zone(name)?),
                None => None,
            }),
            ColumnarValue::Array(names) => Zones::Each(names.as_string::<i32>().clone()),
        };
        let times = times.to_array(num_rows)?;
        let shifted = match times.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                self.shift::<TimestampSecondType>(&times, &zones, 1)?
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.shift::<TimestampMillisecondType>(&times, &zones, 1_000)?
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.shift::<TimestampMicrosecondType>(&times, &zones, 1_000_000)?
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.shift::<TimestampNanosecondType>(&times, &zones, 1_000_000_000)?
            }
            other => return internal_err!("timezone of {other}"),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&shifted, 0)?),
            false => ColumnarValue::Array(shifted),
        })
    }
}

/// The zones of a batch of rows.
enum Zones {
    /// The same for all; `None` for NULL.
    One(Option<Tz>),
    Each(StringArray),
}

impl TimeZoneFunction {
    fn instant(&self) -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(&self.session_zone)))
    }

    fn shift<T>(&self, times: &ArrayRef, zones: &Zones, per_second: i64) -> Result<ArrayRef>
    where
        T: ArrowTimestampType + ArrowPrimitiveType<Native = i64>,
    {
        let times = times.as_primitive::<T>();
        let is_instant = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
        let move_by = |time: i64, zone: &Tz| {
            let moved = match is_instant {
                true => local_of(time, per_second, zone),
                false => instant_of(time, per_second, zone),
            };
            moved.ok_or_else(|| {
                let message = "a timestamp is out of range in this time zone";
                DataFusionError::from(Error::new(ErrorKind::Sql, message))
            })
        };
        let shifted: PrimitiveArray<T> = match zones {
            Zones::One(None) => PrimitiveArray::new_null(times.len()),
            Zones::One(Some(zone)) => {
                // Values below NULLs may be anything.
                let moved = times.iter().map(|time| match time {
                    Some(time) => move_by(time, zone).map(Some),
                    None => Ok(None),
                });
                moved.collect::<Result<_>>()?
            }
            Zones::Each(names) => {
                let mut last: Option<(&str, Tz)> = None;
                let mut moved = Vec::with_capacity(times.len());
                for (time, name) in times.iter().zip(names) {
                    let (Some(time), Some(name)) = (time, name) else {
                        moved.push(None);
                        continue;
                    };
                    let of_row = match last {
                        Some((known, of_row)) if known == name => of_row,
                        _ => zone(name)?,
                    };
                    last = Some((name, of_row));
                    moved.push(Some(move_by(time, &of_row)?));
                }
                moved.into_iter().collect()
            }
        };
        let returned = (!is_instant).then(|| Arc::clone(&self.session_zone));
        Ok(Arc::new(shifted.with_timezone_opt(returned)))
    }
}

/// Returns what clocks in a zone show at an instant; `None` out of range.
pub(super) fn local_of(instant: i64, per_second: i64, zone: &Tz) -> Option<i64> {
    let utc = DateTime::from_timestamp(instant.div_euclid(per_second), 0)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    instant.checked_add(i64::from(offset).checked_mul(per_second)?)
}

/// Returns the instant at which clocks in a zone show a time; `None` out of range.
pub(super) fn instant_of(local: i64, per_second: i64, zone: &Tz) -> Option<i64> {
    let shown = DateTime::from_timestamp(local.div_euclid(per_second), 0)?.naive_utc();
    // The later of two instants has the smaller offset.
    let found = zone.offset_from_local_datetime(&shown);
    let offsets = [found.earliest(), found.latest()];
    let offsets = offsets.iter().flatten();
    let offset = match offsets.map(|offset| offset.fix().local_minus_utc()).min() {
        Some(offset) => offset,
        None => {
            let before = shown.checked_sub_signed(TimeDelta::hours(BEFORE_GAP_HOURS))?;
            zone.offset_from_utc_datetime(&before)
                .fix()
                .local_minus_utc()
        }
    };
    local.checked_sub(i64::from(offset).checked_mul(per_second)?)
}

#[cfg(test)]
mod tests {
    use super::{instant_of, local_of, zone};

    /// Seconds of a time in 2024 to 2026, without a zone.
    fn seconds(text: &str) -> i64 {
        text.parse::<chrono::NaiveDateTime>()
            .unwrap()
            .and_utc()
            .timestamp()
    }

    #[track_caller]
    fn is_at(zone_name: &str, local: &str, utc: &str) {
        let found = zone(zone_name).unwrap();
        assert_eq!(instant_of(seconds(local), 1, &found), Some(seconds(utc)));
    }

    #[test]
    fn clocks_show_instants() {
        is_at(
            "Europe/Berlin",
            "2024-07-01T12:00:00",
            "2024-07-01T10:00:00",
        );
        is_at(
            "europe/berlin",
            "2024-01-01T12:00:00",
            "2024-01-01T11:00:00",
        );
        is_at("Asia/Kolkata", "2024-01-01T00:00:00", "2023-12-31T18:30:00");
        is_at(
            "Australia/Lord_Howe",
            "2024-07-01T00:00:00",
            "2024-06-30T13:30:00",
        );
        is_at("+05:45", "2024-01-01T00:00:00", "2023-12-31T18:15:00");
        is_at("-08", "2024-01-01T00:00:00", "2024-01-01T08:00:00");
        is_at("utc", "2024-01-01T00:00:00", "2024-01-01T00:00:00");
    }

    #[test]
    fn times_in_a_gap_take_the_offset_of_before_and_twice_shown_ones_are_later() {
        is_at(
            "Europe/Berlin",
            "2024-03-31T02:30:00",
            "2024-03-31T01:30:00",
        );
        is_at(
            "Europe/Berlin",
            "2024-10-27T02:30:00",
            "2024-10-27T01:30:00",
        );
        is_at(
            "America/New_York",
            "2024-03-10T02:30:00",
            "2024-03-10T07:30:00",
        );
        is_at(
            "America/New_York",
            "2024-11-03T01:30:00",
            "2024-11-03T06:30:00",
        );
        // Samoa left out the 30th of December 2011.
        is_at("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T22:00:00");
        // Clocks of Lord Howe Island are moved by half an hour.
        is_at(
            "Australia/Lord_Howe",
            "2024-10-06T02:15:00",
            "2024-10-05T15:45:00",
        );
    }

    #[test]
    fn there_and_back_is_the_same() {
        for name in [
            "Europe/Berlin",
            "Asia/Kathmandu",
            "America/St_Johns",
            "-03:30",
        ] {
            let found = zone(name).unwrap();
            for per_second in [1, 1_000, 1_000_000_000] {
                for hour in 0..2_000 {
                    let instant = (1_700_000_000 - 86_400 * 365 * 60 + hour * 3_600 * 11)
                        * per_second
                        + hour % per_second;
                    let local = local_of(instant, per_second, &found).unwrap();
                    let back = instant_of(local, per_second, &found).unwrap();
                    // The earlier of two instants of one shown time is the only exception.
                    let again = local_of(back, per_second, &found);
                    assert_eq!(again, Some(local), "{name} {instant}");
                }
            }
        }
    }

    #[test]
    fn unknown_zones_are_errors() {
        for name in ["Europe/Atlantis", "", "UTC+3", "25:00", "PST8"] {
            let error = zone(name).unwrap_err().to_string();
            assert!(error.contains(&format!("'{name}' is not known")), "{error}");
        }
    }
}
