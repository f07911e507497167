//! `approx_percentile_cont`, also called `approx_quantile`: DataFusion's, which is exact as long as there are few values.
//!
//! DataFusion's digest guesses between its centroids also where each of them is one value: of -7, 0, 10 and 20 the middle
//! is 0. The first [`KEPT_MAX`] values of a group are kept here, of which the percentile is that of `percentile_cont`; with
//! one more all go to the digest. The state is DataFusion's: a value that is kept is a centroid of weight 1.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl};

use super::forwarded::methods_of;
use super::percentile::{percentile, share};

/// The most values of a group that are kept: 8 kB.
const KEPT_MAX: usize = 1_000;

/// Returns the function.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::from(Approximate {
        of: approx_percentile_cont_udaf(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Approximate {
    of: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Approximate {
    methods_of!(of);

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.of.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let share = share(&args);
        let data_type = args.expr_fields.first().map(|of| of.data_type().clone());
        let inner = self.of.accumulator(args)?;
        Ok(match (share, data_type) {
            (Some(share), Some(data_type)) => Box::new(Kept {
                inner,
                share,
                data_type,
                values: Some(Vec::new()),
            }),
            _ => inner,
        })
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// The values of one group, until they are too many.
#[derive(Debug)]
struct Kept {
    inner: Box<dyn Accumulator>,
    share: f64,
    /// The type of the values and of the percentile.
    data_type: DataType,
    /// All values; `None` since the digest has them.
    values: Option<Vec<f64>>,
}

impl Kept {
    /// Keeps further values; hands all that are kept to the digest if they are too many. Returns whether they were kept.
    fn keep(&mut self, further: impl ExactSizeIterator<Item = f64>) -> Result<bool> {
        let Some(values) = &mut self.values else {
            return Ok(false);
        };
        if values.len() + further.len() <= KEPT_MAX {
            values.extend(further);
            return Ok(true);
        }
        self.hand_over()?;
        Ok(false)
    }

    fn hand_over(&mut self) -> Result<()> {
        match self.values.take() {
            Some(values) if !values.is_empty() => {
                let values = cast(&Float64Array::from(values), &self.data_type)?;
                self.inner.update_batch(&[values])
            }
            _ => Ok(()),
        }
    }
}

impl Accumulator for Kept {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(given) = values.first() else {
            return Ok(());
        };
        if self.values.is_none() || given.len() - given.null_count() > KEPT_MAX {
            self.hand_over()?;
            return self.inner.update_batch(values);
        }
        let numbers = cast(given, &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let numbers: Vec<f64> = numbers.iter().flatten().collect();
        match self.keep(numbers.into_iter())? {
            true => Ok(()),
            false => self.inner.update_batch(values),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states.last().and_then(|lists| lists.as_list_opt::<i32>());
        let Some(lists) = lists else {
            return self.inner.merge_batch(states);
        };
        for row in 0..lists.len() {
            let centroids = lists.value(row);
            let is_kept = match centroids.as_primitive_opt::<Float64Type>() {
                Some(centroids) => match of_weight_one(centroids.values()) {
                    Some(values) => self.keep(values.into_iter())?,
                    None => false,
                },
                None => false,
            };
            if !is_kept {
                self.hand_over()?;
                let row: Vec<ArrayRef> = states.iter().map(|state| state.slice(row, 1)).collect();
                self.inner.merge_batch(&row)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.values {
            Some(values) if !values.is_empty() => {
                let found = percentile(&mut values.clone(), self.share);
                ScalarValue::Float64(found).cast_to(&self.data_type)
            }
            _ => self.inner.evaluate(),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut state = self.inner.state()?;
        let Some(values) = self.values.as_mut().filter(|values| !values.is_empty()) else {
            return Ok(state);
        };
        values.sort_unstable_by(f64::total_cmp);
        let number = |value: f64| ScalarValue::Float64(Some(value));
        let centroids = values.iter().flat_map(|value| [*value, 1.0]);
        let centroids: Vec<ScalarValue> = centroids.map(number).collect();
        let list = ScalarValue::new_list_nullable(&centroids, &DataType::Float64);
        let greatest = values.last().copied().map(number);
        let least = values.first().copied().map(number);
        let told = [
            Some(number(values.iter().sum())),
            Some(number(values.len() as f64)),
            greatest,
            least,
            Some(ScalarValue::List(list)),
        ];
        // The first is the most centroids that there may be.
        for (field, value) in state.iter_mut().skip(1).zip(told) {
            if let Some(value) = value {
                *field = value;
            }
        }
        Ok(state)
    }

    fn size(&self) -> usize {
        let kept = self.values.as_ref().map_or(0, Vec::capacity);
        size_of::<Self>() + kept * size_of::<f64>() + self.inner.size()
    }
}

/// Returns the values of centroids that are one value each, which come as pairs of mean and weight.
fn of_weight_one(centroids: &[f64]) -> Option<Vec<f64>> {
    let (pairs, _) = centroids.as_chunks::<2>();
    let are_single = pairs.iter().all(|[_, weight]| *weight == 1.0);
    (are_single && pairs.len() <= KEPT_MAX).then(|| pairs.iter().map(|[mean, _]| *mean).collect())
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, of_weight_one};

    #[test]
    fn centroids_of_one_value_are_values() {
        assert_eq!(of_weight_one(&[]), Some(Vec::new()));
        assert_eq!(of_weight_one(&[3.0, 1.0, -2.5, 1.0]), Some(vec![3.0, -2.5]));
        assert_eq!(of_weight_one(&[3.0, 1.0, -2.5, 2.0]), None);
        assert_eq!(of_weight_one(&vec![1.0; 2 * (KEPT_MAX + 1)]), None);
    }
}
