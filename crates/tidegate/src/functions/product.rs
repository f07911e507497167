//! `product(x)`: the product of the values that are not NULL, as DOUBLE; NULL of none.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{cast, filter, is_not_null};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::common::{not_impl_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

/// Returns the function.
pub(crate) fn function() -> AggregateUDF {
    let section = datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_GENERAL;
    let description = "Returns the product of the values that are not NULL, as DOUBLE.";
    AggregateUDF::from(Product {
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: Documentation::builder(section, description, "product(x)").build(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Product {
    signature: Signature,
    documentation: Documentation,
}

impl AggregateUDFImpl for Product {
    fn name(&self) -> &str {
        "product"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [of] if of.is_numeric() || of.is_null() => Ok(vec![DataType::Float64]),
            _ => plan_err!("product takes one number"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format_state_name(args.name, "product");
        Ok(vec![Arc::new(Field::new(name, DataType::Float64, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct {
            false => Ok(Box::<Factors>::default()),
            true => {
                not_impl_err!("product(DISTINCT x): make the values distinct in a subquery of FROM")
            }
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// The product so far; `None` before the first value.
#[derive(Debug, Default)]
struct Factors(Option<f64>);

impl Accumulator for Factors {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            let mut values = cast(values, &DataType::Float64)?;
            if values.null_count() > 0 {
                values = filter(&values, &is_not_null(&values)?)?;
            }
            if values.is_empty() {
                continue;
            }
            let factors = values.as_primitive::<Float64Type>().values();
            *self.0.get_or_insert(1.0) *= factors.iter().product::<f64>();
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.0))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
