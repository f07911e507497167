//! Text that is cast to a timestamp with a time zone, where clocks in the zone do not show it, or show it twice.
//!
//! Arrow has an error, or NULL, for both. The text is read without a zone then, and is the instant that
//! [`zones`](super::zones) finds. The type that is cast to comes as a NULL of it.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{CastOptions, cast_with_options, is_not_null, nullif};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::plain::{self, Parts};
use super::zones::{exact_zone, instant_of};

/// Returns the functions, for plans that are read from bytes.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [strict(), lenient()]
}

/// Returns the call that casts a text to a timestamp with a time zone; what is no timestamp is an error, or NULL.
///
/// # Errors
/// Those of a type that has no NULL.
pub(crate) fn call(text: Expr, to: &DataType, is_strict: bool) -> Result<Expr> {
    let function = match is_strict {
        true => strict(),
        false => lenient(),
    };
    let null = Expr::Literal(ScalarValue::try_new_null(to)?, None);
    Ok(function.call(vec![text, null]))
}

fn strict() -> ScalarUDF {
    plain::function(Parts {
        names: &["instant_of_text"],
        section: DOC_SECTION_DATETIME,
        description: "Casts text to a timestamp with a time zone.",
        syntax: "instant_of_text(s, CAST(NULL AS TIMESTAMPTZ))",
        takes,
        returns,
        computes: |given| read(given, true),
    })
}

fn lenient() -> ScalarUDF {
    plain::function(Parts {
        names: &["instant_of_text_or_null"],
        section: DOC_SECTION_DATETIME,
        description: "Casts text to a timestamp with a time zone, NULL of what is none.",
        syntax: "instant_of_text_or_null(s, CAST(NULL AS TIMESTAMPTZ))",
        takes,
        returns,
        computes: |given| read(given, false),
    })
}

fn takes(given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [text, DataType::Timestamp(_, Some(_))] if text.is_string() => Ok(given.to_vec()),
        _ => plan_err!("instant_of_text takes a text, and a NULL of the type that it becomes"),
    }
}

fn returns(given: &[DataType]) -> DataType {
    given.last().cloned().unwrap_or(DataType::Null)
}

fn read(given: &[ArrayRef], is_strict: bool) -> Result<ArrayRef> {
    let [texts, wanted] = given else {
        return internal_err!("instant_of_text of {} arguments", given.len());
    };
    let to = wanted.data_type();
    let DataType::Timestamp(unit, Some(name)) = to else {
        return internal_err!("instant_of_text to {to}");
    };
    let cast = |texts: &dyn Array, to: &DataType, is_strict: bool| {
        let options = CastOptions {
            safe: !is_strict,
            ..CastOptions::default()
        };
        cast_with_options(texts, to, &options)
    };
    let read = cast(texts, to, false)?;
    if read.null_count() == texts.null_count() {
        return Ok(read);
    }
    let zone = exact_zone(name)?;
    let is_read = is_not_null(&read)?;
    let others = nullif(texts, &is_read)?;
    let shown = cast(&others, &DataType::Timestamp(*unit, None), is_strict)?;
    let found = match unit {
        TimeUnit::Second => instants::<TimestampSecondType>(&shown, to, 1, &zone)?,
        TimeUnit::Millisecond => instants::<TimestampMillisecondType>(&shown, to, 1_000, &zone)?,
        TimeUnit::Microsecond => {
            instants::<TimestampMicrosecondType>(&shown, to, 1_000_000, &zone)?
        }
        TimeUnit::Nanosecond => {
            instants::<TimestampNanosecondType>(&shown, to, 1_000_000_000, &zone)?
        }
    };
    Ok(zip(&is_read, &read, &found)?)
}

/// Returns the instants at which clocks in a zone show times.
fn instants<T>(
    shown: &ArrayRef,
    to: &DataType,
    per_second: i64,
    zone: &Tz,
) -> Result<ArrayRef, ArrowError>
where
    T: ArrowTimestampType + ArrowPrimitiveType<Native = i64>,
{
    let found: PrimitiveArray<T> = shown.as_primitive::<T>().try_unary(|shown| {
        instant_of(shown, per_second, zone)
            .ok_or_else(|| ArrowError::ComputeError("timestamp out of range".into()))
    })?;
    Ok(Arc::new(found.with_data_type(to.clone())))
}
