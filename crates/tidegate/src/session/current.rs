//! `version()`, `current_schema()`, `current_database()`: what answers, what it is built on, and where names are
//! looked up.

use std::env::consts::{ARCH, OS};

use datafusion::DATAFUSION_VERSION;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [Fact::Version, Fact::Schema, Fact::Database];
    all.into_iter().map(|fact| ScalarUDF::from(Told::of(fact)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fact {
    /// The version of Tidegate, of DataFusion, and the machine's kind.
    Version,
    /// The schema of names without one.
    Schema,
    /// The catalog of names without one.
    Database,
}

/// A function without arguments that tells a fact.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Told {
    fact: Fact,
    aliases: Vec<String>,
    signature: Signature,
}

impl Told {
    fn of(fact: Fact) -> Self {
        let aliases: &[&str] = match fact {
            Fact::Version => &[],
            Fact::Schema => &["schema"],
            Fact::Database => &["current_catalog", "database"],
        };
        Self {
            fact,
            aliases: aliases.iter().map(ToString::to_string).collect(),
            signature: Signature::nullary(Volatility::Stable),
        }
    }
}

impl ScalarUDFImpl for Told {
    fn name(&self) -> &str {
        match self.fact {
            Fact::Version => "version",
            Fact::Schema => "current_schema",
            Fact::Database => "current_database",
        }
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
        if !args.args.is_empty() {
            return plan_err!("{} takes no arguments", self.name());
        }
        let names = &args.config_options.catalog;
        let text = match self.fact {
            Fact::Version => format!(
                "Tidegate {} (DataFusion {DATAFUSION_VERSION}, {ARCH}, {OS})",
                env!("CARGO_PKG_VERSION")
            ),
            Fact::Schema => names.default_schema.clone(),
            Fact::Database => names.default_catalog.clone(),
        };
        Ok(ScalarValue::from(text).into())
    }
}
