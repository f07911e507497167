//! Instructions of single operations.

use std::sync::Arc;

use tidegate_pipeline::catalogue::{Body, Kernel};
use tidegate_pipeline::program::{Callee, Class, InputId, IntegerOp, Op, Overflow, Type, ValueId};
use tidegate_pipeline::{Interval, Scalar, ScalarValue, Unsupported};

use super::super::code::{Constant, Operation, Register};
use super::super::vector::Lane;
use super::{Compiler, Place};

impl Compiler<'_> {
    /// Computes a value where its operands are.
    pub(super) fn compute(&mut self, place: Place, id: ValueId) -> Result<Register, Unsupported> {
        let program = self.program;
        let data = program.data(id);
        let lane = Lane::of(data);
        Ok(match &program.value(id).op {
            Op::Input(InputId(input)) => self.load(place, *input as usize, id),
            Op::IsPresent(InputId(input)) => {
                let input = *input as usize;
                self.make(place, Lane::Bool, Operation::IsPresent { input }, &[])
            }
            Op::Parameter(index) => self.literal(&program.parameters[*index], data),
            Op::Bool(value) => self.boolean(*value),
            Op::RowExists => self.boolean(true),
            Op::Int(value) => self.constant(lane, Constant::Int(*value)),
            Op::Float(bits) => self.constant(lane, Constant::Float(*bits)),
            Op::Not(one) => {
                let from = self.value(place, *one)?;
                self.make(place, Lane::Bool, Operation::Not, &[from])
            }
            Op::And(left, right) => match (self.is_true(place, *left), self.is_true(place, *right))
            {
                (true, _) => self.value(place, *right)?,
                (_, true) => self.value(place, *left)?,
                _ => {
                    let (left, right) = (self.value(place, *left)?, self.value(place, *right)?);
                    self.both(place, left, right)
                }
            },
            Op::Or(left, right) => {
                let (left, right) = (self.value(place, *left)?, self.value(place, *right)?);
                self.make(place, Lane::Bool, Operation::Or, &[left, right])
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => self.select(place, lane, (*condition, *then, *otherwise))?,
            Op::Integer {
                op,
                overflow,
                left,
                right,
            } => self.integer(place, data, (*op, *overflow), (*left, *right))?,
            Op::Failed(of) => self.failed(place, *of)?,
            Op::Divide {
                rounding,
                bits,
                left,
                right,
            } => {
                let wide = self
                    .common(*left, *right)
                    .wider(lane)
                    .wider(Lane::of_bits(*bits));
                let (rounding, bits) = (*rounding, *bits);
                let divide = Operation::Divide { rounding, bits };
                let quotient = self.binary(place, divide, (*left, *right), (wide, wide))?;
                self.cast(place, quotient, lane)
            }
            Op::Remainder { left, right } => {
                let wide = self.common(*left, *right).wider(lane);
                let remainder = Operation::Remainder;
                let rest = self.binary(place, remainder, (*left, *right), (wide, wide))?;
                self.cast(place, rest, lane)
            }
            Op::Float2 { op, left, right } => {
                let float = Operation::Float(*op);
                self.binary(place, float, (*left, *right), (lane, lane))?
            }
            Op::NegateFloat(one) => {
                let from = self.value(place, *one)?;
                self.make(place, lane, Operation::Negate, &[from])
            }
            Op::Canonical(one) => {
                let from = self.value(place, *one)?;
                self.make(place, lane, Operation::Canonical, &[from])
            }
            Op::Compare { op, left, right } => {
                let lanes = (self.common(*left, *right), Lane::Bool);
                self.binary(place, Operation::Compare(*op), (*left, *right), lanes)?
            }
            Op::Convert { value, to } => self.convert(place, *value, *to, lane)?,
            Op::Call {
                callee: Callee::Kernel(kernel),
                arguments,
            } => self.call(place, kernel, arguments, lane)?,
            Op::Call {
                callee: Callee::Custom { function, .. },
                ..
            } => {
                let what = format!("function {} of a user, on the host", function.name);
                return Err(Unsupported::new(what));
            }
            Op::Gave(_) => return Err(Unsupported::new("a user's function, on the host")),
        })
    }

    /// Returns the lane in which two values meet.
    fn common(&self, left: ValueId, right: ValueId) -> Lane {
        let (left, right) = (self.program.data(left), self.program.data(right));
        let (one, other) = (Lane::of(left), Lane::of(right));
        match (one, other) {
            (one, other) if one == other => one,
            (Lane::F64, _) | (_, Lane::F64) => Lane::F64,
            (one, other) => one.wider(other),
        }
    }

    fn pair(
        &mut self,
        place: Place,
        (left, right): (ValueId, ValueId),
        lane: Lane,
    ) -> Result<(Register, Register), Unsupported> {
        let (left, right) = (self.value(place, left)?, self.value(place, right)?);
        Ok((self.cast(place, left, lane), self.cast(place, right, lane)))
    }

    /// Computes something of two values that are brought to the first of the lanes; it gives the second.
    fn binary(
        &mut self,
        place: Place,
        operation: Operation,
        operands: (ValueId, ValueId),
        (takes, gives): (Lane, Lane),
    ) -> Result<Register, Unsupported> {
        let (left, right) = self.pair(place, operands, takes)?;
        Ok(self.make(place, gives, operation, &[left, right]))
    }

    fn select(
        &mut self,
        place: Place,
        lane: Lane,
        (condition, then, otherwise): (ValueId, ValueId, ValueId),
    ) -> Result<Register, Unsupported> {
        if self.is_true(place, condition) {
            let then = self.value(place, then)?;
            return Ok(self.cast(place, then, lane));
        }
        let condition = self.value(place, condition)?;
        let (then, otherwise) = self.pair(place, (then, otherwise), lane)?;
        let operands = [condition, then, otherwise];
        Ok(self.make(place, lane, Operation::Select, &operands))
    }

    /// Computes in the lane of the result: `+ - *` are the same modulo the width of a lane, whatever the
    /// operands' higher bits are.
    fn integer(
        &mut self,
        place: Place,
        data: Type,
        (op, overflow): (IntegerOp, Overflow),
        operands: (ValueId, ValueId),
    ) -> Result<Register, Unsupported> {
        let lane = Lane::of(data);
        let lane = if lane == Lane::Bool { Lane::I32 } else { lane };
        let wrap = match overflow {
            Overflow::Never => None,
            Overflow::Wraps { bits, signed } => Some((bits, signed)),
            Overflow::Fails { bits } => {
                let wide = self.common(operands.0, operands.1).wider(lane);
                let checked = Operation::Checked { op, bits };
                let result = self.binary(place, checked, operands, (wide, wide))?;
                return Ok(self.cast(place, result, lane));
            }
        };
        let integer = Operation::Integer { op, wrap };
        self.binary(place, integer, operands, (lane, lane))
    }

    fn failed(&mut self, place: Place, of: ValueId) -> Result<Register, Unsupported> {
        match &self.program.value(of).op {
            Op::Integer {
                op,
                overflow: Overflow::Fails { bits },
                left,
                right,
            } => {
                let lane = Lane::of(self.program.data(of));
                let wide = self.common(*left, *right).wider(lane);
                let (op, bits) = (*op, *bits);
                let overflows = Operation::Overflows { op, bits };
                self.binary(place, overflows, (*left, *right), (wide, Lane::Bool))
            }
            Op::Convert { value, .. } if self.program.data(*value).is_float() => {
                let from = self.value(place, *value)?;
                let from = self.cast(place, from, Lane::F64);
                Ok(self.make(place, Lane::Bool, Operation::CastFails, &[from]))
            }
            Op::Convert { .. } => Ok(self.boolean(false)),
            Op::Call {
                callee: Callee::Custom { function, .. },
                ..
            } => Err(Unsupported::new(format!(
                "the user's function {}, on the host",
                function.name
            ))),
            op => Err(Unsupported::new(format!(
                "the failure of {op:?}, on the host"
            ))),
        }
    }

    fn convert(
        &mut self,
        place: Place,
        value: ValueId,
        to: Class,
        lane: Lane,
    ) -> Result<Register, Unsupported> {
        let from = self.value(place, value)?;
        let is_float = self.program.data(value).is_float();
        // Integers are first reduced to the class, floats first truncated to 128 bits.
        let between = match (to, is_float) {
            (Class::I32, false) => Lane::I32,
            (Class::I64, false) => Lane::I64,
            (Class::I128, _) => Lane::I128,
            (Class::F32, _) => Lane::F32,
            (Class::F64, _) => Lane::F64,
            (Class::Text, _) if self.lanes[from] == Lane::Text => Lane::Text,
            (Class::Bool, _) if self.lanes[from] == Lane::Bool => Lane::Bool,
            _ => {
                return Err(Unsupported::new(format!(
                    "a conversion to {to}, on the host"
                )));
            }
        };
        let between = self.cast(place, from, between);
        Ok(self.cast(place, between, lane))
    }

    fn call(
        &mut self,
        place: Place,
        kernel: &'static Kernel,
        arguments: &[ValueId],
        lane: Lane,
    ) -> Result<Register, Unsupported> {
        let Some((takes, gives)) = lanes_of(&kernel.body) else {
            return Err(Unsupported::new(
                "a function that makes strings, on the host",
            ));
        };
        if takes.len() != arguments.len() {
            return Err(Unsupported::new("a call with other arguments, on the host"));
        }
        let mut registers = Vec::with_capacity(arguments.len());
        for (argument, lane) in arguments.iter().zip(takes) {
            let register = self.value(place, *argument)?;
            registers.push(self.cast(place, register, *lane));
        }
        let result = self.make(place, gives, Operation::Call(kernel), &registers);
        Ok(self.cast(place, result, lane))
    }

    fn literal(&mut self, scalar: &Scalar, data: Type) -> Register {
        let Interval { low, high } = data.interval();
        let constant = match (&scalar.value, data) {
            (ScalarValue::Null, Type::Text) => Constant::Text("".into()),
            (ScalarValue::Null, data) if data.is_float() => Constant::Float(0.0_f64.to_bits()),
            (ScalarValue::Null, _) => Constant::Int(0.clamp(low, high)),
            (ScalarValue::Boolean(value), _) => Constant::Int((*value).into()),
            (ScalarValue::Int(value), _) => Constant::Int((*value).into()),
            (ScalarValue::UInt(value), _) => Constant::Int((*value).into()),
            (ScalarValue::Decimal(value), _) => Constant::Int(*value),
            (ScalarValue::Float(value), _) => Constant::Float(value.to_bits()),
            (ScalarValue::Utf8(text), _) => Constant::Text(Arc::clone(text)),
            (
                ScalarValue::Interval {
                    months,
                    days,
                    nanoseconds,
                },
                _,
            ) => Constant::Int(span(*months, *days, *nanoseconds)),
        };
        self.constant(Lane::of(data), constant)
    }
}

