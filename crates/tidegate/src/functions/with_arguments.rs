//! A function of DataFusion's that is called with its arguments written otherwise.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::forwarded::methods_of;

/// Writes the arguments of a call as the function reads them.
pub(super) type Change = fn(&mut [ColumnarValue]) -> Result<()>;

/// Returns the function that is registered by a name, with other arguments.
///
/// # Errors
/// Those of a registry that has no such function.
pub(super) fn function(
    registry: &dyn FunctionRegistry,
    name: &str,
    change: Change,
) -> Result<ScalarUDF> {
    let of = registry.udf(name)?;
    Ok(WithArguments { of, change }.into())
}

#[derive(Debug)]
struct WithArguments {
    of: Arc<ScalarUDF>,
    change: Change,
}

// What is done to arguments is told by the function.
impl PartialEq for WithArguments {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

impl Eq for WithArguments {}

impl Hash for WithArguments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

impl ScalarUDFImpl for WithArguments {
    methods_of!(of);

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.change)(&mut args.args)?;
        self.of.inner().invoke_with_args(args)
    }
}
