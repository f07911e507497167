//! Accumulators: one aggregate call's state for every group, and the states and values they give.
//!
//! The results are DataFusion's. Integer and decimal sums wrap at the width of their state. Extremes
//! of floats follow the order of comparisons: `max` is NaN if there is a NaN, `min` only if there is
//! nothing else, and a zero is 0.0. DataFusion's grouped accumulators, which answer otherwise, are
//! not in use.

use arrow_schema::{DataType, Field};

use super::EvalError;
use super::compare::{canonical, order};
use super::value::Value;
use crate::pipeline::{AggregateCall, AggregateFunction, AggregateOutput};
use crate::types::{Decimal, DecimalWidth};

/// The state of one call in every group.
pub(crate) struct Accumulator {
    function: AggregateFunction,
    /// Whether there are group keys; DataFusion's two variance accumulators differ in one case.
    grouped: bool,
    argument: Option<DataType>,
    value: DataType,
    sum: Option<DataType>,
    state: State,
}

enum State {
    Count(Vec<i64>),
    Sum(Sums),
    Avg { counts: Vec<u64>, sums: Sums },
    Extreme { greatest: bool, extremes: Extremes },
    Moments(Vec<Moments>),
}

/// Sums by what they add up; `None` before the first value.
enum Sums {
    Int(Vec<Option<i64>>),
    UInt(Vec<Option<u64>>),
    Float(Vec<Option<f64>>),
    Decimal {
        width: DecimalWidth,
        sums: Vec<Option<i128>>,
    },
}

/// The least or greatest values so far.
enum Extremes {
    /// NULL before the first value.
    Fixed(Vec<Value<'static>>),
    Text {
        texts: Vec<Option<Box<str>>>,
        /// The bytes of all texts together.
        held: usize,
    },
}

/// Count, mean and sum of squared differences, by Welford's method.
#[derive(Clone, Copy, Default)]
struct Moments {
    count: u64,
    mean: f64,
    m2: f64,
}

impl Accumulator {
    /// Starts a call without groups.
    pub(crate) fn new(call: &AggregateCall, grouped: bool) -> Result<Self, EvalError> {
        let argument = call.argument.as_ref().map(|expr| expr.data_type.clone());
        let sum = match call.function {
            AggregateFunction::Avg => call.state.get(1).map(Field::data_type).cloned(),
            _ => None,
        };
        let state = match call.function {
            AggregateFunction::Count => State::Count(Vec::new()),
            AggregateFunction::Sum => State::Sum(Sums::new(&call.data_type)?),
            AggregateFunction::Avg => State::Avg {
                counts: Vec::new(),
                sums: Sums::new(sum.as_ref().unwrap_or(&call.data_type))?,
            },
            AggregateFunction::Min | AggregateFunction::Max => State::Extreme {
                greatest: call.function == AggregateFunction::Max,
                extremes: if call.data_type.is_string() {
                    Extremes::Text {
                        texts: Vec::new(),
                        held: 0,
                    }
                } else {
                    Extremes::Fixed(Vec::new())
                },
            },
            AggregateFunction::VarPop
            | AggregateFunction::VarSamp
            | AggregateFunction::StddevPop
            | AggregateFunction::StddevSamp => State::Moments(Vec::new()),
        };
        Ok(Self {
            function: call.function,
            grouped,
            argument,
            value: call.data_type.clone(),
            sum,
            state,
        })
    }

    /// Appends a group that has seen nothing.
    pub(crate) fn add_group(&mut self) {
        match &mut self.state {
            State::Count(counts) => counts.push(0),
            State::Sum(sums) => sums.add_group(),
            State::Avg { counts, sums } => {
                counts.push(0);
                sums.add_group();
            }
            State::Extreme { extremes, .. } => match extremes {
                Extremes::Fixed(values) => values.push(Value::Null),
                Extremes::Text { texts, .. } => texts.push(None),
            },
            State::Moments(moments) => moments.push(Moments::default()),
        }
    }

    /// Takes a row into a group. NULL is passed over, save that `count(*)` is given no value at all.
    pub(crate) fn update(
        &mut self,
        group: usize,
        value: Option<Value<'_>>,
    ) -> Result<(), EvalError> {
        let value = match (&mut self.state, value) {
            (State::Count(counts), None) => {
                counts[group] += 1;
                return Ok(());
            }
            (_, None | Some(Value::Null)) => return Ok(()),
            (_, Some(value)) => value,
        };
        match (&mut self.state, value) {
            (State::Count(counts), _) => counts[group] += 1,
            (State::Sum(sums), value) => sums.add(group, value)?,
            (State::Avg { counts, sums }, value) => {
                counts[group] += 1;
                sums.add(group, value)?;
            }
            (State::Extreme { greatest, extremes }, value) => {
                extremes.take(group, value, *greatest)?;
            }
            (State::Moments(moments), Value::Float64(value)) => moments[group].add(value),
            (State::Moments(_), other) => {
                return Err(EvalError::internal(format!(
                    "{} of {other:?}",
                    self.function
                )));
            }
        }
        Ok(())
    }

