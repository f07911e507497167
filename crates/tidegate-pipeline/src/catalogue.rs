//! The catalogue: one file for each function and each aggregate, and a line or two to register it.
//!
//! An entry holds everything about its function: the types that it takes and gives; how it is lowered into
//! operations, with the intervals of results and with what may raise; how exact it is; and the signatures
//! that it is tested with. What
//! cannot be said in operations is a [`Kernel`], with a body in Rust and a rule for its result; how another
//! language spells a kernel is a backend's matter, by its name.

mod aggregates;
mod arithmetic;
mod bits;
mod calendar;
mod choice;
mod constants;
mod decimals;
mod floats;
mod function;
mod functions;
mod kernel;
mod pairs;
mod signature;
mod texts;
mod whole;

pub(crate) mod span;

#[cfg(test)]
mod tests;

use arrow_schema::{DataType, Field};

use crate::check::Unsupported;
use crate::pipeline::{AggregateFunction, AggregateOutput};
use crate::program::{Accumulator, Builder, Nullable, Reduce, ValueId};

#[cfg(test)]
pub(crate) use arithmetic::arithmetic_type;
pub use function::{Function, NamedAggregate};
pub use kernel::{Body, Kernel, Matcher, Monoid, TextArgument};
pub use signature::{Options, Signature};

/// A scalar function.
#[derive(Debug)]
pub struct ScalarEntry {
    /// What the catalogue calls it.
    pub name: &'static str,
    /// What DataFusion calls the functions that it stands for; none for what has syntax of its own.
    pub datafusion: &'static [&'static str],
    /// The places of the arguments in DataFusion's calls that have to be literals: they decide on types, or on
    /// what is computed, and are no parameters.
    pub constants: &'static [usize],
    /// How many other arguments a call has, at least and at most.
    pub arity: (usize, usize),
    /// Checks the types of a call, given that each is one that the IR has.
    pub types: fn(&Signature) -> Result<(), Unsupported>,
    /// Adds the function's operations to a program.
    pub lower: fn(&mut Builder, &mut Arguments<'_>) -> Lowered,
    /// How far two backends' results may be apart.
    pub accuracy: Accuracy,
    /// What it is tested with.
    pub signatures: fn() -> Vec<Signature>,
}

/// What lowering gives.
pub type Lowered = Result<Nullable, Unsupported>;

/// How far two backends' results may be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accuracy {
    /// They are equal.
    Exact,
    /// By so many units in the last place; such a value may not decide which rows or groups there are.
    Ulps(u32),
}

/// The arguments of a call that is being lowered. Each is lowered when it is asked for, so that a function
/// can do that under a guard.
pub struct Arguments<'a> {
    /// The types.
    pub signature: &'a Signature,
    /// Lowers the argument at an index.
    pub lower: &'a mut dyn FnMut(&mut Builder, usize) -> Lowered,
}

impl Arguments<'_> {
    /// Returns how many there are.
    pub fn num(&self) -> usize {
        self.signature.arguments.len()
    }

    /// Lowers one.
    ///
    /// # Errors
    /// What a program cannot say.
    pub fn lower(&mut self, builder: &mut Builder, index: usize) -> Lowered {
        (self.lower)(builder, index)
    }

    /// Lowers a call of a kernel that is NULL if any argument is.
    ///
    /// # Errors
    /// What a program cannot say.
    pub fn call(&mut self, builder: &mut Builder, kernel: &'static Kernel) -> Lowered {
        let values = (0..self.num()).map(|index| self.lower(builder, index));
        let values: Vec<Nullable> = values.collect::<Result<_, _>>()?;
        let valid = builder.all_valid(&values);
        let ids = values.iter().map(|value| value.value).collect();
        Ok(Nullable {
            value: builder.call(kernel, ids),
            valid,
        })
    }

    /// Lowers those of a function that is NULL if any of them is; returns also whether all are there.
    ///
    /// # Errors
    /// What a program cannot say.
    pub fn strict<const N: usize>(
        &mut self,
        builder: &mut Builder,
    ) -> Result<([ValueId; N], ValueId), Unsupported> {
        let values = (0..N).map(|index| self.lower(builder, index));
        let values: Vec<Nullable> = values.collect::<Result<_, _>>()?;
        let valid = builder.all_valid(&values);
        let ids: Vec<ValueId> = values.iter().map(|value| value.value).collect();
        let ids = ids
            .try_into()
            .map_err(|_| Unsupported::new("a call with another number of arguments"))?;
        Ok((ids, valid))
    }
}

