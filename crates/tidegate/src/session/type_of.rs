//! `typeof(x)`: the type of a value, by the name that SQL has for it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::sql_type::sql_type;

/// Returns the name that DESCRIBE has for the type of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TypeOf {
    aliases: Vec<String>,
    signature: Signature,
}

impl TypeOf {
    pub(super) fn new() -> Self {
        Self {
            aliases: vec!["pg_typeof".to_string()],
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "typeof"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.arg_fields.as_slice() {
            [field] => Ok(ScalarValue::from(sql_type(field.data_type())).into()),
            _ => plan_err!("typeof takes one argument"),
        }
    }
}
