//! `var_pop`, `covar_samp`, `corr`, `regr_slope` and their kin, from moments: counts, means, and sums of the products of
//! distances from the means.
//!
//! DataFusion's grouped `corr` subtracts products of sums, which cancels far from zero, and what it merges moments by
//! moves the mean of equal values, and makes NaN of large values and a state without rows. Here rows are added by
//! Welford's method, and states by that of Chan, Golub and LeVeque, with a distance of the means that is 0 where they are
//! equal. States have the columns of DataFusion's accumulators of one group, whether there are groups or not, so that they
//! are exchanged with row programs. All else is DataFusion's own.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::regr;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator,
    Signature,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::accumulate_multiple;

/// What is told of moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    CovarPop,
    CovarSamp,
    Corr,
    Slope,
    Intercept,
    R2,
    AvgX,
    AvgY,
    Sxx,
    Syy,
    Sxy,
}

/// The functions.
static FUNCTIONS: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
    [
        (var_pop_udaf(), Told::VarPop),
        (var_samp_udaf(), Told::VarSamp),
        (stddev_pop_udaf(), Told::StddevPop),
        (stddev_udaf(), Told::StddevSamp),
        (covar_pop_udaf(), Told::CovarPop),
        (covar_samp_udaf(), Told::CovarSamp),
        (corr_udaf(), Told::Corr),
        (regr::regr_slope_udaf(), Told::Slope),
        (regr::regr_intercept_udaf(), Told::Intercept),
        (regr::regr_r2_udaf(), Told::R2),
        (regr::regr_avgx_udaf(), Told::AvgX),
        (regr::regr_avgy_udaf(), Told::AvgY),
        (regr::regr_sxx_udaf(), Told::Sxx),
        (regr::regr_syy_udaf(), Told::Syy),
        (regr::regr_sxy_udaf(), Told::Sxy),
    ]
    .map(|(of, told)| Arc::new(AggregateUDF::from(OfMoments { of, told })))
    .into()
});

/// Returns the functions, which stand in the place of DataFusion's.
pub(crate) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    FUNCTIONS.iter().map(Arc::clone)
}

/// Returns DataFusion's function in whose place one of these stands.
pub(crate) fn of_datafusion(function: &AggregateUDF) -> Option<&Arc<AggregateUDF>> {
    let own = function.inner().downcast_ref::<OfMoments>()?;
    Some(&own.of)
}

