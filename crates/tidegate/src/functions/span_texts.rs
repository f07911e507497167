//! Intervals and differences of times as text, as DuckDB writes them: `1 year 2 days`, `01:30:00`, `29 days 01:00:00`.
//!
//! Years and months, days, and a time have each a sign of their own, as in the interval. A difference is days and the rest.
//! Arrow writes `12 mons 2 days` and `PT2509200S`, wherever values become text: so they become text before.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StringArray, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Schema,
    TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{internal_err, plan_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;

use super::plain::{self, Parts};

const NANOSECONDS_OF_DAY: i128 = 86_400_000_000_000;
const NANOSECONDS_OF_SECOND: i128 = 1_000_000_000;

/// Writes the intervals and differences of times in a batch, also within lists, structs and maps, as text.
///
/// # Errors
/// Arrow's, for a batch whose columns are not what its schema says.
pub fn with_span_texts(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| holds(field.data_type())) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(as_texts);
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields = schema.fields().iter().map(field_of_texts);
    let fields: Fields = fields.collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns)
}

/// Returns the function that writes a value so.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["span_texts"],
        section: DOC_SECTION_DATETIME,
        description: "Writes intervals and differences of times as text, also within other values.",
        syntax: "span_texts(x)",
        takes: |given| match given {
            [_] => Ok(given.to_vec()),
            _ => plan_err!("span_texts takes one value"),
        },
        returns: |given| given.first().map_or(DataType::Null, type_of_texts),
        computes: |given| match given {
            [values] => Ok(as_texts(values)?),
            _ => internal_err!("span_texts of {} arguments", given.len()),
        },
    })
}

/// Tells whether a type is that of intervals or differences of times.
pub(crate) fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// Tells whether values of a type are such, or hold such.
pub(crate) fn holds(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => holds(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds(field.data_type())),
        DataType::Dictionary(_, values) => holds(values),
        other => is_span(other),
    }
}

/// Returns the type that values of a type have as text.
fn type_of_texts(data_type: &DataType) -> DataType {
    if !holds(data_type) {
        return data_type.clone();
    }
    match data_type {
        DataType::List(field) => DataType::List(field_of_texts(field)),
        DataType::LargeList(field) => DataType::LargeList(field_of_texts(field)),
        DataType::FixedSizeList(field, size) => {
            DataType::FixedSizeList(field_of_texts(field), *size)
        }
        DataType::Map(field, is_sorted) => DataType::Map(field_of_texts(field), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field_of_texts).collect()),
        DataType::Dictionary(_, values) => type_of_texts(values),
        _ => DataType::Utf8,
    }
}

fn field_of_texts(field: &FieldRef) -> FieldRef {
    match holds(field.data_type()) {
        true => Arc::new(Field::clone(field).with_data_type(type_of_texts(field.data_type()))),
        false => Arc::clone(field),
    }
}

/// Writes the intervals and differences of times in an array as text.
pub(crate) fn as_texts(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !holds(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::List(field) => list_of_texts(array.as_list::<i32>(), field)?,
        DataType::LargeList(field) => list_of_texts(array.as_list::<i64>(), field)?,
        DataType::FixedSizeList(field, size) => {
            let lists = array.as_fixed_size_list();
            let (field, values) = (field_of_texts(field), as_texts(lists.values())?);
            let nulls = lists.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(field, *size, values, nulls)?)
        }
        DataType::Map(field, is_sorted) => {
            let maps = array.as_map();
            Arc::new(MapArray::try_new(
                field_of_texts(field),
                maps.offsets().clone(),
                struct_of_texts(maps.entries())?,
                maps.nulls().cloned(),
                *is_sorted,
            )?)
        }
        DataType::Struct(_) => Arc::new(struct_of_texts(array.as_struct())?),
        DataType::Dictionary(_, values) => as_texts(&cast(array, values)?)?,
        DataType::Duration(unit) => {
            let nanoseconds = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            let numbers = cast(array, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>().iter();
            let texts = numbers.map(|number| {
                let span = i128::from(number?) * nanoseconds;
                Some(text(
                    0,
                    span / NANOSECONDS_OF_DAY,
                    span % NANOSECONDS_OF_DAY,
                ))
            });
            Arc::new(texts.collect::<StringArray>())
        }
        _ => {
            let intervals = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
            let texts = intervals.map(|interval| {
                let interval = interval?;
                let (days, time) = (interval.days.into(), interval.nanoseconds.into());
                Some(text(interval.months, days, time))
            });
            Arc::new(texts.collect::<StringArray>())
        }
    })
}

