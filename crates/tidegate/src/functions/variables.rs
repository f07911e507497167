//! `getvariable('x')`: the value that `SET VARIABLE x = …` gave, NULL before.
//!
//! The function holds the values itself: a statement that sets one registers another function. So plans that are kept
//! notice the change as they notice any other function's.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

/// The function's name.
pub(crate) const NAME: &str = "getvariable";

/// Returns the function, without a value.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(Variables::new(BTreeMap::new()))
}

/// The values of a session's variables.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variables {
    /// By name, in small letters.
    values: BTreeMap<String, ScalarValue>,
    signature: Signature,
    documentation: Documentation,
}

impl Variables {
    fn new(values: BTreeMap<String, ScalarValue>) -> Self {
        let description =
            "Returns the value of a variable that SET VARIABLE has set, NULL of any other.";
        let syntax = "getvariable(name)";
        Self {
            values,
            signature: Signature::user_defined(Volatility::Stable),
            documentation: Documentation::builder(DOC_SECTION_OTHER, description, syntax).build(),
        }
    }

    /// Returns the function in which a variable has this value, or none.
    pub(crate) fn with(
        function: Option<&ScalarUDF>,
        name: String,
        value: Option<ScalarValue>,
    ) -> ScalarUDF {
        let known = function.and_then(|known| known.inner().downcast_ref::<Self>());
        let mut values = known.map(|known| known.values.clone()).unwrap_or_default();
        match value {
            Some(value) => values.insert(name, value),
            None => values.remove(&name),
        };
        ScalarUDF::from(Self::new(values))
    }

    fn value(&self, name: Option<&ScalarValue>) -> Result<ScalarValue> {
        let Some(name) = name else {
            return plan_err!(
                "getvariable takes the name of a variable, in quotes: getvariable('x')"
            );
        };
        let name = name.try_as_str().flatten().map(str::to_lowercase);
        let value = name.and_then(|name| self.values.get(&name));
        Ok(value.cloned().unwrap_or(ScalarValue::Null))
    }
}

impl ScalarUDFImpl for Variables {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [name] if name.is_string() || name.is_null() => Ok(vec![DataType::Utf8]),
            _ => plan_err!("getvariable takes the name of a variable, in quotes: getvariable('x')"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type is that of the value")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = self.value(args.scalar_arguments.first().copied().flatten())?;
        Ok(Arc::new(Field::new(NAME, value.data_type(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(ColumnarValue::Scalar(name)) => Ok(self.value(Some(name))?.into()),
            _ => Ok(self.value(None)?.into()),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}
