//! `mode(x)`: the most frequent value; of several, the least, so that it is the same wherever rows ran.
//!
//! A group keeps each of its values once, as a row whose bytes order as the values do, and how often it came.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

use crate::floats::canonical::canonical_array;

/// Bytes of an entry beside those of its row.
const ENTRY_BYTES: usize = 48;

/// Returns the function.
pub(crate) fn function() -> AggregateUDF {
    let section = datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
    let description = "Returns the most frequent value that is not NULL; of several, the least.";
    AggregateUDF::from(Mode {
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: Documentation::builder(section, description, "mode(x)").build(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mode {
    signature: Signature,
    documentation: Documentation,
}

impl AggregateUDFImpl for Mode {
    fn name(&self) -> &str {
        "mode"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Dictionary(_, of)] => Ok(vec![of.as_ref().clone()]),
            [of] => Ok(vec![of.clone()]),
            _ => plan_err!("mode takes one argument"),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [of] => Ok(of.clone()),
            _ => plan_err!("mode takes one argument"),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let values = list(args.return_type().clone());
        Ok(vec![
            Arc::new(Field::new(
                format_state_name(args.name, "values"),
                values,
                true,
            )),
            Arc::new(Field::new(
                format_state_name(args.name, "counts"),
                list(DataType::Int64),
                true,
            )),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let of = args.return_type().clone();
        Ok(Box::new(Counts {
            rows: RowConverter::new(vec![SortField::new(of.clone())])?,
            counts: HashMap::new(),
            // A value is a value of its own, however often it is counted.
            is_distinct: args.is_distinct,
            key_bytes: 0,
            of,
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

/// How often each value came.
#[derive(Debug)]
struct Counts {
    of: DataType,
    rows: RowConverter,
    counts: HashMap<Box<[u8]>, i64>,
    is_distinct: bool,
    key_bytes: usize,
}

impl Counts {
    fn add(&mut self, values: &ArrayRef, count: impl Fn(usize) -> i64) -> Result<()> {
        let values = canonical_array(values)?;
        let nulls = values.logical_nulls();
        let rows = self.rows.convert_columns(&[values])?;
        for (index, row) in rows.iter().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(index)) {
                continue;
            }
            let count = count(index);
            match self.counts.get_mut(row.as_ref()) {
                Some(_) if self.is_distinct => {}
                Some(known) => *known = known.saturating_add(count),
                None => {
                    self.key_bytes += row.as_ref().len();
                    self.counts.insert(row.as_ref().into(), count);
                }
            }
        }
        Ok(())
    }

    /// Makes values of rows.
    fn values<'a>(&self, rows: impl Iterator<Item = &'a Box<[u8]>>) -> Result<ArrayRef> {
        let parser = self.rows.parser();
        let parsed: Vec<_> = rows.map(|row| parser.parse(row)).collect();
        let columns = self.rows.convert_rows(parsed)?;
        match columns.into_iter().next() {
            Some(values) => Ok(values),
            None => exec_err!("rows of mode without a column"),
        }
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values] => self.add(values, |_| 1),
            _ => exec_err!("mode takes one argument"),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values(self.counts.keys())?;
        let counts = self.counts.values().copied().map(Some);
        let counts = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(counts)]);
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let values = ListArray::try_new(field, offsets, values, None)?;
        Ok(vec![
            ScalarValue::List(Arc::new(values)),
            ScalarValue::List(Arc::new(counts)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else {
            return exec_err!("a state of mode has {} columns", states.len());
        };
        let values = values.as_list::<i32>().iter();
        for (values, counts) in values.zip(counts.as_list::<i32>().iter()) {
            let (Some(values), Some(counts)) = (values, counts) else {
                continue;
            };
            let counts = counts.as_primitive::<Int64Type>();
            if counts.len() != values.len() {
                return exec_err!("a state of mode has fewer counts than values");
            }
            self.add(&values, |index| counts.value(index))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let counts = self.counts.iter();
        let most =
            counts.max_by(|(row, count), (other, most)| count.cmp(most).then(other.cmp(row)));
        match most {
            None => ScalarValue::try_from(&self.of),
            Some((row, _)) => {
                let value = self.values(std::iter::once(row))?;
                ScalarValue::try_from_array(&value, 0)
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.key_bytes + self.counts.capacity() * ENTRY_BYTES
    }
}
