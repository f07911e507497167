//! `string_split(s, by)`: what stands between the separators of a string, and `parse_path(p)`, the parts of a path, as DuckDB
//! has them.
//!
//! `string_to_array`, which is PostgreSQL's, has no values of an empty string.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};

/// Returns the functions. A string is split into its characters by an empty string, and not at all by NULL.
pub(super) fn functions() -> [ScalarUDF; 2] {
    let split = Parts {
        names: &["string_split", "str_split", "split"],
        section: DOC_SECTION_STRING,
        description: "Returns what stands between the separators of a string.",
        syntax: "string_split(s, ',')",
        takes: |given| match given {
            [text, by] if is_text(text) && is_text(by) => Ok(vec![DataType::Utf8View; 2]),
            _ => plan_err!("string_split takes a string and a separator"),
        },
        returns: |_| DataType::new_list(DataType::Utf8View, true),
        computes: parts,
    };
    let path = Parts {
        names: &["parse_path"],
        section: DOC_SECTION_STRING,
        description: "Returns the parts of a path; the first is the separator if the path begins with it.",
        syntax: "parse_path(p[, 'both_slash'])",
        takes: |given| match (given.len(), given.iter().all(is_text)) {
            (1 | 2, true) => Ok(vec![DataType::Utf8View; given.len()]),
            _ => plan_err!(
                "parse_path takes a path, and 'system', 'both_slash', 'forward_slash' or 'backslash'"
            ),
        },
        returns: |_| DataType::new_list(DataType::Utf8View, true),
        computes: parts_of_paths,
    };
    [split, path].map(plain::function)
}

fn is_text(of: &DataType) -> bool {
    of.is_string() || of.is_null()
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

fn parts_of_paths(given: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((paths, separators)) = given.split_first() else {
        return internal_err!("parse_path without arguments");
    };
    let separators = separators.first().map(|array| array.as_string_view());
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for (row, path) in paths.as_string_view().iter().enumerate() {
        let named = separators.filter(|array| array.is_valid(row));
        let by = match named.map(|array| array.value(row)) {
            Some("system" | "forward_slash") => ['/', '/'],
            Some("backslash") => ['\\', '\\'],
            _ => ['/', '\\'],
        };
        let list = path.map(|path| {
            let root = path.get(..1).filter(|first| first.starts_with(by));
            let parts = path.split(by).filter(|part| !part.is_empty());
            root.into_iter().chain(parts).collect::<Vec<&str>>()
        });
        lists.append_option(list.map(|list| list.into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}
