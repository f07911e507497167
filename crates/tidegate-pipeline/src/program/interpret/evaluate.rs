//! One row: every value of a program, and what it raises.

use super::super::Raised;
use super::super::cell::{Cell, canonical};
use super::super::{
    Callee, Class, FloatOp, InputId, IntegerOp, Nullable, Op, Overflow, Rounding, RowProgram, Type,
    Value, ValueId,
};
use crate::catalogue::Body;
use crate::custom::CustomFunction;
use crate::interpret::EvalError;
use crate::interpret::column::Column;
use crate::interpret::custom;

/// What a program makes of a row.
pub(super) struct Row<'a> {
    program: &'a RowProgram,
    values: Vec<Cell<'a>>,
    /// The calls of users' functions that failed, or gave NULL without an error.
    failed: Vec<(ValueId, Option<EvalError>)>,
}

impl<'a> Row<'a> {
    /// Evaluates a row of a batch.
    pub(super) fn scan(
        program: &'a RowProgram,
        columns: &[Column<'a>],
        index: usize,
    ) -> Result<Self, EvalError> {
        let cells = columns.iter().map(|column| Cell::of(column.get(index)));
        Self::of(program, &cells.collect::<Vec<_>>())
    }

    /// Evaluates a row of inputs.
    pub(super) fn of(
        program: &'a RowProgram,
        inputs: &[Option<Cell<'a>>],
    ) -> Result<Self, EvalError> {
        let mut row = Self {
            program,
            values: Vec::with_capacity(program.values.len()),
            failed: Vec::new(),
        };
        for (index, value) in program.values.iter().enumerate() {
            let id = ValueId(index as u32);
            let cell = row.operation(id, value, inputs)?;
            if !cell.is_of(value.data) {
                let data = value.data;
                return Err(EvalError::internal(format!(
                    "{id} is {cell:?} and no {data}"
                )));
            }
            row.values.push(cell);
        }
        row.check()?;
        Ok(row)
    }

    /// Returns the first error of a row.
    fn check(&mut self) -> Result<(), EvalError> {
        let holds = |id: ValueId| self.values[id.0 as usize].is_true();
        let mut raises = self.program.raises.iter();
        let Some(raise) = raises.find(|raise| holds(raise.guard) && holds(raise.when)) else {
            return Ok(());
        };
        Err(self.error(&raise.error))
    }

    fn error(&mut self, raised: &Raised) -> EvalError {
        match raised {
            Raised::DivideByZero => EvalError::DivideByZero,
            Raised::Overflow { operation } => EvalError::Overflow {
                operation: operation.clone(),
            },
            Raised::CastFailed { value, from, to } => EvalError::CastFailed {
                value: format!("{:?}", self.cell(*value).as_value(from)),
                to: to.to_string(),
            },
            Raised::Function { name, call } => {
                let mut failed = self.failed.iter_mut();
                let said = failed.find(|(id, _)| id == call);
                let error = said.and_then(|(_, error)| error.take());
                error.unwrap_or_else(|| EvalError::internal(format!("{name} has not failed")))
            }
        }
    }

    pub(super) fn is_true(&self, id: ValueId) -> bool {
        self.cell(id).is_true()
    }

    pub(super) fn cell(&self, id: ValueId) -> Cell<'a> {
        self.values[id.0 as usize]
    }

    /// Returns a SQL value; `None` for NULL.
    pub(super) fn get(&self, value: Nullable) -> Option<Cell<'a>> {
        self.is_true(value.valid).then(|| self.cell(value.value))
    }

    fn operation(
        &mut self,
        id: ValueId,
        value: &'a Value,
        inputs: &[Option<Cell<'a>>],
    ) -> Result<Cell<'a>, EvalError> {
        let cell = match &value.op {
            Op::Input(InputId(index)) => {
                let cell = inputs[*index as usize];
                let Some(cell) = cell else {
                    let input = &self.program.inputs[*index as usize];
                    if !input.facts.nullable {
                        return Err(outside(&input.name, "a NULL"));
                    }
                    return Ok(Cell::within(value.data));
                };
                if !cell.is_of(value.data) {
                    let name = &self.program.inputs[*index as usize].name;
                    return Err(outside(name, &format!("{cell:?}")));
                }
                cell
            }
            Op::IsPresent(InputId(index)) => Cell::bool(inputs[*index as usize].is_some()),
            Op::Parameter(index) => Cell::of_scalar(&self.program.parameters[*index], value.data),
            Op::Bool(constant) => Cell::bool(*constant),
            Op::Int(constant) => Cell::Int(*constant),
            Op::Float(bits) => Cell::Float(f64::from_bits(*bits)),
            Op::RowExists => Cell::bool(true),
            Op::Call {
                callee: Callee::Custom { function, wanted },
                arguments,
            } => match self.is_true(*wanted) {
                true => self.custom(id, function, arguments, value.data),
                false => Cell::within(value.data),
            },
            Op::Gave(call) => Cell::bool(self.failed.iter().all(|(id, _)| id != call)),
            Op::Failed(of) => Cell::bool(self.has_failed(*of)?),
            op => self.pure(op, value.data)?,
        };
        Ok(cell)
    }

