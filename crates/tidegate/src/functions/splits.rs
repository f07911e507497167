//! `string_split(s, by)`: what stands between the separators of a string, as DuckDB has it.
//!
//! `string_to_array`, which is PostgreSQL's, has no values of an empty string.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};

/// Returns the function: NULL of NULL, the whole string by NULL, and its characters by an empty string.
pub(super) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["string_split", "str_split", "split"],
        section: DOC_SECTION_STRING,
        description: "Returns what stands between the separators of a string.",
        syntax: "string_split(s, ',')",
        takes: |given| {
            let is_text = |of: &DataType| of.is_string() || of.is_null();
            match given {
                [text, by] if is_text(text) && is_text(by) => Ok(vec![DataType::Utf8View; 2]),
                _ => plan_err!("string_split takes a string and a separator"),
            }
        },
        returns: |_| DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))),
        computes: parts,
    })
}

fn parts(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, separators] = given else {
        return internal_err!("string_split of {} arguments", given.len());
    };
    let (texts, separators) = (texts.as_string_view(), separators.as_string_view());
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for (text, by) in texts.iter().zip(separators) {
        let list: Option<Vec<&str>> = text.map(|text| match by {
            None => vec![text],
            Some("") => text.split_inclusive(|_: char| true).collect(),
            Some(by) => text.split(by).collect(),
        });
        lists.append_option(list.map(|list| list.into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}
