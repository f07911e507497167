//! Aggregates of linear algebra: `gram`, `svd` and `linear_regression`.
//!
//! Rows are rows of a matrix, arguments its columns. What a group keeps of them is a triangle of k × k values,
//! which merges, so that these run over partitions, groups and executors as `sum` does. Rows in which an argument
//! is NULL are left out.

mod accumulator;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, Documentation};

use super::aggregate::{self, Aggregate};
use super::takes;
use accumulator::LinearAccumulator;

/// Columns at the most: a group keeps half their square in values.
const COLUMNS_MAX: usize = 256;

/// Adds the functions.
pub(crate) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for kind in [Kind::Gram, Kind::Svd, Kind::Regression] {
        registry.register_udaf(Arc::new(aggregate::function(kind)))?;
    }
    Ok(())
}

/// Tells whether a function is one of these, all of which round what they add up.
pub(crate) fn is_linear(function: &AggregateUDF) -> bool {
    function.inner().is::<Aggregate<Kind>>()
}

/// What is made of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The products of the columns.
    Gram,
    /// Singular values and right singular vectors.
    Svd,
    /// The least squares of the first argument by the others.
    Regression,
}

impl Kind {
    fn syntax(self) -> &'static str {
        match self {
            Self::Gram => "gram(x1, x2, …)",
            Self::Svd => "svd(x1, x2, …)",
            Self::Regression => "linear_regression(y, x1, x2, …)",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Gram => {
                "Returns the products of each two columns, summed over rows, as a list of rows."
            }
            Self::Svd => {
                "Returns singular values, largest first, as `s`, and the right singular vector of each as `v`."
            }
            Self::Regression => {
                "Fits y by a linear combination of columns: coefficients, intercept, r2 and n, the number of \
                 rows. A column that is constant, or a combination of those before it, has the coefficient NULL."
            }
        }
    }

    fn arguments_min(self) -> usize {
        match self {
            Self::Gram | Self::Svd => 1,
            Self::Regression => 2,
        }
    }

    fn returned(self) -> DataType {
        match self {
            Self::Gram => list(list(DataType::Float64)),
            Self::Svd => DataType::Struct(Fields::from(vec![
                Field::new("s", list(DataType::Float64), true),
                Field::new("v", list(list(DataType::Float64)), true),
            ])),
            Self::Regression => DataType::Struct(Fields::from(vec![
                Field::new("coefficients", list(DataType::Float64), true),
                Field::new("intercept", DataType::Float64, true),
                Field::new("r2", DataType::Float64, true),
                Field::new("n", DataType::Int64, true),
            ])),
        }
    }
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

impl aggregate::Kind for Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gram => "gram",
            Self::Svd => "svd",
            Self::Regression => "linear_regression",
        }
    }

    fn documentation(self) -> Documentation {
        let (description, syntax) = (self.description(), self.syntax());
        Documentation::builder(DOC_SECTION_STATISTICAL, description, syntax).build()
    }

    fn returns(self, _: &[DataType]) -> DataType {
        self.returned()
    }

    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (name, fewest) = (self.name(), self.arguments_min());
        if !(fewest..=COLUMNS_MAX).contains(&given.len()) {
            return plan_err!(
                "function {name} takes {fewest} to {COLUMNS_MAX} columns, and {} were given",
                given.len()
            );
        }
        let refused = given
            .iter()
            .position(|given| !takes(&DataType::Float64, given));
        if let Some(at) = refused {
            return plan_err!(
                "function {name}: argument {} is {}, and numbers are taken; write CAST where it is meant",
                at + 1,
                given[at]
            );
        }
        Ok(vec![DataType::Float64; given.len()])
    }

    fn state(self, _: &[FieldRef]) -> Result<Vec<(&'static str, DataType)>> {
        Ok(vec![
            ("triangle", list(DataType::Float64)),
            ("rows", DataType::Int64),
        ])
    }

    fn keeper(self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!(
                "{}(DISTINCT …) is not there: select distinct rows in a subquery",
                self.name()
            );
        }
        let accumulator = LinearAccumulator::new(self, args.expr_fields.len());
        Ok(Box::new(accumulator))
    }
}
