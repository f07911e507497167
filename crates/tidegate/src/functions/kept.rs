//! Functions of one argument of any type, which they return: `kept_value(x)`, into which the optimizer, which looks into
//! casts, does not look, and `or_null(x)`, of which it is not known that it is never NULL.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns `kept_value`.
pub(crate) fn kept_value() -> Arc<ScalarUDF> {
    function("kept_value", Volatility::Immutable)
}

/// Returns `or_null`. Its values may be NULL for all that a plan knows, which holds of a constant as long as it is not
/// computed when the statement is planned: it counts as volatile.
pub(crate) fn or_null() -> Arc<ScalarUDF> {
    function("or_null", Volatility::Volatile)
}

fn function(name: &'static str, volatility: Volatility) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, volatility);
    Arc::new(ScalarUDF::from(Kept { name, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kept {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Kept {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [kind] => Ok(kind.clone()),
            _ => internal_err!("{} of {} arguments", self.name, arguments.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => Ok(value.clone()),
            _ => internal_err!("{} of {} arguments", self.name, args.args.len()),
        }
    }
}
