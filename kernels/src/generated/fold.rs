//! Sums, extremes and means of an array's doubles on the host, without rows: values are made and folded
//! a block at a time, which stays in the first level of the cache.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, Expr, ExprKind,
    Pipeline, ScalarValue, Step,
};

use crate::program::{Generated, GeneratedColumn};
use crate::random::{Array, Lanes, Part, Simd, ValueKind, Work};

/// Values of a block: with what an expression needs beside, well within 32 KiB.
const BLOCK: usize = 1024;

/// What is folded of an array's values: the partial states of an aggregate without keys, whose
/// arguments are arithmetic of the value and of constants.
#[derive(Clone, Debug)]
pub struct ArrayFold {
    array: Array,
    /// What is folded, each once.
    values: Vec<Value>,
    calls: Vec<Call>,
    schema: SchemaRef,
}

/// One aggregate, and which of the values it is of; `count` is of none.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: AggregateFunction,
    value: Option<usize>,
}

/// An expression of one drawn value. It is never NULL.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Drawn,
    Constant(f64),
    Negative(Box<Self>),
    Of(ArithmeticOp, Box<Self>, Box<Self>),
}

impl ArrayFold {
    /// Describes what a pipeline folds of an array of doubles; `schema` is that of the partial states.
    /// `None` if it does anything else than `count`, `sum`, `min`, `max` and `avg`, without keys and
    /// filters, of `+`, `-`, `*`, `/` over the value and constants.
    pub fn of(pipeline: &Pipeline, source: &Generated, schema: &SchemaRef) -> Option<Self> {
        let (Step::Aggregate(aggregate), before) = pipeline.steps.split_last()? else {
            return None;
        };
        let is_plain = aggregate.keys.is_empty() && aggregate.output == AggregateOutput::State;
        if source.array.kind() != ValueKind::Double || !is_plain {
            return None;
        }
        let mut columns: Vec<Option<Value>> = source
            .columns
            .iter()
            .map(|column| (*column == GeneratedColumn::Value).then_some(Value::Drawn))
            .collect();
        for step in before {
            let Step::Project(named) = step else {
                return None;
            };
            let of = |expr: &Expr| Value::of(expr, pipeline, &columns);
            columns = named.iter().map(|named| of(&named.expr)).collect();
        }
        let mut fold = Self {
            array: source.array.clone(),
            values: Vec::new(),
            calls: Vec::new(),
            schema: Arc::clone(schema),
        };
        fold.take(aggregate, pipeline, &columns)?;
        let types = fold.begin().columns();
        let types = types.iter().map(|column| column.data_type().clone());
        let wanted = schema
            .fields()
            .iter()
            .map(|field| field.data_type().clone());
        types.eq(wanted).then_some(fold)
    }

    /// Takes the calls over; `None` if one of them is of another kind.
    fn take(
        &mut self,
        aggregate: &Aggregate,
        pipeline: &Pipeline,
        columns: &[Option<Value>],
    ) -> Option<()> {
        for AggregateCall {
            function,
            argument,
            filter,
            ..
        } in &aggregate.calls
        {
            if filter.is_some() {
                return None;
            }
            let argument = match argument {
                Some(argument) => Some(Value::of(argument, pipeline, columns)?),
                None => None,
            };
            let value = match (function, argument) {
                // No value is NULL.
                (AggregateFunction::Count, _) => None,
                (
                    AggregateFunction::Sum
                    | AggregateFunction::Min
                    | AggregateFunction::Max
                    | AggregateFunction::Avg,
                    Some(value),
                ) => {
                    let known = self.values.iter().position(|known| *known == value);
                    Some(known.unwrap_or_else(|| {
                        self.values.push(value);
                        self.values.len() - 1
                    }))
                }
                _ => return None,
            };
            self.calls.push(Call {
                function: *function,
                value,
            });
        }
        Some(())
    }

