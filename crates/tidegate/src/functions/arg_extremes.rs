//! `arg_greatest(x, y)` and `arg_least(x, y)`: x of the first row with the greatest or least y, of rows where neither is
//! NULL; what `arg_max` and `arg_min` are over windows, whose aggregates take no ORDER BY.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_GENERAL;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

/// Returns the functions.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    let both = [
        ("arg_greatest", Ordering::Greater, "greatest"),
        ("arg_least", Ordering::Less, "least"),
    ];
    both.map(|(name, wanted, what)| {
        let description =
            format!("Returns x of the first row with the {what} y, where neither is NULL.");
        let call = format!("{name}(x, y)");
        AggregateUDF::from(ArgExtreme {
            name,
            wanted,
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: Documentation::builder(DOC_SECTION_GENERAL, description, call).build(),
        })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArgExtreme {
    name: &'static str,
    /// How a y compares with those before it that it takes the place of.
    wanted: Ordering,
    signature: Signature,
    documentation: Documentation,
}

impl AggregateUDFImpl for ArgExtreme {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [_, _] => Ok(given.to_vec()),
            _ => plan_err!("{} takes two arguments", self.name),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of, _] => Ok(of.clone()),
            _ => plan_err!("{} takes two arguments", self.name),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let names = ["value", "extreme"].into_iter().zip(args.input_fields);
        let fields = names.map(|(name, given)| -> FieldRef {
            let name = format_state_name(args.name, name);
            Arc::new(Field::new(name, given.data_type().clone(), true))
        });
        Ok(fields.collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [value, extreme] = args.expr_fields else {
            return exec_err!("{} takes two arguments", self.name);
        };
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT …)", self.name);
        }
        Ok(Box::new(Held {
            wanted: self.wanted,
            value: ScalarValue::try_new_null(value.data_type())?,
            extreme: ScalarValue::try_new_null(extreme.data_type())?,
        }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// The row so far; NULLs before the first.
#[derive(Debug)]
struct Held {
    wanted: Ordering,
    value: ScalarValue,
    extreme: ScalarValue,
}

impl Accumulator for Held {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [values, extremes] = columns else {
            return exec_err!("an extreme has {} columns", columns.len());
        };
        for row in 0..extremes.len() {
            if values.is_null(row) || extremes.is_null(row) {
                continue;
            }
            let extreme = ScalarValue::try_from_array(extremes, row)?;
            let is_first = self.extreme.is_null();
            if is_first || extreme.partial_cmp(&self.extreme) == Some(self.wanted) {
                self.value = ScalarValue::try_from_array(values, row)?;
                self.extreme = extreme;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.extreme.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() + self.extreme.size()
    }
}
