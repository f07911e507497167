//! `or_null(x)`: a value, of which it is not known that it is never NULL.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Volatile);
    Arc::new(ScalarUDF::from(OrNull { signature }))
}

/// A function of one argument of any type, which it returns. Its values may be NULL for all that a plan knows, which
/// holds of a constant as long as it is not computed when the statement is planned: it counts as volatile.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        "or_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [kind] => Ok(kind.clone()),
            _ => internal_err!("or_null of {} arguments", arguments.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => Ok(value.clone()),
            _ => internal_err!("or_null of {} arguments", args.args.len()),
        }
    }
}
