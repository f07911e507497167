//! `len(x)`: the number of characters of a string, bytes of a blob or values of a list, as DuckDB has it.
//!
//! SQL's `length` becomes this before it is planned (`forms`). In the registry it stays DataFusion's: there it is another
//! name of `character_length`, and takes the place of any function of that name whenever a state is made from another one.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ScalarUDF, cast as cast_expr};
use datafusion::prelude::character_length;

use super::plain::{self, Parts};

const TAKES: &str = "len takes a string or a list";

/// Returns the function, which is NULL of NULL.
pub(crate) fn function() -> ScalarUDF {
    let parts = Parts {
        names: &["len"],
        section: DOC_SECTION_OTHER,
        description: "Counts the characters of a string, bytes of a blob or values of a list.",
        syntax: "len(x)",
        takes,
        returns: |_| DataType::Int64,
        computes: counts,
    };
    plain::simplified(parts, simplified)
}

fn is_list(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    )
}

fn takes(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [DataType::Dictionary(_, of)] if of.is_string() => Ok(vec![of.as_ref().clone()]),
        [of] if of.is_string() || is_list(of) => Ok(vec![of.clone()]),
        [of] if of.is_binary() => Ok(vec![DataType::Binary]),
        [DataType::Null] => Ok(vec![DataType::Utf8]),
        _ => plan_err!("{TAKES}"),
    }
}

/// Writes what strings have a function for, which runs wherever that does.
fn simplified(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    match args.as_slice() {
        [text] if info.get_data_type(text)?.is_string() => {
            let count = character_length(text.clone());
            Ok(ExprSimplifyResult::Simplified(cast_expr(
                count,
                DataType::Int64,
            )))
        }
        _ => Ok(ExprSimplifyResult::Original(args)),
    }
}

fn counts(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [array] = given else {
        return exec_err!("{TAKES}");
    };
    if !array.data_type().is_string() {
        return Ok(cast(&length(array)?, &DataType::Int64)?);
    }
    let texts = cast(array, &DataType::Utf8View)?;
    let counts = texts.as_string_view().iter();
    let counts = counts.map(|text| text.map(|text| text.chars().count() as i64));
    Ok(Arc::new(counts.collect::<Int64Array>()))
}
