//! The operations, and what each means.

use std::sync::Arc;

use super::{Class, InputId, ValueId};
use crate::catalogue::Kernel;
use crate::custom::CustomFunction;

/// An operation on values. Its meaning is total: it has a result for all operands of its types.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// An input's value; unspecified, but within its facts, where it is NULL.
    Input(InputId),
    /// Whether an input's value is there.
    IsPresent(InputId),
    /// A literal, given at launch, so that queries that differ in it may share a kernel; of a NULL the
    /// zero of its type, or the empty string.
    Parameter(usize),
    /// A constant that follows from types.
    Bool(bool),
    /// A constant that follows from types.
    Int(i128),
    /// The bits of a double that follows from types.
    Float(u64),
    /// Whether the row exists; the first condition of every guard.
    RowExists,
    /// `!a`.
    Not(ValueId),
    /// `a && b`.
    And(ValueId, ValueId),
    /// `a || b`.
    Or(ValueId, ValueId),
    /// `condition ? then : otherwise`.
    Select {
        /// Which one.
        condition: ValueId,
        /// Where it holds.
        then: ValueId,
        /// Where it does not.
        otherwise: ValueId,
    },
    /// `+ - *` on integers.
    Integer {
        /// The operator.
        op: IntegerOp,
        /// What happens where the result may not fit.
        overflow: Overflow,
        /// Left operand.
        left: ValueId,
        /// Right operand.
        right: ValueId,
    },
    /// Whether a checked operation, a conversion from a float or a user's function failed; its result is
    /// then unspecified, but of its type.
    Failed(ValueId),
    /// The quotient of integers; of divisor 0, and where it does not fit, the dividend.
    Divide {
        /// How it is rounded; other than towards zero only for divisors above 0.
        rounding: Rounding,
        /// The signed integer that it has to fit, in bits.
        bits: u32,
        /// Dividend.
        left: ValueId,
        /// Divisor.
        right: ValueId,
    },
    /// The remainder of integers, of the dividend's sign; of divisors 0 and −1 it is 0.
    Remainder {
        /// Dividend.
        left: ValueId,
        /// Divisor.
        right: ValueId,
    },
    /// IEEE 754, in the width of the operands.
    Float2 {
        /// The operator.
        op: FloatOp,
        /// Left operand.
        left: ValueId,
        /// Right operand.
        right: ValueId,
    },
    /// A float with its sign turned.
    NegateFloat(ValueId),
    /// Integers by value, text by bytes, FALSE before TRUE; floats with one zero and one NaN, the greatest.
    Compare {
        /// The operator.
        op: Comparison,
        /// Left operand.
        left: ValueId,
        /// Right operand.
        right: ValueId,
    },
    /// To another class: integers modulo its width, rounded to nearest for floats. A float to 128 bits is
    /// truncated, and [`Op::Failed`] tells what has no image.
    Convert {
        /// What is converted.
        value: ValueId,
        /// What it becomes.
        to: Class,
    },
    /// A float with 0.0 for −0.0 and one NaN for every NaN, so that equal floats have equal bits.
    Canonical(ValueId),
    /// A function.
    Call {
        /// Which.
        callee: Callee,
        /// Its arguments.
        arguments: Vec<ValueId>,
    },
    /// Whether a user's function, of arguments that were all there, gave a value and not NULL.
    Gave(ValueId),
}

/// What an [`Op::Call`] calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A function of the catalogue.
    Kernel(&'static Kernel),
    /// A function of a user.
    Custom {
        /// The function, with its bodies.
        function: Arc<CustomFunction>,
        /// Where it is called: its body may loop. Elsewhere the result is the zero of its type.
        wanted: ValueId,
    },
}

/// `+ - *` on integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntegerOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// What an integer operation does where its result may not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// It fits: the intervals prove it.
    Never,
    /// Reduced modulo 2^bits.
    Wraps {
        /// How many.
        bits: u32,
        /// Whether the result is signed.
        signed: bool,
    },
    /// Fails where a signed integer of so many bits does not hold it.
    Fails {
        /// How many.
        bits: u32,
    },
}

/// How a quotient is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Towards zero.
    Zero,
    /// Down.
    Down,
    /// To the nearest integer, and halves away from zero.
    Nearest,
}

/// Operators on floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`, of the dividend's sign.
    Remainder,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Returns whether an order satisfies the comparison.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Op {
    /// Replaces every operand.
    pub(crate) fn map_operands(&mut self, map: &mut impl FnMut(ValueId) -> ValueId) {
        match self {
            Self::Input(_)
            | Self::IsPresent(_)
            | Self::Parameter(_)
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::RowExists => {}
            Self::Not(value)
            | Self::Failed(value)
            | Self::NegateFloat(value)
            | Self::Convert { value, .. }
            | Self::Canonical(value)
            | Self::Gave(value) => *value = map(*value),
            Self::And(left, right)
            | Self::Or(left, right)
            | Self::Integer { left, right, .. }
            | Self::Divide { left, right, .. }
            | Self::Remainder { left, right }
            | Self::Float2 { left, right, .. }
            | Self::Compare { left, right, .. } => {
                (*left, *right) = (map(*left), map(*right));
            }
            Self::Select {
                condition,
                then,
                otherwise,
            } => {
                (*condition, *then, *otherwise) = (map(*condition), map(*then), map(*otherwise));
            }
            Self::Call { callee, arguments } => {
                if let Callee::Custom { wanted, .. } = callee {
                    *wanted = map(*wanted);
                }
                for argument in arguments {
                    *argument = map(*argument);
                }
            }
        }
    }

    /// Returns the operands.
    pub fn operands(&self) -> Vec<ValueId> {
        let mut operands = Vec::new();
        self.clone().map_operands(&mut |operand| {
            operands.push(operand);
            operand
        });
        operands
    }
}
