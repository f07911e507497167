//! Several values of a document as a list: those at a path with wildcards, `$[*].a` and `$.*`, or at each path of a list.
//!
//! `json_extract(j, '$[*].a')` becomes `json_extract_all(j, '$[*].a')` before it is planned (`statements::json_paths`), since
//! the type depends on the path. What is at none of a list's paths is NULL.

use std::slice;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::super::plain::{self, Parts};
use super::trees::{elements, members, whole};
use super::walk::{Step, steps, text, walk, wild_steps};
use crate::error::Error;

/// Returns the function that gives JSON.
pub(super) fn of_json() -> ScalarUDF {
    plain::function(Parts {
        names: &["json_extract_all"],
        section: DOC_SECTION_STRING,
        description: "Returns what lies at a path with wildcards, or at each path of a list, as JSON.",
        syntax: "json_extract_all(json, path)",
        takes: |given| takes("json_extract_all", given),
        returns: |_| list_of_texts(),
        computes: |given| lists(given, false),
    })
}

/// Returns the function that gives text.
pub(super) fn of_text() -> ScalarUDF {
    plain::function(Parts {
        names: &["json_extract_string_all"],
        section: DOC_SECTION_STRING,
        description: "Returns what lies at a path with wildcards, or at each path of a list, as text.",
        syntax: "json_extract_string_all(json, path)",
        takes: |given| takes("json_extract_string_all", given),
        returns: |_| list_of_texts(),
        computes: |given| lists(given, true),
    })
}

fn list_of_texts() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

fn takes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [json, path]
            if (json.is_string() || json.is_null()) && (path.is_string() || path.is_null()) =>
        {
            Ok(vec![DataType::Utf8View; 2])
        }
        [
            json,
            DataType::List(path) | DataType::LargeList(path) | DataType::FixedSizeList(path, _),
        ] if (json.is_string() || json.is_null()) && path.data_type().is_string() => {
            Ok(vec![DataType::Utf8View, list_of_texts()])
        }
        _ => plan_err!("{name} takes a string of JSON, and a path or a list of paths"),
    }
}

fn lists(given: &[ArrayRef], is_text: bool) -> Result<ArrayRef> {
    let [json, path] = given else {
        return internal_err!("values of {} arguments", given.len());
    };
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for (row, json) in json.as_string_view().iter().enumerate() {
        let Some(json) = json.filter(|_| path.is_valid(row)) else {
            lists.append_null();
            continue;
        };
        let found = match path.as_list_opt::<i32>() {
            Some(paths) => at_each(json, &paths.value(row))?,
            None => at_all(json, path.as_string_view().value(row))?,
        };
        for value in found {
            match value.filter(|_| is_text) {
                Some(value) => lists.values().append_option(text(value)?),
                None => lists.values().append_option(value),
            }
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// Returns what lies at each of some paths.
fn at_each<'a>(json: &'a str, paths: &ArrayRef) -> Result<Vec<Option<&'a str>>, Error> {
    let found = paths.as_string_view().iter().map(|path| {
        let Some(path) = path else {
            return Ok(None);
        };
        let mut way = Vec::new();
        steps(path, &mut way)?;
        walk(json, &way)
    });
    found.collect()
}

/// Returns the values at a path with wildcards.
fn at_all<'a>(json: &'a str, path: &str) -> Result<Vec<Option<&'a str>>, Error> {
    let mut way = Vec::new();
    wild_steps(path, &mut way)?;
    let mut found = vec![whole(json)?];
    for step in &way {
        let mut next = Vec::new();
        for value in found {
            match step {
                Step::Elements => next.extend(elements(value)?.unwrap_or_default()),
                Step::Members => {
                    let members = members(value)?.unwrap_or_default();
                    next.extend(members.into_iter().map(|(_, value)| value));
                }
                step => next.extend(walk(value, slice::from_ref(step))?),
            }
        }
        found = next;
    }
    Ok(found.into_iter().map(Some).collect())
}

#[cfg(test)]
mod tests {
    use super::at_all;

    #[test]
    fn wildcards_give_all_values() {
        for (json, path, expect) in [
            (r#"[{"a":1},{"a":2},{"b":3}]"#, "$[*].a", "1 2"),
            (r#"{"a":1,"b":2}"#, "$.*", "1 2"),
            (r#"{"a":[{"b":1},{"b":2}]}"#, "$.a[*].b", "1 2"),
            (r#"{"a":{"x":1},"b":{"x":2}}"#, "$.*.x", "1 2"),
            ("[[1,2],[3]]", "$[*][*]", "1 2 3"),
            ("[[1,2],[3]]", "$[*][0]", "1 3"),
            (r#"{"a":1}"#, "$[*]", ""),
            ("[1]", "$.*", ""),
        ] {
            let found = at_all(json, path).unwrap();
            let found: Vec<&str> = found.into_iter().flatten().collect();
            assert_eq!(found.join(" "), expect, "{path}");
        }
    }
}
