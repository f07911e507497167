//! `nested_text(x)`: the text of a list, a struct or a map, which a cast to VARCHAR becomes, as DuckDB writes it:
//! `[1, NULL, 3]`, `{'a': 1}` and `{a=1}`.
//!
//! Arrow leaves out NULLs of lists, and refuses structs and maps. Intervals and differences of times are written here as
//! well, alone or within others, by [`span_texts`]. A value within is in quotes where its text could be
//! taken for several, for NULL or for nothing.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};
use super::span_texts;

/// What a NULL within is written as.
const NULL: &str = "NULL";

/// Letters for which a value within is put in quotes.
const QUOTED: [char; 11] = [',', '\'', '"', ':', '=', '(', ')', '{', '}', '[', ']'];

/// Tells whether values of a type hold others.
pub(crate) fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
            | DataType::Map(..)
    )
}

/// Tells whether values of a type are written here: they hold others, or are spans of time.
pub(crate) fn is_written(data_type: &DataType) -> bool {
    is_nested(data_type) || span_texts::is_span(data_type)
}

/// Returns the function. NULL of NULL; what is within and has no text is an error.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["nested_text"],
        section: DOC_SECTION_STRING,
        description: "Writes a list, a struct or a map as text.",
        syntax: "nested_text(x)",
        takes: |given| match given {
            [nested] if is_written(nested) => Ok(given.to_vec()),
            _ => plan_err!("nested_text takes a list, a struct, a map or an interval"),
        },
        returns: |_| DataType::Utf8View,
        computes: |given| match given {
            [spans] if span_texts::is_span(spans.data_type()) => {
                strictly_cast(&span_texts::as_texts(spans)?, &DataType::Utf8View)
            }
            [nested] => Ok(Arc::new(StringViewArray::from_iter(texts(nested)?))),
            _ => internal_err!("nested_text of {} arguments", given.len()),
        },
    })
}

/// Returns the text of each value.
fn texts(array: &ArrayRef) -> Result<Vec<Option<String>>> {
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let values = texts(lists.values())?;
            let element = |at: usize| shown(&values, at).to_string();
            let lists = joined(array, lists.value_offsets(), element);
            Ok(lists
                .into_iter()
                .map(|list| list.map(|list| format!("[{list}]")))
                .collect())
        }
        DataType::LargeList(values) | DataType::FixedSizeList(values, _) => {
            texts(&strictly_cast(array, &DataType::List(Arc::clone(values)))?)
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let (keys, values) = (texts(maps.keys())?, texts(maps.values())?);
            let entry = |at: usize| format!("{}={}", shown(&keys, at), shown(&values, at));
            let maps = joined(array, maps.value_offsets(), entry);
            Ok(maps
                .into_iter()
                .map(|map| map.map(|map| in_braces(&map)))
                .collect())
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(texts);
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let names: Vec<String> = fields.iter().map(|field| in_quotes(field.name())).collect();
            let field = |row: usize| {
                let named = names.iter().zip(&columns);
                let named = named.map(|(name, values)| format!("{name}: {}", shown(values, row)));
                in_braces(&named.collect::<Vec<_>>().join(", "))
            };
            let rows = 0..array.len();
            Ok(rows
                .map(|row| array.is_valid(row).then(|| field(row)))
                .collect())
        }
        _ => {
            let leaves = strictly_cast(&span_texts::as_texts(array)?, &DataType::Utf8View)?;
            let leaves = leaves.as_string_view().iter();
            Ok(leaves.map(|text| text.map(quoted)).collect())
        }
    }
}

/// Casts, with an error for a value that cannot be cast.
fn strictly_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(array, to, &options)?)
}

/// Joins the elements of each row; nothing of a row that is NULL.
fn joined(
    array: &ArrayRef,
    offsets: &[i32],
    element: impl Fn(usize) -> String,
) -> Vec<Option<String>> {
    let place = |offset: &i32| usize::try_from(*offset).unwrap_or_default();
    let ends = offsets.iter().zip(offsets.iter().skip(1)).enumerate();
    let rows = ends.map(|(row, (start, end))| {
        let elements = (place(start)..place(end)).map(&element);
        array
            .is_valid(row)
            .then(|| elements.collect::<Vec<_>>().join(", "))
    });
    rows.collect()
}

fn in_braces(text: &str) -> String {
    format!("{{{text}}}")
}

fn shown(values: &[Option<String>], at: usize) -> &str {
    values.get(at).and_then(Option::as_deref).unwrap_or(NULL)
}

/// Puts a text in quotes that could be taken for something else.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text.trim().len() == text.len()
        && !text.eq_ignore_ascii_case(NULL)
        && !text.contains(QUOTED);
    match is_plain {
        true => text.to_string(),
        false => in_quotes(text),
    }
}

fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