    /// Begins with no values.
    pub fn begin(&self) -> ArrayStates<'_> {
        let extremes = |value: usize| {
            let wants = |function| {
                let of_it = |call: &Call| call.value == Some(value) && call.function == function;
                self.calls.iter().any(of_it)
            };
            State {
                least: wants(AggregateFunction::Min).then_some(f64::NAN),
                greatest: wants(AggregateFunction::Max).then_some(-f64::NAN),
                ..State::default()
            }
        };
        ArrayStates {
            fold: self,
            num_rows: 0,
            states: (0..self.values.len()).map(extremes).collect(),
            blocks: Blocks::default(),
        }
    }
}

/// The states of an [`ArrayFold`] so far.
#[derive(Debug)]
pub struct ArrayStates<'a> {
    fold: &'a ArrayFold,
    num_rows: u64,
    states: Vec<State>,
    blocks: Blocks,
}

/// What is known of one value's rows. The extremes are those of the order of comparisons, in which
/// NaN is the greatest and there is one zero, and kept only where they are asked for.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    sum: f64,
    least: Option<f64>,
    greatest: Option<f64>,
}

impl ArrayStates<'_> {
    /// Folds rows of a part of the array.
    pub fn add(&mut self, part: &Part, rows: Range<u64>) {
        self.num_rows += rows.end.saturating_sub(rows.start);
        if self.states.is_empty() {
            return;
        }
        let Self {
            fold,
            states,
            blocks,
            ..
        } = self;
        let mut drawn = [0.0; BLOCK];
        let visit = |drawn: &[f64]| {
            for (value, state) in fold.values.iter().zip(states.iter_mut()) {
                state.add_of(value, drawn, blocks);
            }
        };
        let simd = Simd::widest();
        fold.array.read_blocks(simd, part, rows, &mut drawn, visit);
    }

    /// Returns the states as one row.
    ///
    /// # Errors
    /// A schema that is not that of the states.
    pub fn row(&self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::clone(&self.fold.schema), self.columns())
    }

    fn columns(&self) -> Vec<ArrayRef> {
        let one = |value: Option<f64>| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
        // Without rows there is no value but a count.
        let some = |value: f64| one((self.num_rows > 0).then_some(value));
        let mut columns: Vec<ArrayRef> = Vec::new();
        for call in &self.fold.calls {
            let Some(state) = call.value.map(|value| self.states[value]) else {
                columns.push(Arc::new(Int64Array::from(vec![self.num_rows as i64])));
                continue;
            };
            match call.function {
                AggregateFunction::Min => columns.push(some(state.least.unwrap_or_default())),
                AggregateFunction::Max => columns.push(some(state.greatest.unwrap_or_default())),
                AggregateFunction::Avg => {
                    columns.push(Arc::new(UInt64Array::from(vec![self.num_rows])));
                    columns.push(some(state.sum));
                }
                _ => columns.push(some(state.sum)),
            }
        }
        columns
    }
}

impl State {
    /// Adds what a value is of each drawn one.
    fn add_of(&mut self, value: &Value, drawn: &[f64], blocks: &mut Blocks) {
        let is_sum = self.least.is_none() && self.greatest.is_none();
        match (value, value.with_constant()) {
            (Value::Drawn, _) => self.add(drawn),
            (_, with @ Some(_)) if is_sum => self.sum += sum_of(drawn, with),
            _ => {
                let mut computed = blocks.take();
                value.compute(drawn, &mut computed[..drawn.len()], blocks);
                self.add(&computed[..drawn.len()]);
                blocks.put(computed);
            }
        }
    }

    fn add(&mut self, values: &[f64]) {
        self.sum += sum_of(values, None);
        if let Some(least) = &mut self.least {
            let less = |a: f64, b: f64| match b.total_cmp(&a) {
                Ordering::Less => b,
                _ => a,
            };
            *least = values.iter().map(canonical).fold(*least, less);
        }
        if let Some(greatest) = &mut self.greatest {
            let greater = |a: f64, b: f64| match b.total_cmp(&a) {
                Ordering::Greater => b,
                _ => a,
            };
            *greatest = values.iter().map(canonical).fold(*greatest, greater);
        }
    }
}

