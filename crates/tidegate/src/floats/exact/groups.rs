//! The accumulators of exact sums.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Float64Array, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Schema, UInt64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::accumulate_multiple;
use num_bigint::BigInt;

use super::Sums;
use super::sums::{ExactSums, nearest};

/// The number of values of each group, and their sums.
#[derive(Debug)]
pub(super) struct Groups {
    /// The function that makes a result of moments.
    of: Arc<AggregateUDF>,
    what: Sums,
    counts: Vec<u64>,
    /// As [`Sums::names`] has them.
    sums: Vec<ExactSums>,
}

impl Groups {
    pub(super) fn new(of: Arc<AggregateUDF>, what: Sums) -> Self {
        Self {
            of,
            what,
            counts: Vec::new(),
            sums: vec![ExactSums::default(); what.names().len()],
        }
    }

    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.sums.iter_mut().for_each(|sums| sums.resize(groups));
    }

    fn take(&mut self, emit: EmitTo) -> Self {
        Self {
            of: Arc::clone(&self.of),
            what: self.what,
            counts: emit.take_needed(&mut self.counts),
            sums: self.sums.iter_mut().map(|sums| sums.take(emit)).collect(),
        }
    }

    fn states(&self) -> Vec<ArrayRef> {
        let counts: ArrayRef = Arc::new(UInt64Array::from(self.counts.clone()));
        let sums = self.sums.iter().map(|sums| -> ArrayRef {
            let mut states = BinaryBuilder::new();
            let (mut words, mut state) = (Vec::new(), Vec::new());
            for group in 0..self.counts.len() {
                sums.write_state(group, &mut words, &mut state);
                states.append_value(&state);
            }
            Arc::new(states.finish())
        });
        [counts].into_iter().chain(sums).collect()
    }

    fn results(&self) -> Result<ArrayRef> {
        let groups = 0..self.counts.len();
        match (self.what, &self.sums[..]) {
            (Sums::Sum | Sums::Average, [sums]) => {
                let divides = self.what == Sums::Average;
                let rounded = groups.map(|group| match self.counts[group] {
                    0 => 0.0,
                    count if divides => sums.rounded(group) / count as f64,
                    _ => sums.rounded(group),
                });
                let valid = self.counts.iter().map(|count| *count > 0).collect();
                let valid = NullBuffer::new(valid);
                Ok(Arc::new(Float64Array::new(rounded.collect(), Some(valid))))
            }
            _ => {
                let results: Vec<ScalarValue> = groups
                    .map(|group| self.of_moments(group))
                    .collect::<Result<_>>()?;
                if results.is_empty() {
                    return Ok(Arc::new(Float64Array::from(Vec::<f64>::new())));
                }
                ScalarValue::iter_to_array(results)
            }
        }
    }

    /// Makes the function's result of its partial state.
    fn of_moments(&self, group: usize) -> Result<ScalarValue> {
        let count = self.counts[group];
        let state = match &self.sums[..] {
            [x, xx] => vec![mean(x, group, count), co_moment([x, x], xx, group, count)],
            [x, y, xx, yy, xy] => {
                // DataFusion's regressions take (y, x) and keep x before y.
                let (x, y, xx, yy) = match self.of.name().starts_with("regr_") {
                    true => (y, x, yy, xx),
                    false => (x, y, xx, yy),
                };
                let products = co_moment([x, y], xy, group, count);
                let (mean_x, mean_y) = (mean(x, group, count), mean(y, group, count));
                if self.of.name().starts_with("covar_") {
                    vec![mean_x, mean_y, products]
                } else {
                    let spread_x = co_moment([x, x], xx, group, count);
                    let spread_y = co_moment([y, y], yy, group, count);
                    match self.of.name() {
                        "corr" => vec![mean_x, spread_x, mean_y, spread_y, products],
                        _ => vec![mean_x, mean_y, spread_x, spread_y, products],
                    }
                }
            }
            _ => return exec_err!("{} has no moments", self.of.name()),
        };
        let count: ArrayRef = Arc::new(UInt64Array::from(vec![count]));
        let state = state
            .into_iter()
            .map(|value| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) });
        let state: Vec<ArrayRef> = [count].into_iter().chain(state).collect();
        let mut accumulator = rounding_accumulator(&self.of, self.what.arguments())?;
        accumulator.merge_batch(&state)?;
        accumulator.evaluate()
    }
}

/// Returns the mean of a group's values, of which there are so many.
fn mean(sums: &ExactSums, group: usize, count: u64) -> f64 {
    match count {
        0 => 0.0,
        _ => sums.rounded(group) / count as f64,
    }
}

