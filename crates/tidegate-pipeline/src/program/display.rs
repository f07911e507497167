//! A program as text for people: `EXPLAIN (FORMAT PROGRAM)`.

use std::fmt;

use super::{
    Callee, Class, Comparison, FloatOp, InputId, IntegerOp, Nullable, Op, Output, Overflow, Raised,
    Reduce, Rounding, RowProgram, Sink, Type, ValueId,
};
use crate::interval::Interval;

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { low, high } if low == high => write!(f, "{low}"),
            Self { low, high } => write!(f, "{low}..={high}"),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Text => "text",
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class();
        match self {
            Self::Int(interval) if is_whole(*interval) => class.fmt(f),
            Self::Int(interval) => write!(f, "{class} {interval}"),
            Self::Float32(range) | Self::Float64(range) if range.bound.is_finite() => {
                write!(f, "{class} within {}", range.bound)
            }
            Self::Bool | Self::Float32(_) | Self::Float64(_) | Self::Text => class.fmt(f),
        }
    }
}

/// Returns whether an interval is all that a class holds.
fn is_whole(interval: Interval) -> bool {
    let mut wholes = [32, 64, 128].into_iter();
    wholes.any(|bits| interval == Interval::signed(bits))
}

impl fmt::Display for IntegerOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
        })
    }
}

impl fmt::Display for FloatOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DivideByZero => f.write_str("division by zero"),
            Self::Overflow { operation } => write!(f, "overflow of {operation}"),
            Self::Domain { what } => f.write_str(what),
            Self::CastFailed { from, to, .. } => write!(f, "failed cast from {from} to {to}"),
            Self::Function { name, .. } => write!(f, "failure of {name}"),
        }
    }
}

/// An operation with the names of its operands.
struct Shown<'a>(&'a RowProgram, &'a Op);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(program, op) = self;
        let input = |id: &InputId| &program.inputs[id.0 as usize].name;
        match op {
            Op::Input(id) => f.write_str(input(id)),
            Op::IsPresent(id) => write!(f, "{} is not null", input(id)),
            Op::Parameter(index) => {
                write!(f, "parameter {index}: {}", program.parameters[*index])
            }
            Op::Bool(constant) => write!(f, "{constant}"),
            Op::Int(constant) => write!(f, "{constant}"),
            Op::Float(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Op::RowExists => f.write_str("row exists"),
            Op::Not(value) => write!(f, "not {value}"),
            Op::And(left, right) => write!(f, "{left} and {right}"),
            Op::Or(left, right) => write!(f, "{left} or {right}"),
            Op::Select {
                condition,
                then,
                otherwise,
            } => write!(f, "{condition} ? {then} : {otherwise}"),
            Op::Integer {
                op,
                overflow,
                left,
                right,
            } => {
                write!(f, "{left} {op} {right}")?;
                match overflow {
                    Overflow::Never => Ok(()),
                    Overflow::Wraps { bits, .. } => write!(f, ", wraps at {bits} bits"),
                    Overflow::Fails { bits } => write!(f, ", fails beyond {bits} bits"),
                }
            }
            Op::Failed(value) => write!(f, "{value} failed"),
            Op::Divide {
                rounding,
                left,
                right,
                ..
            } => {
                write!(f, "{left} / {right}")?;
                f.write_str(match rounding {
                    Rounding::Zero => "",
                    Rounding::Down => ", rounded down",
                    Rounding::Nearest => ", rounded to nearest",
                })
            }
            Op::Remainder { left, right } => write!(f, "{left} % {right}"),
            Op::Float2 { op, left, right } => write!(f, "{left} {op} {right}"),
            Op::NegateFloat(value) => write!(f, "-{value}"),
            Op::Compare { op, left, right } => write!(f, "{left} {op} {right}"),
            Op::Convert { value, to } => write!(f, "{value} as {to}"),
            Op::Canonical(value) => write!(f, "canonical {value}"),
            Op::Call { callee, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                let arguments = arguments.join(", ");
                match callee {
                    Callee::Kernel(kernel) => write!(f, "{}({arguments})", kernel.name),
                    Callee::Custom { function, wanted } => {
                        write!(f, "{}({arguments}) if {wanted}", function.name)
                    }
                }
            }
            Op::Gave(value) => write!(f, "{value} gave a value"),
        }
    }
}

/// A SQL value with the name of its validity.
struct ShownNullable<'a>(&'a RowProgram, Nullable);

impl fmt::Display for ShownNullable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(program, Nullable { value, valid }) = self;
        match program.is(*valid, true) {
            true => write!(f, "{value}"),
            false => write!(f, "{value} if {valid}"),
        }
    }
}

impl RowProgram {
    fn write_outputs(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        outputs: &[Output],
    ) -> fmt::Result {
        outputs.iter().try_for_each(|output| {
            let (name, data_type) = (&output.name, &output.data_type);
            let value = ShownNullable(self, output.value);
            writeln!(f, "  {what} {name} {data_type} = {value}")
        })
    }

    fn write_sink(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sink {
            Sink::Rows(outputs) => self.write_outputs(f, "output", outputs),
            Sink::Sorted(sorted) => {
                for key in &sorted.keys {
                    let value = ShownNullable(self, key.value);
                    let order = if key.descending {
                        "descending"
                    } else {
                        "ascending"
                    };
                    let nulls = if key.nulls_first { "first" } else { "last" };
                    writeln!(f, "  order by {value} {order}, nulls {nulls}")?;
                }
                if let Some(fetch) = sorted.fetch {
                    writeln!(f, "  fetch {fetch}")?;
                }
                self.write_outputs(f, "output", &sorted.outputs)
            }
            Sink::Groups(groups) => {
                self.write_outputs(f, "key", &groups.keys)?;
                for (index, accumulator) in groups.accumulators.iter().enumerate() {
                    let value = accumulator.value;
                    let value = value.map_or(String::new(), |value| format!(" of {value}"));
                    let (reduce, rows) = (accumulator.reduce, accumulator.rows);
                    writeln!(f, "  accumulate a{index} = {reduce}{value} where {rows}")?;
                }
                for call in &groups.calls {
                    let places = call.accumulators.iter();
                    let places: Vec<String> = places.map(|at| format!("a{at}")).collect();
                    writeln!(f, "  call {} of {}:", call.function, places.join(", "))?;
                    for line in call.finish.to_string().lines() {
                        writeln!(f, "  {line}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Reduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("count"),
            Self::SumInteger { bits } => write!(f, "sum modulo 2^{bits}"),
            Self::SumFloat => f.write_str("float sum"),
            Self::Least => f.write_str("least"),
            Self::Greatest => f.write_str("greatest"),
            Self::Combine(monoid) => f.write_str(monoid.name),
            Self::Moments => f.write_str("moments"),
            Self::CoMoment { other } => write!(f, "co-moment with {other}"),
        }
    }
}

impl fmt::Display for RowProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.values.iter().enumerate() {
            let (id, data) = (ValueId(index as u32).to_string(), value.data.to_string());
            writeln!(f, "  {id:<5}: {data:<24} = {}", Shown(self, &value.op))?;
        }
        for raise in &self.raises {
            let (error, guard, when) = (&raise.error, raise.guard, raise.when);
            writeln!(f, "  raise {error} where {guard} and {when}")?;
        }
        writeln!(f, "  select {}", self.selected)?;
        self.write_sink(f)
    }
}
