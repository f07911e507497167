//! A pipeline: steps over the rows of one input.

use arrow_schema::{DataType, Field, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::catalogue::NamedAggregate;
use crate::expr::Expr;
use crate::scalar::Scalar;

/// A chain of steps over one input, with everything needed to run it.
///
/// # Invariants
/// - `Expr::Column(i)` in a step indexes the output of the step before it, in the first step `input`.
/// - `Expr::Parameter(i)` indexes `parameters`; the types agree.
/// - the last step's output has the types of `output`, position by position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// The columns read, in the order in which the steps number them.
    pub input: SchemaRef,
    /// What the literals were.
    pub parameters: Vec<Scalar>,
    /// What is done, in order; may be empty.
    pub steps: Vec<Step>,
    /// The exact schema of the rows that leave.
    pub output: SchemaRef,
}

/// One step of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Keeps the rows for which the predicate is TRUE.
    Filter(Expr),
    /// Replaces the row by these expressions of it.
    Project(Vec<NamedExpr>),
    /// Groups the rows.
    Aggregate(Aggregate),
    /// Orders the rows.
    Sort(Sort),
}

/// An expression and the name of the column that it becomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedExpr {
    /// What is computed.
    pub expr: Expr,
    /// The column's name.
    pub name: String,
}

/// A group-by. Its output columns are the keys, then what each call gives.
///
/// Without keys there is exactly one group, also over no rows. NULL is a key like any other; −0.0 is
/// +0.0, and every NaN is one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// The group keys; empty for one group over everything.
    pub keys: Vec<NamedExpr>,
    /// The aggregates.
    pub calls: Vec<AggregateCall>,
    /// Whether states or values leave.
    pub output: AggregateOutput,
}

/// What leaves an [`Aggregate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AggregateOutput {
    /// Partial state in DataFusion's layout, to be merged by a final aggregate.
    State,
    /// The aggregates' values.
    Value,
}

/// One aggregate function call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateCall {
    /// Which function.
    pub function: AggregateFunction,
    /// Its argument; `None` for `count(*)`.
    pub argument: Option<Expr>,
    /// The arguments after the first.
    #[serde(default)]
    pub more: Vec<Expr>,
    /// Only rows for which this is TRUE are seen.
    pub filter: Option<Expr>,
    /// The type of the value.
    pub data_type: DataType,
    /// The columns of the partial state, as the plan declares them.
    pub state: Vec<Field>,
    /// The value's column name.
    pub name: String,
}

/// The aggregate functions of the IR, with their partial states.
///
/// | function | state | a group without a value |
/// |---|---|---|
/// | count | Int64 | 0 |
/// | sum | the result's type | NULL |
/// | min, max | the argument's type | NULL |
/// | avg | count UInt64, sum | NULL, NULL |
/// | var, stddev | count UInt64, mean Float64, m2 Float64 | 0, 0, 0 |
///
/// Those of the others are with their entries in the [catalogue](crate::catalogue).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AggregateFunction {
    /// Rows, or values that are not NULL.
    Count,
    /// Wraps in the result's type.
    Sum,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
    /// Mean.
    Avg,
    /// Population variance.
    VarPop,
    /// Sample variance; NULL for fewer than two values.
    VarSamp,
    /// Population standard deviation.
    StddevPop,
    /// Sample standard deviation; NULL for fewer than two values.
    StddevSamp,
    /// Another one of the catalogue.
    Named(NamedAggregate),
}

impl AggregateFunction {
    /// Returns whether this is a variance or a standard deviation.
    pub fn is_of_squares(self) -> bool {
        matches!(
            self,
            Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp
        )
    }

    /// Returns whether this estimates from a sample, and so divides by one less than there are values.
    pub fn is_of_sample(self) -> bool {
        matches!(self, Self::VarSamp | Self::StddevSamp)
    }

    /// Returns whether this is the root of a variance.
    pub fn is_root(self) -> bool {
        matches!(self, Self::StddevPop | Self::StddevSamp)
    }
}

/// An ordering of the rows, and how many of them are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sort {
    /// Most significant first.
    pub keys: Vec<SortKey>,
    /// Keep only the first so many rows.
    pub fetch: Option<usize>,
}

/// One key of a [`Sort`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SortKey {
    /// The value ordered by; floats in IEEE totalOrder, as Arrow sorts them.
    pub expr: Expr,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before everything else.
    pub nulls_first: bool,
}

impl Pipeline {
    /// Returns whether rows are grouped, so that little leaves for much that enters.
    pub fn aggregates(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::Aggregate(_)))
    }
}
