//! `avg`, `median` and `percentile_cont` of dates and times, which DataFusion's do not take: a timestamp of dates, else
//! what they are given, as in DuckDB.
//!
//! The name of each has an [`EitherMean`], by which calls are planned. Behind the planner they become DataFusion's
//! function, or [`OfTimes`] ([`decided`]), so that what knows DataFusion's functions finds them. Times are added up, and
//! compared, as whole numbers of their unit.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, ListArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, TimeUnit, UInt64Type,
};
use datafusion::common::types::{NativeType, logical_date, logical_float64};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator,
    Signature, TypeSignature, TypeSignatureClass,
};

use super::percentile;

/// The digits of a sum of whole numbers.
const SUM: DataType = DataType::Decimal128(38, 0);

/// What is told of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Mean,
    Median,
    Percentile,
}

/// The functions by their names, and those of times.
static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 3]> = LazyLock::new(|| {
    [
        (avg_udaf(), Told::Mean),
        (median_udaf(), Told::Median),
        (Arc::new(percentile::function()), Told::Percentile),
    ]
    .map(|(of_numbers, told)| {
        let signature = signature(&of_numbers, told);
        let of_times = AggregateUDF::from(OfTimes {
            name: format!("{}_of_times", of_numbers.name()),
            told,
            signature: signature.clone(),
        });
        Arc::new(AggregateUDF::from(EitherMean {
            of_numbers,
            of_times: Arc::new(of_times),
            signature,
        }))
    })
});

/// Returns the functions, which stand in the place of those of their names.
pub(crate) fn functions() -> impl Iterator<Item = AggregateUDF> {
    FUNCTIONS.iter().map(|function| function.as_ref().clone())
}

/// Returns what calls of the functions become.
pub(crate) fn behind_planner() -> impl Iterator<Item = Arc<AggregateUDF>> {
    let known = FUNCTIONS
        .iter()
        .filter_map(|function| function.inner().downcast_ref::<EitherMean>());
    known.flat_map(|mean| [Arc::clone(&mean.of_numbers), Arc::clone(&mean.of_times)])
}

/// Returns the function of times for summaries.
pub(crate) fn mean_of_times() -> Arc<AggregateUDF> {
    let [mean, ..] = &*FUNCTIONS;
    Arc::clone(mean)
}

/// Tells whether a function is such.
pub(crate) fn is_either(function: &AggregateUDF) -> bool {
    function.inner().is::<EitherMean>()
}

/// Returns the function that a call of values of a type is of; `None` of another function.
pub(crate) fn decided(function: &AggregateUDF, of: &DataType) -> Option<Arc<AggregateUDF>> {
    let mean = function.inner().downcast_ref::<EitherMean>()?;
    Some(Arc::clone(mean.function(of)))
}

/// Adds times to what a function of numbers takes.
fn signature(of_numbers: &AggregateUDF, told: Told) -> Signature {
    let own = of_numbers.signature();
    let mut all = match &own.type_signature {
        TypeSignature::OneOf(all) => all.clone(),
        one => vec![one.clone()],
    };
    let share = Coercion::new_implicit(
        TypeSignatureClass::Native(logical_float64()),
        vec![TypeSignatureClass::Numeric],
        NativeType::Float64,
    );
    let times = [
        TypeSignatureClass::Timestamp,
        TypeSignatureClass::Native(logical_date()),
        TypeSignatureClass::Time,
    ];
    all.extend(times.map(|times| {
        let of_times = Coercion::new_exact(times);
        TypeSignature::Coercible(match told {
            Told::Percentile => vec![of_times, share.clone()],
            Told::Mean | Told::Median => vec![of_times],
        })
    }));
    Signature::one_of(all, own.volatility)
}

/// Returns the type of a mean of times; `None` of what is none.
pub(crate) fn mean_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Timestamp(..) | DataType::Time64(_) => Some(of.clone()),
        DataType::Date32 | DataType::Date64 => {
            Some(DataType::Timestamp(TimeUnit::Nanosecond, None))
        }
        DataType::Time32(_) => Some(DataType::Time64(TimeUnit::Nanosecond)),
        _ => None,
    }
}

/// A function of numbers or times.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EitherMean {
    of_numbers: Arc<AggregateUDF>,
    of_times: Arc<AggregateUDF>,
    signature: Signature,
}

impl EitherMean {
    fn function(&self, of: &DataType) -> &Arc<AggregateUDF> {
        match mean_type(of) {
            Some(_) => &self.of_times,
            None => &self.of_numbers,
        }
    }

    /// Returns the function of some arguments.
    fn of(&self, fields: &[FieldRef]) -> &Arc<AggregateUDF> {
        let of = fields.first().map(|field| field.data_type());
        self.function(of.unwrap_or(&DataType::Null))
    }
}

impl AggregateUDFImpl for EitherMean {
    fn name(&self) -> &str {
        self.of_numbers.name()
    }

    fn aliases(&self) -> &[String] {
        self.of_numbers.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let of = arguments.first().unwrap_or(&DataType::Null);
        self.function(of).return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.of(args.input_fields).state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.of(args.expr_fields).accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        self.of(args.expr_fields).create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.of(args.expr_fields).groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.of(args.expr_fields).create_groups_accumulator(args)
    }

    fn supports_within_group_clause(&self) -> bool {
        self.of_numbers.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of_numbers.documentation()
    }
}

/// A function of times.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfTimes {
    name: String,
    told: Told,
    signature: Signature,
}

impl OfTimes {
    /// Returns whether values are added up, and not kept.
    fn adds_up(&self, is_distinct: bool) -> bool {
        self.told == Told::Mean && !is_distinct
    }
}

