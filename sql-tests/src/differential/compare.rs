//! Compares two answers: types, row count, exact values, and floats within what rounding explains.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;

use super::queries::{Inexact, Query, Spread};
use crate::format;

/// Twice the bound that the engine promises against the exact sum: both answers may be off by it.
const SUM_TOLERANCE: f64 = 512.0 * f64::EPSILON;

/// For variances, whose partials are merged in steps that each round.
const VARIANCE_TOLERANCE: f64 = 1e-11;

/// Says how `actual` differs from `expected`, if it does.
pub(crate) fn difference(
    query: &Query,
    expected: &(SchemaRef, Vec<RecordBatch>),
    actual: &(SchemaRef, Vec<RecordBatch>),
) -> Option<String> {
    let (expected_types, actual_types) = (types(&expected.0), types(&actual.0));
    // Of other words DataFusion may make wider types.
    if expected_types != actual_types && query.in_other_words.is_none() {
        return Some(format!(
            "types differ\n  DataFusion {expected_types:?}\n  lane {actual_types:?}"
        ));
    }
    let (expected, actual) = (cells(query, expected), cells(query, actual));
    if expected.len() != actual.len() {
        return Some(format!("{} rows, not {}", actual.len(), expected.len()));
    }
    let unequal = expected
        .iter()
        .zip(&actual)
        .find(|(e, a)| !rows_agree(query, e, a))?;
    Some(format!(
        "  DataFusion {}\n  lane       {}",
        unequal.0.join(" | "),
        unequal.1.join(" | ")
    ))
}

fn types(schema: &SchemaRef) -> Vec<&DataType> {
    schema
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect()
}

/// Gives the cells as text, with every digit of the floats, sorted unless the query orders them.
fn cells(query: &Query, answer: &(SchemaRef, Vec<RecordBatch>)) -> Vec<Vec<String>> {
    let (schema, batches) = answer;
    let batch = concat_batches(schema, batches).expect("batches of one schema");
    let mut rows = format::rows(std::slice::from_ref(&batch)).expect("values that can be shown");
    for (index, column) in batch.columns().iter().enumerate() {
        for (row, cells) in rows
            .iter_mut()
            .enumerate()
            .filter(|(row, _)| column.is_valid(*row))
        {
            match column.data_type() {
                DataType::Float64 => {
                    cells[index] = format!("{:?}", column.as_primitive::<Float64Type>().value(row));
                }
                DataType::Float32 => {
                    cells[index] = format!("{:?}", column.as_primitive::<Float32Type>().value(row));
                }
                _ => {}
            }
        }
    }
    if !query.ordered {
        // Keys come first and are unique, so what may differ never decides the order.
        rows.sort();
    }
    rows
}

fn rows_agree(query: &Query, expected: &[String], actual: &[String]) -> bool {
    (0..expected.len()).all(|column| {
        if let Some(inexact) = query
            .inexact
            .iter()
            .find(|inexact| inexact.column == column)
        {
            return floats_agree(inexact, expected, actual);
        }
        let is_scale = query.inexact.iter().any(|inexact| inexact.scale == column);
        is_scale || expected[column] == actual[column]
    })
}

fn floats_agree(inexact: &Inexact, expected: &[String], actual: &[String]) -> bool {
    let (left, right) = (&expected[inexact.column], &actual[inexact.column]);
    if left == right {
        return true;
    }
    let parse = |text: &String| text.parse::<f64>().ok();
    let (Some(left), Some(right), Some(scale)) =
        (parse(left), parse(right), parse(&expected[inexact.scale]))
    else {
        return false;
    };
    match inexact.spread {
        Spread::Sum => (left - right).abs() <= SUM_TOLERANCE * scale,
        Spread::Variance => (left - right).abs() <= VARIANCE_TOLERANCE * scale,
        Spread::Deviation => (left * left - right * right).abs() <= VARIANCE_TOLERANCE * scale,
    }
}
