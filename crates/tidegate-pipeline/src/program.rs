//! The row program: what a stage of a pipeline does to one row, as plain data.
//!
//! Values are in single assignment form, and equal operations are one value. Three rules hold:
//!
//! - **Operations are total.** Each has a result, within its type, for all operands within theirs, and no
//!   effect: a backend may evaluate in any order, in blocks, for rows that are not selected, or once for
//!   each entry of a dictionary. Calls of users' functions alone carry the condition under which they run.
//! - **NULL is compiled away.** A SQL value is a pair of values: what it is, and whether it is there. Where
//!   it is not there, what it is is unspecified, but of its type.
//! - **What may raise is a list beside the values**, in the order of evaluation: for each selected row the
//!   first entry whose guard and condition hold is the query's error.
//!
//! In how many words a sum is kept, where a group's state lies and how wide a lane is, is no part of a
//! program: those are layouts, functions of the program and a backend. SQL's intervals are integers of 128
//! bits in the order of intervals (see `catalogue::span`); text is text, and whether a backend has codes
//! instead is its own matter.
//!
//! In reading order: this file and [`op`] are the data; [`lower`](fn@lower) goes from a pipeline to the
//! programs of its stages, by the [`catalogue`](crate::catalogue) and a [`Builder`]; [`verify`](fn@verify)
//! checks a program, `display` prints it for people, and [`interpret`] runs it a row at a time.

pub mod builder;
pub mod facts;
pub mod interpret;
pub mod op;

mod accuracy;
pub(crate) mod cell;
mod display;
mod float_sum;
mod lower;
mod verify;

#[cfg(test)]
mod tests;

use arrow_schema::DataType;

use crate::catalogue::Monoid;
use crate::interpret::EvalError;
use crate::interval::{FloatRange, Interval};
use crate::pipeline::AggregateFunction;
use crate::scalar::Scalar;

pub use accuracy::{InexactDecision, inexact_decision};
pub use builder::{Bodies, Builder};
pub use facts::Facts;
pub use lower::{lower, lower_for};
pub use op::{Callee, Comparison, FloatOp, IntegerOp, Op, Overflow, Rounding};
pub use verify::verify;

/// A value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// An input of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InputId(pub u32);

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    /// TRUE or FALSE.
    Bool,
    /// Integers, decimals, dates, times, and SQL's intervals.
    Int(Interval),
    /// `Float32`.
    Float32(FloatRange),
    /// `Float64`.
    Float64(FloatRange),
    /// A string.
    Text,
}

/// How wide a value is in a machine of 32, 64 and 128 bits. It follows from the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// One bit.
    Bool,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// A signed integer of 128 bits.
    I128,
    /// A single.
    F32,
    /// A double.
    F64,
    /// A string.
    Text,
}

impl Type {
    /// Returns the narrowest class that holds every value.
    pub fn class(self) -> Class {
        match self {
            Self::Bool => Class::Bool,
            Self::Int(interval) if interval.is_within(Interval::signed(32)) => Class::I32,
            Self::Int(interval) if interval.is_within(Interval::signed(64)) => Class::I64,
            Self::Int(_) => Class::I128,
            Self::Float32(_) => Class::F32,
            Self::Float64(_) => Class::F64,
            Self::Text => Class::Text,
        }
    }

    /// Returns where integers and booleans lie.
    pub fn interval(self) -> Interval {
        match self {
            Self::Bool => Interval::BOOL,
            Self::Int(interval) => interval,
            Self::Float32(_) | Self::Float64(_) | Self::Text => Interval::ALL,
        }
    }

    /// Returns where floats lie.
    pub fn floats(self) -> FloatRange {
        match self {
            Self::Float32(range) | Self::Float64(range) => range,
            Self::Bool | Self::Int(_) | Self::Text => FloatRange::ALL,
        }
    }

    /// Returns whether values are floats.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32(_) | Self::Float64(_))
    }

    /// Returns whether values are integers or booleans.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Bool | Self::Int(_))
    }

    /// Returns whether values of both can stand in one place.
    pub fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int(_), Self::Int(_)) => true,
            (one, other) => one.class() == other.class(),
        }
    }

    /// Returns what holds for the values of both, which are alike.
    pub fn hull(self, other: Self) -> Self {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Self::Int(one.hull(other)),
            (Self::Float32(one), Self::Float32(other)) => Self::Float32(one.hull(other)),
            (Self::Float64(one), Self::Float64(other)) => Self::Float64(one.hull(other)),
            (one, _) => one,
        }
    }
}

/// One operation, and what is known of its result.
#[derive(Clone, Debug)]
pub struct Value {
    /// What is computed.
    pub op: Op,
    /// What it gives.
    pub data: Type,
}

/// A column that a program reads.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its place among the columns of the stage's source.
    pub column: usize,
    /// Its Arrow type.
    pub data_type: DataType,
    /// What holds of its values.
    pub facts: Facts,
}

