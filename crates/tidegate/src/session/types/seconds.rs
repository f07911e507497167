//! The function that writes `:00` behind the minutes of timestamps that have no seconds.
//!
//! Texts of any other shape stay, and an array in which nothing is written is returned as it is: whether a text has
//! seconds is told by one of its bytes.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

static WITH_SECONDS: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(WithSeconds::new())));

/// Builds `with_seconds(text)`, of a `Utf8View`.
pub(super) fn call(text: Expr) -> Expr {
    WITH_SECONDS.call(vec![text])
}

/// Tells whether an expression is such a call.
pub(super) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<WithSeconds>())
}

/// Returns the function, for plans that are read from bytes.
pub(in crate::session) fn function() -> ScalarUDF {
    WITH_SECONDS.as_ref().clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WithSeconds {
    signature: Signature,
}

impl WithSeconds {
    fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for WithSeconds {
    fn name(&self) -> &str {
        "with_seconds"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let field = Field::new(self.name(), DataType::Utf8View, is_nullable);
        Ok(Arc::new(field))
    }

    fn coerce_types(&self, _types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Utf8View])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(texts)] => Ok(ColumnarValue::Array(all_completed(texts))),
            [ColumnarValue::Scalar(text)] => {
                let text = text.try_as_str().flatten();
                let text = text.map(|text| completed(text).unwrap_or_else(|| text.to_string()));
                Ok(ScalarValue::Utf8View(text).into())
            }
            _ => exec_err!("with_seconds takes a string"),
        }
    }
}

fn all_completed(array: &ArrayRef) -> ArrayRef {
    let texts = array.as_string_view();
    let lacks = |text: Option<&str>| text.is_some_and(lacks_seconds);
    if !texts.iter().any(lacks) {
        return Arc::clone(array);
    }
    let mut all = StringViewBuilder::with_capacity(texts.len());
    for text in texts {
        match text.and_then(completed) {
            Some(completed) => all.append_value(completed),
            None => all.append_option(text),
        }
    }
    let all: StringViewArray = all.finish();
    Arc::new(all)
}

/// Writes `:00` behind the minutes of a timestamp that has none; `None` for any other text.
pub(super) fn completed(text: &str) -> Option<String> {
    let (minutes, zone) = text.split_at_checked(SHAPE.len())?;
    lacks_seconds(text).then(|| format!("{minutes}:00{zone}"))
}

/// The shape of a timestamp up to its minutes.
const SHAPE: &[u8] = b"0000-00-00 00:00";

fn lacks_seconds(text: &str) -> bool {
    let Some((minutes, zone)) = text.as_bytes().split_at_checked(SHAPE.len()) else {
        return false;
    };
    if !matches!(zone.first(), None | Some(b'Z' | b'z' | b'+' | b'-' | b' ')) {
        return false;
    }
    let fits = |(given, shape): (&u8, &u8)| match shape {
        b'0' => given.is_ascii_digit(),
        b' ' => matches!(given, b' ' | b'T' | b't'),
        shape => given == shape,
    };
    minutes.iter().zip(SHAPE).all(fits)
}

#[cfg(test)]
mod tests {
    use super::completed;

    #[test]
    fn only_timestamps_without_seconds_get_some() {
        for (text, expect) in [
            ("2024-03-01 12:00", Some("2024-03-01 12:00:00")),
            ("2024-03-01T12:00Z", Some("2024-03-01T12:00:00Z")),
            ("2024-03-01 12:00+02", Some("2024-03-01 12:00:00+02")),
            (
                "2024-03-01 12:00 Europe/Berlin",
                Some("2024-03-01 12:00:00 Europe/Berlin"),
            ),
            ("2024-03-01 12:00:00", None),
            ("2024-03-01 12:0", None),
            ("2024-03-01", None),
            ("01.03.2024 12:00", None),
            ("2024-03-01 12:00 ", Some("2024-03-01 12:00:00 ")),
            ("äöü4-03-01 12:00", None),
            ("2024-03-01 12:ü0", None),
        ] {
            assert_eq!(completed(text).as_deref(), expect, "{text}");
        }
    }
}
