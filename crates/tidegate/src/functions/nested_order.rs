//! `compare_nested(a, b)`: how two lists, structs or maps are ordered, NULL within them being greater than any value, as in
//! DuckDB and as `ORDER BY` has it here. DataFusion's comparisons have it first.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, DynComparator, Int8Array, make_comparator};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;

use super::nested_text::is_nested;
use super::plain::{self, Parts};
use crate::floats::canonical::canonical_array;

/// Returns the function. NULL if either value is.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["compare_nested"],
        section: DOC_SECTION_ARRAY,
        description: "Returns -1, 0 or 1 where a list, a struct or a map is less than, equal to or greater than another.",
        syntax: "compare_nested(a, b)",
        takes: |given| match given {
            [left, right] if is_nested(left) && is_nested(right) => Ok(given.to_vec()),
            _ => plan_err!("compare_nested takes two lists, structs or maps of one type"),
        },
        returns: |_| DataType::Int8,
        computes: orders,
    })
}

/// Returns the order of rows of two arrays of one type, of whose floats there is one NaN and one zero.
pub(super) fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<DynComparator> {
    let nulls_last = SortOptions {
        descending: false,
        nulls_first: false,
    };
    Ok(make_comparator(left.as_ref(), right.as_ref(), nulls_last)?)
}

fn orders(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [left, right] = given else {
        return internal_err!("compare_nested of {} arguments", given.len());
    };
    let (left, right) = (canonical_array(left)?, canonical_array(right)?);
    let order = comparator(&left, &right)?;
    let orders: Vec<i8> = (0..left.len()).map(|row| order(row, row) as i8).collect();
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    Ok(Arc::new(Int8Array::new(orders.into(), nulls)))
}
