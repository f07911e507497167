//! Makes values: each operation once, with what is known of its result.
//!
//! Two operations on the same operands are one value, so "the same condition" and "the same sum" are
//! equality of ids, for every backend.

mod arithmetic;

use std::collections::{HashMap, HashSet};

use super::cell::type_of;
use super::{
    Callee, Class, Comparison, Facts, Input, InputId, Nullable, Op, Raise, Raised, RowProgram,
    Sink, Type, Value, ValueId,
};
use crate::catalogue::Kernel;
use crate::interval::{FloatRange, Interval};
use crate::scalar::{Scalar, ScalarValue};

/// Which bodies of users' functions a program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Those of a host, which may fail and give NULL.
    Host,
    /// Those of a device, which do neither.
    Device,
}

/// Builds the values of one program.
#[derive(Debug)]
pub struct Builder {
    inputs: Vec<Input>,
    parameters: Vec<Scalar>,
    values: Vec<Value>,
    known: HashMap<Op, ValueId>,
    raises: Vec<Raise>,
    bodies: Bodies,
    /// The booleans that are TRUE only where they are there.
    tell: HashSet<Nullable>,
    /// The row is selected so far; then what has to hold for what is being lowered to be wanted.
    guards: Vec<ValueId>,
}

impl Builder {
    /// Starts a program over these inputs and literals.
    pub fn new(inputs: Vec<Input>, parameters: Vec<Scalar>) -> Self {
        let mut builder = Self {
            inputs,
            parameters,
            values: Vec::new(),
            known: HashMap::new(),
            raises: Vec::new(),
            bodies: Bodies::Host,
            tell: HashSet::new(),
            guards: Vec::new(),
        };
        let exists = builder.push(Op::RowExists, Type::Bool);
        builder.guards.push(exists);
        builder
    }

    /// Calls these bodies of users' functions.
    pub fn calling(self, bodies: Bodies) -> Self {
        Self { bodies, ..self }
    }

    /// Ends the program. Values that nothing reads are dropped.
    pub fn finish(self, sink: Sink) -> RowProgram {
        let selected = self.selected();
        let mut program = RowProgram {
            inputs: self.inputs,
            parameters: self.parameters,
            values: self.values,
            raises: self.raises,
            selected,
            sink,
        };
        program.drop_unused();
        program
    }

    fn push(&mut self, op: Op, data: Type) -> ValueId {
        if let Some(known) = self.known.get(&op) {
            return *known;
        }
        let id = ValueId(self.values.len() as u32);
        self.values.push(Value {
            op: op.clone(),
            data,
        });
        self.known.insert(op, id);
        id
    }

    fn op(&self, id: ValueId) -> &Op {
        &self.values[id.0 as usize].op
    }

    /// Returns what is known of a value.
    pub fn data(&self, id: ValueId) -> Type {
        self.values[id.0 as usize].data
    }

    /// Returns where integers lie.
    pub fn interval(&self, id: ValueId) -> Interval {
        self.data(id).interval()
    }

    /// Returns whether the value is this constant.
    pub fn is(&self, id: ValueId, constant: bool) -> bool {
        *self.op(id) == Op::Bool(constant)
    }

    /// Returns the integer that a value was converted from to a double.
    pub fn converted_integer(&self, id: ValueId) -> Option<ValueId> {
        match *self.op(id) {
            Op::Convert {
                value,
                to: Class::F64,
            } if self.data(value).is_integer() => Some(value),
            _ => None,
        }
    }

    // Leaves.

    /// Reads the column of the stage's source at `column`, which becomes an input unless it is one.
    pub fn column(&mut self, column: usize, input: impl FnOnce() -> Input) -> Nullable {
        let known = self.inputs.iter().position(|input| input.column == column);
        let index = known.unwrap_or(self.inputs.len());
        if known.is_none() {
            self.inputs.push(input());
        }
        self.input(InputId(index as u32))
    }

    /// Reads an input.
    pub fn input(&mut self, id: InputId) -> Nullable {
        let Input {
            data_type, facts, ..
        } = &self.inputs[id.0 as usize];
        let (data, nullable) = (type_of(data_type, *facts), facts.nullable);
        let value = self.push(Op::Input(id), data);
        let valid = match nullable {
            true => self.push(Op::IsPresent(id), Type::Bool),
            false => self.bool(true),
        };
        Nullable { value, valid }
    }

