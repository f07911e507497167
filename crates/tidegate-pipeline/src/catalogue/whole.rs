//! What functions that give whole numbers of floats and decimals have in common.

use super::decimals::{self, scale_of};
use super::{Accuracy, Arguments, Kernel, Lowered, ScalarEntry, Signature, floats};
use crate::check::Unsupported;
use crate::program::{Builder, Comparison, FloatOp, IntegerOp, Nullable, Rounding, ValueId};

/// Makes a kernel of doubles that goes to a whole number.
pub(super) const fn double(name: &'static str, body: fn(f64) -> f64, cuda: &'static str) -> Kernel {
    Kernel {
        gives: floats::next_to_argument,
        ..floats::double(name, body, cuda, Accuracy::Exact)
    }
}

/// Makes a kernel of singles that goes to a whole number.
pub(super) const fn single(name: &'static str, body: fn(f32) -> f32, cuda: &'static str) -> Kernel {
    Kernel {
        gives: floats::next_to_argument,
        ..floats::single(name, body, cuda, Accuracy::Exact)
    }
}

/// Goes to a whole number of units, of which there are `factor` in 1.
pub(super) fn in_units(
    builder: &mut Builder,
    value: ValueId,
    factor: f64,
    kernel: &'static Kernel,
) -> ValueId {
    let factor = floats::constant(builder, factor, value);
    let scaled = builder.float2(FloatOp::Multiply, value, factor);
    let whole = builder.call(kernel, vec![scaled]);
    builder.float2(FloatOp::Divide, whole, factor)
}

/// A function that goes to the next whole number, up or down.
pub(super) struct NextWhole {
    pub(super) name: &'static str,
    pub(super) double: Kernel,
    pub(super) single: Kernel,
    /// What is added to the whole part of a decimal if the rest is on that side of 0: 1 or -1.
    pub(super) step: i128,
}

/// Makes the entry of such a function.
pub(super) const fn entry(
    datafusion: &'static [&'static str],
    types: fn(&Signature) -> Result<(), Unsupported>,
    lower: fn(&mut Builder, &mut Arguments<'_>) -> Lowered,
) -> ScalarEntry {
    ScalarEntry {
        name: datafusion[0],
        datafusion,
        constants: &[],
        arity: (1, 1),
        types,
        lower,
        accuracy: Accuracy::Exact,
        signatures: || [floats::signatures(1), decimals::signatures()].concat(),
    }
}

impl NextWhole {
    pub(super) fn types(&self, signature: &Signature) -> Result<(), Unsupported> {
        match scale_of(&signature.arguments[0]) {
            Some(_) => signature.gives(self.name, &signature.arguments[0]),
            None => floats::types(self.name, signature),
        }
    }

    pub(super) fn lower(
        &'static self,
        builder: &mut Builder,
        arguments: &mut Arguments<'_>,
    ) -> Lowered {
        let data_type = arguments.signature.arguments[0].clone();
        let Some(scale) = scale_of(&data_type) else {
            return floats::lower(builder, arguments, &self.double, &self.single);
        };
        let ([value], valid) = arguments.strict(builder)?;
        if scale == 1 {
            return Ok(Nullable { value, valid });
        }
        let whole = builder.divide_by(Rounding::Zero, value, scale);
        let (unit, zero, step) = (builder.int(scale), builder.int(0), builder.int(self.step));
        let rest = builder.remainder(value, unit);
        let side = match self.step {
            1 => Comparison::Greater,
            _ => Comparison::Less,
        };
        let is_beyond = builder.compare(side, rest, zero);
        let next = builder.exact(IntegerOp::Add, whole, step);
        let whole = builder.select(is_beyond, next, whole);
        let value = decimals::of_whole(builder, (self.name, &data_type), whole, scale, valid);
        Ok(Nullable { value, valid })
    }
}