    /// Computes what hangs on values alone.
    fn pure(&self, op: &Op, data: Type) -> Result<Cell<'a>, EvalError> {
        let (int, float) = (
            |id: &ValueId| self.cell(*id).int(),
            |id: &ValueId| self.cell(*id).float(),
        );
        let holds = |id: &ValueId| self.is_true(*id);
        Ok(match op {
            Op::Not(one) => Cell::bool(!holds(one)),
            Op::And(left, right) => Cell::bool(holds(left) && holds(right)),
            Op::Or(left, right) => Cell::bool(holds(left) || holds(right)),
            Op::Select {
                condition,
                then,
                otherwise,
            } => self.cell(if holds(condition) { *then } else { *otherwise }),
            Op::Integer {
                op,
                overflow,
                left,
                right,
            } => integer(*op, *overflow, int(left), int(right)),
            Op::Divide {
                rounding,
                bits,
                left,
                right,
            } => {
                let quotient = divided(*rounding, int(left), int(right));
                let fits = fits(Some(quotient), *bits);
                Cell::Int(if fits { quotient } else { int(left) })
            }
            Op::Remainder { left, right } => {
                Cell::Int(int(left).checked_rem(int(right)).unwrap_or(0))
            }
            Op::Float2 { op, left, right } => match data {
                Type::Float32(_) => {
                    let single = computed(*op, float(left) as f32, float(right) as f32);
                    Cell::Float(f64::from(single))
                }
                _ => Cell::Float(computed(*op, float(left), float(right))),
            },
            Op::NegateFloat(one) => Cell::Float(-float(one)),
            Op::Compare { op, left, right } => {
                Cell::bool(op.holds(self.cell(*left).order(self.cell(*right))))
            }
            Op::Convert { value, to } => converted(self.cell(*value), *to),
            Op::Canonical(one) => Cell::Float(canonical(float(one))),
            Op::Call {
                callee: Callee::Kernel(kernel),
                arguments,
            } => self.kernel(&kernel.body, arguments),
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

    fn kernel(&self, body: &Body, arguments: &[ValueId]) -> Cell<'a> {
        let argument = |index: usize| {
            arguments
                .get(index)
                .map_or(Cell::Int(0), |id| self.cell(*id))
        };
        let int = |index: usize| argument(index).int() as i64;
        match body {
            Body::Float(body) => Cell::Float(body(argument(0).float())),
            Body::Int(body) => Cell::Int(i128::from(body(int(0)))),
            Body::Int2(body) => Cell::Int(i128::from(body(int(0), int(1)))),
            Body::Unpack(body) => Cell::Int(i128::from(body(argument(0).int()))),
            Body::Pack(body) => Cell::Int(body(int(0), int(1), int(2))),
            Body::Matches(body) => Cell::bool(body(argument(0).text(), argument(1).text())),
            Body::Slice(body) => Cell::Text(body(argument(0).text(), int(1), int(2))),
        }
    }

    /// Calls a user's function over one row.
    fn custom(
        &mut self,
        id: ValueId,
        function: &std::sync::Arc<CustomFunction>,
        arguments: &[ValueId],
        data: Type,
    ) -> Cell<'a> {
        let types = function.arguments.iter();
        let cells = arguments.iter().zip(types);
        let cells = cells.map(|(id, (_, data_type))| self.cell(*id).as_value(data_type));
        match custom::Call::new(function).apply(&cells.collect::<Vec<_>>()) {
            Ok(value) => Cell::of(value).unwrap_or_else(|| {
                self.failed.push((id, None));
                Cell::within(data)
            }),
            Err(error) => {
                self.failed.push((id, Some(error)));
                Cell::within(data)
            }
        }
    }