/// Returns the lanes of a body's arguments and of its result; `None` for bodies that make strings.
fn lanes_of(body: &Body) -> Option<(&'static [Lane], Lane)> {
    use Lane::{Bool, F32, F64, I64, I128, Text};

    let lanes: (&'static [Lane], Lane) = match body {
        Body::Float(_) => (&[F64], F64),
        Body::Float2(_) => (&[F64, F64], F64),
        Body::Single(_) => (&[F32], F32),
        Body::Single2(_) => (&[F32, F32], F32),
        Body::Int(_) => (&[I64], I64),
        Body::Int2(_) => (&[I64, I64], I64),
        Body::Unpack(_) => (&[I128], I64),
        Body::Pack(_) => (&[I64, I64, I64], I128),
        Body::Matches(_) | Body::Pattern(_) => (&[Text, Text], Bool),
        Body::TextInt(_) => (&[Text], I64),
        Body::Text2Int(_) => (&[Text, Text], I64),
        Body::Slice(_) => (&[Text, I64, I64], Text),
        Body::Text(_) => return None,
    };
    Some(lanes)
}

/// Returns an interval of SQL as an integer in the order of intervals, as row programs have it.
pub(in super::super) fn span(months: i32, days: i32, nanoseconds: i64) -> i128 {
    let days = (days as u32) ^ (1 << 31);
    let nanoseconds = (nanoseconds as u64) ^ (1 << 63);
    i128::from(months) << 96 | i128::from(days) << 64 | i128::from(nanoseconds)
}
