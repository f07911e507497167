//! `kept_value(x)`: a value, as it is. The optimizer, which looks into casts, does not look into it.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Kept { signature }))
}

/// A function of one argument of any type, which it returns.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kept {
    signature: Signature,
}

impl ScalarUDFImpl for Kept {
    fn name(&self) -> &str {
        "kept_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [kind] => Ok(kind.clone()),
            _ => internal_err!("kept_value of {} arguments", arguments.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => Ok(value.clone()),
            _ => internal_err!("kept_value of {} arguments", args.args.len()),
        }
    }
}