/// An error that a selected row raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raised {
    /// A division by zero.
    DivideByZero,
    /// A result outside of its type.
    Overflow {
        /// The operation and its types.
        operation: String,
    },
    /// Arguments for which a function has no value.
    Domain {
        /// What the query's error says.
        what: &'static str,
    },
    /// A value without an image under CAST.
    CastFailed {
        /// The value, which a backend may leave out of its message.
        value: ValueId,
        /// Its type.
        from: DataType,
        /// What it was to become.
        to: DataType,
    },
    /// A user's function failed; what it said is with whoever called it.
    Function {
        /// The function.
        name: String,
        /// The call.
        call: ValueId,
    },
}

impl Raised {
    /// Returns the query's error, as far as it does not hang on a row.
    pub fn error(&self) -> EvalError {
        match self {
            Self::DivideByZero => EvalError::DivideByZero,
            Self::Overflow { operation } => EvalError::Overflow {
                operation: operation.clone(),
            },
            Self::Domain { what } => EvalError::Domain { what },
            Self::CastFailed { to, .. } => EvalError::CastFailed {
                value: "a value".to_owned(),
                to: to.to_string(),
            },
            Self::Function { name, .. } => EvalError::Function {
                name: name.clone(),
                why: "it failed".to_owned(),
            },
        }
    }
}

/// A place where the query fails: if for any row `guard` and `when` hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Raise {
    /// The row is selected, what is computed is wanted, and its operands are there.
    pub guard: ValueId,
    /// What must not be.
    pub when: ValueId,
    /// How it fails.
    pub error: Raised,
}

/// A SQL value: what it is, and whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nullable {
    /// What it is.
    pub value: ValueId,
    /// Whether it is there.
    pub valid: ValueId,
}

/// What becomes of the selected rows.
#[derive(Clone, Debug)]
pub enum Sink {
    /// They leave, in order.
    Rows(Vec<Output>),
    /// They are grouped.
    Groups(Groups),
    /// They leave in another order.
    Sorted(Sorted),
}

/// A column that leaves.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Its values.
    pub value: Nullable,
}

/// Rows in groups. The keys leave, then the calls' columns.
///
/// Without keys there is one group, also over no rows. NULL is a key like any other; floats are canonical.
#[derive(Clone, Debug)]
pub struct Groups {
    /// What is equal in the rows of a group.
    pub keys: Vec<Output>,
    /// What is kept for each group, each thing once.
    pub accumulators: Vec<Accumulator>,
    /// What leaves.
    pub calls: Vec<Call>,
}

impl Groups {
    /// Returns the results of an accumulator, as the first finish that reads them has them.
    pub fn results_of(&self, accumulator: usize) -> &[Input] {
        for call in &self.calls {
            let mut at = 0;
            for index in &call.accumulators {
                let end = at + self.accumulators[*index].reduce.num_results();
                if *index == accumulator {
                    return &call.finish.inputs[at..end];
                }
                at = end;
            }
        }
        &[]
    }
}

/// Rows in an order; rows that are equal in it stay in theirs.
#[derive(Clone, Debug)]
pub struct Sorted {
    /// What leaves.
    pub outputs: Vec<Output>,
    /// Most significant first.
    pub keys: Vec<Order>,
    /// Only the first so many rows leave.
    pub fetch: Option<usize>,
}

/// One key of an order: floats as they compare, text by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What is ordered by.
    pub value: Nullable,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before everything else.
    pub nulls_first: bool,
}

/// One thing that is kept for a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulator {
    /// How values become one.
    pub reduce: Reduce,
    /// What is taken in; `None` for a count.
    pub value: Option<ValueId>,
    /// The rows that count: they are selected, and the value is there.
    pub rows: ValueId,
}

/// How values become one. All commute, so that no result depends on the order of rows. Over no rows a
/// count is 0 and moments are zeros; the others have no result, which is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// How many rows there are.
    Count,
    /// The sum of integers modulo 2^64 or 2^128, as a signed integer.
    SumInteger {
        /// 64 or 128.
        bits: u32,
    },
    /// The exact sum of floats, rounded once. Infinities and NaN are added up as IEEE 754 has it.
    SumFloat,
    /// The least value; of floats, which are canonical, as they compare.
    Least,
    /// The greatest value, likewise.
    Greatest,
    /// Integers combined, as signed ones of 64 bits.
    Combine(&'static Monoid),
    /// Two results: the mean of doubles, and the sum of their squared distances from it.
    Moments,
    /// The sum, over pairs of doubles, of the products of their distances from their means.
    CoMoment {
        /// The other double of a pair.
        other: ValueId,
    },
}

impl Reduce {
    /// Returns how many results there are for a group.
    pub fn num_results(self) -> usize {
        match self {
            Self::Moments => 2,
            _ => 1,
        }
    }
}

/// One aggregate call: its accumulators, and the program that turns their results into its columns.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub function: AggregateFunction,
    /// Its accumulators.
    pub accumulators: Vec<usize>,
    /// A program whose inputs are the accumulators' results, in order, and whose rows are groups.
    pub finish: Box<RowProgram>,
}

