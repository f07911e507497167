//! `range(…)` and `generate_series(…)` of instants, whose days and months are those of clocks in their time zone.
//!
//! DataFusion's end in silence where a step leads to a time that no clock shows, or two. Both forms, the list and the
//! table, are DataFusion's unless they are of instants in a zone other than UTC; those take the steps of
//! [`instants`](super::instants).

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    ArrayRef, AsArray, ListArray, RecordBatch, TimestampNanosecondArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalMonthDayNanoType, Schema, TimeUnit,
    TimestampNanosecondType,
};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, exec_err, internal_err};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::forwarded::methods_of;
use super::instants::later;
use super::zones::{exact_zone, is_utc};

const PER_SECOND: i64 = 1_000_000_000;

/// The names of both forms, and whether the end is one of the values.
const NAMES: [(&str, bool); 2] = [("range", false), ("generate_series", true)];

/// The most rows of the table of a series: each day of all years that nanoseconds have is a fiftieth of it.
const ROWS_MAX: usize = 10_000_000;

/// The rows of a batch of the table.
const BATCH_ROWS: usize = 8_192;

/// Returns the lists, which stand in the place of those that a registry has.
///
/// # Errors
/// Those of a registry that has none.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let series = NAMES.map(|(name, has_end)| -> Result<ScalarUDF> {
        let of = registry.udf(name)?;
        Ok(Lists { of, has_end }.into())
    });
    series.into_iter().collect()
}

/// Puts the tables in the place of those that a state has.
pub(super) fn register_tables(state: &mut SessionState) {
    for (name, has_end) in NAMES {
        let Some(of) = state.table_functions().get(name) else {
            continue;
        };
        let of = Arc::clone(of.function());
        state.register_udtf(name, Arc::new(Tables { name, of, has_end }));
    }
}

/// A series, one value after the other.
struct Steps<'a> {
    next: Option<i64>,
    end: i64,
    has_end: bool,
    step: IntervalMonthDayNano,
    zone: &'a Tz,
    /// How the second value compares with the first.
    direction: Ordering,
}

impl<'a> Steps<'a> {
    fn try_new(
        start: i64,
        end: i64,
        has_end: bool,
        step: IntervalMonthDayNano,
        zone: &'a Tz,
    ) -> Result<Self> {
        let direction = match later(start, step, PER_SECOND, zone) {
            Some(second) if second == start => {
                return exec_err!("the step of a series must not be zero");
            }
            Some(second) => second.cmp(&start),
            None => return exec_err!("timestamp out of range: the first step of a series"),
        };
        Ok(Self {
            next: Some(start),
            end,
            has_end,
            step,
            zone,
            direction,
        })
    }
}

impl Iterator for Steps<'_> {
    type Item = Result<i64>;

    fn next(&mut self) -> Option<Result<i64>> {
        let value = self.next?;
        let is_before_end = self.end.cmp(&value) == self.direction;
        let is_end = self.has_end && value == self.end;
        if !(is_before_end || is_end) {
            return None;
        }
        // What is out of range is behind any end.
        self.next = later(value, self.step, PER_SECOND, self.zone);
        if self
            .next
            .is_some_and(|next| next.cmp(&value) != self.direction)
        {
            self.next = None;
            return Some(exec_err!(
                "the steps of a series must not go back and forth"
            ));
        }
        Some(Ok(value))
    }
}

/// The lists of a name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Lists {
    of: Arc<ScalarUDF>,
    has_end: bool,
}

impl ScalarUDFImpl for Lists {
    methods_of!(of);

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let has_untyped = args.args.iter().any(|value| value.data_type().is_null());
        let zone = match args.args.as_slice() {
            [start, _, _] if !has_untyped => zone_of(&start.data_type()),
            _ => None,
        };
        let Some(zone) = zone else {
            return self.of.inner().invoke_with_args(args);
        };
        let computes = |given: &[ArrayRef]| lists(given, &zone, self.has_end);
        make_scalar_function(computes, Vec::new())(&args.args)
    }
}

/// Returns the zone of instants; `None` for UTC, and where there is none.
fn zone_of(data_type: &DataType) -> Option<Arc<str>> {
    match data_type {
        DataType::Timestamp(_, Some(zone)) if !is_utc(zone) => Some(Arc::clone(zone)),
        _ => None,
    }
}