/// Returns the sum of the products of the distances of a group's pairs from their means: n times it is
/// n·Σxy − Σx·Σy.
fn co_moment(of: [&ExactSums; 2], products: &ExactSums, group: usize, count: u64) -> f64 {
    let [Ok((x, exponent)), Ok((y, other))] = of.map(|sums| sums.integer(group)) else {
        return f64::NAN;
    };
    let Ok((products, unit)) = products.integer(group) else {
        return f64::NAN;
    };
    if count == 0 {
        return 0.0;
    }
    // All are integers of words, so that the finest unit is a whole number of words below the others.
    let (x, y) = (x * y, products * BigInt::from(count));
    let least = unit.min(exponent + other);
    let spread = (y << (unit - least)) - (x << (exponent + other - least));
    nearest(&spread, least) / count as f64
}

/// Returns DataFusion's own accumulator of a function of floats.
pub(super) fn rounding_accumulator(
    of: &AggregateUDF,
    arguments: usize,
) -> Result<Box<dyn Accumulator>> {
    let field = |at: usize| Arc::new(Field::new(format!("x{at}"), DataType::Float64, true));
    let fields: Vec<_> = (0..arguments).map(field).collect();
    let schema = Schema::new(fields.clone());
    let column =
        |at: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(&format!("x{at}"), at)) };
    let columns: Vec<_> = (0..arguments).map(column).collect();
    of.accumulator(AccumulatorArgs {
        return_field: Arc::new(Field::new("result", DataType::Float64, true)),
        schema: &schema,
        ignore_nulls: false,
        order_bys: &[],
        is_reversed: false,
        name: of.name(),
        is_distinct: false,
        exprs: &columns,
        expr_fields: &fields,
    })
}

/// Returns values as doubles.
fn doubles(values: &[ArrayRef]) -> Result<Vec<Float64Array>> {
    values
        .iter()
        .map(|values| {
            let doubles = cast(values, &DataType::Float64)?;
            Ok(doubles.as_primitive::<Float64Type>().clone())
        })
        .collect()
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        let values = doubles(values)?;
        let columns: Vec<&Float64Array> = values.iter().collect();
        let counts = &mut self.counts;
        match (&mut self.sums[..], &columns[..]) {
            ([sums], [_]) => {
                accumulate_multiple(
                    group_indices,
                    &columns,
                    opt_filter,
                    |group, row, columns| {
                        counts[group] += 1;
                        sums.add(group, columns[0].value(row));
                    },
                );
            }
            ([x, xx], [_]) => {
                accumulate_multiple(
                    group_indices,
                    &columns,
                    opt_filter,
                    |group, row, columns| {
                        let value = columns[0].value(row);
                        counts[group] += 1;
                        x.add(group, value);
                        xx.add_product(group, value, value);
                    },
                );
            }
            ([x, y, xx, yy, xy], [_, _]) => {
                accumulate_multiple(
                    group_indices,
                    &columns,
                    opt_filter,
                    |group, row, columns| {
                        let (one, other) = (columns[0].value(row), columns[1].value(row));
                        counts[group] += 1;
                        x.add(group, one);
                        y.add(group, other);
                        xx.add_product(group, one, one);
                        yy.add_product(group, other, other);
                        xy.add_product(group, one, other);
                    },
                );
            }
            (sums, columns) => {
                return exec_err!("{} sums of {} columns", sums.len(), columns.len());
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.take(emit_to).results()
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(self.take(emit_to).states())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        let Some((counts, sums)) = states.split_first() else {
            return exec_err!("a state of exact sums has no columns");
        };
        let counts = counts.as_primitive::<UInt64Type>();
        let sums: Vec<&BinaryArray> = sums.iter().map(|sums| sums.as_binary()).collect();
        for (row, group) in group_indices.iter().enumerate() {
            if counts.is_null(row) {
                continue;
            }
            self.counts[*group] += counts.value(row);
            for (to, from) in self.sums.iter_mut().zip(&sums) {
                to.merge(*group, from.value(row))?;
            }
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let mut each = Self::new(Arc::clone(&self.of), self.what);
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, opt_filter, rows)?;
        Ok(each.states())
    }

    fn size(&self) -> usize {
        let sums: usize = self.sums.iter().map(ExactSums::size).sum();
        sums + size_of::<u64>() * self.counts.capacity()
    }
}

/// The sums of one group.
#[derive(Debug)]
pub(super) struct OneGroup(Groups);

impl OneGroup {
    pub(super) fn of(mut groups: Groups) -> Self {
        groups.resize(1);
        Self(groups)
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.0.update_batch(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |states| states.len());
        self.0.merge_batch(states, &vec![0; rows], 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.0.states();
        states
            .iter()
            .map(|state| ScalarValue::try_from_array(state, 0))
            .collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.0.results()?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}