/// The program of a stage.
#[derive(Clone, Debug)]
pub struct RowProgram {
    /// What is read.
    pub inputs: Vec<Input>,
    /// The literals, those of the pipeline first; some follow from them.
    pub parameters: Vec<Scalar>,
    /// What is computed; operands come before their users.
    pub values: Vec<Value>,
    /// What may raise, in the order of evaluation.
    pub raises: Vec<Raise>,
    /// Whether the row is selected.
    pub selected: ValueId,
    /// What becomes of selected rows.
    pub sink: Sink,
}

impl RowProgram {
    /// Returns a value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Returns what is known of a value.
    pub fn data(&self, id: ValueId) -> Type {
        self.value(id).data
    }

    /// Returns whether the value is this constant.
    pub fn is(&self, id: ValueId, constant: bool) -> bool {
        self.value(id).op == Op::Bool(constant)
    }

    /// Returns the conditions that a conjunction is made of.
    pub fn conjuncts(&self, condition: ValueId) -> Vec<ValueId> {
        let mut open = vec![condition];
        let mut found = Vec::new();
        while let Some(id) = open.pop() {
            match self.value(id).op {
                Op::And(left, right) => open.extend([right, left]),
                _ => found.push(id),
            }
        }
        found
    }

    /// Returns the input whose values these are, if they are not computed: a device has the codes of such
    /// a text, and knows the step of such a key.
    pub fn input_of(&self, id: ValueId) -> Option<&Input> {
        match self.value(id).op {
            Op::Input(InputId(index)) => self.inputs.get(index as usize),
            _ => None,
        }
    }

    /// Replaces every value that something beside the values reads.
    pub(crate) fn map_roots(&mut self, map: &mut impl FnMut(ValueId) -> ValueId) {
        let nullable = |value: &mut Nullable, map: &mut dyn FnMut(ValueId) -> ValueId| {
            (value.value, value.valid) = (map(value.value), map(value.valid));
        };
        self.selected = map(self.selected);
        for raise in &mut self.raises {
            (raise.guard, raise.when) = (map(raise.guard), map(raise.when));
            if let Raised::Function { call: of, .. } | Raised::CastFailed { value: of, .. } =
                &mut raise.error
            {
                *of = map(*of);
            }
        }
        match &mut self.sink {
            Sink::Rows(outputs) => {
                for output in outputs {
                    nullable(&mut output.value, map);
                }
            }
            Sink::Sorted(sorted) => {
                for output in &mut sorted.outputs {
                    nullable(&mut output.value, map);
                }
                for key in &mut sorted.keys {
                    nullable(&mut key.value, map);
                }
            }
            Sink::Groups(groups) => {
                for key in &mut groups.keys {
                    nullable(&mut key.value, map);
                }
                for accumulator in &mut groups.accumulators {
                    accumulator.value = accumulator.value.map(&mut *map);
                    accumulator.rows = map(accumulator.rows);
                    if let Reduce::CoMoment { other } = &mut accumulator.reduce {
                        *other = map(*other);
                    }
                }
            }
        }
    }

    /// Returns every value that something beside the values reads.
    pub fn roots(&self) -> Vec<ValueId> {
        let mut roots = Vec::new();
        self.clone().map_roots(&mut |id| {
            roots.push(id);
            id
        });
        roots
    }

    /// Returns the columns that leave, with what is known of them.
    pub fn columns(&self) -> Vec<Input> {
        let outputs: Vec<(&Self, &Output)> = match &self.sink {
            Sink::Rows(outputs) | Sink::Sorted(Sorted { outputs, .. }) => {
                outputs.iter().map(|output| (self, output)).collect()
            }
            Sink::Groups(groups) => {
                let keys = groups.keys.iter().map(|key| (self, key));
                let calls = groups.calls.iter().flat_map(|call| call.finish.finished());
                keys.chain(calls).collect()
            }
        };
        let column = |(column, (program, output)): (usize, (&Self, &Output))| Input {
            name: output.name.clone(),
            column,
            data_type: output.data_type.clone(),
            facts: program.facts_of(output.value),
        };
        outputs.into_iter().enumerate().map(column).collect()
    }

    /// Returns the outputs of a finish, whose rows are not grouped again.
    fn finished(&self) -> Vec<(&Self, &Output)> {
        match &self.sink {
            Sink::Rows(outputs) => outputs.iter().map(|output| (self, output)).collect(),
            Sink::Groups(_) | Sink::Sorted(_) => Vec::new(),
        }
    }

    /// Returns what is known of a value and whether it is there.
    pub fn facts_of(&self, value: Nullable) -> Facts {
        let data = self.data(value.value);
        Facts {
            interval: data.interval(),
            floats: data.floats(),
            nullable: !self.is(value.valid, true),
            step: self
                .input_of(value.value)
                .map_or(1, |input| input.facts.step),
        }
    }
}