    /// Reads a literal.
    pub fn parameter(&mut self, index: usize) -> Nullable {
        let scalar = &self.parameters[index];
        let interval = match &scalar.value {
            ScalarValue::Int(value) => Interval::of(i128::from(*value)),
            ScalarValue::UInt(value) => Interval::of(i128::from(*value)),
            ScalarValue::Decimal(value) => Interval::of(*value),
            ScalarValue::Interval { .. } => Interval::ALL,
            _ => Interval::of(0),
        };
        let floats = match &scalar.value {
            ScalarValue::Float(value) => FloatRange::of(*value),
            _ => FloatRange::of(0.0),
        };
        let facts = Facts {
            interval,
            floats,
            nullable: false,
            step: 0,
        };
        let is_null = scalar.value == ScalarValue::Null;
        let data = type_of(&scalar.data_type, facts);
        let value = self.push(Op::Parameter(index), data);
        let valid = self.bool(!is_null);
        Nullable { value, valid }
    }

    /// Returns what a literal is.
    pub fn scalar(&self, value: ValueId) -> Option<&Scalar> {
        match *self.op(value) {
            Op::Parameter(index) => self.parameters.get(index),
            _ => None,
        }
    }

    /// Makes a literal of an integer that follows from others.
    pub fn literal(&mut self, value: i128) -> ValueId {
        self.follow(Scalar {
            data_type: arrow_schema::DataType::Decimal128(38, 0),
            value: ScalarValue::Decimal(value),
        })
    }

    /// Reads a literal, which is made unless there is one.
    fn follow(&mut self, scalar: Scalar) -> ValueId {
        let known = self.parameters.iter().position(|known| *known == scalar);
        let index = known.unwrap_or(self.parameters.len());
        if known.is_none() {
            self.parameters.push(scalar);
        }
        self.parameter(index).value
    }

    /// Makes a literal of a text that follows from others.
    pub fn text(&mut self, text: &str) -> ValueId {
        self.follow(Scalar {
            data_type: arrow_schema::DataType::Utf8,
            value: ScalarValue::Utf8(text.into()),
        })
    }

    /// Makes a constant.
    pub fn bool(&mut self, value: bool) -> ValueId {
        self.push(Op::Bool(value), Type::Bool)
    }

    /// Makes a constant.
    pub fn int(&mut self, value: i128) -> ValueId {
        self.push(Op::Int(value), Type::Int(Interval::of(value)))
    }

    /// Makes a constant.
    pub fn float(&mut self, value: f64) -> ValueId {
        let data = Type::Float64(FloatRange::of(value));
        self.push(Op::Float(value.to_bits()), data)
    }

    // Logic on values that are there.

    /// Computes `!a`.
    pub fn not(&mut self, value: ValueId) -> ValueId {
        match *self.op(value) {
            Op::Bool(constant) => self.bool(!constant),
            Op::Not(inner) => inner,
            _ => self.push(Op::Not(value), Type::Bool),
        }
    }

    /// Computes `a && b`.
    pub fn and(&mut self, left: ValueId, right: ValueId) -> ValueId {
        match () {
            () if self.is(left, true) || left == right => right,
            () if self.is(right, true) || self.is(left, false) => left,
            () if self.is(right, false) => right,
            () => self.push(Op::And(left, right), Type::Bool),
        }
    }

    /// Computes `a || b`.
    pub fn or(&mut self, left: ValueId, right: ValueId) -> ValueId {
        match () {
            () if self.is(left, false) || left == right => right,
            () if self.is(right, false) || self.is(left, true) => left,
            () if self.is(right, true) => right,
            () => self.push(Op::Or(left, right), Type::Bool),
        }
    }

    /// Computes `condition ? then : otherwise` of two values that are alike.
    pub fn select(&mut self, condition: ValueId, then: ValueId, otherwise: ValueId) -> ValueId {
        let data = self.data(then).hull(self.data(otherwise));
        self.select_as(condition, then, otherwise, data)
    }

    /// Chooses where more is known of the result than of both values.
    pub(crate) fn select_as(
        &mut self,
        condition: ValueId,
        then: ValueId,
        otherwise: ValueId,
        data: Type,
    ) -> ValueId {
        match () {
            () if self.is(condition, true) || then == otherwise => then,
            () if self.is(condition, false) => otherwise,
            () if self.is(then, true) && self.is(otherwise, false) => condition,
            () => self.push(
                Op::Select {
                    condition,
                    then,
                    otherwise,
                },
                data,
            ),
        }
    }

    /// Returns whether all of these are there.
    pub fn all_valid(&mut self, values: &[Nullable]) -> ValueId {
        let start = self.bool(true);
        let valid = values.iter().map(|value| value.valid);
        valid.fold(start, |all, valid| self.and(all, valid))
    }

