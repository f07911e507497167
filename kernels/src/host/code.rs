//! Instructions over registers, and the code that a program becomes for columns of given encodings.

use std::sync::Arc;

use tidegate_pipeline::Interval;
use tidegate_pipeline::catalogue::Matcher;
use tidegate_pipeline::program::{Comparison, FloatOp, IntegerOp, Rounding};

use super::vector::Lane;

/// A register.
pub(super) type Register = usize;

/// One step over a block. Operands have the lane of the operation; [`Instruction::Cast`] changes lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    /// Reads an input, whose integers have to lie in an interval.
    Load {
        input: usize,
        interval: Interval,
        to: Register,
    },
    /// Reads a table by the codes of an input.
    Gather {
        input: usize,
        table: usize,
        to: Register,
    },
    /// Reads which values of an input are there.
    IsPresent {
        input: usize,
        to: Register,
    },
    /// `+ - *` modulo the width of the lane, and then modulo 2^bits.
    Integer {
        op: IntegerOp,
        wrap: Option<(u32, bool)>,
        left: Register,
        right: Register,
        to: Register,
    },
    /// `+ - *`, and 0 where a signed integer of so many bits does not hold the result.
    Checked {
        op: IntegerOp,
        bits: u32,
        left: Register,
        right: Register,
        to: Register,
    },
    /// Whether a signed integer of so many bits does not hold the result.
    Overflows {
        op: IntegerOp,
        bits: u32,
        left: Register,
        right: Register,
        to: Register,
    },
    Divide {
        rounding: Rounding,
        bits: u32,
        left: Register,
        right: Register,
        to: Register,
    },
    Remainder {
        left: Register,
        right: Register,
        to: Register,
    },
    Float {
        op: FloatOp,
        left: Register,
        right: Register,
        to: Register,
    },
    Negate {
        from: Register,
        to: Register,
    },
    Canonical {
        from: Register,
        to: Register,
    },
    Compare {
        op: Comparison,
        left: Register,
        right: Register,
        to: Register,
    },
    Not {
        from: Register,
        to: Register,
    },
    And {
        left: Register,
        right: Register,
        to: Register,
    },
    Or {
        left: Register,
        right: Register,
        to: Register,
    },
    Select {
        condition: Register,
        then: Register,
        otherwise: Register,
        to: Register,
    },
    /// To another lane: integers modulo its width, floats truncated to 128 bits, 0 where they do not fit.
    Cast {
        from: Register,
        to: Register,
    },
    /// Whether 128 bits do not hold a float.
    CastFails {
        from: Register,
        to: Register,
    },
    CallFloat {
        body: fn(f64) -> f64,
        from: Register,
        to: Register,
    },
    CallFloat2 {
        body: fn(f64, f64) -> f64,
        left: Register,
        right: Register,
        to: Register,
    },
    CallSingle {
        body: fn(f32) -> f32,
        from: Register,
        to: Register,
    },
    CallSingle2 {
        body: fn(f32, f32) -> f32,
        left: Register,
        right: Register,
        to: Register,
    },
    CallInt {
        body: fn(i64) -> i64,
        from: Register,
        to: Register,
    },
    CallInt2 {
        body: fn(i64, i64) -> i64,
        left: Register,
        right: Register,
        to: Register,
    },
    Unpack {
        body: fn(i128) -> i64,
        from: Register,
        to: Register,
    },
    Pack {
        body: fn(i64, i64, i64) -> i128,
        parts: [Register; 3],
        to: Register,
    },
    Matches {
        body: fn(&str, &str) -> bool,
        left: Register,
        right: Register,
        to: Register,
    },
    /// Matches texts with a pattern, which is prepared anew where it differs from the row's before.
    Pattern {
        prepare: fn(&str) -> Box<Matcher>,
        left: Register,
        right: Register,
        to: Register,
    },
    TextInt {
        body: fn(&str) -> i64,
        from: Register,
        to: Register,
    },
    Text2Int {
        body: fn(&str, &str) -> i64,
        left: Register,
        right: Register,
        to: Register,
    },
    Slice {
        body: for<'a> fn(&'a str, i64, i64) -> &'a str,
        from: Register,
        start: Register,
        length: Register,
        to: Register,
    },
    /// The code of a string among those of a key.
    Intern {
        key: usize,
        from: Register,
        to: Register,
    },
}