/// Returns the function that stands in the place of DataFusion's, or that one itself.
pub(super) fn in_place_of(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let is_it = |own: &&Arc<AggregateUDF>| of_datafusion(own) == Some(function);
    Arc::clone(FUNCTIONS.iter().find(is_it).unwrap_or(function))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfMoments {
    of: Arc<AggregateUDF>,
    told: Told,
}

impl AggregateUDFImpl for OfMoments {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.of.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.of.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return self.of.accumulator(args);
        }
        Ok(Box::new(OneGroup {
            told: self.told,
            moments: Moments::default(),
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct || self.of.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if args.is_distinct {
            return self.of.create_groups_accumulator(args);
        }
        Ok(Box::new(Groups {
            told: self.told,
            moments: Vec::new(),
        }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }
}

/// Which of the moments.
#[derive(Clone, Copy, Debug)]
enum Part {
    MeanX,
    MeanY,
    /// The sum of the squared distances of x from its mean.
    Sxx,
    Syy,
    /// The sum of the products of the distances.
    Sxy,
}

/// The moments of pairs; of single values, those of pairs of each with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    count: u64,
    /// By [`Part`].
    parts: [f64; 5],
}

impl Moments {
    fn of(&self, part: Part) -> f64 {
        self.parts[part as usize]
    }

    /// Adds a pair by Welford's method.
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        let count = self.count as f64;
        let [mean_x, mean_y, sxx, syy, sxy] = &mut self.parts;
        let (before_x, before_y) = (x - *mean_x, y - *mean_y);
        *mean_x += before_x / count;
        *mean_y += before_y / count;
        let (after_x, after_y) = (x - *mean_x, y - *mean_y);
        *sxx += before_x * after_x;
        *syy += before_y * after_y;
        *sxy += before_x * after_y;
    }

    /// Adds others by the method of Chan, Golub and LeVeque.
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let both = (self.count + other.count) as f64;
        let share = other.count as f64 / both;
        let weight = share * self.count as f64;
        let between_x = other.of(Part::MeanX) - self.of(Part::MeanX);
        let between_y = other.of(Part::MeanY) - self.of(Part::MeanY);
        self.count += other.count;
        let [mean_x, mean_y, sxx, syy, sxy] = &mut self.parts;
        *mean_x += between_x * share;
        *mean_y += between_y * share;
        *sxx += other.of(Part::Sxx) + between_x * between_x * weight;
        *syy += other.of(Part::Syy) + between_y * between_y * weight;
        *sxy += other.of(Part::Sxy) + between_x * between_y * weight;
    }

    /// Divides by the count, or by one less; `None` without a divisor.
    fn per(&self, part: Part, fewer: u64) -> Option<f64> {
        let divisor = self.count.checked_sub(fewer).filter(|count| *count > 0)?;
        Some(self.of(part) / divisor as f64)
    }
}

impl Told {
    /// Returns the columns of a state behind the count.
    fn layout(self) -> &'static [Part] {
        match self {
            Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp => {
                &[Part::MeanX, Part::Sxx]
            }
            Self::CovarPop | Self::CovarSamp => &[Part::MeanX, Part::MeanY, Part::Sxy],
            Self::Corr => &[Part::MeanX, Part::Sxx, Part::MeanY, Part::Syy, Part::Sxy],
            _ => &[Part::MeanX, Part::MeanY, Part::Sxx, Part::Syy, Part::Sxy],
        }
    }

    /// Returns x and y of the arguments. Regressions take y first.
    fn pairs(self, arguments: &[ArrayRef]) -> Result<[&Float64Array; 2]> {
        let (x, y) = match (self, arguments) {
            (_, [x]) => (x, x),
            (Self::CovarPop | Self::CovarSamp | Self::Corr, [x, y]) | (_, [y, x]) => (x, y),
            _ => return exec_err!("moments of {} arguments", arguments.len()),
        };
        Ok([doubles(x)?, doubles(y)?])
    }

    /// Reads the states of a batch.
    fn states(self, columns: &[ArrayRef]) -> Result<Vec<Moments>> {
        let layout = self.layout();
        let Some((counts, parts)) = columns.split_first() else {
            return exec_err!("a state of moments has no column");
        };
        let Some(counts) = counts.as_primitive_opt::<UInt64Type>() else {
            return exec_err!("a state of moments counts in {}", counts.data_type());
        };
        if parts.len() != layout.len() {
            return exec_err!("a state of moments has {} columns", columns.len());
        }
        let counts = (0..counts.len()).map(|row| match counts.is_valid(row) {
            true => counts.value(row),
            false => 0,
        });
        let mut states: Vec<Moments> = counts
            .map(|count| Moments {
                count,
                ..Moments::default()
            })
            .collect();
        for (part, values) in layout.iter().zip(parts) {
            for (state, value) in states.iter_mut().zip(doubles(values)?.values().iter()) {
                state.parts[*part as usize] = *value;
            }
        }
        Ok(states)
    }

    /// Makes the columns of states.
    fn columns(self, states: &[Moments]) -> Vec<ArrayRef> {
        let counts = states.iter().map(|state| state.count);
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts));
        let parts = self.layout().iter().map(|part| -> ArrayRef {
            let values = states.iter().map(|state| state.of(*part));
            Arc::new(Float64Array::from_iter_values(values))
        });
        std::iter::once(counts).chain(parts).collect()
    }

    /// Returns what is told; `None` for NULL.
    fn result(self, moments: &Moments) -> Option<f64> {
        let are_several = moments.count > 1;
        let per_pair = |part| moments.of(part) / moments.count as f64;
        let slope = || {
            let spread = per_pair(Part::Sxx);
            (are_several && spread != 0.0).then(|| per_pair(Part::Sxy) / spread)
        };
        let if_any = |part| (moments.count > 0).then(|| moments.of(part));
        match self {
            Self::VarPop => moments.per(Part::Sxx, 0),
            Self::VarSamp => moments.per(Part::Sxx, 1),
            Self::StddevPop => moments.per(Part::Sxx, 0).map(f64::sqrt),
            Self::StddevSamp => moments.per(Part::Sxx, 1).map(f64::sqrt),
            Self::CovarPop => moments.per(Part::Sxy, 0),
            Self::CovarSamp => moments.per(Part::Sxy, 1),
            Self::Corr => {
                let (x, y) = (moments.of(Part::MeanX), moments.of(Part::MeanY));
                if x.is_nan() && y.is_nan() {
                    return Some(f64::NAN);
                }
                let spreads = [Part::Sxx, Part::Syy].map(|part| per_pair(part).sqrt());
                let is_known = are_several && !x.is_nan() && !y.is_nan() && !spreads.contains(&0.0);
                is_known.then(|| per_pair(Part::Sxy) / spreads[0] / spreads[1])
            }
            Self::Slope => slope(),
            Self::Intercept => {
                slope().map(|slope| moments.of(Part::MeanY) - slope * moments.of(Part::MeanX))
            }
            Self::R2 => {
                let [x, y, both] = [Part::Sxx, Part::Syy, Part::Sxy].map(per_pair);
                (are_several && x != 0.0 && y != 0.0).then(|| both * both / (x * y))
            }
            Self::AvgX => if_any(Part::MeanX),
            Self::AvgY => if_any(Part::MeanY),
            Self::Sxx => if_any(Part::Sxx),
            Self::Syy => if_any(Part::Syy),
            Self::Sxy => if_any(Part::Sxy),
        }
    }
}

