//! `date_trunc('minute', t)` of instants, by the clocks of a time zone.
//!
//! DataFusion cuts off the seconds of clocks that show UTC. Until 1972 there were zones whose offset has seconds, such as
//! `Africa/Monrovia`: the minute that their clocks show begins at another instant.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};

use super::plain::{self, Parts};
use super::zones::{exact_zone, is_utc, local_of};

/// Seconds of 1973: offsets have whole minutes since.
const WHOLE_MINUTES: i64 = 94_694_400;

const SECONDS_OF_MINUTE: i64 = 60;

/// Returns the function.
pub(super) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["instant_minute"],
        section: DOC_SECTION_DATETIME,
        description: "Cuts an instant to the minute that clocks in its time zone show.",
        syntax: "instant_minute(t)",
        takes: |given| match given {
            [DataType::Timestamp(_, Some(_))] => Ok(given.to_vec()),
            _ => plan_err!("instant_minute takes a timestamp with a time zone"),
        },
        returns: |given| given.first().cloned().unwrap_or(DataType::Null),
        computes: minutes,
    })
}

/// Tells, without looking for types, whether a call may cut an instant to minutes.
pub(crate) fn may_cut(call: &ScalarFunction) -> bool {
    let [Expr::Literal(part, _), _] = call.args.as_slice() else {
        return false;
    };
    let part = part.try_as_str().flatten();
    call.func.name() == "date_trunc" && part.is_some_and(|part| part.eq_ignore_ascii_case("minute"))
}

/// Returns the minute of an instant in a zone other than UTC as a call; `None` of anything else.
pub(crate) fn cut(call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let [_, instant] = call.args.as_slice() else {
        return None;
    };
    // Columns of an outer query are of no schema that is known here, but know their type.
    match instant.get_type(schema).ok()? {
        DataType::Timestamp(_, Some(zone)) if may_cut(call) && !is_utc(&zone) => {
            Some(function().call(vec![instant.clone()]))
        }
        _ => None,
    }
}

fn minutes(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [instants] = given else {
        return internal_err!("instant_minute of {} arguments", given.len());
    };
    let DataType::Timestamp(unit, Some(name)) = instants.data_type() else {
        return internal_err!("instant_minute of {}", instants.data_type());
    };
    let zone = exact_zone(name)?;
    match unit {
        TimeUnit::Second => all::<TimestampSecondType>(instants, 1, &zone),
        TimeUnit::Millisecond => all::<TimestampMillisecondType>(instants, 1_000, &zone),
        TimeUnit::Microsecond => all::<TimestampMicrosecondType>(instants, 1_000_000, &zone),
        TimeUnit::Nanosecond => all::<TimestampNanosecondType>(instants, 1_000_000_000, &zone),
    }
}

fn all<T>(instants: &ArrayRef, per_second: i64, zone: &Tz) -> Result<ArrayRef>
where
    T: ArrowTimestampType + ArrowPrimitiveType<Native = i64>,
{
    let cut: PrimitiveArray<T> = instants.as_primitive::<T>().try_unary(|instant| {
        minute(instant, per_second, zone)
            .ok_or_else(|| ArrowError::ComputeError("timestamp out of range".into()))
    })?;
    Ok(Arc::new(cut.with_data_type(instants.data_type().clone())))
}

/// Returns the instant at which a minute begins that clocks in a zone show; `None` out of range.
fn minute(instant: i64, per_second: i64, zone: &Tz) -> Option<i64> {
    let shown = match instant.div_euclid(per_second) >= WHOLE_MINUTES {
        true => instant,
        false => local_of(instant, per_second, zone)?,
    };
    instant.checked_sub(shown.rem_euclid(SECONDS_OF_MINUTE * per_second))
}

#[cfg(test)]
mod tests {
    use super::{exact_zone, minute};

    #[test]
    fn minutes_are_those_that_clocks_show() {
        let monrovia = exact_zone("Africa/Monrovia").unwrap();
        // 12:34:56 is 11:50:26 in Monrovia, 44 minutes and 30 seconds behind.
        let noon = 44_625_600;
        for per_second in [1, 1_000, 1_000_000_000] {
            let seconds = 34 * 60 + 56;
            let cut = minute(
                (noon + seconds) * per_second + per_second / 2,
                per_second,
                &monrovia,
            );
            assert_eq!(cut, Some((noon + seconds - 26) * per_second));
            let later = 1_700_000_000 * per_second;
            assert_eq!(
                minute(later + 1, per_second, &monrovia),
                Some(later - 20 * per_second)
            );
        }
        assert_eq!(minute(i64::MIN, 1_000_000_000, &monrovia), None);
    }
}
