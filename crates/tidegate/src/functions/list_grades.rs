//! `list_grade_up(l)`: the places of the values of a list in their order, as DuckDB has it.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DynComparator, Int64Builder, ListBuilder, make_comparator,
};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;

use super::plain::{self, Parts};
use crate::floats::canonical::canonical_array;

const TAKES: &str =
    "list_grade_up takes a list, 'ASC' or 'DESC', and 'NULLS FIRST' or 'NULLS LAST'";

/// Returns the function: NULLs of a list are behind its values, unless the call says otherwise. NULL of NULL.
pub(super) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["list_grade_up", "array_grade_up", "grade_up"],
        section: DOC_SECTION_ARRAY,
        description: "Returns the places of the values of a list, counted from 1, in their order.",
        syntax: "list_grade_up(l[, 'DESC'[, 'NULLS FIRST']])",
        takes,
        returns: |_| DataType::new_list(DataType::Int64, true),
        computes: grades,
    })
}

fn takes(given: &[DataType]) -> Result<Vec<DataType>> {
    let Some((list, options)) = given.split_first() else {
        return plan_err!("{TAKES}");
    };
    let values = match list {
        DataType::List(values)
        | DataType::LargeList(values)
        | DataType::FixedSizeList(values, _) => values.data_type().clone(),
        DataType::Null => DataType::Null,
        _ => return plan_err!("{TAKES}"),
    };
    let values = match values {
        DataType::Null => DataType::Int64,
        values => values,
    };
    let is_text = |of: &DataType| of.is_string() || of.is_null();
    if options.len() > 2 || !options.iter().all(is_text) {
        return plan_err!("{TAKES}");
    }
    let mut coerced = vec![DataType::new_list(values, true)];
    coerced.resize(given.len(), DataType::Utf8View);
    Ok(coerced)
}

fn grades(given: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((lists, options)) = given.split_first() else {
        return internal_err!("list_grade_up without arguments");
    };
    let lists = lists.as_list::<i32>();
    let values = canonical_array(lists.values())?;
    let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
    let mut last: Option<(SortOptions, DynComparator)> = None;
    let mut graded = ListBuilder::new(Int64Builder::new());
    for (row, ends) in lists.value_offsets().windows(2).enumerate() {
        let Some(order) = order(options, row)?.filter(|_| lists.is_valid(row)) else {
            graded.append_null();
            continue;
        };
        let known = last.take().filter(|(of, _)| *of == order);
        let (_, compare) = match known {
            Some(known) => last.insert(known),
            None => {
                let compare = make_comparator(values.as_ref(), values.as_ref(), order)?;
                last.insert((order, compare))
            }
        };
        let (start, end) = (place(ends[0]), place(ends[1]));
        let mut places: Vec<usize> = (start..end).collect();
        places.sort_by(|one, other| compare(*one, *other));
        graded.append_value(places.iter().map(|at| Some((at - start) as i64 + 1)));
    }
    Ok(Arc::new(graded.finish()))
}

/// Reads the options of a row; `None` if one is NULL.
fn order(options: &[ArrayRef], row: usize) -> Result<Option<SortOptions>> {
    let mut order = SortOptions {
        descending: false,
        nulls_first: false,
    };
    for option in options {
        let option = option.as_string_view();
        if option.is_null(row) {
            return Ok(None);
        }
        match option.value(row).to_uppercase().as_str() {
            "ASC" => order.descending = false,
            "DESC" => order.descending = true,
            "NULLS FIRST" => order.nulls_first = true,
            "NULLS LAST" => order.nulls_first = false,
            other => return exec_err!("{TAKES}, and was given '{other}'"),
        }
    }
    Ok(Some(order))
}
