//! `value_of_text(s, CAST(NULL AS …))`, which a cast of text to bytes, a list, a struct or a map becomes, and `text_of_bytes(b)`,
//! which one of bytes to text becomes.
//!
//! Bytes are written as in DuckDB ([`bytes`]), and so are nested values, or as JSON ([`nested`]). The type that is cast to
//! comes as a NULL of it. `value_of_text_or_null` is NULL of what cannot be cast, as TRY_CAST is.

mod bytes;
mod nested;

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray, StringViewArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::cast_texts::Form;
use super::nested_text::is_nested;
use super::plain::{self, Parts};
use crate::sql_type::sql_type;

/// The text of a value; `None` of NULL.
type Text<'a> = Option<Cow<'a, str>>;

/// Tells whether text that is cast to a type is read here.
pub(crate) fn is_read(to: &DataType) -> bool {
    is_nested(to) || is_bytes(to)
}

fn is_bytes(to: &DataType) -> bool {
    matches!(
        to,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

/// Returns the functions, for plans that are read from bytes.
pub(super) fn functions() -> [ScalarUDF; 3] {
    [strict(), lenient(), text_of_bytes()]
}

/// Returns the call that casts a text to a type; what cannot be cast is an error, or NULL.
///
/// # Errors
/// Those of a type that has no NULL.
pub(crate) fn call(text: Expr, to: &DataType, is_strict: bool) -> Result<Expr> {
    let function = match is_strict {
        true => strict(),
        false => lenient(),
    };
    let null = Expr::Literal(ScalarValue::try_new_null(to)?, None);
    Ok(function.call(vec![text, null]))
}

fn strict() -> ScalarUDF {
    plain::function(Parts {
        names: &["value_of_text"],
        section: DOC_SECTION_OTHER,
        description: "Casts text to bytes, a list, a struct or a map.",
        syntax: "value_of_text(s, CAST(NULL AS INT[]))",
        takes,
        returns,
        computes: |given| values(given, true),
    })
}

fn lenient() -> ScalarUDF {
    plain::function(Parts {
        names: &["value_of_text_or_null"],
        section: DOC_SECTION_OTHER,
        description: "Casts text to bytes, a list, a struct or a map, NULL of what is none.",
        syntax: "value_of_text_or_null(s, CAST(NULL AS INT[]))",
        takes,
        returns,
        computes: |given| values(given, false),
    })
}

/// Returns the function that writes bytes as text.
pub(crate) fn text_of_bytes() -> ScalarUDF {
    plain::function(Parts {
        names: &["text_of_bytes"],
        section: DOC_SECTION_OTHER,
        description: "Writes bytes as text, those that are no plain letters as \\xNN.",
        syntax: "text_of_bytes(b)",
        takes: |given| match given {
            [of] if of.is_binary() => Ok(vec![DataType::Binary]),
            _ => plan_err!("text_of_bytes takes a binary value"),
        },
        returns: |_| DataType::Utf8View,
        computes: |given| match given {
            [values] => {
                let values = values.as_binary::<i32>().iter();
                let texts = values.map(|value| value.map(bytes::written));
                Ok(Arc::new(StringViewArray::from_iter(texts)))
            }
            _ => internal_err!("text_of_bytes of {} arguments", given.len()),
        },
    })
}

fn takes(given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [text, to] if text.is_string() && is_read(to) => Ok(vec![DataType::Utf8View, to.clone()]),
        _ => plan_err!("value_of_text takes a text, and a NULL of the type that it becomes"),
    }
}

fn returns(given: &[DataType]) -> DataType {
    given.last().cloned().unwrap_or(DataType::Null)
}

fn values(given: &[ArrayRef], is_strict: bool) -> Result<ArrayRef> {
    let [texts, wanted] = given else {
        return internal_err!("value_of_text of {} arguments", given.len());
    };
    let texts = texts.as_string_view().iter();
    let texts: Vec<Text<'_>> = texts.map(|text| text.map(Cow::Borrowed)).collect();
    read(&texts, wanted.data_type(), is_strict)
}

/// Casts texts to a type.
fn read(texts: &[Text<'_>], to: &DataType, is_strict: bool) -> Result<ArrayRef> {
    if is_nested(to) {
        return nested::read(texts, to, is_strict);
    }
    if is_bytes(to) {
        let values = texts.iter().map(|text| match text {
            Some(text) => known(bytes::read(text), text, to, is_strict),
            None => Ok(None),
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let values = BinaryArray::from_iter(values);
        return Ok(cast(&values, to)?);
    }
    let texts = texts.iter().map(|text| text.as_deref());
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
    let texts = match Form::of(to) {
        Some(form) => form.all_written(&texts),
        None => texts,
    };
    let options = CastOptions {
        safe: !is_strict,
        ..CastOptions::default()
    };
    Ok(cast_with_options(&texts, to, &options)?)
}

/// Has what was not read be an error, if the cast is strict.
fn known<T>(found: Option<T>, text: &str, to: &DataType, is_strict: bool) -> Result<Option<T>> {
    if found.is_some() || !is_strict {
        return Ok(found);
    }
    let message = format!(
        "Cannot cast string '{text}' to value of {} type",
        sql_type(to)
    );
    Err(ArrowError::CastError(message).into())
}
