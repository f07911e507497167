//! A row program as lines of CUDA C++: one for each operation, in order.
//!
//! The lines read `c0[r]` for the value of a column, `b0 >> r` for its validity, of groups instead what
//! they are given for the results of accumulators; `selected` for whether
//! there is a row, and `p.literals` for what a launch is given. All that they say is decided by the
//! program: widths are the classes of its types, and what may raise is its list of raises, each of which is
//! written as soon as its conditions have a name. Leaves have no variable of their own, and conditions
//! that nothing but a raise reads are written within it.

mod custom;
mod kernel;
mod ops;

use std::sync::Arc;

use tidegate_pipeline::program::{Class, InputId, Op, Raised, RowProgram, Type, ValueId};
use tidegate_pipeline::{CustomFunction, Interval, Unsupported};

use super::slots::{Slot, SlotFacts, SlotKind};

pub use custom::probe;

/// Parts of the device's library that a program's lines call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    pub(super) checked: bool,
    pub(super) calendar: bool,
}

/// The C++ of what an accumulator gives for a group.
#[derive(Clone, Debug)]
pub(super) struct ResultText {
    pub(super) value: String,
    /// How the value stands in the code; its type may allow for more.
    pub(super) class: Class,
    /// Whether it is there.
    pub(super) valid: String,
}

/// The lines of a row, and how each value of the program is named in them.
pub(super) struct RowText<'a> {
    pub(super) program: &'a RowProgram,
    /// What the program's columns are.
    pub(super) slots: &'a [(Slot, SlotFacts)],
    /// What its inputs are, if its rows are groups.
    results: &'a [ResultText],
    /// Whether there is a row.
    exists: &'static str,
    pub(super) lines: Vec<String>,
    pub(super) literals: Vec<u64>,
    /// Slots whose values are looked up, and where their literals begin.
    pub(super) lookups: Vec<(usize, usize)>,
    pub(super) blocks: Blocks,
    /// The functions of users that are called, in the order of their first call, and their text.
    pub(super) customs: Vec<(Arc<CustomFunction>, String)>,
    /// The C++ of each value.
    names: Vec<String>,
    /// Where each parameter's words are among the literals.
    literal_at: Vec<Option<usize>>,
    /// How many variables there are.
    num_bound: usize,
}

impl<'a> RowText<'a> {
    /// Prints a program over these slots, behind literals that there are already.
    ///
    /// # Errors
    /// What a device has no form for.
    pub(super) fn new(
        program: &'a RowProgram,
        slots: &'a [(Slot, SlotFacts)],
        literals: Vec<u64>,
    ) -> Result<Self, Unsupported> {
        Self::print(program, (slots, &[]), "selected", literals)
    }

    /// Prints a program whose rows are groups, over the results of accumulators.
    ///
    /// # Errors
    /// As [`RowText::new`].
    pub(super) fn of_groups(
        program: &'a RowProgram,
        results: &'a [ResultText],
        literals: Vec<u64>,
    ) -> Result<Self, Unsupported> {
        // A group that is there is a row.
        Self::print(program, (&[], results), "true", literals)
    }

    fn print(
        program: &'a RowProgram,
        (slots, results): (&'a [(Slot, SlotFacts)], &'a [ResultText]),
        exists: &'static str,
        literals: Vec<u64>,
    ) -> Result<Self, Unsupported> {
        let mut text = Self {
            program,
            slots,
            results,
            exists,
            lines: Vec::new(),
            literals,
            lookups: Vec::new(),
            blocks: Blocks::default(),
            customs: Vec::new(),
            names: Vec::with_capacity(program.values.len()),
            literal_at: vec![None; program.parameters.len()],
            num_bound: 0,
        };
        let errors = program.raises.iter().map(|raise| error_code(&raise.error));
        let errors = errors.collect::<Result<Vec<_>, Unsupported>>()?;
        let is_inline = read_by_one_raise(program);
        let mut raises: Vec<usize> = (0..program.raises.len()).collect();
        for (index, is_inline) in is_inline.into_iter().enumerate() {
            let id = ValueId(index as u32);
            let name = match text.operation(id)? {
                Code::Leaf(code) => code,
                Code::Operation(code) if is_inline => match program.value(id).op {
                    // It has its own parentheses.
                    Op::Compare { .. } => code,
                    _ => format!("({code})"),
                },
                Code::Operation(code) => text.bind(text.class(id), &code),
            };
            text.names.push(name);
            raises.retain(|raise| !text.raise(*raise, errors[*raise]));
        }
        Ok(text)
    }

    /// Returns how many operations a row takes, each of which is a variable.
    pub(super) fn num_steps(&self) -> usize {
        self.num_bound
    }

    /// Returns the C++ of a value.
    pub(super) fn name(&self, id: ValueId) -> &str {
        &self.names[id.0 as usize]
    }

