//! `array_agg` and `string_agg` with ORDER BY.
//!
//! DataFusion keeps a scalar for each value and each key, in an accumulator for each group: 6 million strings of 1.5
//! million groups take 6 GB and minutes. [`OrderedLists`] keeps columns and the bytes of the keys in the order of
//! [`RowConverter`], and sorts each group when it leaves. The state is DataFusion's, a list of values and a list of
//! keys. What has no ORDER BY, is DISTINCT or slides over a window is DataFusion's own.

mod lists;

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, LargeStringBuilder, ListArray,
};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
};
use datafusion::physical_expr::expressions::Literal;

use super::forwarded::methods_of;
use lists::OrderedLists;

/// Returns the functions, which take the place of DataFusion's.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    [array_agg_udaf(), string_agg_udaf()].map(|of| AggregateUDF::from(Ordered { of }))
}

/// DataFusion's function with other accumulators for values that have an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ordered {
    of: Arc<AggregateUDF>,
}

impl Ordered {
    /// Makes the accumulator of values that have an order; `None` if DataFusion's should keep them.
    fn lists(&self, args: &AccumulatorArgs<'_>) -> Result<Option<Groups>> {
        if args.is_distinct || args.order_bys.is_empty() {
            return Ok(None);
        }
        let separator = match args.exprs {
            [_] => None,
            [_, separator] => match separator.downcast_ref::<Literal>() {
                Some(literal) => Some(literal.value().try_as_str().flatten().unwrap_or("")),
                // It is refused there.
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(lists) = OrderedLists::new(args, separator.is_some())? else {
            return Ok(None);
        };
        Ok(Some(Groups {
            lists,
            separator: separator.map(str::to_owned),
        }))
    }
}

impl AggregateUDFImpl for Ordered {
    methods_of!(of);

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.of.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.lists(&args)? {
            Some(groups) => Ok(Box::new(OneGroup(groups))),
            None => self.of.accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.of.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        matches!(self.lists(&args), Ok(Some(_))) || self.of.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match self.lists(&args)? {
            Some(groups) => Ok(Box::new(groups)),
            None => self.of.create_groups_accumulator(args),
        }
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.of.order_sensitivity()
    }

    // The accumulators take no order from their input.
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.of.supports_null_handling_clause()
    }
}

/// The lists of groups, or what they are joined to.
struct Groups {
    lists: OrderedLists,
    /// What is between the values of a string; `None` for lists.
    separator: Option<String>,
}

impl Groups {
    fn result(&self, lists: ListArray) -> ArrayRef {
        match &self.separator {
            None => Arc::new(lists),
            Some(separator) => joined(&lists, separator),
        }
    }
}

/// Joins the strings of each list; NULL of none.
fn joined(lists: &ListArray, separator: &str) -> ArrayRef {
    let mut texts = LargeStringBuilder::with_capacity(lists.len(), 0);
    let values = lists.values();
    let value = |place: usize| match values.data_type() {
        DataType::Utf8View => values.as_string_view().value(place),
        DataType::LargeUtf8 => values.as_string::<i64>().value(place),
        _ => values.as_string::<i32>().value(place),
    };
    let mut text = String::new();
    for ends in lists.value_offsets().windows(2) {
        let places = ends[0] as usize..ends[1] as usize;
        if places.is_empty() {
            texts.append_null();
            continue;
        }
        text.clear();
        for place in places {
            if place > ends[0] as usize {
                text.push_str(separator);
            }
            text.push_str(value(place));
        }
        texts.append_value(&text);
    }
    Arc::new(texts.finish())
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.lists
            .add(values, group_indices, opt_filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (lists, _) = self.lists.lists(emit_to, false)?;
        self.lists.forget(emit_to)?;
        Ok(self.result(lists))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let state = self.lists.state(emit_to)?;
        self.lists.forget(emit_to)?;
        Ok(state)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.lists.merge(values, group_indices, total_num_groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.lists.of_rows(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.lists.size()
    }
}

/// The one group of an aggregate without GROUP BY.
struct OneGroup(Groups);

impl std::fmt::Debug for OneGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OneGroup").finish()
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.0.lists.add(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |states| states.len());
        self.0.lists.merge(states, &vec![0; rows], 1)
    }

    // A window asks again and again.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (lists, _) = self.0.lists.lists(EmitTo::First(1), false)?;
        ScalarValue::try_from_array(&self.0.result(lists), 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.0.lists.state(EmitTo::First(1))?;
        let values = state.iter();
        values
            .map(|values| ScalarValue::try_from_array(values, 0))
            .collect()
    }

    fn size(&self) -> usize {
        self.0.lists.size()
    }
}

#[cfg(test)]
mod tests;
