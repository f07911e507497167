//! `value_of_text(s, CAST(NULL AS …))`, which a cast of text to bytes, a list, a struct or a map becomes, and `text_of_bytes(b)`,
//! which one of bytes to text becomes.
//!
//! Bytes are written as in DuckDB ([`bytes`]), and so are nested values, or as JSON ([`nested`]). The type that is cast to
//! comes as a NULL of it. `value_of_text_or_null` is NULL of what cannot be cast, as TRY_CAST is,
//! and `value_of_json`, which `from_json` becomes, leaves out names that the type has not.

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

/// The most of a text that an error quotes, in characters.
const QUOTED_MAX: usize = 200;

/// What becomes of text that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It is an error.
    Strict,
    /// It is NULL.
    Lenient,
    /// It is NULL, and names that a type has not are left out.
    Loose,
}

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
pub(super) fn functions() -> [ScalarUDF; 4] {
    [strict(), lenient(), of_json(), text_of_bytes()]
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
        computes: |given| values(given, Mode::Strict),
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
        computes: |given| values(given, Mode::Lenient),
    })
}

fn of_json() -> ScalarUDF {
    plain::function(Parts {
        names: &["value_of_json"],
        section: DOC_SECTION_OTHER,
        description: "Reads JSON as a value of a type; what is of another type is NULL.",
        syntax: "value_of_json(s, CAST(NULL AS INT[]))",
        takes: |given| match given {
            [text, to] if text.is_string() || text.is_null() => {
                Ok(vec![DataType::Utf8View, to.clone()])
            }
            _ => plan_err!(
                "from_json takes a string of JSON, and a constant such as '{{\"a\": \"INTEGER\"}}'"
            ),
        },
        returns,
        computes: |given| values(given, Mode::Loose),
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

fn values(given: &[ArrayRef], mode: Mode) -> Result<ArrayRef> {
    let [texts, wanted] = given else {
        return internal_err!("value_of_text of {} arguments", given.len());
    };
    let texts = texts.as_string_view().iter();
    let texts: Vec<Text<'_>> = texts.map(|text| text.map(Cow::Borrowed)).collect();
    read(&texts, wanted.data_type(), mode)
}

/// Casts texts to a type.
fn read(texts: &[Text<'_>], to: &DataType, mode: Mode) -> Result<ArrayRef> {
    if is_nested(to) {
        return nested::read(texts, to, mode);
    }
    if is_bytes(to) {
        let values = texts.iter().map(|text| match text {
            Some(text) => known(bytes::read(text), text, to, mode),
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
        safe: mode != Mode::Strict,
        ..CastOptions::default()
    };
    Ok(cast_with_options(&texts, to, &options)?)
}

/// Has what was not read be an error, if it has to be read.
fn known<T>(found: Option<T>, text: &str, to: &DataType, mode: Mode) -> Result<Option<T>> {
    if found.is_some() || mode != Mode::Strict {
        return Ok(found);
    }
    let begins: String = text.chars().take(QUOTED_MAX).collect();
    let cut = if begins.len() < text.len() { "…" } else { "" };
    let message = format!(
        "Cannot cast string '{begins}{cut}' to value of {} type",
        sql_type(to)
    );
    Err(ArrowError::CastError(message).into())
}