/// Returns the one NaN for every NaN, and 0.0 for both zeros.
fn canonical(value: &f64) -> f64 {
    match value.is_nan() {
        true => f64::NAN,
        false => value + 0.0,
    }
}

/// Adds up values, or what each gives with the same one, with the widest registers that there are.
fn sum_of(values: &[f64], with: Option<(ArithmeticOp, f64)>) -> f64 {
    Simd::widest().run(Added { values, with })
}

/// Lanes of a sum.
const SUMMED: usize = 16;

/// The sum of values, or of what each of them gives with the same one, in one order on every machine: in so
/// many lanes that none waits for the one before it, half of them added to the other half until one is
/// left, and at last what is left of the values.
struct Added<'a> {
    values: &'a [f64],
    with: Option<(ArithmeticOp, f64)>,
}

impl Work for Added<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<L: Lanes>(self) -> f64 {
        let Some((op, right)) = self.with else {
            return added::<L>(self.values, |value| value);
        };
        let all = L::splat_real(right);
        match op {
            ArithmeticOp::Add => added::<L>(self.values, move |value| L::add_reals(value, all)),
            ArithmeticOp::Subtract => {
                added::<L>(self.values, move |value| L::subtract_reals(value, all))
            }
            ArithmeticOp::Multiply => added::<L>(self.values, move |value| L::multiply(value, all)),
            ArithmeticOp::Divide => added::<L>(self.values, move |value| L::divide(value, all)),
            ArithmeticOp::Modulo => {
                let of_each = move |value| {
                    let mut lanes = [0.0; SUMMED];
                    L::store(value, &mut lanes);
                    L::load(&lanes.map(|value| value % right)[..L::COUNT])
                };
                added::<L>(self.values, of_each)
            }
        }
    }
}

#[inline(always)]
fn added<L: Lanes>(values: &[f64], of: impl Fn(L::Real) -> L::Real) -> f64 {
    let (groups, rest) = values.as_chunks::<SUMMED>();
    let of_part = |group: &[f64; SUMMED], part: usize| {
        let from = part * L::COUNT;
        of(L::load(&group[from..from + L::COUNT]))
    };
    let num_parts = SUMMED / L::COUNT;
    let mut sums = [L::splat_real(0.0); SUMMED];
    for group in groups {
        for (part, sum) in sums[..num_parts].iter_mut().enumerate() {
            *sum = L::add_reals(*sum, of_part(group, part));
        }
    }
    let mut lanes = [0.0; SUMMED];
    for (part, sum) in sums[..num_parts].iter().enumerate() {
        L::store(*sum, &mut lanes[part * L::COUNT..]);
    }
    let mut width = SUMMED / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    if rest.is_empty() {
        return lanes[0];
    }
    let mut last = [0.0; SUMMED];
    last[..rest.len()].copy_from_slice(rest);
    let mut computed = [0.0; SUMMED];
    for part in 0..num_parts {
        let values = of_part(&last, part);
        L::store(values, &mut computed[part * L::COUNT..]);
    }
    computed[..rest.len()]
        .iter()
        .fold(lanes[0], |sum, value| sum + value)
}

impl Value {
    /// Returns what an expression is of the drawn value; `columns` are those that it is over.
    fn of(expr: &Expr, pipeline: &Pipeline, columns: &[Option<Self>]) -> Option<Self> {
        let of = |expr: &Expr| Self::of(expr, pipeline, columns).map(Box::new);
        if expr.data_type != DataType::Float64 {
            return None;
        }
        match &expr.kind {
            ExprKind::Column(column) => columns.get(*column)?.clone(),
            ExprKind::Parameter(parameter) => match pipeline.parameters.get(*parameter)?.value {
                ScalarValue::Float(value) => Some(Self::Constant(value)),
                _ => None,
            },
            ExprKind::Call {
                function,
                arguments,
                ..
            } => {
                let (left, right) = match (function.entry().name, arguments.as_slice()) {
                    ("negate", [inner]) => return Some(Self::Negative(of(inner)?)),
                    (_, [left, right]) => (left, right),
                    _ => return None,
                };
                let op = match function.entry().name {
                    "add" => ArithmeticOp::Add,
                    "subtract" => ArithmeticOp::Subtract,
                    "multiply" => ArithmeticOp::Multiply,
                    "divide" => ArithmeticOp::Divide,
                    _ => return None,
                };
                Some(Self::Of(op, of(left)?, of(right)?))
            }
        }
    }

