//! Aggregates of floats from exact sums: the same bits in whatever order values come, and however they were
//! shared out over threads and executors.
//!
//! `exact_sum`, `exact_avg`, `exact_stddev` and so on answer as `sum`, `avg` and `stddev` do. Their state is the
//! number of values and exact sums of values, of their squares and of their products ([`sums`]), as bytes. At
//! the end means, and n·Σx² − (Σx)² and the like, are formed exactly and rounded once, so that nothing cancels;
//! DataFusion's function then makes its result of them, as if they were the one partial state that it is given.
//!
//! Under `tidegate.float_sums = 'ordered'` they take the places of the functions that round
//! ([`replacement`]), but where a device promises the same.

mod groups;
mod sums;

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{not_impl_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::regr;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature,
};

use super::spreads;
use groups::{Groups, OneGroup};

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sums {
    /// Values, for their sum.
    Sum,
    /// Values, for their average.
    Average,
    /// Values and their squares.
    Squares,
    /// Both values of pairs, their squares, and their products.
    Products,
}

impl Sums {
    /// The names of the sums in a state.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Sum | Self::Average => &["x"],
            Self::Squares => &["x", "xx"],
            Self::Products => &["x", "y", "xx", "yy", "xy"],
        }
    }

    /// How many arguments there are.
    fn arguments(self) -> usize {
        match self {
            Self::Products => 2,
            Self::Sum | Self::Average | Self::Squares => 1,
        }
    }
}

/// The functions, each with the one that it answers like.
static FUNCTIONS: LazyLock<Vec<(Arc<AggregateUDF>, Arc<AggregateUDF>)>> = LazyLock::new(|| {
    let of = |sums, aliases: &'static [&'static str]| {
        move |of: Arc<AggregateUDF>| {
            let exact = AggregateUDF::from(Exact::new(spreads::in_place_of(&of), sums));
            (of, Arc::new(exact.with_aliases(aliases.iter().copied())))
        }
    };
    let squares = [
        var_samp_udaf(),
        var_pop_udaf(),
        stddev_udaf(),
        stddev_pop_udaf(),
    ];
    let products = [
        corr_udaf(),
        covar_samp_udaf(),
        covar_pop_udaf(),
        regr::regr_slope_udaf(),
        regr::regr_intercept_udaf(),
        regr::regr_r2_udaf(),
        regr::regr_avgx_udaf(),
        regr::regr_avgy_udaf(),
        regr::regr_sxx_udaf(),
        regr::regr_syy_udaf(),
        regr::regr_sxy_udaf(),
    ];
    let names_of_sum = &["fsum", "kahan_sum", "sumkahan"];
    [of(Sums::Sum, names_of_sum)(sum_udaf())]
        .into_iter()
        .chain([of(Sums::Average, &["favg"])(avg_udaf())])
        .chain(squares.map(of(Sums::Squares, &[])))
        .chain(products.map(of(Sums::Products, &[])))
        .collect()
});

/// Returns the functions.
pub(crate) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    FUNCTIONS.iter().map(|(_, exact)| Arc::clone(exact))
}

/// Returns the function that answers like another, from exact sums.
pub(crate) fn replacement(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    let function = spreads::of_datafusion(function).map_or(function, Arc::as_ref);
    let mut functions = FUNCTIONS.iter();
    let (_, exact) = functions.find(|(of, _)| of.as_ref() == function)?;
    Some(Arc::clone(exact))
}

/// A function that answers like another.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    of: Arc<AggregateUDF>,
    sums: Sums,
    name: String,
    signature: Signature,
    documentation: Documentation,
}

impl Exact {
    fn new(of: Arc<AggregateUDF>, sums: Sums) -> Self {
        let arguments = match sums {
            Sums::Products => "(y, x)",
            _ => "(x)",
        };
        let name = format!("exact_{}", of.name());
        let description = format!(
            "Returns the same as {}{arguments} of floats, from sums that are exact until they are read: the \
             bits do not depend on the order of rows.",
            of.name()
        );
        let call = format!("{name}{arguments}");
        Self {
            signature: Signature::user_defined(of.signature().volatility),
            documentation: Documentation::builder(DOC_SECTION_STATISTICAL, description, call)
                .build(),
            name,
            of,
            sums,
        }
    }
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let takes = |given: &DataType| given.is_numeric() || given.is_null();
        if given.len() != self.sums.arguments() || !given.iter().all(takes) {
            return plan_err!(
                "{} takes {} as numbers",
                self.name,
                match self.sums.arguments() {
                    1 => "one argument",
                    _ => "two arguments",
                }
            );
        }
        Ok(vec![DataType::Float64; given.len()])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name, data_type| {
            let name = format_state_name(args.name, name);
            Arc::new(Field::new(name, data_type, true))
        };
        let sums = self.sums.names().iter();
        let sums = sums.map(|name| field(name, DataType::Binary));
        Ok([field("count", DataType::UInt64)]
            .into_iter()
            .chain(sums)
            .collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT …)", self.name);
        }
        Ok(Box::new(OneGroup::of(Groups::new(
            Arc::clone(&self.of),
            self.sums,
        ))))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(Arc::clone(&self.of), self.sums)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

#[cfg(test)]
mod tests;
