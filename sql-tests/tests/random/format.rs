//! Values of a column as text: what rounding may change is cut off, all else is exact.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, StringArray};
use arrow::record_batch::RecordBatch;
use tidegate_sql_tests::format;

/// Compares the texts of a column's values.
#[track_caller]
fn check(column: ArrayRef, expect: &[&str]) {
    let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let rows = format::rows(&[batch]).unwrap();
    assert_eq!(rows.concat(), expect);
}

#[test]
fn doubles_keep_twelve_digits() {
    let values = vec![
        0.1 + 0.2,
        1.0,
        -0.0,
        0.0,
        f64::NAN,
        f64::NEG_INFINITY,
        1e300,
        1.0 / 3.0,
        f64::MAX,
        123_456_789_012_345.0,
    ];
    let expect = [
        "0.3",
        "1",
        "-0",
        "0",
        "NaN",
        "-Infinity",
        "1e300",
        "0.333333333333",
        "1.79769313486e308",
        "123456789012000",
    ];
    check(Arc::new(Float64Array::from(values)), &expect);
    check(Arc::new(Float32Array::from(vec![0.1])), &["0.1"]);
}

#[test]
fn decimals_keep_every_digit() {
    let decimals = |values: Vec<i128>, scale: i8| -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(10, scale).unwrap())
    };
    check(
        decimals(vec![5, -5, -1_000_000_000], 2),
        &["0.05", "-0.05", "-10000000.00"],
    );
    check(decimals(vec![7], 0), &["7"]);
    check(decimals(vec![7], -3), &["7e3"]);
}

#[test]
fn strings_stay_on_one_line() {
    let values = vec![Some(""), Some("  "), Some(" a b "), Some("a\nb"), None];
    let expect = ["(empty)", "␣␣", "␣a b␣", "a\\nb", "NULL"];
    check(Arc::new(StringArray::from(values)), &expect);
}