impl AggregateUDFImpl for OfTimes {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first().and_then(mean_type) {
            Some(mean) => Ok(mean),
            None => plan_err!("{} takes times", self.name),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        self.told == Told::Percentile
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name, data_type| -> FieldRef {
            let name = format_state_name(args.name, name);
            Arc::new(Field::new(name, data_type, true))
        };
        Ok(match self.adds_up(args.is_distinct) {
            true => vec![field("count", DataType::UInt64), field("sum", SUM)],
            false => vec![field("values", DataType::new_list(DataType::Int64, true))],
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mean_type = args.return_field.data_type().clone();
        if self.adds_up(args.is_distinct) {
            return Ok(Box::new(Sum {
                mean_type,
                count: 0,
                sum: 0,
            }));
        }
        let share = match self.told {
            Told::Mean => None,
            Told::Median => Some(0.5),
            Told::Percentile => match percentile::share(&args) {
                Some(share) if (0.0..=1.0).contains(&share) => Some(share),
                _ => return plan_err!("the share of percentile_cont is a constant from 0 to 1"),
            },
        };
        Ok(Box::new(Values {
            mean_type,
            share,
            is_distinct: args.is_distinct,
            values: Vec::new(),
        }))
    }
}

/// Returns times as whole numbers of the unit of their mean.
fn ticks(times: &ArrayRef, mean_type: &DataType) -> Result<Int64Array> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let times = cast_with_options(times, mean_type, &options)?;
    let ticks = cast_with_options(&times, &DataType::Int64, &options)?;
    Ok(ticks.as_primitive::<Int64Type>().clone())
}

fn time(ticks: Option<i64>, mean_type: &DataType) -> Result<ScalarValue> {
    ScalarValue::Int64(ticks).cast_to(mean_type)
}

/// Divides towards zero, as DuckDB does.
fn mean(sum: i128, count: u64) -> Option<i64> {
    let mean = sum.checked_div(i128::from(count))?;
    i64::try_from(mean).ok()
}

/// Adds times up.
#[derive(Debug)]
struct Sum {
    mean_type: DataType,
    count: u64,
    sum: i128,
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(times) = values.first() else {
            return exec_err!("a mean of no argument");
        };
        for ticks in ticks(times, &self.mean_type)?.iter().flatten() {
            self.count += 1;
            self.sum += i128::from(ticks);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(times) = values.first() else {
            return exec_err!("a mean of no argument");
        };
        for ticks in ticks(times, &self.mean_type)?.iter().flatten() {
            self.count -= 1;
            self.sum -= i128::from(ticks);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums] = states else {
            return exec_err!("a state of a mean has {} columns", states.len());
        };
        let counts = counts.as_primitive::<UInt64Type>().iter();
        let sums = sums.as_primitive::<Decimal128Type>().iter();
        for (count, sum) in counts.zip(sums) {
            self.count += count.unwrap_or(0);
            self.sum += sum.unwrap_or(0);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::UInt64(Some(self.count)),
            ScalarValue::Decimal128(Some(self.sum), 38, 0),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        time(mean(self.sum, self.count), &self.mean_type)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Keeps times.
#[derive(Debug)]
struct Values {
    mean_type: DataType,
    /// Which share of the times is below what is told; `None` for their mean.
    share: Option<f64>,
    is_distinct: bool,
    values: Vec<i64>,
}

impl Values {
    /// Returns the time below which a share of them is, between two in proportion; NULL of none.
    fn percentile(values: &mut [i64], share: f64) -> Option<i64> {
        let last = values.len().checked_sub(1)?;
        let place = last as f64 * share;
        let below = (place.floor() as usize).min(last);
        let (_, lower, above) = values.select_nth_unstable(below);
        let lower = *lower;
        let upper = above.iter().min().copied().unwrap_or(lower);
        let width = i128::from(upper) - i128::from(lower);
        let more = (width as f64 * (place - below as f64)).round() as i128;
        i64::try_from(i128::from(lower) + more).ok()
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(times) = values.first() else {
            return exec_err!("a percentile of no argument");
        };
        let ticks = ticks(times, &self.mean_type)?;
        self.values.extend(ticks.iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
            return exec_err!("the state of a percentile is a list");
        };
        for list in lists.iter().flatten() {
            let values = list.as_primitive::<Int64Type>().iter();
            self.values.extend(values.flatten());
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values.iter().copied().map(Some);
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(values)]);
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.is_distinct {
            self.values.sort_unstable();
            self.values.dedup();
        }
        let told = match self.share {
            Some(share) => Self::percentile(&mut self.values, share),
            None => {
                let sum = self.values.iter().map(|value| i128::from(*value)).sum();
                mean(sum, self.values.len() as u64)
            }
        };
        time(told, &self.mean_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use super::{Values, mean};

    #[test]
    fn a_percentile_of_times_is_exact() {
        let now = 1_704_067_200_000_000_001;
        let of = |values: &[i64], share| Values::percentile(&mut values.to_vec(), share);
        assert_eq!(of(&[], 0.5), None);
        assert_eq!(of(&[now], 0.9), Some(now));
        assert_eq!(of(&[now + 4, now], 0.5), Some(now + 2));
        assert_eq!(of(&[i64::MIN, i64::MAX], 1.0), Some(i64::MAX));
    }

    #[test]
    fn a_mean_is_rounded_towards_zero() {
        assert_eq!(mean(0, 0), None);
        assert_eq!([mean(3, 2), mean(-3, 2)], [Some(1), Some(-1)]);
        assert_eq!(mean(2 * i128::from(i64::MAX), 2), Some(i64::MAX));
    }
}