fn list_of_texts<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    field: &FieldRef,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(GenericListArray::<O>::try_new(
        field_of_texts(field),
        lists.offsets().clone(),
        as_texts(lists.values())?,
        lists.nulls().cloned(),
    )?))
}

fn struct_of_texts(rows: &StructArray) -> Result<StructArray, ArrowError> {
    let fields = rows.fields().iter().map(field_of_texts).collect();
    let columns = rows.columns().iter().map(as_texts);
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new(fields, columns, rows.nulls().cloned())
}

/// Writes months, days and nanoseconds.
fn text(months: i32, days: i128, nanoseconds: i128) -> String {
    let mut parts = Vec::new();
    let counted = [
        (i128::from(months / 12), "year"),
        (i128::from(months % 12), "month"),
        (days, "day"),
    ];
    for (count, unit) in counted.into_iter().filter(|(count, _)| *count != 0) {
        let plural = if count.abs() == 1 { "" } else { "s" };
        parts.push(format!("{count} {unit}{plural}"));
    }
    if nanoseconds != 0 || parts.is_empty() {
        parts.push(time(nanoseconds));
    }
    parts.join(" ")
}

/// Writes `-01:30:00.25`.
fn time(nanoseconds: i128) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (seconds, rest) = (
        nanoseconds.abs() / NANOSECONDS_OF_SECOND,
        nanoseconds.abs() % NANOSECONDS_OF_SECOND,
    );
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let whole = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
    match rest {
        0 => whole,
        rest => format!("{whole}.{}", format!("{rest:09}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, AsArray, DurationSecondArray, IntervalDayTimeArray, IntervalYearMonthArray,
        RecordBatch, StructArray,
    };
    use datafusion::arrow::datatypes::{DataType, Field, IntervalDayTime};

    use super::{as_texts, text, with_span_texts};

    const HOUR: i128 = 3_600_000_000_000;

    #[test]
    fn intervals_are_written_as_in_duckdb() {
        for (months, days, time, expect) in [
            (12, 2, 0, "1 year 2 days"),
            (0, 0, HOUR + HOUR / 2, "01:30:00"),
            (1, 0, 0, "1 month"),
            (0, 29, HOUR, "29 days 01:00:00"),
            (0, 0, 0, "00:00:00"),
            (-1, 0, 0, "-1 month"),
            (0, 0, -HOUR - HOUR / 2, "-01:30:00"),
            (0, 0, 1_500_000_000, "00:00:01.5"),
            (14, 0, 0, "1 year 2 months"),
            (-14, -3, -HOUR, "-1 year -2 months -3 days -01:00:00"),
            (0, 0, 100 * HOUR, "100:00:00"),
            (24, 0, 0, "2 years"),
            (0, 0, 1_000, "00:00:00.000001"),
            (0, 1, -HOUR, "1 day -01:00:00"),
        ] {
            assert_eq!(text(months, days, time), expect);
        }
    }

    #[track_caller]
    fn check(array: ArrayRef, expect: &[Option<&str>]) {
        let texts = as_texts(&array).unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, expect);
    }

    #[test]
    fn all_types_of_spans_are_written() {
        let spans = DurationSecondArray::from(vec![Some(2_509_200), None, Some(-90_000)]);
        let expect = [Some("29 days 01:00:00"), None, Some("-1 day -01:00:00")];
        check(Arc::new(spans), &expect);
        let spans = IntervalYearMonthArray::from(vec![14]);
        check(Arc::new(spans), &[Some("1 year 2 months")]);
        let spans = IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 500)]);
        check(Arc::new(spans), &[Some("1 day 00:00:00.5")]);
    }

    #[test]
    fn spans_within_others_are_written() {
        let spans: ArrayRef = Arc::new(DurationSecondArray::from(vec![3_600]));
        let field = Arc::new(Field::new("d", spans.data_type().clone(), true));
        let rows: ArrayRef = Arc::new(StructArray::from(vec![(field, spans)]));
        let batch = RecordBatch::try_from_iter([("s", rows)]).unwrap();
        let written = with_span_texts(&batch).unwrap();
        let texts = written.column(0).as_struct().column(0);
        assert_eq!(texts.data_type(), &DataType::Utf8);
        assert_eq!(texts.as_string::<i32>().value(0), "01:00:00");
    }
}
