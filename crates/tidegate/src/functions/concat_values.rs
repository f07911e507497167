//! `concat_values(a, …)`: a list of the values of lists, and the text of anything else, as DuckDB's `concat` gives them.
//!
//! SQL's `concat` becomes this before it is planned (`forms`), and this one of DataFusion's functions, which run wherever those do.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Calls one function for lists, and another one for the rest.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConcatValues {
    texts: Arc<ScalarUDF>,
    lists: Arc<ScalarUDF>,
    signature: Signature,
}

impl ConcatValues {
    /// Makes it of the functions as they are registered.
    ///
    /// # Errors
    /// Those of a registry that has not the functions of DataFusion.
    pub(crate) fn new(registry: &dyn FunctionRegistry) -> Result<Self> {
        Ok(Self {
            texts: registry.udf("concat")?,
            lists: registry.udf("array_concat")?,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }

    /// Returns the function for arguments of such types: NULL is as good as a list.
    fn of(&self, types: &[DataType]) -> &Arc<ScalarUDF> {
        let is_list = |of: &DataType| {
            matches!(
                of,
                DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
            )
        };
        let are_lists = types.iter().all(|of| is_list(of) || of.is_null());
        match are_lists && types.iter().any(is_list) {
            true => &self.lists,
            false => &self.texts,
        }
    }
}

impl ScalarUDFImpl for ConcatValues {
    fn name(&self) -> &str {
        "concat_values"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.of(given).inner().coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.of(given).return_type(given)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|value| info.get_data_type(value));
        Ok(match types.collect::<Result<Vec<_>>>() {
            Ok(types) => ExprSimplifyResult::Simplified(self.of(&types).call(args)),
            // A parameter has no type yet.
            Err(_) => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        self.of(&types).inner().invoke_with_args(args)
    }
}