impl Instruction {
    /// Visits the registers that are read.
    pub(super) fn visit_operands(&mut self, visit: &mut impl FnMut(&mut Register)) {
        match self {
            Self::Load { .. } | Self::Gather { .. } | Self::IsPresent { .. } => {}
            Self::Integer { left, right, .. }
            | Self::Checked { left, right, .. }
            | Self::Overflows { left, right, .. }
            | Self::Divide { left, right, .. }
            | Self::Remainder { left, right, .. }
            | Self::Float { left, right, .. }
            | Self::Compare { left, right, .. }
            | Self::And { left, right, .. }
            | Self::Or { left, right, .. }
            | Self::CallFloat2 { left, right, .. }
            | Self::CallSingle2 { left, right, .. }
            | Self::CallInt2 { left, right, .. }
            | Self::Pattern { left, right, .. }
            | Self::Text2Int { left, right, .. }
            | Self::Matches { left, right, .. } => {
                visit(left);
                visit(right);
            }
            Self::Negate { from, .. }
            | Self::Canonical { from, .. }
            | Self::Not { from, .. }
            | Self::Cast { from, .. }
            | Self::CastFails { from, .. }
            | Self::CallFloat { from, .. }
            | Self::CallSingle { from, .. }
            | Self::TextInt { from, .. }
            | Self::CallInt { from, .. }
            | Self::Unpack { from, .. }
            | Self::Intern { from, .. } => visit(from),
            Self::Select {
                condition,
                then,
                otherwise,
                ..
            } => [condition, then, otherwise].into_iter().for_each(visit),
            Self::Slice {
                from,
                start,
                length,
                ..
            } => [from, start, length].into_iter().for_each(visit),
            Self::Pack { parts, .. } => parts.iter_mut().for_each(visit),
        }
    }

    /// Returns the register that is written.
    pub(super) fn result(&mut self) -> &mut Register {
        match self {
            Self::Load { to, .. }
            | Self::Gather { to, .. }
            | Self::IsPresent { to, .. }
            | Self::Integer { to, .. }
            | Self::Checked { to, .. }
            | Self::Overflows { to, .. }
            | Self::Divide { to, .. }
            | Self::Remainder { to, .. }
            | Self::Float { to, .. }
            | Self::Negate { to, .. }
            | Self::Canonical { to, .. }
            | Self::Compare { to, .. }
            | Self::Not { to, .. }
            | Self::And { to, .. }
            | Self::Or { to, .. }
            | Self::Select { to, .. }
            | Self::Cast { to, .. }
            | Self::CastFails { to, .. }
            | Self::CallFloat { to, .. }
            | Self::CallFloat2 { to, .. }
            | Self::CallSingle { to, .. }
            | Self::CallSingle2 { to, .. }
            | Self::Pattern { to, .. }
            | Self::TextInt { to, .. }
            | Self::Text2Int { to, .. }
            | Self::CallInt { to, .. }
            | Self::CallInt2 { to, .. }
            | Self::Unpack { to, .. }
            | Self::Pack { to, .. }
            | Self::Matches { to, .. }
            | Self::Slice { to, .. }
            | Self::Intern { to, .. } => to,
        }
    }
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    /// Integers and booleans.
    Int(i128),
    /// The bits of a double.
    Float(u64),
    Text(Arc<str>),
}

/// What runs once for each entry of an input's dictionary.
#[derive(Clone, Debug)]
pub(super) struct EntryCode {
    pub(super) input: usize,
    pub(super) instructions: Vec<Instruction>,
    /// The registers that become tables.
    pub(super) tables: Vec<(Register, usize)>,
}

/// Value, or code of a string, and validity of a key; valid where there is no register.
pub(super) type KeyCode = (Register, Option<Register>);

/// Value of an accumulator, and which rows count; all where there is no register.
pub(super) type AccumulatorCode = (Option<Register>, Option<Register>);

/// Where the sink finds what it takes.
#[derive(Clone, Debug)]
pub(super) enum SinkCode {
    /// Value and validity of each column.
    Rows(Vec<(Register, Option<Register>)>),
    Groups {
        keys: Vec<KeyCode>,
        accumulators: Vec<AccumulatorCode>,
    },
}

/// A program for inputs of given encodings.
#[derive(Clone, Debug)]
pub(super) struct Code {
    /// The lane of each register.
    pub(super) lanes: Vec<Lane>,
    pub(super) constants: Vec<(Register, Constant)>,
    /// Constants that follow from constants.
    pub(super) setup: Vec<Instruction>,
    pub(super) entries: Vec<EntryCode>,
    /// Tables of conditions that all selected rows fulfil.
    pub(super) verdicts: Vec<usize>,
    pub(super) filter: Vec<Instruction>,
    /// Which rows are selected; all where there is no register.
    pub(super) pass: Option<Register>,
    /// Guards and conditions of errors of rows that need not be selected.
    pub(super) filter_raises: Vec<(Register, Register)>,
    /// What is computed for selected rows.
    pub(super) rest: Vec<Instruction>,
    pub(super) rest_raises: Vec<(Register, Register)>,
    pub(super) sink: SinkCode,
}
