//! Row expressions as CUDA C++.
//!
//! Each node becomes one variable, in the narrowest of 32, 64 and 128 bits that the ranges of its
//! operands prove to be enough; code is free of branches, and what may raise does so under a guard
//! that says whether its row is selected and its value wanted. The text depends on types, on ranges
//! as far as they decide widths, and on which inputs may be NULL; constants are parameters of the
//! launch.

mod aggregate;
mod arithmetic;
mod cast;
mod custom;
mod expr;
mod moments;
mod shift;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{CustomFunction, Expr, Interval, NamedExpr, Scalar, ScalarValue};

use super::slots::{Lookup, Slot, SlotFacts, SlotKind, count_nodes, over_input, slot_kind};

pub use aggregate::{CallPlan, FloatScaleAt, LOCAL_ROWS_MAX, STATE_ROWS_MAX, Sums, WordOp};
pub(crate) use aggregate::{Word, Words};
pub use custom::probe;
pub use moments::MomentScale;

/// How a C++ variable holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    Bool,
    I32,
    I64,
    I128,
    F32,
    F64,
}

impl Class {
    /// Returns the narrowest class that holds every integer of the range.
    pub(crate) fn of(range: Interval) -> Self {
        if range.is_within(Interval::signed(32)) {
            Self::I32
        } else if range.is_within(Interval::signed(64)) {
            Self::I64
        } else {
            Self::I128
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "float",
            Self::F64 => "double",
        }
    }
}

/// Whether a value is there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Valid {
    Always,
    Never,
    If(String),
}

impl Valid {
    /// Returns the C++ condition.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Always => "true",
            Self::Never => "false",
            Self::If(code) => code,
        }
    }
}

/// A value as the generated code has it. What it is where it is not valid is unspecified, but
/// harmless: of its class, and in its range where it is an integer.
#[derive(Clone, Debug)]
pub(crate) struct Val {
    pub(crate) code: String,
    pub(crate) class: Class,
    /// Of integers and booleans.
    pub(crate) range: Interval,
    /// Of floats: none is farther from zero.
    pub(crate) bound: f64,
    /// Of floats: none is nearer to zero; 0 if one may be.
    pub(crate) least: f64,
    /// Of doubles: each is a single.
    pub(crate) are_singles: bool,
    pub(crate) valid: Valid,
}

impl Val {
    /// Returns the C++ integer in which floats have the order of comparisons: one NaN, the greatest,
    /// and one zero.
    pub(crate) fn float_order(&self) -> String {
        let of_bits = match self.class {
            Class::F32 => "__int_as_float",
            _ => "__longlong_as_double",
        };
        format!("total_order({of_bits}(key_bits({})))", self.code)
    }
}

/// One column of a step's input.
#[derive(Clone, Debug)]
enum Cell {
    /// A value in a variable.
    Value(Val),
    /// A column of the pipeline's input, or strings: known only as an expression over the input.
    Lazy,
}

/// The columns that a step sees.
pub(crate) struct Scope {
    cells: Vec<Cell>,
    /// Each column over the pipeline's input, where it is small enough.
    over_input: Vec<Option<Expr>>,
}

/// The largest expression that is carried along for the host to evaluate.
const CARRIED_NODES_MAX: usize = 64;

