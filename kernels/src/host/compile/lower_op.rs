//! Instructions of single operations.

use std::sync::Arc;

use tidegate_pipeline::catalogue::Body;
use tidegate_pipeline::program::{Callee, Class, InputId, IntegerOp, Op, Overflow, Type, ValueId};
use tidegate_pipeline::{Interval, Scalar, ScalarValue, Unsupported};

use super::super::code::{Constant, Instruction, Register};
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
                let (input, to) = (*input as usize, self.register(Lane::Bool));
                self.emit(place, Instruction::IsPresent { input, to });
                to
            }
            Op::Parameter(index) => self.literal(&program.parameters[*index], data),
            Op::Bool(value) => self.boolean(*value),
            Op::RowExists => self.boolean(true),
            Op::Int(value) => self.constant(lane, Constant::Int(*value)),
            Op::Float(bits) => self.constant(lane, Constant::Float(*bits)),
            Op::Not(one) => {
                let from = self.value(place, *one)?;
                self.make(place, Lane::Bool, |to| Instruction::Not { from, to })
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
                self.make(place, Lane::Bool, |to| Instruction::Or { left, right, to })
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
                let (left, right) = self.pair(place, (*left, *right), wide)?;
                let quotient = self.make(place, wide, |to| Instruction::Divide {
                    rounding,
                    bits,
                    left,
                    right,
                    to,
                });
                self.cast(place, quotient, lane)
            }
            Op::Remainder { left, right } => {
                let wide = self.common(*left, *right).wider(lane);
                let (left, right) = self.pair(place, (*left, *right), wide)?;
                let rest = self.make(place, wide, |to| Instruction::Remainder { left, right, to });
                self.cast(place, rest, lane)
            }
            Op::Float2 { op, left, right } => {
                let (op, (left, right)) = (*op, self.pair(place, (*left, *right), lane)?);
                self.make(place, lane, |to| Instruction::Float {
                    op,
                    left,
                    right,
                    to,
                })
            }
            Op::NegateFloat(one) => {
                let from = self.value(place, *one)?;
                self.make(place, lane, |to| Instruction::Negate { from, to })
            }
            Op::Canonical(one) => {
                let from = self.value(place, *one)?;
                self.make(place, lane, |to| Instruction::Canonical { from, to })
            }
            Op::Compare { op, left, right } => {
                let common = self.common(*left, *right);
                let (op, (left, right)) = (*op, self.pair(place, (*left, *right), common)?);
                self.make(place, Lane::Bool, |to| Instruction::Compare {
                    op,
                    left,
                    right,
                    to,
                })
            }
            Op::Convert { value, to } => self.convert(place, *value, *to, lane)?,
            Op::Call {
                callee: Callee::Kernel(kernel),
                arguments,
            } => self.call(place, &kernel.body, arguments, lane)?,
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

    fn make(
        &mut self,
        place: Place,
        lane: Lane,
        instruction: impl FnOnce(Register) -> Instruction,
    ) -> Register {
        let to = self.register(lane);
        self.emit(place, instruction(to));
        to
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
        Ok(self.make(place, lane, |to| Instruction::Select {
            condition,
            then,
            otherwise,
            to,
        }))
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
                let (left, right) = self.pair(place, operands, wide)?;
                let result = self.make(place, wide, |to| Instruction::Checked {
                    op,
                    bits,
                    left,
                    right,
                    to,
                });
                return Ok(self.cast(place, result, lane));
            }
        };
        let (left, right) = self.pair(place, operands, lane)?;
        Ok(self.make(place, lane, |to| Instruction::Integer {
            op,
            wrap,
            left,
            right,
            to,
        }))
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
                let (left, right) = self.pair(place, (*left, *right), wide)?;
                Ok(self.make(place, Lane::Bool, |to| Instruction::Overflows {
                    op,
                    bits,
                    left,
                    right,
                    to,
                }))
            }
            Op::Convert { value, .. } if self.program.data(*value).is_float() => {
                let from = self.value(place, *value)?;
                let from = self.cast(place, from, Lane::F64);
                Ok(self.make(place, Lane::Bool, |to| Instruction::CastFails { from, to }))
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
        body: &Body,
        arguments: &[ValueId],
        lane: Lane,
    ) -> Result<Register, Unsupported> {
        let mut registers = Vec::with_capacity(arguments.len());
        let wanted = match body {
            Body::Float(_) => vec![Lane::F64],
            Body::Int(_) => vec![Lane::I64],
            Body::Int2(_) => vec![Lane::I64; 2],
            Body::Unpack(_) => vec![Lane::I128],
            Body::Pack(_) => vec![Lane::I64; 3],
            Body::Matches(_) => vec![Lane::Text; 2],
            Body::Slice(_) => vec![Lane::Text, Lane::I64, Lane::I64],
        };
        if wanted.len() != arguments.len() {
            return Err(Unsupported::new("a call with other arguments, on the host"));
        }
        for (argument, lane) in arguments.iter().zip(wanted) {
            let register = self.value(place, *argument)?;
            registers.push(self.cast(place, register, lane));
        }
        let at = |index: usize| registers.get(index).copied().unwrap_or_default();
        let (from, left, right) = (at(0), at(0), at(1));
        let result = match *body {
            Body::Float(body) => self.make(place, Lane::F64, |to| Instruction::CallFloat {
                body,
                from,
                to,
            }),
            Body::Int(body) => self.make(place, Lane::I64, |to| Instruction::CallInt {
                body,
                from,
                to,
            }),
            Body::Int2(body) => self.make(place, Lane::I64, |to| Instruction::CallInt2 {
                body,
                left,
                right,
                to,
            }),
            Body::Unpack(body) => self.make(place, Lane::I64, |to| Instruction::Unpack {
                body,
                from,
                to,
            }),
            Body::Pack(body) => self.make(place, Lane::I128, |to| Instruction::Pack {
                body,
                parts: [at(0), at(1), at(2)],
                to,
            }),
            Body::Matches(body) => self.make(place, Lane::Bool, |to| Instruction::Matches {
                body,
                left,
                right,
                to,
            }),
            Body::Slice(body) => self.make(place, Lane::Text, |to| Instruction::Slice {
                body,
                from,
                start: at(1),
                length: at(2),
                to,
            }),
        };
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

/// Returns an interval of SQL as an integer in the order of intervals, as row programs have it.
pub(in super::super) fn span(months: i32, days: i32, nanoseconds: i64) -> i128 {
    let days = (days as u32) ^ (1 << 31);
    let nanoseconds = (nanoseconds as u64) ^ (1 << 63);
    i128::from(months) << 96 | i128::from(days) << 64 | i128::from(nanoseconds)
}
