//! `min` and `max` of floats, grouped, and of lists, structs and maps.
//!
//! DataFusion's grouped accumulators compare floats by `PartialOrd`, so that a NaN makes the answer
//! depend on the order of rows, and begin at the largest and smallest finite number, which is then
//! the answer for a group of nothing but infinities
//! (<https://github.com/apache/datafusion/issues/24432>). These begin beyond every value and compare
//! by total order; their arguments are canonical, so that this is the order of SQL. The state is one
//! value, as DataFusion's is. Lists, structs and maps have accumulators of their own everywhere ([`nested_extremes`]).
//! All else, windows of floats included, is DataFusion's own.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::ArrowNativeTypeOp;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type,
};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{Max, Min, max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use crate::functions::nested_extremes;
use crate::functions::nested_text::is_nested;

static MIN: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| FloatExtreme::function(min_udaf()));
static MAX: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| FloatExtreme::function(max_udaf()));

/// Returns the function that takes the place of DataFusion's `min` or `max` of a float, a list, a struct or a map.
pub(crate) fn replacement(function: &AggregateUDF) -> Option<&'static Arc<AggregateUDF>> {
    if function.inner().is::<Min>() {
        Some(&MIN)
    } else if function.inner().is::<Max>() {
        Some(&MAX)
    } else {
        None
    }
}

/// Returns whether a function is this `max` (`true`), this `min` (`false`) or neither.
pub(crate) fn is_greatest(function: &AggregateUDF) -> Option<bool> {
    let extreme = function.inner().downcast_ref::<FloatExtreme>()?;
    Some(extreme.is_greatest())
}

/// Returns `min` and `max` that are these of floats, lists, structs and maps, and DataFusion's of all else: plans that
/// another process sends name no more than the function.
pub(crate) fn both() -> [Arc<AggregateUDF>; 2] {
    [Arc::clone(&MIN), Arc::clone(&MAX)]
}

/// DataFusion's function with other accumulators for groups of floats, and for lists, structs and maps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatExtreme {
    of: Arc<AggregateUDF>,
}

impl FloatExtreme {
    fn function(of: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Self { of }))
    }

    fn is_greatest(&self) -> bool {
        self.of.inner().is::<Max>()
    }
}

impl AggregateUDFImpl for FloatExtreme {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.of.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.of.coerce_types(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            of if is_nested(of) => nested_extremes::accumulator(of, self.is_greatest()),
            _ => self.of.accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            of if is_nested(of) => nested_extremes::sliding(of, self.is_greatest()),
            _ => self.of.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match args.return_field.data_type() {
            of if is_nested(of) => false,
            of => of.is_floating() || self.of.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let greatest = self.is_greatest();
        match args.return_field.data_type() {
            DataType::Float16 => Ok(accumulator::<Float16Type>(greatest)),
            DataType::Float32 => Ok(accumulator::<Float32Type>(greatest)),
            DataType::Float64 => Ok(accumulator::<Float64Type>(greatest)),
            _ => self.of.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        Some(self.is_greatest())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.of.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.of.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }
}

fn accumulator<T>(greatest: bool) -> Box<dyn GroupsAccumulator>
where
    T: ArrowPrimitiveType + Send,
{
    // Two closures rather than one that asks, for each is called for every row.
    let data_type = &T::DATA_TYPE;
    if greatest {
        let keep = |kept: &mut T::Native, value: T::Native| {
            if value.is_gt(*kept) {
                *kept = value;
            }
        };
        let accumulator = PrimitiveGroupsAccumulator::<T, _>::new(data_type, keep);
        Box::new(accumulator.with_starting_value(T::Native::MIN_TOTAL_ORDER))
    } else {
        let keep = |kept: &mut T::Native, value: T::Native| {
            if value.is_lt(*kept) {
                *kept = value;
            }
        };
        let accumulator = PrimitiveGroupsAccumulator::<T, _>::new(data_type, keep);
        Box::new(accumulator.with_starting_value(T::Native::MAX_TOTAL_ORDER))
    }
}
