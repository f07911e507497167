//! A block of rows: every value of a program, and what it raises.

use std::cell::OnceCell;

use super::super::cell::Cell;
use super::super::{
    Callee, InputId, Nullable, Op, Overflow, Raised, RowProgram, Type, Value, ValueId,
};
use super::operations::{computed, converted, divided, exact, fits, integer, kernel, truncated};
use crate::catalogue::Kernel;
use crate::custom::CustomFunction;
use crate::interpret::EvalError;
use crate::interpret::custom;

/// How many rows are evaluated together.
pub(super) const BLOCK_ROWS: usize = 256;

/// The texts that the operations of a block make, by value.
pub(super) struct Texts(Vec<OnceCell<Vec<String>>>);

impl Texts {
    /// Makes room for the texts of a program's values.
    pub(super) fn of(program: &RowProgram) -> Self {
        Self(program.values.iter().map(|_| OnceCell::new()).collect())
    }
}

/// What a program makes of a block of rows.
pub(super) struct Block<'a> {
    program: &'a RowProgram,
    texts: &'a Texts,
    rows: usize,
    inputs: Vec<Vec<Option<Cell<'a>>>>,
    /// The rows' cells, by value.
    values: Vec<Vec<Cell<'a>>>,
    failed: Vec<Failure>,
}

/// A call of a user's function that failed, or gave NULL without an error.
struct Failure {
    call: ValueId,
    row: usize,
    error: Option<EvalError>,
}

impl<'a> Block<'a> {
    /// Evaluates rows, whose inputs `input` gives by index and row; `None` is NULL.
    ///
    /// # Errors
    /// What the first row raises that raises; an input that is outside of its facts.
    pub(super) fn new(
        program: &'a RowProgram,
        texts: &'a Texts,
        rows: usize,
        input: impl Fn(usize, usize) -> Option<Cell<'a>>,
    ) -> Result<Self, EvalError> {
        let inputs = (0..program.inputs.len())
            .map(|index| (0..rows).map(|row| input(index, row)).collect())
            .collect();
        let mut block = Self {
            program,
            texts,
            rows,
            inputs,
            values: Vec::with_capacity(program.values.len()),
            failed: Vec::new(),
        };
        for (index, value) in program.values.iter().enumerate() {
            let id = ValueId(index as u32);
            let cells = block.operation(id, value)?;
            if let Some(cell) = cells.iter().find(|cell| !cell.is_of(value.data)) {
                let data = value.data;
                return Err(EvalError::internal(format!(
                    "{id} is {cell:?} and no {data}"
                )));
            }
            block.values.push(cells);
        }
        block.check()?;
        Ok(block)
    }

    /// Returns whether a boolean holds in a row.
    pub(super) fn is_true(&self, id: ValueId, row: usize) -> bool {
        self.cell(id, row).is_true()
    }

