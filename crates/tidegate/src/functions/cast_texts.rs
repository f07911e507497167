//! Text that is cast, written as Arrow's casts read it: `with_seconds(s)`, `with_units(s)` and `whole_number(s)`.
//!
//! `2024/1/5 3:00` becomes `2024-01-05 03:00:00` ([`times`]), `01:30` becomes `1 hours 30 minutes 0 seconds` ([`spans`]), and
//! `12.7` becomes `13` ([`wholes`]). Texts of any other shape stay, so that the cast says what is wrong with them, and an
//! array in which nothing is written is returned as it is: whether a text is read as it stands is told by few of its bytes.

pub(crate) mod spans;
mod times;
mod wholes;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// What a text is written as, by what it is cast to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// A date, perhaps with a time.
    Time,
    /// An interval.
    Span,
    /// A whole number.
    Whole,
}

impl Form {
    const ALL: [Self; 3] = [Self::Time, Self::Span, Self::Whole];

    /// Returns the form of what is cast to a type; `None` if Arrow reads whatever SQL does.
    pub(crate) fn of(to: &DataType) -> Option<Self> {
        match to {
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Some(Self::Time),
            DataType::Interval(_) => Some(Self::Span),
            to if to.is_integer() => Some(Self::Whole),
            _ => None,
        }
    }

    /// Builds the call that writes a text, which is a `Utf8View`.
    pub(crate) fn call(self, text: Expr) -> Expr {
        self.function().call(vec![text])
    }

    /// Writes a text so that Arrow reads it; `None` if it does, or if the text is nothing of the kind.
    pub(crate) fn written(self, text: &str) -> Option<String> {
        match self {
            _ if self.is_read(text) => None,
            Self::Time => times::completed(text),
            Self::Span => spans::with_units(text),
            Self::Whole => wholes::rounded(text),
        }
    }

    /// Writes the texts of an array of `Utf8View` so.
    pub(crate) fn all_written(self, array: &ArrayRef) -> ArrayRef {
        let texts = array.as_string_view();
        if texts.iter().flatten().all(|text| self.is_read(text)) {
            return Arc::clone(array);
        }
        let mut all = StringViewBuilder::with_capacity(texts.len());
        for text in texts {
            match text.and_then(|text| self.written(text)) {
                Some(written) => all.append_value(written),
                None => all.append_option(text),
            }
        }
        let all: StringViewArray = all.finish();
        Arc::new(all)
    }

    /// Tells, by few bytes, whether there is nothing to write of a text.
    fn is_read(self, text: &str) -> bool {
        match self {
            Self::Time => times::is_plain(text),
            Self::Span => spans::is_plain(text),
            Self::Whole => wholes::is_plain(text),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Time => "with_seconds",
            Self::Span => "with_units",
            Self::Whole => "whole_number",
        }
    }

    fn function(self) -> ScalarUDF {
        ScalarUDF::from(Written {
            form: self,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

/// Tells whether an expression is such a call.
pub(crate) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Written>())
}

/// Returns the functions, for plans that are read from bytes.
pub(super) fn functions() -> [ScalarUDF; 3] {
    Form::ALL.map(Form::function)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Written {
    form: Form,
    signature: Signature,
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        self.form.name()
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
            [ColumnarValue::Array(texts)] => Ok(ColumnarValue::Array(self.form.all_written(texts))),
            [ColumnarValue::Scalar(text)] => {
                let text = text.try_as_str().flatten();
                let written = |text: &str| self.form.written(text);
                let text = text.map(|text| written(text).unwrap_or_else(|| text.to_string()));
                Ok(ScalarValue::Utf8View(text).into())
            }
            _ => exec_err!("{} takes a string", self.name()),
        }
    }
}
