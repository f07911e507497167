//! `bar(x, min, max)` and `bar(x, min, max, width)`: a bar of blocks whose length tells where x is between min and max, as in
//! DuckDB.
//!
//! A whole bar has 80 characters unless a width is given, at the most 1000; the rest is filled with spaces. What is below
//! min, or is not a number, has no blocks. NULL of NULL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};

const WIDTH: f64 = 80.0;
const WIDTH_MAX: f64 = 1000.0;

/// Parts of a block, by eighths.
const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const BLOCK: char = '█';

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["bar"],
        section: DOC_SECTION_STRING,
        description: "Draws a bar whose length tells where a number is between two others.",
        syntax: "bar(x, min, max[, width])",
        takes: |given| {
            let is_number = |given: &DataType| given.is_numeric() || given.is_null();
            match matches!(given.len(), 3 | 4) && given.iter().all(is_number) {
                true => Ok(vec![DataType::Float64; given.len()]),
                false => plan_err!("bar takes three or four numbers: bar(x, min, max, width)"),
            }
        },
        returns: |_| DataType::Utf8,
        computes: bars,
    })
}

fn bars(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [values, lows, highs, widths @ ..] = given else {
        return exec_err!("bar takes three or four numbers");
    };
    let at = |numbers: &ArrayRef, row: usize| {
        let numbers = numbers.as_primitive::<Float64Type>();
        numbers.is_valid(row).then(|| numbers.value(row))
    };
    let mut bars = StringBuilder::new();
    for row in 0..values.len() {
        let width = match widths.first() {
            Some(widths) => at(widths, row),
            None => Some(WIDTH),
        };
        match (at(values, row), at(lows, row), at(highs, row), width) {
            (Some(value), Some(low), Some(high), Some(width)) => {
                if !(1.0..=WIDTH_MAX).contains(&width) {
                    return exec_err!("bar: the width is from 1 to {WIDTH_MAX}, not {width}");
                }
                bars.append_value(bar(value, low, high, width.trunc()));
            }
            _ => bars.append_null(),
        }
    }
    Ok(Arc::new(bars.finish()))
}

fn bar(value: f64, low: f64, high: f64, width: f64) -> String {
    // Half of each number, so that the difference of large ones is finite.
    let share = match value >= high && value > low {
        true => 1.0,
        false => (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
    };
    let is_drawn = share.is_finite() && value > low;
    let share = if is_drawn { share } else { 0.0 };
    let eighths = (share * width * 8.0) as usize;
    let mut bar: String = std::iter::repeat_n(BLOCK, eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8]);
    }
    let rest = (width as usize).saturating_sub(eighths.div_ceil(8));
    bar.extend(std::iter::repeat_n(' ', rest));
    bar
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        for (value, low, high, width, expect) in [
            (5.0, 0.0, 20.0, 10.0, "██▌       "),
            (20.0, 0.0, 20.0, 4.0, "████"),
            (99.0, 0.0, 20.0, 4.0, "████"),
            (-1.0, 0.0, 20.0, 2.0, "  "),
            (f64::NAN, 0.0, 20.0, 2.0, "  "),
            (1.0, 0.0, 8.0, 1.0, "▏"),
            (0.0, f64::MIN, f64::MAX, 4.0, "██  "),
            (0.0, f64::NEG_INFINITY, 1.0, 2.0, "  "),
        ] {
            assert_eq!(bar(value, low, high, width), expect);
        }
    }
}