    /// Returns a value of a row.
    pub(super) fn cell(&self, id: ValueId, row: usize) -> Cell<'a> {
        self.cells(id)[row]
    }

    /// Returns a SQL value of a row; `None` for NULL.
    pub(super) fn get(&self, value: Nullable, row: usize) -> Option<Cell<'a>> {
        let is_there = self.is_true(value.valid, row);
        is_there.then(|| self.cell(value.value, row))
    }

    fn cells(&self, id: ValueId) -> &[Cell<'a>] {
        &self.values[id.0 as usize]
    }

    /// Returns the error of the first row that has one.
    fn check(&mut self) -> Result<(), EvalError> {
        let mut first: Option<(usize, &Raised)> = None;
        for raise in &self.program.raises {
            let rows = first.map_or(self.rows, |(row, _)| row);
            let holds = |id: ValueId, row: usize| self.is_true(id, row);
            let row = (0..rows).find(|row| holds(raise.guard, *row) && holds(raise.when, *row));
            first = row.map(|row| (row, &raise.error)).or(first);
        }
        match first {
            Some((row, raised)) => Err(self.error(raised, row)),
            None => Ok(()),
        }
    }

    fn error(&mut self, raised: &Raised, row: usize) -> EvalError {
        match raised {
            Raised::CastFailed { value, to, .. } => EvalError::CastFailed {
                value: format!("{:?}", self.cell(*value, row)),
                to: to.to_string(),
            },
            Raised::Function { name, call } => {
                let mut failed = self.failed.iter_mut();
                let failure = failed.find(|failure| failure.call == *call && failure.row == row);
                let error = failure.and_then(|failure| failure.error.take());
                error.unwrap_or_else(|| EvalError::internal(format!("{name} has not failed")))
            }
            raised => raised.error(),
        }
    }

    fn each(&self, cell: impl Fn(usize) -> Cell<'a>) -> Vec<Cell<'a>> {
        (0..self.rows).map(cell).collect()
    }

    /// Makes cells of those of one operand.
    fn map(&self, value: ValueId, make: impl Fn(Cell<'a>) -> Cell<'a>) -> Vec<Cell<'a>> {
        self.cells(value).iter().map(|cell| make(*cell)).collect()
    }

    /// Makes cells of those of two operands.
    fn zip(
        &self,
        left: ValueId,
        right: ValueId,
        make: impl Fn(Cell<'a>, Cell<'a>) -> Cell<'a>,
    ) -> Vec<Cell<'a>> {
        let pairs = self.cells(left).iter().zip(self.cells(right));
        pairs.map(|(left, right)| make(*left, *right)).collect()
    }

    fn operation(&mut self, id: ValueId, value: &'a Value) -> Result<Vec<Cell<'a>>, EvalError> {
        Ok(match &value.op {
            Op::Input(InputId(index)) => self.input(*index as usize, value.data)?,
            Op::IsPresent(InputId(index)) => {
                let cells = self.inputs[*index as usize].iter();
                cells.map(|cell| Cell::bool(cell.is_some())).collect()
            }
            Op::Parameter(index) => {
                let cell = Cell::of_scalar(&self.program.parameters[*index], value.data);
                vec![cell; self.rows]
            }
            Op::Bool(constant) => vec![Cell::bool(*constant); self.rows],
            Op::Int(constant) => vec![Cell::Int(*constant); self.rows],
            Op::Float(bits) => vec![Cell::Float(f64::from_bits(*bits)); self.rows],
            Op::RowExists => vec![Cell::bool(true); self.rows],
            Op::Call { callee, arguments } => match callee {
                Callee::Custom { function, wanted } => {
                    self.custom(id, function, (arguments, *wanted), value.data)
                }
                Callee::Kernel(kernel) => self.call(id, kernel, arguments),
            },
            Op::Gave(call) => self.each(|row| Cell::bool(self.failure(*call, row).is_none())),
            Op::Failed(of) => self.has_failed(*of)?,
            op => self.pure(op, value.data)?,
        })
    }

    /// Reads an input, and holds it against what is known of it.
    fn input(&self, index: usize, data: Type) -> Result<Vec<Cell<'a>>, EvalError> {
        let input = &self.program.inputs[index];
        let outside = |what: String| EvalError::ShapeMismatch {
            what: format!(
                "column {} has {what}, which is outside of what was known of it",
                input.name
            ),
        };
        let cells = self.inputs[index].iter().map(|cell| match cell {
            Some(cell) if cell.is_of(data) => Ok(*cell),
            Some(cell) => Err(outside(format!("{cell:?}"))),
            None if input.facts.nullable => Ok(Cell::within(data)),
            None => Err(outside("a NULL".to_owned())),
        });
        cells.collect()
    }

    /// Computes what hangs on values alone.
    fn pure(&self, op: &Op, data: Type) -> Result<Vec<Cell<'a>>, EvalError> {
        Ok(match *op {
            Op::Not(one) => self.map(one, |one| Cell::bool(!one.is_true())),
            Op::And(left, right) => self.zip(left, right, |left, right| {
                Cell::bool(left.is_true() && right.is_true())
            }),
            Op::Or(left, right) => self.zip(left, right, |left, right| {
                Cell::bool(left.is_true() || right.is_true())
            }),
            Op::Select {
                condition,
                then,
                otherwise,
            } => self.each(|row| {
                let holds = self.is_true(condition, row);
                self.cell(if holds { then } else { otherwise }, row)
            }),
            Op::Integer {
                op,
                overflow,
                left,
                right,
            } => self.zip(left, right, |left, right| {
                Cell::Int(integer(op, overflow, left.int(), right.int()))
            }),
            Op::Divide {
                rounding,
                bits,
                left,
                right,
            } => self.zip(left, right, |left, right| {
                let quotient = divided(rounding, left.int(), right.int());
                let fits = fits(Some(quotient), bits);
                Cell::Int(if fits { quotient } else { left.int() })
            }),
            Op::Remainder { left, right } => self.zip(left, right, |left, right| {
                Cell::Int(left.int().checked_rem(right.int()).unwrap_or(0))
            }),
            Op::Float2 { op, left, right } => match data {
                Type::Float32(_) => self.zip(left, right, |left, right| {
                    let single = computed(op, left.float() as f32, right.float() as f32);
                    Cell::Float(f64::from(single))
                }),
                _ => self.zip(left, right, |left, right| {
                    Cell::Float(computed(op, left.float(), right.float()))
                }),
            },
            Op::NegateFloat(one) => self.map(one, |one| Cell::Float(-one.float())),
            Op::Compare { op, left, right } => self.zip(left, right, |left, right| {
                Cell::bool(op.holds(left.order(right)))
            }),
            Op::Convert { value, to } => self.map(value, |value| converted(value, to)),
            Op::Canonical(one) => self.map(one, |one| {
                Cell::Float(super::super::cell::canonical(one.float()))
            }),
            // These read the row.
            Op::Input(_)
            | Op::IsPresent(_)
            | Op::Parameter(_)
            | Op::Bool(_)
            | Op::Int(_)
            | Op::Float(_)
            | Op::RowExists
            | Op::Failed(_)
            | Op::Gave(_)
            | Op::Call { .. } => {
                return Err(EvalError::internal(format!(
                    "{op:?} among what reads values alone"
                )));
            }
        })
    }

    /// Calls a function of the catalogue.
    fn call(&self, id: ValueId, callee: &Kernel, arguments: &[ValueId]) -> Vec<Cell<'a>> {
        let arguments: Vec<&[Cell<'a>]> = arguments.iter().map(|id| self.cells(*id)).collect();
        let texts: &'a Texts = self.texts;
        kernel(&callee.body, &arguments, self.rows, &texts.0[id.0 as usize])
    }

    /// Calls a user's function row by row.
    fn custom(
        &mut self,
        id: ValueId,
        function: &std::sync::Arc<CustomFunction>,
        (arguments, wanted): (&[ValueId], ValueId),
        data: Type,
    ) -> Vec<Cell<'a>> {
        let mut results = Vec::with_capacity(self.rows);
        for row in 0..self.rows {
            let mut result = Some(Cell::within(data));
            let mut error = None;
            if self.is_true(wanted, row) {
                let cells = arguments.iter().map(|id| self.cell(*id, row));
                match custom::call(function, &cells.collect::<Vec<_>>()) {
                    Ok(value) => result = value,
                    Err(why) => (result, error) = (None, Some(why)),
                }
            }
            results.push(result.unwrap_or_else(|| {
                self.failed.push(Failure {
                    call: id,
                    row,
                    error,
                });
                Cell::within(data)
            }));
        }
        results
    }

    fn failure(&self, call: ValueId, row: usize) -> Option<&Failure> {
        let mut failed = self.failed.iter();
        failed.find(|failure| failure.call == call && failure.row == row)
    }

    fn has_failed(&self, of: ValueId) -> Result<Vec<Cell<'a>>, EvalError> {
        Ok(match self.program.value(of).op {
            Op::Integer {
                op,
                overflow: Overflow::Fails { bits },
                left,
                right,
            } => self.zip(left, right, |left, right| {
                Cell::bool(!fits(exact(op, left.int(), right.int()), bits))
            }),
            Op::Convert { value, .. } => self.map(value, |value| match value {
                Cell::Float(value) => Cell::bool(truncated(value).is_none()),
                Cell::Int(_) | Cell::Text(_) => Cell::bool(false),
            }),
            Op::Call { .. } => self.each(|row| {
                let failure = self.failure(of, row);
                Cell::bool(failure.is_some_and(|failure| failure.error.is_some()))
            }),
            ref op => return Err(EvalError::internal(format!("the failure of {op:?}"))),
        })
    }
}
