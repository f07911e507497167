//! `to_json(x)`: any value as JSON; a struct is an object, a list an array. NULL is NULL, and `null` within others.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::super::plain::{self, Parts};
use super::super::span_texts::as_texts;
use crate::files::text_keys::with_text_keys;

/// Returns the function of one value.
pub(super) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["to_json", "to_jsonb", "row_to_json", "json_quote"],
        section: DOC_SECTION_STRING,
        description: "Writes a value as JSON.",
        syntax: "to_json(x)",
        takes: |given| match given {
            [_] => Ok(given.to_vec()),
            _ => plan_err!("to_json takes one value, such as {{'a': 1, 'b': [2, 3]}}"),
        },
        returns: |_| DataType::Utf8View,
        computes: written,
    })
}

/// Writes each value as JSON.
pub(super) fn written(given: &[ArrayRef]) -> Result<ArrayRef> {
    // A line is `{"":…}`.
    const BEFORE: usize = r#"{"":"#.len();
    let [values] = given else {
        return exec_err!("to_json takes one value");
    };
    let values = &as_texts(values)?;
    let schema = Schema::new(vec![Field::new("", values.data_type().clone(), true)]);
    let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(values)])?;
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(&with_text_keys(&rows)?)?;
    writer.finish()?;
    let text = String::from_utf8(writer.into_inner()).unwrap_or_default();
    let nulls = values.logical_nulls();
    let mut texts = StringViewBuilder::with_capacity(values.len());
    for (row, line) in text.lines().enumerate() {
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => texts.append_null(),
            false => texts.append_value(&line[BEFORE..line.len() - 1]),
        }
    }
    Ok(Arc::new(texts.finish()))
}