    fn has_failed(&self, of: ValueId) -> Result<bool, EvalError> {
        let int = |id: &ValueId| self.cell(*id).int();
        Ok(match &self.program.value(of).op {
            Op::Integer {
                op,
                overflow: Overflow::Fails { bits },
                left,
                right,
            } => !fits(exact(*op, int(left), int(right)), *bits),
            Op::Convert { value, .. } => match self.cell(*value) {
                Cell::Float(value) => truncated(value).is_none(),
                Cell::Int(_) | Cell::Text(_) => false,
            },
            Op::Call { .. } => {
                let mut failed = self.failed.iter();
                failed.any(|(id, error)| *id == of && error.is_some())
            }
            op => return Err(EvalError::internal(format!("the failure of {op:?}"))),
        })
    }
}

fn outside(name: &str, what: &str) -> EvalError {
    EvalError::ShapeMismatch {
        what: format!("column {name} has {what}, which is outside of what was known of it"),
    }
}

fn exact(op: IntegerOp, left: i128, right: i128) -> Option<i128> {
    match op {
        IntegerOp::Add => left.checked_add(right),
        IntegerOp::Subtract => left.checked_sub(right),
        IntegerOp::Multiply => left.checked_mul(right),
    }
}

fn fits(value: Option<i128>, bits: u32) -> bool {
    value.is_some_and(|value| wrapped(value, bits, true) == value)
}

fn integer<'a>(op: IntegerOp, overflow: Overflow, left: i128, right: i128) -> Cell<'a> {
    let modulo = match op {
        IntegerOp::Add => left.wrapping_add(right),
        IntegerOp::Subtract => left.wrapping_sub(right),
        IntegerOp::Multiply => left.wrapping_mul(right),
    };
    Cell::Int(match overflow {
        Overflow::Never => modulo,
        Overflow::Wraps { bits, signed } => wrapped(modulo, bits, signed),
        Overflow::Fails { bits } if fits(exact(op, left, right), bits) => modulo,
        Overflow::Fails { .. } => 0,
    })
}

/// Reduces modulo 2^bits.
fn wrapped(value: i128, bits: u32, signed: bool) -> i128 {
    let shift = 128 - bits;
    match signed {
        true => value << shift >> shift,
        false => ((value << shift) as u128 >> shift) as i128,
    }
}

fn divided(rounding: Rounding, left: i128, right: i128) -> i128 {
    let quotient = left.checked_div(right).unwrap_or(left);
    let rest = left.checked_rem(right).unwrap_or(0);
    match rounding {
        Rounding::Zero => quotient,
        Rounding::Down => quotient - i128::from(rest < 0),
        Rounding::Nearest if rest.unsigned_abs() >= (right / 2).unsigned_abs() && right > 1 => {
            quotient + if left < 0 { -1 } else { 1 }
        }
        Rounding::Nearest => quotient,
    }
}

/// Computes on floats of either width.
fn computed<T>(op: FloatOp, left: T, right: T) -> T
where
    T: std::ops::Add<Output = T>
        + std::ops::Sub<Output = T>
        + std::ops::Mul<Output = T>
        + std::ops::Div<Output = T>
        + std::ops::Rem<Output = T>,
{
    match op {
        FloatOp::Add => left + right,
        FloatOp::Subtract => left - right,
        FloatOp::Multiply => left * right,
        FloatOp::Divide => left / right,
        FloatOp::Remainder => left % right,
    }
}

fn converted(cell: Cell<'_>, to: Class) -> Cell<'_> {
    match (to, cell) {
        (Class::F64, Cell::Int(value)) => Cell::Float(value as f64),
        (Class::F32, Cell::Int(value)) => Cell::Float(f64::from(value as f32)),
        (Class::F32, Cell::Float(value)) => Cell::Float(f64::from(value as f32)),
        (Class::I32, Cell::Int(value)) => Cell::Int(i128::from(value as i32)),
        (Class::I64, Cell::Int(value)) => Cell::Int(i128::from(value as i64)),
        (Class::I128, Cell::Float(value)) => Cell::Int(truncated(value).unwrap_or(0)),
        (_, cell) => cell,
    }
}

/// Truncates towards zero; `None` for NaN and what 128 bits cannot hold.
fn truncated(value: f64) -> Option<i128> {
    // 2^127 is exact in a double, and the greatest double below it is in range.
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    (-LIMIT..LIMIT).contains(&value).then_some(value as i128)
}
