//! `version()`: what answers, and what it is built on.

use std::env::consts::{ARCH, OS};

use datafusion::DATAFUSION_VERSION;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the version of Tidegate, of DataFusion, and the machine's kind.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Version {
    signature: Signature,
}

impl Version {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::nullary(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Version {
    fn name(&self) -> &str {
        "version"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.args.is_empty() {
            return plan_err!("version takes no arguments");
        }
        let text = format!(
            "Tidegate {} (DataFusion {DATAFUSION_VERSION}, {ARCH}, {OS})",
            env!("CARGO_PKG_VERSION")
        );
        Ok(ScalarValue::from(text).into())
    }
}