fn doubles(column: &ArrayRef) -> Result<&Float64Array> {
    match column.as_primitive_opt::<Float64Type>() {
        Some(doubles) => Ok(doubles),
        None => exec_err!("moments of {}", column.data_type()),
    }
}

#[derive(Debug)]
struct OneGroup {
    told: Told,
    moments: Moments,
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [x, y] = self.told.pairs(values)?;
        for pair in x.iter().zip(y.iter()) {
            if let (Some(x), Some(y)) = pair {
                self.moments.add(x, y);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = self.told.states(states)?;
        states.iter().for_each(|state| self.moments.merge(state));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let parts = self.told.layout().iter();
        let parts = parts.map(|part| ScalarValue::from(self.moments.of(*part)));
        Ok(std::iter::once(ScalarValue::from(self.moments.count))
            .chain(parts)
            .collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // As in DataFusion, a single infinity has variance 0 where there are no groups.
        let is_single = self.moments.count == 1;
        let value = match self.told {
            Told::VarPop | Told::StddevPop if is_single => Some(0.0),
            told => told.result(&self.moments),
        };
        Ok(ScalarValue::Float64(value))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug)]
struct Groups {
    told: Told,
    moments: Vec<Moments>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        num_groups: usize,
    ) -> Result<()> {
        self.moments.resize(num_groups, Moments::default());
        let pairs = self.told.pairs(values)?;
        let moments = &mut self.moments;
        accumulate_multiple(groups, &pairs[..], filter, |group, row, pairs| {
            moments[group].add(pairs[0].value(row), pairs[1].value(row));
        });
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        num_groups: usize,
    ) -> Result<()> {
        self.moments.resize(num_groups, Moments::default());
        let states = self.told.states(states)?;
        for (group, state) in groups.iter().zip(&states) {
            self.moments[*group].merge(state);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let moments = emit_to.take_needed(&mut self.moments);
        let results = moments.iter().map(|moments| self.told.result(moments));
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let moments = emit_to.take_needed(&mut self.moments);
        Ok(self.told.columns(&moments))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let pairs = self.told.pairs(values)?;
        let rows: Vec<usize> = (0..pairs[0].len()).collect();
        let mut states = vec![Moments::default(); rows.len()];
        accumulate_multiple(&rows, &pairs[..], filter, |state, row, pairs| {
            states[state].add(pairs[0].value(row), pairs[1].value(row));
        });
        Ok(self.told.columns(&states))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.moments.capacity() * size_of::<Moments>()
    }
}

#[cfg(test)]
mod tests {
    use super::{Moments, Told};

    fn of(pairs: &[(f64, f64)]) -> Moments {
        let mut moments = Moments::default();
        pairs.iter().for_each(|(x, y)| moments.add(*x, *y));
        moments
    }

    #[test]
    fn moments_are_merged_without_cancellation() {
        let far = 1.7e9;
        let pairs = [(1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (9.0, 7.0)].map(|(x, y)| (far + x, y));
        for split in 0..=pairs.len() {
            let (before, after) = pairs.split_at(split);
            let mut both = of(before);
            both.merge(&of(after));
            let seen = Told::Corr.result(&both).unwrap();
            assert!((seen - 0.930_675_222_406).abs() < 1e-7, "{split}: {seen}");
        }
    }

    #[test]
    fn equal_values_do_not_vary_and_large_ones_are_no_nan() {
        for value in [0.7, 1e200] {
            let mut all = Moments::default();
            for rows in [0, 1, 2, 0, 3] {
                all.merge(&of(&vec![(value, value); rows]));
            }
            assert_eq!(Told::VarPop.result(&all), Some(0.0), "{value}");
            assert_eq!(Told::StddevSamp.result(&all), Some(0.0), "{value}");
            assert_eq!(Told::Corr.result(&all), None, "{value}");
        }
    }
}
