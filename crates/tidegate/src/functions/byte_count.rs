//! `byte_count(x)`: the number of bytes of a string or a blob. SQL's `octet_length` becomes this before it is planned
//! (`forms`), as that of DataFusion takes strings alone.

use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions::string::octet_length;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the function.
pub(super) fn function() -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(ByteCount { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ByteCount {
    signature: Signature,
}

impl ScalarUDFImpl for ByteCount {
    fn name(&self) -> &str {
        "byte_count"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Binary] => Ok(DataType::Int32),
            types => octet_length().return_type(types),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Dictionary(_, of)] if of.is_string() => Ok(types.to_vec()),
            [of] if of.is_string() => Ok(types.to_vec()),
            [of] if of.is_binary() => Ok(vec![DataType::Binary]),
            [DataType::Null] => Ok(vec![DataType::Utf8]),
            _ => plan_err!("octet_length takes a string or a binary value"),
        }
    }

    /// Writes the function that strings have, which runs wherever that does.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.as_slice() {
            [value] if info.get_data_type(value)? != DataType::Binary => {
                let count = octet_length().call(vec![value.clone()]);
                Ok(ExprSimplifyResult::Simplified(count))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [bytes] if bytes.data_type() == DataType::Binary => {
                let counts = length(&bytes.to_array(args.number_rows)?)?;
                Ok(ColumnarValue::Array(counts))
            }
            _ => octet_length().inner().invoke_with_args(args),
        }
    }
}
