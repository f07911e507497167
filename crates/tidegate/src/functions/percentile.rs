//! `percentile_cont`, also called `quantile_cont`: DataFusion's, with the value between two others computed in DOUBLE.
//!
//! DataFusion cuts the fraction between the two values off behind six digits. Its accumulators hold all values and
//! give them as their state, of which the percentile is computed here.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator,
};
use datafusion::physical_expr::expressions::Literal;

use super::forwarded::methods_of;

/// Returns the function.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::from(Percentile {
        of: percentile_cont_udaf(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    of: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Percentile {
    methods_of!(of);

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.of.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let share = share(&args);
        let is_distinct = args.is_distinct;
        let inner = self.of.accumulator(args)?;
        Ok(match share {
            Some(share) => Box::new(OneGroup {
                inner,
                share,
                is_distinct,
            }),
            None => inner,
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.of.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let share = share(&args);
        let inner = self.of.create_groups_accumulator(args)?;
        Ok(match share {
            Some(share) => Box::new(Groups { inner, share }),
            None => inner,
        })
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.of.simplify()
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// Returns which share of the values is below the percentile; `None` where DataFusion refuses it, or has no value.
pub(super) fn share(args: &AccumulatorArgs<'_>) -> Option<f64> {
    if args.expr_fields.first()?.data_type().is_null() {
        return None;
    }
    let literal = args.exprs.get(1)?.downcast_ref::<Literal>()?;
    let ScalarValue::Float64(Some(share)) = literal.value().cast_to(&DataType::Float64).ok()?
    else {
        return None;
    };
    let descends = args
        .order_bys
        .first()
        .is_some_and(|sort| sort.options.descending);
    Some(if descends { 1.0 - share } else { share })
}

/// Returns the percentile of each of some lists; NULL of an empty one.
fn percentiles(state: &[ArrayRef], share: f64) -> Result<ArrayRef> {
    let lists = state.first().and_then(|lists| lists.as_list_opt::<i32>());
    let Some(lists) = lists else {
        return internal_err!("the state of percentile_cont is not a list");
    };
    let values = cast(lists.values(), &DataType::Float64)?;
    let mut values = values.as_primitive::<Float64Type>().values().to_vec();
    let bounds = lists.value_offsets().windows(2);
    let found: Float64Array = bounds
        .map(|bounds| percentile(&mut values[bounds[0] as usize..bounds[1] as usize], share))
        .collect();
    Ok(cast(&found, &lists.value_type())?)
}

/// Returns the value below which a share of the values is, in the order in which NaN is the greatest; between two
/// values in proportion.
pub(super) fn percentile(values: &mut [f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let place = last as f64 * share;
    let below = (place.floor() as usize).min(last);
    let (_, lower, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let lower = *lower;
    let fraction = place - below as f64;
    if fraction <= 0.0 {
        return Some(lower);
    }
    let upper = above
        .iter()
        .copied()
        .min_by(f64::total_cmp)
        .unwrap_or(lower);
    let width = upper - lower;
    // Equal infinities have no difference, and that of large values may be infinite.
    Some(if lower == upper {
        lower
    } else if width.is_infinite() {
        lower * (1.0 - fraction) + upper * fraction
    } else {
        lower + width * fraction
    })
}

/// The values of one group.
#[derive(Debug)]
struct OneGroup {
    inner: Box<dyn Accumulator>,
    share: f64,
    is_distinct: bool,
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.inner.state()?;
        let state = state.iter().map(ScalarValue::to_array);
        let state = state.collect::<Result<Vec<_>>>()?;
        let found = percentiles(&state, self.share)?;
        // A window goes on with the values, which the state of those that are not DISTINCT has taken.
        if !self.is_distinct {
            self.inner.merge_batch(&state)?;
        }
        ScalarValue::try_from_array(&found, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// The values of all groups.
struct Groups {
    inner: Box<dyn GroupsAccumulator>,
    share: f64,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, num_groups)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        num_groups: usize,
    ) -> Result<()> {
        self.inner.merge_batch(states, groups, num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        percentiles(&self.inner.state(emit_to)?, self.share)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_between_two_values_in_proportion() {
        let of = |values: &[f64], share| percentile(&mut values.to_vec(), share);
        assert_eq!(of(&[], 0.5), None);
        assert_eq!(of(&[7.0], 0.9), Some(7.0));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0], 0.3), Some(1.9));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0], 1.0), Some(4.0));
        assert_eq!(of(&[f64::MIN, f64::MAX], 0.5), Some(0.0));
        let all = f64::INFINITY;
        assert_eq!(of(&[all, all, all], 0.4), Some(all));
        assert_eq!(of(&[1.0, f64::NAN, 2.0], 0.5), Some(2.0));
        assert!(of(&[1.0, f64::NAN], 0.5).is_some_and(f64::is_nan));
    }
}
