//! How each operation is spelled.

use arrow_schema::DataType;
use tidegate_pipeline::program::{
    Callee, Class, Comparison, FloatOp, InputId, IntegerOp, Op, Overflow, Rounding, Type, ValueId,
};
use tidegate_pipeline::{Interval, ScalarValue, Unsupported};

use super::{Code, RowText, c_type};
use crate::program::slots::{Lookup, SlotKind};

impl RowText<'_> {
    /// Returns the C++ of a value, whose operands have names.
    pub(super) fn operation(&mut self, id: ValueId) -> Result<Code, Unsupported> {
        let program = self.program;
        let data = program.data(id);
        let class = self.class(id);
        let wide = c_type(class);
        let code = match &program.value(id).op {
            Op::Input(input) => return Ok(self.input(*input, class)),
            Op::IsPresent(input) => return Ok(self.validity(*input)),
            Op::Parameter(index) => return Ok(Code::Leaf(self.parameter(*index, class)?)),
            Op::Bool(constant) => return Ok(Code::Leaf(constant.to_string())),
            Op::Int(constant) => return Ok(Code::Leaf(self.integer(*constant))),
            Op::Float(bits) => return Ok(Code::Leaf(float(*bits))),
            Op::RowExists => return Ok(Code::Leaf(self.exists.into())),
            Op::Failed(of) => return Ok(Code::Leaf(self.failed(*of))),
            // No body on a device gives NULL.
            Op::Gave(_) => return Ok(Code::Leaf("true".into())),
            Op::Canonical(_) => {
                let bits = self.canonical_of(id, class);
                return Ok(Code::Leaf(bits));
            }
            Op::Not(value) => format!("!{}", self.name(*value)),
            Op::And(left, right) => format!("{} && {}", self.name(*left), self.name(*right)),
            Op::Or(left, right) => format!("{} || {}", self.name(*left), self.name(*right)),
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                let (then, otherwise) = (self.name(*then), self.name(*otherwise));
                let condition = self.name(*condition);
                format!("{condition} ? ({wide}){then} : ({wide}){otherwise}")
            }
            Op::Integer {
                op,
                overflow,
                left,
                right,
            } => self.integer_operation(*op, *overflow, (*left, *right), wide),
            Op::Divide {
                rounding,
                left,
                right,
                ..
            } => self.quotient(*rounding, (*left, *right), data, wide),
            Op::Remainder { left, right } => self.remainder((*left, *right), wide),
            Op::Float2 { op, left, right } => self.float_operation(*op, *left, *right, class),
            Op::NegateFloat(value) => format!("-{}", self.name(*value)),
            Op::Compare { op, left, right } => return self.comparison(*op, *left, *right),
            Op::Convert { value, to } => self.conversion(*value, *to)?,
            Op::Call {
                callee: Callee::Kernel(kernel),
                arguments,
            } => self.kernel(kernel, arguments, data)?,
            Op::Call {
                callee: Callee::Custom { function, wanted },
                arguments,
            } => self.custom(function, arguments, *wanted)?,
        };
        Ok(Code::Operation(code))
    }

    fn input(&mut self, InputId(index): InputId, class: Class) -> Code {
        if let Some(result) = self.results.get(index as usize) {
            return Code::Leaf(result.value.clone());
        }
        let slot = self.program.inputs[index as usize].column;
        if let Some(lookup) = self.slots[slot].1.lookup {
            return Code::Operation(self.looked_up(slot, lookup));
        }
        Code::Leaf(match class {
            Class::Bool => format!("(c{slot}[r] != 0)"),
            _ => format!("c{slot}[r]"),
        })
    }

    fn validity(&mut self, InputId(index): InputId) -> Code {
        if let Some(result) = self.results.get(index as usize) {
            return Code::Leaf(result.valid.clone());
        }
        let slot = self.program.inputs[index as usize].column;
        if self.slots[slot].1.lookup.is_none() {
            return Code::Leaf(format!("((b{slot} >> r) & 1)"));
        }
        let at = self.lookup_at(slot);
        let place = self.place_of_code(slot, at);
        let code = format!("((const u8*)p.literals[{}])[{place}] != 0", at + 1);
        Code::Operation(code)
    }

    /// Returns the C++ of what a slot has for its code.
    fn looked_up(&mut self, slot: usize, lookup: Lookup) -> String {
        let at = self.lookup_at(slot);
        let place = self.place_of_code(slot, at);
        let word = format!("((const i64*)p.literals[{at}])[{place}]");
        let of = &self.slots[slot].0;
        match of.kind {
            SlotKind::Float64 => format!("__longlong_as_double({word})"),
            SlotKind::Float32 => format!("__int_as_float((i32){word})"),
            _ if of.expr.data_type == DataType::Boolean => format!("{word} != 0"),
            _ => format!("({}){word}", c_type(Type::Int(lookup.range).class())),
        }
    }

    /// Returns the literals of a slot whose values are looked up.
    fn lookup_at(&mut self, slot: usize) -> usize {
        if let Some((_, at)) = self.lookups.iter().find(|(known, _)| *known == slot) {
            return *at;
        }
        let at = self.literals.len();
        self.literals.extend([0; 3]);
        self.lookups.push((slot, at));
        at
    }

    fn place_of_code(&self, slot: usize, at: usize) -> String {
        match self.slots[slot].1.nullable {
            true => format!(
                "(((b{slot} >> r) & 1) ? (u64)c{slot}[r] : p.literals[{}])",
                at + 2
            ),
            false => format!("(u64)c{slot}[r]"),
        }
    }

    fn parameter(&mut self, index: usize, class: Class) -> Result<String, Unsupported> {
        let scalar = &self.program.parameters[index];
        let value = match &scalar.value {
            ScalarValue::Null => return Ok(format!("({})0", c_type(class))),
            ScalarValue::Boolean(value) => i128::from(*value),
            ScalarValue::Int(value) => i128::from(*value),
            ScalarValue::UInt(value) => i128::from(*value),
            ScalarValue::Decimal(value) => *value,
            ScalarValue::Float(value) => i128::from(value.to_bits()),
            ScalarValue::Utf8(_) | ScalarValue::Interval { .. } => {
                return Err(Unsupported::new(format!(
                    "a parameter of {} on a device",
                    scalar.data_type
                )));
            }
        };
        let num_words = if class == Class::F64 || class == Class::F32 {
            1
        } else {
            2
        };
        let words = [value as u64, (value >> 64) as u64];
        let at = *self.literal_at[index].get_or_insert(self.literals.len());
        if at == self.literals.len() {
            self.literals.extend_from_slice(&words[..num_words]);
        }
        Ok(match class {
            Class::Bool => format!("(p.literals[{at}] != 0)"),
            Class::F64 => format!("__longlong_as_double((i64)p.literals[{at}])"),
            Class::F32 => format!("(float)__longlong_as_double((i64)p.literals[{at}])"),
            Class::I128 => format!(
                "(i128)(((u128)p.literals[{}] << 64) | p.literals[{at}])",
                at + 1
            ),
            class => format!("({})p.literals[{at}]", c_type(class)),
        })
    }

    /// Returns an integer as C++.
    fn integer(&mut self, value: i128) -> String {
        let within = |bits: u32| -(1_i128 << (bits - 1)) < value && value < 1 << (bits - 1);
        if within(32) {
            return value.to_string();
        }
        if within(64) {
            return format!("{value}ll");
        }
        self.blocks.checked = true;
        format!("i128_of({}ull, {}ull)", (value >> 64) as u64, value as u64)
    }

    fn integer_operation(
        &mut self,
        op: IntegerOp,
        overflow: Overflow,
        (left, right): (ValueId, ValueId),
        wide: &str,
    ) -> String {
        let (left, right) = (self.name(left).to_owned(), self.name(right).to_owned());
        let name = match op {
            IntegerOp::Add => "add",
            IntegerOp::Subtract => "sub",
            IntegerOp::Multiply => "mul",
        };
        match overflow {
            Overflow::Never => format!("wrapping_{name}(({wide}){left}, ({wide}){right})"),
            Overflow::Wraps { bits, signed } => {
                // The low bits of a result depend on the low bits of the operands alone.
                let within = match bits {
                    128 => "i128",
                    64 => "i64",
                    _ => "i32",
                };
                let code = format!("wrapping_{name}(({within}){left}, ({within}){right})");
                format!("({})({code})", narrow(bits, signed))
            }
            Overflow::Fails { .. } => {
                self.blocks.checked = true;
                let bad = self.flag();
                let code = format!("checked_{name}((i128){left}, (i128){right}, {bad})");
                let exact = format!("wide{}", self.names.len());
                self.lines.push(format!("const i128 {exact} = {code};"));
                format!("({wide}){exact}")
            }
        }
    }

    /// Declares what tells that the operation that is being written failed.
    fn flag(&mut self) -> String {
        let bad = format!("bad{}", self.names.len());
        self.lines.push(format!("bool {bad} = false;"));
        bad
    }

    fn failed(&self, ValueId(of): ValueId) -> String {
        match &self.program.value(ValueId(of)).op {
            Op::Integer {
                overflow: Overflow::Fails { bits },
                ..
            } if *bits < 128 => format!("(bad{of} || !fits(wide{of}, {bits}))"),
            Op::Integer { .. } | Op::Convert { .. } => format!("bad{of}"),
            // No body on a device fails.
            _ => "false".into(),
        }
    }

    /// Returns the constant that a value is, if it is one by which can be divided without a check.
    fn divisor(&self, id: ValueId) -> Option<i128> {
        match self.program.value(id).op {
            Op::Int(divisor) if divisor > 0 => Some(divisor),
            _ => None,
        }
    }

    fn quotient(
        &mut self,
        rounding: Rounding,
        (left, right): (ValueId, ValueId),
        data: Type,
        wide: &str,
    ) -> String {
        self.blocks.checked |= rounding != Rounding::Zero;
        let (low, high) = (self.interval(left), self.interval(right));
        let is_constant = self.divisor(right).is_some();
        let within = match is_constant && rounding != Rounding::Nearest {
            true => low.hull(high),
            false => low.hull(high).hull(data.interval()),
        };
        let within = c_type(Type::Int(within).class());
        let dividend = format!("({within}){}", self.name(left));
        let mut divisor = format!("({within}){}", self.name(right));
        if !is_constant {
            self.blocks.checked = true;
            divisor = format!("safe_divisor({divisor})");
        }
        match rounding {
            Rounding::Zero if is_constant => format!("({wide})({dividend} / {divisor})"),
            Rounding::Zero => format!("({wide})quotient({dividend}, {divisor})"),
            Rounding::Down => format!("({wide})floor_divide({dividend}, {divisor})"),
            Rounding::Nearest => format!("({wide})divide_rounding({dividend}, {divisor})"),
        }
    }

    fn remainder(&mut self, (left, right): (ValueId, ValueId), wide: &str) -> String {
        let within = self.interval(left).hull(self.interval(right));
        let within = c_type(Type::Int(within).class());
        let (dividend, divisor) = (self.name(left), self.name(right));
        if self.divisor(right).is_some() {
            return format!("({wide})(({within}){dividend} % ({within}){divisor})");
        }
        let code = format!("remainder_of(({within}){dividend}, safe_divisor(({within}){divisor}))");
        self.blocks.checked = true;
        format!("({wide}){code}")
    }

    fn interval(&self, id: ValueId) -> Interval {
        self.program.data(id).interval()
    }

    fn float_operation(&self, op: FloatOp, left: ValueId, right: ValueId, class: Class) -> String {
        let (left, right) = (self.name(left), self.name(right));
        let sign = match op {
            FloatOp::Add => "+",
            FloatOp::Subtract => "-",
            FloatOp::Multiply => "*",
            FloatOp::Divide => "/",
            FloatOp::Remainder if class == Class::F32 => return format!("fmodf({left}, {right})"),
            FloatOp::Remainder => return format!("fmod({left}, {right})"),
        };
        format!("{left} {sign} {right}")
    }

    fn canonical_of(&self, id: ValueId, class: Class) -> String {
        let bits = self.key_bits(id);
        match class {
            Class::F32 => format!("__int_as_float({bits})"),
            _ => format!("__longlong_as_double({bits})"),
        }
    }

    fn comparison(
        &self,
        op: Comparison,
        left: ValueId,
        right: ValueId,
    ) -> Result<Code, Unsupported> {
        let is_equality = matches!(op, Comparison::Equal | Comparison::NotEqual);
        let ordered = |id: ValueId| match self.program.data(id) {
            Type::Float32(_) | Type::Float64(_) if is_equality => Ok(self.key_bits(id)),
            Type::Float32(_) | Type::Float64(_) => Ok(self.float_order(id)),
            Type::Bool => Ok(format!("(i32){}", self.name(id))),
            Type::Int(_) => Ok(self.name(id).to_owned()),
            Type::Text => Err(Unsupported::new("a comparison of strings on a device")),
        };
        let sign = match op {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        };
        let code = format!("({} {sign} {})", ordered(left)?, ordered(right)?);
        Ok(Code::Operation(code))
    }

    fn conversion(&mut self, value: ValueId, to: Class) -> Result<String, Unsupported> {
        let name = self.name(value).to_owned();
        let wide = c_type(to);
        let none = || {
            Err(Unsupported::new(format!(
                "a conversion to {to:?} on a device"
            )))
        };
        Ok(match (self.class(value), to) {
            (_, Class::Bool | Class::Text) => return none(),
            (Class::F32 | Class::F64, Class::I128) => {
                self.blocks.checked = true;
                let bad = self.flag();
                format!("truncated((double){name}, {bad})")
            }
            (Class::F32 | Class::F64, Class::I32 | Class::I64) => return none(),
            (Class::I128, Class::F64) => {
                self.blocks.checked = true;
                format!("double_of({name})")
            }
            (Class::I128, Class::F32) if self.interval(value).is_within(Interval::unsigned(64)) => {
                format!("(float)(u64){name}")
            }
            (Class::I128, Class::F32) => return none(),
            (Class::Bool | Class::I32 | Class::I64, Class::F32 | Class::F64) => {
                format!("({wide})(i64){name}")
            }
            _ => format!("({wide}){name}"),
        })
    }
}

/// Returns the C++ of the double with these bits.
fn float(bits: u64) -> String {
    let value = f64::from_bits(bits);
    match value.is_finite() {
        true if value.is_sign_negative() => format!("({value:e})"),
        true => format!("{value:e}"),
        false => format!("__longlong_as_double({}ll)", bits as i64),
    }
}

/// Returns the C++ type to which a result of so many bits is cut.
fn narrow(bits: u32, signed: bool) -> &'static str {
    match (bits, signed) {
        (8, true) => "signed char",
        (16, true) => "short",
        (32, true) => "i32",
        (64, true) => "i64",
        (8, false) => "u8",
        (16, false) => "u16",
        (32, false) => "u32",
        (64, false) => "u64",
        _ => "i128",
    }
}