/// An aggregate function.
#[derive(Debug)]
pub struct AggregateEntry {
    /// What the catalogue calls it.
    pub name: &'static str,
    /// What DataFusion calls it.
    pub datafusion: &'static [&'static str],
    /// Which one.
    pub function: AggregateFunction,
    /// How many arguments a call has; `count` also none.
    pub arity: usize,
    /// Returns the types that a call gives, of arguments of these types, the value being declared so.
    pub types: fn(&[DataType], &DataType) -> Result<CallTypes, Unsupported>,
    /// Says what a group keeps.
    pub accumulate: fn(&mut Builder, &Update) -> Result<Vec<Accumulator>, Unsupported>,
    /// Makes the call's columns of the accumulators' results: its partial state, or its value.
    pub columns: Columns,
    /// Returns whether values of this type are rounded, so that the order of rows shows in the last bits.
    pub rounds: fn(&DataType) -> bool,
    /// The types of the arguments that it is tested with; none for a call without an argument.
    pub arguments: fn() -> Vec<Vec<DataType>>,
}

/// The columns of a group, from the results of its accumulators.
pub type Columns = fn(&mut Builder, &Finish<'_>, &[Nullable]) -> Result<Vec<Nullable>, Unsupported>;

/// The types that an aggregate call gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTypes {
    /// The value's.
    pub value: DataType,
    /// Those of the partial state's columns.
    pub state: Vec<DataType>,
}

impl CallTypes {
    /// Makes the types of a call whose state is its value.
    pub(crate) fn of_value(value: DataType) -> Self {
        Self {
            state: vec![value.clone()],
            value,
        }
    }
}

/// An aggregate call that is being lowered.
#[derive(Clone, Debug)]
pub struct Update {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument.
    pub argument: Option<Nullable>,
    /// The arguments after the first.
    pub more: Vec<Nullable>,
    /// The argument's type.
    pub argument_type: Option<DataType>,
    /// The value's type.
    pub value_type: DataType,
    /// The columns of the partial state.
    pub state: Vec<Field>,
    /// The rows that the call sees.
    pub rows: ValueId,
    /// Whether there are keys.
    pub grouped: bool,
}

impl Update {
    /// Returns the argument, and the rows in which it is there.
    ///
    /// # Errors
    /// There is no argument.
    pub fn value(&self, builder: &mut Builder) -> Result<(ValueId, ValueId), Unsupported> {
        let argument = self
            .argument
            .ok_or_else(|| Unsupported::new(format!("{} without an argument", self.function)))?;
        Ok((argument.value, builder.and(self.rows, argument.valid)))
    }

    /// Returns two arguments, and the rows in which both are there.
    ///
    /// # Errors
    /// There are no two.
    pub fn pair(&self, builder: &mut Builder) -> Result<([ValueId; 2], ValueId), Unsupported> {
        let (value, rows) = self.value(builder)?;
        match self.more.as_slice() {
            [other] => Ok(([value, other.value], builder.and(rows, other.valid))),
            _ => Err(Unsupported::new(format!(
                "{} without a pair",
                self.function
            ))),
        }
    }
}

/// A group whose columns are being made.
#[derive(Debug)]
pub struct Finish<'a> {
    /// The call.
    pub update: &'a Update,
    /// Whether the state leaves or the value.
    pub output: AggregateOutput,
    /// The value's name.
    pub name: &'a str,
}

impl Finish<'_> {
    /// Returns whether the partial state leaves.
    pub fn gives_state(&self) -> bool {
        self.output == AggregateOutput::State
    }

    /// Returns names and types of the columns that leave.
    pub fn columns(&self) -> Vec<(String, DataType)> {
        let field = |field: &Field| (field.name().clone(), field.data_type().clone());
        match self.output {
            AggregateOutput::State => self.update.state.iter().map(field).collect(),
            AggregateOutput::Value => {
                vec![(self.name.to_owned(), self.update.value_type.clone())]
            }
        }
    }
}

/// Makes a count of these rows.
fn count_of(rows: ValueId) -> Accumulator {
    Accumulator {
        reduce: Reduce::Count,
        value: None,
        rows,
    }
}

/// Returns an aggregate's entry.
pub fn aggregate(function: AggregateFunction) -> &'static AggregateEntry {
    aggregates::entry(function)
}

/// Returns every aggregate function.
pub fn aggregates() -> impl Iterator<Item = &'static AggregateEntry> {
    aggregates::ALL.iter().copied().flatten()
}

/// Returns the aggregate that stands for one of DataFusion's.
pub fn aggregate_of_datafusion(name: &str) -> Option<AggregateFunction> {
    let mut entries = aggregates();
    let entry = entries.find(|entry| entry.datafusion.contains(&name));
    entry.map(|entry| entry.function)
}

/// Returns every scalar function.
pub fn functions() -> impl Iterator<Item = &'static ScalarEntry> {
    functions::ALL.iter().copied().flatten()
}