    /// Returns the memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Count(counts) => counts.capacity() * size_of::<i64>(),
            State::Sum(sums) => sums.memory_bytes(),
            State::Avg { counts, sums } => {
                counts.capacity() * size_of::<u64>() + sums.memory_bytes()
            }
            State::Extreme { extremes, .. } => match extremes {
                Extremes::Fixed(values) => values.capacity() * size_of::<Value<'_>>(),
                Extremes::Text { texts, held } => {
                    texts.capacity() * size_of::<Option<Box<str>>>() + held
                }
            },
            State::Moments(moments) => moments.capacity() * size_of::<Moments>(),
        }
    }

    /// Appends to `row` what leaves for a group: its state's columns, or its value.
    pub(crate) fn emit<'a>(
        &'a self,
        group: usize,
        output: AggregateOutput,
        row: &mut Vec<Value<'a>>,
    ) -> Result<(), EvalError> {
        match (&self.state, output) {
            (State::Count(counts), _) => row.push(Value::Int(counts[group])),
            (State::Sum(sums), _) => row.push(sums.get(group)),
            (State::Extreme { extremes, .. }, _) => row.push(extremes.get(group)),
            (State::Avg { counts, sums }, AggregateOutput::State) => {
                let sum = sums.get(group);
                // NULL and NULL: a count of 0 would make DataFusion divide by it.
                let count = if sum.is_null() {
                    Value::Null
                } else {
                    Value::UInt(counts[group])
                };
                row.extend([count, sum]);
            }
            (State::Avg { counts, sums }, AggregateOutput::Value) => {
                row.push(self.average(sums.get(group), counts[group])?);
            }
            (State::Moments(moments), AggregateOutput::State) => {
                let Moments { count, mean, m2 } = moments[group];
                row.extend([Value::UInt(count), Value::Float64(mean), Value::Float64(m2)]);
            }
            (State::Moments(moments), AggregateOutput::Value) => {
                row.push(self.variance(moments[group]));
            }
        }
        Ok(())
    }

    fn average(&self, sum: Value<'static>, count: u64) -> Result<Value<'static>, EvalError> {
        let overflow = || EvalError::Overflow {
            operation: match &self.argument {
                Some(argument) => format!("avg of {argument}"),
                None => "avg".to_owned(),
            },
        };
        match sum {
            Value::Null => Ok(Value::Null),
            Value::Float64(sum) => Ok(Value::Float64(sum / count as f64)),
            Value::Int(sum) => Ok(Value::Int(sum.wrapping_div(count as i64))),
            Value::Decimal(sum) => {
                let summed = self.sum.as_ref().and_then(Decimal::of);
                let (Some(summed), Some(value)) = (summed, Decimal::of(&self.value)) else {
                    return Err(overflow());
                };
                // The quotient is truncated, after the sum was brought to the value's scale.
                let digits = u32::try_from(value.scale - summed.scale).map_err(|_| overflow())?;
                let average = summed
                    .width
                    .power_of_ten(digits)
                    .and_then(|factor| sum.checked_mul(factor))
                    .and_then(|scaled| summed.width.fit(scaled))
                    .map(|scaled| scaled / i128::from(count))
                    .filter(|average| value.holds(*average));
                average.map(Value::Decimal).ok_or_else(overflow)
            }
            other => Err(EvalError::internal(format!("avg of {other:?}"))),
        }
    }

    fn variance(&self, moments: Moments) -> Value<'static> {
        let (sample, root) = (self.function.is_of_sample(), self.function.is_root());
        let divisor = if sample {
            moments.count.saturating_sub(1)
        } else {
            moments.count
        };
        if divisor == 0 {
            return Value::Null;
        }
        // Without keys DataFusion does not divide for a single value, so an infinity has variance 0.
        let variance = if moments.count == 1 && !self.grouped {
            0.0
        } else {
            moments.m2 / divisor as f64
        };
        Value::Float64(if root { variance.sqrt() } else { variance })
    }
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.m2 += before * (value - self.mean);
    }
}

