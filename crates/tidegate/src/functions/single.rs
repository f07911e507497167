//! `single_value(value, n)`: the value of a correlated scalar subquery that has n rows, which is an error above one.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::max;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(SingleValue {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// Returns a call of it.
pub(crate) fn single_value(value: Expr, count: Expr) -> Expr {
    function().call(vec![value, count])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl ScalarUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, count] = args.args.as_slice() else {
            return exec_err!("single_value takes a value and a count");
        };
        let counts = count.to_array(args.number_rows)?;
        let Some(counts) = counts.as_primitive_opt::<Int64Type>() else {
            return exec_err!("single_value takes a count, which is a BIGINT");
        };
        match max(counts) {
            Some(2..) => exec_err!(
                "more than one row of a subquery used as an expression: add LIMIT 1 or an aggregate function, or \
                 compare with more columns in its WHERE"
            ),
            _ => Ok(value.clone()),
        }
    }
}