fn lists(given: &[ArrayRef], zone: &Arc<str>, has_end: bool) -> Result<ArrayRef> {
    let [starts, ends, steps] = given else {
        return internal_err!("a series of {} arguments", given.len());
    };
    let clocks = exact_zone(zone)?;
    let instant = DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(zone)));
    let (starts, ends) = (cast(starts, &instant)?, cast(ends, &instant)?);
    let starts = starts.as_primitive::<TimestampNanosecondType>();
    let ends = ends.as_primitive::<TimestampNanosecondType>();
    let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
    let mut values = Vec::new();
    let mut lengths = Vec::with_capacity(starts.len());
    let mut are_valid = Vec::with_capacity(starts.len());
    for ((start, end), step) in starts.iter().zip(ends).zip(steps) {
        let before = values.len();
        let known = (start, end, step);
        if let (Some(start), Some(end), Some(step)) = known {
            for value in Steps::try_new(start, end, has_end, step, &clocks)? {
                values.push(value?);
            }
        }
        are_valid.push(matches!(known, (Some(_), Some(_), Some(_))));
        lengths.push(values.len() - before);
    }
    let values = TimestampNanosecondArray::from(values).with_timezone(Arc::clone(zone));
    Ok(Arc::new(ListArray::try_new(
        Arc::new(Field::new_list_field(instant, true)),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(values),
        Some(NullBuffer::from(are_valid)),
    )?))
}

/// The tables of a name.
#[derive(Debug)]
struct Tables {
    name: &'static str,
    of: Arc<dyn TableFunctionImpl>,
    has_end: bool,
}

impl TableFunctionImpl for Tables {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let [
            Expr::Literal(ScalarValue::TimestampNanosecond(Some(start), Some(zone)), _),
            Expr::Literal(ScalarValue::TimestampNanosecond(Some(end), _), _),
            Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(step)), _),
        ] = args.exprs()
        else {
            return self.of.call_with_args(args);
        };
        // Hours are the same on any clock.
        if is_utc(zone) || (step.months == 0 && step.days == 0) {
            return self.of.call_with_args(args);
        }
        let clocks = exact_zone(zone)?;
        let mut values = Vec::new();
        for value in Steps::try_new(*start, *end, self.has_end, *step, &clocks)? {
            if values.len() == ROWS_MAX {
                return exec_err!("{} has more than {ROWS_MAX} rows", self.name);
            }
            values.push(value?);
        }
        let instant = DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(zone)));
        let schema = Arc::new(Schema::new(vec![Field::new("value", instant, false)]));
        let batches = values.chunks(BATCH_ROWS).map(|values| {
            let values = TimestampNanosecondArray::from(values.to_vec());
            let values = Arc::new(values.with_timezone(Arc::clone(zone)));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![values])?)
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(MemTable::try_new(schema, vec![batches])?))
    }
}

#[cfg(test)]
mod tests {
    use super::{IntervalMonthDayNano, Result, Steps, exact_zone};

    const HOUR: i64 = 3_600_000_000_000;

    fn series(start: i64, end: i64, has_end: bool, step: (i32, i32, i64)) -> Result<Vec<i64>> {
        let zone = exact_zone("America/New_York").unwrap();
        let step = IntervalMonthDayNano::new(step.0, step.1, step.2);
        let steps = Steps::try_new(start * HOUR, end * HOUR, has_end, step, &zone)?;
        steps.map(|value| Ok(value? / HOUR)).collect()
    }

    #[test]
    fn series_go_on_where_clocks_are_set() {
        // Hours since 1970 of noon on the first of November 2024: clocks are set back on the third.
        let noon = 480_688;
        let days = vec![noon, noon + 24, noon + 49, noon + 73];
        assert_eq!(series(noon, noon + 73, true, (0, 1, 0)).unwrap(), days);
        assert_eq!(
            series(noon, noon + 73, false, (0, 1, 0)).unwrap(),
            days[..3]
        );
        let back: Vec<i64> = days.iter().rev().copied().collect();
        assert_eq!(series(noon + 73, noon, true, (0, -1, 0)).unwrap(), back);
        assert!(series(noon, noon - 1, true, (0, 1, 0)).unwrap().is_empty());
        assert!(series(noon, noon + 1, true, (0, 0, 0)).is_err());
        assert!(series(noon, noon + 10_000, true, (1, -30, 0)).is_err());
    }
}