    /// Returns how a variable holds a value: of a string its code.
    pub(super) fn class(&self, id: ValueId) -> Class {
        if let Op::Input(InputId(index)) = self.program.value(id).op
            && let Some(result) = self.results.get(index as usize)
        {
            return result.class;
        }
        match self.program.data(id) {
            Type::Text => Type::Int(self.codes(id)).class(),
            data => data.class(),
        }
    }

    /// Returns where the codes of strings lie.
    pub(super) fn codes(&self, id: ValueId) -> Interval {
        let input = self.program.input_of(id);
        let facts = input.map(|input| &self.slots[input.column].1);
        facts.map_or(Interval::unsigned(32), |facts| {
            facts.lookup.map_or(facts.range, |lookup| lookup.range)
        })
    }

    /// Returns the slot whose codes a value is, if it is strings.
    pub(super) fn dictionary_of(&self, id: ValueId) -> Option<usize> {
        let slot = self.program.input_of(id)?.column;
        (self.slots[slot].0.kind == SlotKind::Code).then_some(slot)
    }

    /// Returns the C++ of a float with one zero and one NaN.
    fn canonical(&self, id: ValueId) -> String {
        let of_bits = match self.class(id) {
            Class::F32 => "__int_as_float",
            _ => "__longlong_as_double",
        };
        match self.program.value(id).op {
            Op::Canonical(_) => self.name(id).to_owned(),
            _ => format!("{of_bits}(key_bits({}))", self.name(id)),
        }
    }

    /// Returns the C++ integer in which floats have the order of comparisons: one NaN, the greatest,
    /// and one zero.
    pub(super) fn float_order(&self, id: ValueId) -> String {
        format!("total_order({})", self.canonical(id))
    }

    /// Returns the C++ of the bits of a float with one zero and one NaN.
    pub(super) fn key_bits(&self, id: ValueId) -> String {
        match self.program.value(id).op {
            Op::Canonical(float) => format!("key_bits({})", self.name(float)),
            _ => format!("key_bits({})", self.name(id)),
        }
    }

    /// Binds an expression to a variable and returns its name.
    pub(super) fn bind(&mut self, class: Class, code: &str) -> String {
        let name = format!("v{}", self.num_bound);
        self.num_bound += 1;
        self.lines
            .push(format!("const {} {name} = {code};", c_type(class)));
        name
    }

    /// Writes a raise of this error if its conditions have names by now; returns whether they have.
    fn raise(&mut self, index: usize, error: &str) -> bool {
        let raise = &self.program.raises[index];
        if raise.guard.max(raise.when).0 as usize >= self.names.len() {
            return false;
        }
        let (guard, when) = (self.name(raise.guard), self.name(raise.when));
        self.lines
            .push(format!("if ({guard} && {when}) raise(p.flags, {error});"));
        true
    }
}

/// Returns the C++ name of an error's code.
fn error_code(error: &Raised) -> Result<&'static str, Unsupported> {
    match error {
        Raised::DivideByZero => Ok("DIVIDE_BY_ZERO"),
        Raised::Overflow { .. } => Ok("OVERFLOW"),
        Raised::CastFailed { .. } => Ok("CAST_FAILED"),
        Raised::Domain { what } => Err(Unsupported::new(format!(
            "a device cannot raise \"{what}\""
        ))),
        Raised::Function { name, .. } => Err(Unsupported::new(format!(
            "a device cannot say why {name} failed"
        ))),
    }
}

/// The C++ of a value.
enum Code {
    /// It is read as it is, wherever it is wanted.
    Leaf(String),
    /// It is computed once.
    Operation(String),
}

/// Returns which conditions nothing reads but one raise, or one such condition.
fn read_by_one_raise(program: &RowProgram) -> Vec<bool> {
    let mut num_readers = vec![0_u32; program.values.len()];
    let mut is_raised = vec![false; program.values.len()];
    let operands = program.values.iter().flat_map(|value| value.op.operands());
    for id in operands.chain(program.roots()) {
        num_readers[id.0 as usize] += 1;
    }
    for raise in &program.raises {
        for id in [raise.guard, raise.when] {
            is_raised[id.0 as usize] = true;
        }
    }
    for index in (0..program.values.len()).rev() {
        let op = &program.values[index].op;
        let is_condition = matches!(
            op,
            Op::Not(_) | Op::And(..) | Op::Or(..) | Op::Compare { .. }
        );
        is_raised[index] &= is_condition && num_readers[index] == 1;
        if is_raised[index] {
            for operand in op.operands() {
                is_raised[operand.0 as usize] = true;
            }
        }
    }
    is_raised
}

/// Returns the C++ type of a class.
pub(super) fn c_type(class: Class) -> &'static str {
    match class {
        Class::Bool => "bool",
        Class::I32 => "i32",
        Class::I64 => "i64",
        Class::I128 => "i128",
        Class::F32 => "float",
        Class::F64 => "double",
        // A code.
        Class::Text => "u32",
    }
}
