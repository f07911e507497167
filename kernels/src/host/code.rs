//! Instructions over registers, and the code that a program becomes for columns of given encodings.

use std::sync::Arc;

use tidegate_pipeline::Interval;
use tidegate_pipeline::catalogue::Kernel;
use tidegate_pipeline::program::{Comparison, FloatOp, IntegerOp, Rounding};

use super::vector::Lane;

/// A register.
pub(super) type Register = usize;

/// What an instruction computes. Operands have the lane of the operation; [`Operation::Cast`] changes lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// Reads an input, whose integers have to lie in an interval.
    Load {
        input: usize,
        interval: Interval,
    },
    /// Reads a table by the codes of an input.
    Gather {
        input: usize,
        table: usize,
    },
    /// Reads which values of an input are there.
    IsPresent {
        input: usize,
    },
    /// `+ - *` modulo the width of the lane, and then modulo 2^bits.
    Integer {
        op: IntegerOp,
        wrap: Option<(u32, bool)>,
    },
    /// `+ - *`, and 0 where a signed integer of so many bits does not hold the result.
    Checked {
        op: IntegerOp,
        bits: u32,
    },
    /// Whether a signed integer of so many bits does not hold the result of `+ - *`.
    Overflows {
        op: IntegerOp,
        bits: u32,
    },
    Divide {
        rounding: Rounding,
        bits: u32,
    },
    Remainder,
    Float(FloatOp),
    Negate,
    Canonical,
    Compare(Comparison),
    Not,
    And,
    Or,
    /// The second operand where the first is TRUE, else the third.
    Select,
    /// To another lane: integers modulo its width, floats truncated to 128 bits, 0 where they do not fit.
    Cast,
    /// Whether 128 bits do not hold a float.
    CastFails,
    /// A function of the catalogue, whose body takes the operands in order.
    Call(&'static Kernel),
    /// The code of a string among those of a key.
    Intern {
        key: usize,
    },
}

/// The most operands of an instruction.
const OPERANDS_MAX: usize = 3;

/// One step over a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) operation: Operation,
    /// The registers that are read; those that the operation does not take are 0.
    pub(super) operands: [Register; OPERANDS_MAX],
    num_operands: usize,
    /// The register that is written.
    pub(super) to: Register,
}

impl Instruction {
    /// Makes an instruction of at most three operands.
    pub(super) fn new(operation: Operation, operands: &[Register], to: Register) -> Self {
        let mut all = [0; OPERANDS_MAX];
        all[..operands.len()].copy_from_slice(operands);
        Self {
            operation,
            operands: all,
            num_operands: operands.len(),
            to,
        }
    }

    /// Returns the registers that are read.
    pub(super) fn operands_mut(&mut self) -> &mut [Register] {
        &mut self.operands[..self.num_operands]
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