impl Sums {
    fn new(data_type: &DataType) -> Result<Self, EvalError> {
        let sums = match (data_type, Decimal::of(data_type)) {
            (_, Some(decimal)) => Self::Decimal {
                width: decimal.width,
                sums: Vec::new(),
            },
            (DataType::Int64 | DataType::Duration(_), None) => Self::Int(Vec::new()),
            (DataType::UInt64, None) => Self::UInt(Vec::new()),
            (DataType::Float64, None) => Self::Float(Vec::new()),
            (other, None) => return Err(EvalError::internal(format!("a sum of {other}"))),
        };
        Ok(sums)
    }

    fn add_group(&mut self) {
        match self {
            Self::Int(sums) => sums.push(None),
            Self::UInt(sums) => sums.push(None),
            Self::Float(sums) => sums.push(None),
            Self::Decimal { sums, .. } => sums.push(None),
        }
    }

    fn add(&mut self, group: usize, value: Value<'_>) -> Result<(), EvalError> {
        match (self, value) {
            (Self::Int(sums), Value::Int(value)) => {
                sums[group] = Some(sums[group].unwrap_or(0).wrapping_add(value));
            }
            (Self::UInt(sums), Value::UInt(value)) => {
                sums[group] = Some(sums[group].unwrap_or(0).wrapping_add(value));
            }
            (Self::Float(sums), Value::Float64(value)) => {
                sums[group] = Some(sums[group].unwrap_or(0.0) + value);
            }
            (Self::Decimal { width, sums }, Value::Decimal(value)) => {
                let sum = sums[group].unwrap_or(0).wrapping_add(value);
                sums[group] = Some(width.wrap(sum));
            }
            (_, other) => return Err(EvalError::internal(format!("a sum of {other:?}"))),
        }
        Ok(())
    }

    fn get(&self, group: usize) -> Value<'static> {
        let value = match self {
            Self::Int(sums) => sums[group].map(Value::Int),
            Self::UInt(sums) => sums[group].map(Value::UInt),
            Self::Float(sums) => sums[group].map(Value::Float64),
            Self::Decimal { sums, .. } => sums[group].map(Value::Decimal),
        };
        value.unwrap_or(Value::Null)
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Int(sums) => sums.capacity() * size_of::<Option<i64>>(),
            Self::UInt(sums) => sums.capacity() * size_of::<Option<u64>>(),
            Self::Float(sums) => sums.capacity() * size_of::<Option<f64>>(),
            Self::Decimal { sums, .. } => sums.capacity() * size_of::<Option<i128>>(),
        }
    }
}

impl Extremes {
    fn take(&mut self, group: usize, value: Value<'_>, greatest: bool) -> Result<(), EvalError> {
        let beyond = |held: Value<'_>| {
            let order = order(value, held);
            held.is_null()
                || if greatest {
                    order.is_gt()
                } else {
                    order.is_lt()
                }
        };
        match self {
            Self::Text { texts, held } => {
                let Value::Utf8(text) = value else {
                    return Err(EvalError::internal(format!("an extreme of {value:?}")));
                };
                let before = texts[group].as_deref();
                if beyond(before.map_or(Value::Null, Value::Utf8)) {
                    *held += text.len();
                    *held -= before.map_or(0, str::len);
                    texts[group] = Some(text.into());
                }
            }
            Self::Fixed(values) => {
                if beyond(values[group]) {
                    values[group] = detached(canonical(value))?;
                }
            }
        }
        Ok(())
    }

    fn get(&self, group: usize) -> Value<'_> {
        match self {
            Self::Fixed(values) => values[group],
            Self::Text { texts, .. } => texts[group].as_deref().map_or(Value::Null, Value::Utf8),
        }
    }
}

/// Returns the value without a borrow; text has its own place.
fn detached(value: Value<'_>) -> Result<Value<'static>, EvalError> {
    let value = match value {
        Value::Null => Value::Null,
        Value::Boolean(value) => Value::Boolean(value),
        Value::Int(value) => Value::Int(value),
        Value::UInt(value) => Value::UInt(value),
        Value::Float32(value) => Value::Float32(value),
        Value::Float64(value) => Value::Float64(value),
        Value::Decimal(value) => Value::Decimal(value),
        Value::Interval {
            months,
            days,
            nanoseconds,
        } => Value::Interval {
            months,
            days,
            nanoseconds,
        },
        Value::Utf8(_) => return Err(EvalError::internal("text among fixed values")),
    };
    Ok(value)
}

#[cfg(test)]
mod tests;