    /// Returns whether the value is there and TRUE.
    pub fn truth(&mut self, value: Nullable) -> ValueId {
        match self.tell.contains(&value) {
            true => value.value,
            false => self.and(value.valid, value.value),
        }
    }

    /// Makes a SQL value that is TRUE only where it is there, so that nobody has to ask.
    pub fn true_if_there(&mut self, value: ValueId, valid: ValueId) -> Nullable {
        let nullable = Nullable { value, valid };
        self.tell.insert(nullable);
        nullable
    }

    /// Compares.
    pub fn compare(&mut self, op: Comparison, left: ValueId, right: ValueId) -> ValueId {
        self.push(Op::Compare { op, left, right }, Type::Bool)
    }

    /// Makes equal floats equal bits; other values stay as they are.
    pub fn canonical(&mut self, value: ValueId) -> ValueId {
        match self.data(value) {
            data if data.is_float() => self.push(Op::Canonical(value), data),
            _ => value,
        }
    }

    /// Calls a function of the catalogue.
    pub fn call(&mut self, kernel: &'static Kernel, arguments: Vec<ValueId>) -> ValueId {
        let types: Vec<Type> = arguments.iter().map(|id| self.data(*id)).collect();
        let callee = Callee::Kernel(kernel);
        self.push(Op::Call { callee, arguments }, (kernel.gives)(&types))
    }

    /// Calls a user's function where the row is selected, the result wanted and the arguments there.
    pub fn call_custom(
        &mut self,
        function: &std::sync::Arc<crate::custom::CustomFunction>,
        arguments: Vec<ValueId>,
        valid: ValueId,
    ) -> Nullable {
        let wanted = self.guard(valid);
        let facts = Facts::declared(&function.returns);
        let callee = Callee::Custom {
            function: function.clone(),
            wanted,
        };
        let data = type_of(&function.returns, facts);
        let value = self.push(Op::Call { callee, arguments }, data);
        if self.bodies == Bodies::Device {
            return Nullable { value, valid };
        }
        let failed = self.failed(value);
        let error = Raised::Function {
            name: function.name.clone(),
            call: value,
        };
        self.raise(failed, valid, error);
        let gave = self.push(Op::Gave(value), Type::Bool);
        let valid = self.and(valid, gave);
        Nullable { value, valid }
    }

    /// Returns whether an operation failed.
    pub fn failed(&mut self, value: ValueId) -> ValueId {
        self.push(Op::Failed(value), Type::Bool)
    }

    // Guards and errors.

    /// Selects the rows for which the condition holds, from here on.
    pub fn filter(&mut self, condition: ValueId) {
        self.guards[0] = self.and(self.guards[0], condition);
    }

    /// Returns whether the row is selected so far.
    pub fn selected(&self) -> ValueId {
        self.guards[0]
    }

    /// Lowers something that is wanted only where the condition holds.
    pub fn guarded<T>(&mut self, wanted: ValueId, lower: impl FnOnce(&mut Self) -> T) -> T {
        self.guards.push(wanted);
        let result = lower(self);
        self.guards.pop();
        result
    }

    /// Returns where the row is selected, the result wanted and the operands there.
    fn guard(&mut self, valid: ValueId) -> ValueId {
        let guards = self.guards.clone();
        let guard = guards.into_iter().reduce(|all, guard| self.and(all, guard));
        guard.map_or(valid, |guard| self.and(guard, valid))
    }

    /// Raises for selected rows where `when` holds, the operands are there, and the result is wanted.
    pub fn raise(&mut self, when: ValueId, valid: ValueId, error: Raised) {
        let guard = self.guard(valid);
        let raise = Raise { guard, when, error };
        let never = self.is(when, false) || self.is(guard, false);
        if !never && !self.raises.contains(&raise) {
            self.raises.push(raise);
        }
    }
}

impl RowProgram {
    /// Drops values that nothing reads, and numbers the others anew.
    fn drop_unused(&mut self) {
        let mut used = vec![false; self.values.len()];
        let mut open = self.roots();
        while let Some(ValueId(index)) = open.pop() {
            if !std::mem::replace(&mut used[index as usize], true) {
                open.extend(self.values[index as usize].op.operands());
            }
        }
        let mut places = Vec::with_capacity(used.len());
        let mut kept = Vec::new();
        for (value, used) in std::mem::take(&mut self.values).into_iter().zip(used) {
            places.push(ValueId(kept.len() as u32));
            if used {
                kept.push(value);
            }
        }
        self.values = kept;
        let mut place = |id: ValueId| places[id.0 as usize];
        for value in &mut self.values {
            value.op.map_operands(&mut place);
        }
        self.map_roots(&mut place);
    }
}