    /// Returns what is done with the drawn value and which constant, if that is all.
    fn with_constant(&self) -> Option<(ArithmeticOp, f64)> {
        let Self::Of(op, left, right) = self else {
            return None;
        };
        match (left.as_ref(), right.as_ref()) {
            (Self::Drawn, Self::Constant(right)) => Some((*op, *right)),
            _ => None,
        }
    }

    /// Writes the value of each drawn one to `out`, which is as long.
    fn compute(&self, drawn: &[f64], out: &mut [f64], blocks: &mut Blocks) {
        match self {
            Self::Drawn => out.copy_from_slice(drawn),
            Self::Constant(value) => out.fill(*value),
            Self::Negative(inner) => {
                inner.compute(drawn, out, blocks);
                for out in out {
                    *out = -*out;
                }
            }
            Self::Of(op, left, right) => {
                if let Some((op, right)) = self.with_constant() {
                    return combine_all(op, drawn, out, right);
                }
                left.compute(drawn, out, blocks);
                match right.as_ref() {
                    Self::Drawn => combine(*op, out, drawn),
                    right => {
                        let mut second = blocks.take();
                        right.compute(drawn, &mut second[..drawn.len()], blocks);
                        combine(*op, out, &second[..drawn.len()]);
                        blocks.put(second);
                    }
                }
            }
        }
    }
}

/// Combines each value with its partner.
fn combine(op: ArithmeticOp, out: &mut [f64], right: &[f64]) {
    #[inline(always)]
    fn with(out: &mut [f64], right: &[f64], f: impl Fn(f64, f64) -> f64) {
        let right = &right[..out.len()];
        for index in 0..out.len() {
            out[index] = f(out[index], right[index]);
        }
    }
    match op {
        ArithmeticOp::Add => with(out, right, |a, b| a + b),
        ArithmeticOp::Subtract => with(out, right, |a, b| a - b),
        ArithmeticOp::Multiply => with(out, right, |a, b| a * b),
        ArithmeticOp::Divide => with(out, right, |a, b| a / b),
        ArithmeticOp::Modulo => with(out, right, |a, b| a % b),
    }
}

/// Writes what each value gives with the same one.
fn combine_all(op: ArithmeticOp, left: &[f64], out: &mut [f64], right: f64) {
    #[inline(always)]
    fn with(left: &[f64], out: &mut [f64], f: impl Fn(f64) -> f64) {
        let left = &left[..out.len()];
        for index in 0..out.len() {
            out[index] = f(left[index]);
        }
    }
    match op {
        ArithmeticOp::Add => with(left, out, |a| a + right),
        ArithmeticOp::Subtract => with(left, out, |a| a - right),
        ArithmeticOp::Multiply => with(left, out, |a| a * right),
        ArithmeticOp::Divide => with(left, out, |a| a / right),
        ArithmeticOp::Modulo => with(left, out, |a| a % right),
    }
}

/// Blocks that are not in use.
#[derive(Debug, Default)]
struct Blocks(Vec<Box<[f64; BLOCK]>>);

impl Blocks {
    fn take(&mut self) -> Box<[f64; BLOCK]> {
        self.0.pop().unwrap_or_else(|| Box::new([0.0; BLOCK]))
    }

    fn put(&mut self, block: Box<[f64; BLOCK]>) {
        self.0.push(block);
    }
}

#[cfg(test)]
mod tests;