/// Writes the code of one row.
#[derive(Clone)]
pub(crate) struct Emitter<'a> {
    parameters: &'a [Scalar],
    facts_of: &'a dyn Fn(&Slot) -> SlotFacts,
    pub(crate) lines: Vec<String>,
    pub(crate) slots: Vec<(Slot, SlotFacts)>,
    pub(crate) literals: Vec<u64>,
    /// Slots whose values are looked up, and where their literals begin.
    pub(crate) lookups: Vec<(usize, usize)>,
    /// Slots whose strings' order is asked for, and the literal that says where it is.
    pub(crate) ranks: Vec<(usize, usize)>,
    /// Variables that hold looked-up codes, and the slots whose dictionary they are of.
    code_of: Vec<(String, usize)>,
    literal_at: Vec<Option<usize>>,
    next: usize,
    /// The variables of expressions.
    bound: HashMap<(Class, String), String>,
    /// What tells for which rows a connection, known by its value and its validity, is TRUE.
    truths: HashMap<(String, String), String>,
    /// Whether the row is selected so far, and what is being computed wanted.
    pub(crate) guard: String,
    /// What the code cannot say; the first reason is as good as any.
    pub(crate) uses_checked: bool,
    pub(crate) uses_calendar: bool,
    /// The functions of users that are called, in the order of their first call, and their text.
    pub(crate) customs: Vec<(Arc<CustomFunction>, String)>,
    /// The numbers of digits that float sums have, each with the first literal of one such sum.
    pub(crate) float_scales: Vec<(usize, usize)>,
    /// How far values are from the least ones of their digits, by the number of digits and the
    /// condition under which they count.
    float_distances: Vec<(usize, String, String)>,
    /// Float sums are kept as sums of doubles that are multiples of a unit, not as integers.
    pub(crate) keeps_parts: bool,
    /// They are kept in more digits.
    pub(crate) wide_floats: bool,
    /// They are kept in the same digits whatever is known of the values.
    pub(crate) fixed_floats: bool,
    /// The sums of floats so far, by value and condition.
    float_sums: Vec<(String, String, Sums)>,
    /// The sums of values and squares so far, by value and condition.
    pub(crate) moment_sums: Vec<(String, String, Sums)>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(parameters: &'a [Scalar], facts_of: &'a dyn Fn(&Slot) -> SlotFacts) -> Self {
        Self {
            parameters,
            facts_of,
            lines: Vec::new(),
            slots: Vec::new(),
            literals: Vec::new(),
            lookups: Vec::new(),
            ranks: Vec::new(),
            code_of: Vec::new(),
            literal_at: vec![None; parameters.len()],
            next: 0,
            bound: HashMap::new(),
            truths: HashMap::new(),
            guard: "selected".into(),
            uses_checked: false,
            uses_calendar: false,
            customs: Vec::new(),
            float_scales: Vec::new(),
            float_distances: Vec::new(),
            keeps_parts: false,
            wide_floats: false,
            fixed_floats: false,
            float_sums: Vec::new(),
            moment_sums: Vec::new(),
        }
    }

    /// Returns the scope of the first step.
    pub(crate) fn input_scope(&self, input: &arrow_schema::Schema) -> Scope {
        let column = |(index, field): (usize, &arrow_schema::FieldRef)| {
            Expr::column(index, field.data_type().clone()).ok()
        };
        Scope {
            cells: vec![Cell::Lazy; input.fields().len()],
            over_input: input.fields().iter().enumerate().map(column).collect(),
        }
    }

    /// Emits a projection and returns the scope after it.
    pub(crate) fn project(
        &mut self,
        columns: &[NamedExpr],
        scope: &Scope,
    ) -> Result<Scope, String> {
        let mut next = Scope {
            cells: Vec::with_capacity(columns.len()),
            over_input: Vec::with_capacity(columns.len()),
        };
        for NamedExpr { expr, .. } in columns {
            let carried = over_input(expr, &scope.over_input)
                .ok()
                .filter(|expr| count_nodes(expr) <= CARRIED_NODES_MAX);
            next.over_input.push(carried);
            let cell = match &expr.kind {
                // A column that is passed on is read by whoever uses it.
                tidegate_pipeline::ExprKind::Column(index) => scope.cells[*index].clone(),
                _ if is_string(&expr.data_type) => Cell::Lazy,
                _ => Cell::Value(self.value(expr, scope)?),
            };
            next.cells.push(cell);
        }
        Ok(next)
    }

    /// Emits a filter: rows for which the predicate is not TRUE are selected no more.
    pub(crate) fn filter(&mut self, predicate: &Expr, scope: &Scope) -> Result<(), String> {
        let value = self.value(predicate, scope)?;
        let holds = self.truth(&value);
        let selected = self.bind(Class::Bool, &format!("{} && {holds}", self.guard));
        self.guard = selected;
        Ok(())
    }

    /// Returns the C++ condition for TRUE.
    pub(crate) fn truth(&self, value: &Val) -> String {
        match &value.valid {
            Valid::Always => value.code.clone(),
            Valid::Never => "false".into(),
            Valid::If(valid) => {
                let known = self.truths.get(&(value.code.clone(), valid.clone()));
                known.map_or_else(|| format!("({valid} && {})", value.code), String::clone)
            }
        }
    }

    /// Binds an expression to a variable and returns its name; the same expression to the same one.
    /// Nothing that is bound has an effect, and variables never change.
    pub(crate) fn bind(&mut self, class: Class, code: &str) -> String {
        if let Some(name) = self.bound.get(&(class, code.to_owned())) {
            return name.clone();
        }
        let name = format!("v{}", self.next);
        self.next += 1;
        self.lines
            .push(format!("const {} {name} = {code};", class.name()));
        self.bound.insert((class, code.to_owned()), name.clone());
        name
    }

    /// Returns whether there is a sum of floats.
    pub(crate) fn sums_floats(&self) -> bool {
        !self.float_sums.is_empty()
    }

    /// Binds an integer expression of this range.
    pub(crate) fn integer(&mut self, code: &str, range: Interval, valid: Valid) -> Val {
        let class = Class::of(range);
        Val {
            code: self.bind(class, code),
            class,
            range,
            bound: 0.0,
            least: 0.0,
            are_singles: false,
            valid,
        }
    }

    pub(crate) fn boolean(&mut self, code: &str, valid: Valid) -> Val {
        Val {
            code: self.bind(Class::Bool, code),
            class: Class::Bool,
            range: Interval::new(0, 1),
            bound: 0.0,
            least: 0.0,
            are_singles: false,
            valid,
        }
    }

    pub(crate) fn float(&mut self, class: Class, code: &str, bound: f64, valid: Valid) -> Val {
        Val {
            code: self.bind(class, code),
            class,
            range: Interval::ALL,
            bound: if bound.is_nan() { f64::INFINITY } else { bound },
            least: 0.0,
            are_singles: false,
            valid,
        }
    }

    /// Returns the validity of a result that is NULL if any of these is.
    pub(crate) fn all_valid(&mut self, values: &[&Val]) -> Valid {
        let mut conditions: Vec<&str> = Vec::new();
        for value in values {
            match &value.valid {
                Valid::Always => {}
                Valid::Never => return Valid::Never,
                Valid::If(code) if conditions.contains(&code.as_str()) => {}
                Valid::If(code) => conditions.push(code),
            }
        }
        match conditions.as_slice() {
            [] => Valid::Always,
            [one] => Valid::If((*one).to_owned()),
            many => {
                let code = many.join(" && ");
                Valid::If(self.bind(Class::Bool, &code))
            }
        }
    }

    /// Raises under the guard where `bad` holds and the operands are there.
    pub(crate) fn raise_if(&mut self, bad: &str, valid: &Valid, error: &str) {
        let guard = match valid {
            Valid::Always => self.guard.clone(),
            Valid::Never => return,
            Valid::If(valid) => format!("{} && {valid}", self.guard),
        };
        self.lines
            .push(format!("if ({guard} && {bad}) raise(p.flags, {error});"));
    }

    /// Returns the value of a slot, making it one if it is not.
    pub(crate) fn slot(&mut self, expr: Expr) -> Result<Val, String> {
        let kind = slot_kind(&expr.data_type)?;
        let slot = Slot { expr, kind };
        let index = match self.slots.iter().position(|(known, _)| *known == slot) {
            Some(index) => index,
            None => {
                let facts = (self.facts_of)(&slot);
                self.slots.push((slot.clone(), facts));
                self.slots.len() - 1
            }
        };
        if let Some(lookup) = self.slots[index].1.lookup {
            return Ok(self.looked_up(index, lookup));
        }
        let facts = &self.slots[index].1;
        let valid = if facts.nullable {
            Valid::If(format!("((b{index} >> r) & 1)"))
        } else {
            Valid::Always
        };
        let (class, code) = match kind {
            SlotKind::Float32 => (Class::F32, format!("c{index}[r]")),
            SlotKind::Float64 => (Class::F64, format!("c{index}[r]")),
            _ if slot.expr.data_type == arrow_schema::DataType::Boolean => {
                (Class::Bool, format!("(c{index}[r] != 0)"))
            }
            _ => (Class::of(facts.range), format!("c{index}[r]")),
        };
        Ok(Val {
            code,
            class,
            range: facts.range,
            bound: facts.float_bound,
            least: facts.float_least,
            are_singles: false,
            valid,
        })
    }

    /// Looks a slot's value up by its code.
    fn looked_up(&mut self, index: usize, lookup: Lookup) -> Val {
        let known = self.lookups.iter().find(|(slot, _)| *slot == index);
        let at = match known {
            Some((_, at)) => *at,
            None => {
                let at = self.literals.len();
                self.literals.extend([0; 3]);
                self.lookups.push((index, at));
                at
            }
        };
        let (slot, facts) = &self.slots[index];
        let (kind, bound) = (slot.kind, f64::INFINITY);
        let is_boolean = slot.expr.data_type == arrow_schema::DataType::Boolean;
        let place = if facts.nullable {
            format!(
                "(((b{index} >> r) & 1) ? (u64)c{index}[r] : p.literals[{}])",
                at + 2
            )
        } else {
            format!("(u64)c{index}[r]")
        };
        let word = format!("((const i64*)p.literals[{at}])[{place}]");
        let valid = if lookup.nullable {
            let code = format!("((const u8*)p.literals[{}])[{place}] != 0", at + 1);
            Valid::If(self.bind(Class::Bool, &code))
        } else {
            Valid::Always
        };
        match kind {
            SlotKind::Float64 => self.float(
                Class::F64,
                &format!("__longlong_as_double({word})"),
                bound,
                valid,
            ),
            SlotKind::Float32 => self.float(
                Class::F32,
                &format!("__int_as_float((i32){word})"),
                bound,
                valid,
            ),
            _ if is_boolean => self.boolean(&format!("{word} != 0"), valid),
            _ => {
                let class = Class::of(lookup.range).name();
                let value = self.integer(&format!("({class}){word}"), lookup.range, valid);
                if kind == SlotKind::Code {
                    self.code_of.push((value.code.clone(), index));
                }
                value
            }
        }
    }

    /// Returns the value of the scope's column.
    fn column(&mut self, index: usize, scope: &Scope) -> Result<Val, String> {
        match &scope.cells[index] {
            Cell::Value(value) => Ok(value.clone()),
            Cell::Lazy => match &scope.over_input[index] {
                Some(expr) => self.slot(expr.clone()),
                None => Err("an expression over strings that is too large".into()),
            },
        }
    }

    /// Makes an expression over strings an input.
    pub(crate) fn lifted(&mut self, expr: &Expr, scope: &Scope) -> Result<Val, String> {
        let expr = over_input(expr, &scope.over_input)?;
        self.slot(expr)
    }

    /// Returns the value of a group key or an output column; of a string its code.
    pub(crate) fn key(&mut self, expr: &Expr, scope: &Scope) -> Result<Val, String> {
        if is_string(&expr.data_type) {
            return self.lifted(expr, scope);
        }
        self.value(expr, scope)
    }

    /// Returns the slot whose codes a value is, if it is strings.
    pub(crate) fn dictionary_of(&self, value: &Val) -> Option<usize> {
        let code_of = |index: usize| format!("c{index}[r]");
        let is_code = |index: &usize| self.slots[*index].0.kind == SlotKind::Code;
        let read = |index: &usize| code_of(*index) == value.code;
        let looked_up = self.code_of.iter().find(|(code, _)| *code == value.code);
        (0..self.slots.len())
            .filter(is_code)
            .find(read)
            .or(looked_up.map(|(_, index)| *index))
    }

    /// Returns what divides the distances between the values of a column that is read as it is; 1 if
    /// nothing is known.
    pub(crate) fn step_of(&self, value: &Val) -> u64 {
        let slots = self.slots.iter().enumerate();
        let mut read = slots.filter(|(index, (slot, facts))| {
            slot.kind == SlotKind::Integer
                && facts.lookup.is_none()
                && facts.range == value.range
                && facts.range.is_within(Interval::signed(64))
                && format!("c{index}[r]") == value.code
        });
        read.next().map_or(1, |(_, (_, facts))| facts.step.max(1))
    }

    fn parameter(&mut self, index: usize) -> Result<Val, String> {
        let scalar = &self.parameters[index];
        let class = match slot_kind(&scalar.data_type)? {
            SlotKind::Float32 => Some(Class::F32),
            SlotKind::Float64 => Some(Class::F64),
            SlotKind::Integer => None,
            SlotKind::Code => return Err("a string outside of a comparison".into()),
        };
        let constant = |code: &str, class, range, bound, valid| Val {
            code: code.to_owned(),
            class,
            range,
            bound,
            least: if f64::is_finite(bound) { bound } else { 0.0 },
            are_singles: false,
            valid,
        };
        let zero = Interval::of(0);
        let value = match &scalar.value {
            ScalarValue::Null => {
                let class = match scalar.data_type {
                    arrow_schema::DataType::Boolean => Class::Bool,
                    _ => class.unwrap_or(Class::I32),
                };
                let code = format!("({})0", class.name());
                return Ok(constant(&code, class, zero, 0.0, Valid::Never));
            }
            ScalarValue::Boolean(value) => i128::from(*value),
            ScalarValue::Int(value) => i128::from(*value),
            ScalarValue::UInt(value) => i128::from(*value),
            ScalarValue::Decimal(value) => *value,
            ScalarValue::Float(value) => {
                let at = self.literal(index, &[value.to_bits()]);
                let code = format!("__longlong_as_double((i64)p.literals[{at}])");
                let class = class.unwrap_or(Class::F64);
                let code = match class {
                    Class::F32 => format!("(float){code}"),
                    _ => code,
                };
                let bound = if value.is_nan() {
                    f64::INFINITY
                } else {
                    value.abs()
                };
                return Ok(constant(&code, class, Interval::ALL, bound, Valid::Always));
            }
            ScalarValue::Utf8(_) | ScalarValue::Interval { .. } => {
                return Err(format!("a parameter of {} on a device", scalar.data_type));
            }
        };
        let range = Interval::of(value);
        let words = [value as u64, (value >> 64) as u64];
        let at = self.literal(index, &words);
        if matches!(scalar.value, ScalarValue::Boolean(_)) {
            let code = format!("(p.literals[{at}] != 0)");
            return Ok(constant(
                &code,
                Class::Bool,
                Interval::new(0, 1),
                0.0,
                Valid::Always,
            ));
        }
        let class = Class::of(range);
        let code = match class {
            Class::I128 => {
                format!(
                    "(i128)(((u128)p.literals[{}] << 64) | p.literals[{at}])",
                    at + 1
                )
            }
            class => format!("({})p.literals[{at}]", class.name()),
        };
        Ok(constant(&code, class, range, 0.0, Valid::Always))
    }

    /// Returns where the parameter's words are among the literals.
    fn literal(&mut self, parameter: usize, words: &[u64]) -> usize {
        if let Some(at) = self.literal_at[parameter] {
            return at;
        }
        let at = self.literals.len();
        self.literals.extend_from_slice(words);
        self.literal_at[parameter] = Some(at);
        at
    }
}
