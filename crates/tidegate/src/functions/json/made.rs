//! `to_json(x)`: any value as JSON; a struct is an object, a list an array. NULL is NULL, and `null` within others.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The function of one value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToJson {
    aliases: Vec<String>,
    signature: Signature,
}

impl ToJson {
    pub(super) fn new() -> Self {
        let aliases = ["to_jsonb", "row_to_json"];
        Self {
            aliases: aliases.iter().map(ToString::to_string).collect(),
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for ToJson {
    fn name(&self) -> &str {
        "to_json"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [value] => Ok(vec![value.clone()]),
            _ => plan_err!("to_json takes one value, such as {{'a': 1, 'b': [2, 3]}}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(Arc::new(written(values)?))),
            [ColumnarValue::Scalar(value)] => {
                let texts = written(&value.to_array_of_size(1)?)?;
                Ok(ScalarValue::try_from_array(&texts, 0)?.into())
            }
            _ => exec_err!("to_json takes one value"),
        }
    }
}

/// Writes each value as JSON.
fn written(values: &ArrayRef) -> Result<StringViewArray> {
    // A line is `{"":…}`.
    const BEFORE: usize = r#"{"":"#.len();
    let schema = Schema::new(vec![Field::new("", values.data_type().clone(), true)]);
    let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(values)])?;
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(&rows)?;
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
    Ok(texts.finish())
}
