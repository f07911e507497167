//! `product(x)`: the product of the values that are not NULL, as DOUBLE; NULL of none.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{cast, filter, is_not_null};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, not_impl_err};
use datafusion::error::Result;
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_GENERAL;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, Documentation};

use super::aggregate::{self, Kind};
use super::moments::one_number;

/// Returns the function.
pub(crate) fn function() -> AggregateUDF {
    aggregate::function(Product)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Product;

impl Kind for Product {
    fn name(self) -> &'static str {
        "product"
    }

    fn documentation(self) -> Documentation {
        let description = "Returns the product of the values that are not NULL, as DOUBLE.";
        Documentation::builder(DOC_SECTION_GENERAL, description, "product(x)").build()
    }

    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>> {
        one_number(self.name(), given)
    }

    fn returns(self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state(self, _: &[FieldRef]) -> Result<Vec<(&'static str, DataType)>> {
        Ok(vec![("product", DataType::Float64)])
    }

    fn keeper(self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct {
            false => Ok(Box::<Factors>::default()),
            true => {
                not_impl_err!("product(DISTINCT x): make the values distinct in a subquery of FROM")
            }
        }
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
