//! `floor(a)` of floats and decimals, down.

use arrow_schema::DataType;

use crate::catalogue::decimals::{self, scale_of};
use crate::catalogue::{Accuracy, Arguments, Kernel, Lowered, ScalarEntry, floats};
use crate::program::{Builder, Comparison, IntegerOp, Nullable, Rounding};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "floor",
    datafusion: &["floor"],
    constants: &[],
    arity: (1, 1),
    types: |signature| match scale_of(&signature.arguments[0]) {
        Some(_) => signature.gives("floor", &signature.arguments[0]),
        None => floats::types("floor", signature),
    },
    lower,
    accuracy: Accuracy::Exact,
    oracle: |signature, args| match decimals::split(signature, args) {
        Some((whole, rest, scale)) => {
            let whole = whole - i128::from(rest < 0);
            decimals::joined("floor", signature, (whole, scale))
        }
        None => floats::oracle(args, f64::floor, f32::floor),
    },
    signatures: || [floats::signatures(1), decimals::signatures()].concat(),
}];

static DOUBLE: Kernel = Kernel {
    gives: floats::next_to_argument,
    ..floats::double("floor", f64::floor, "floor({0})", Accuracy::Exact)
};

static SINGLE: Kernel = Kernel {
    gives: floats::next_to_argument,
    ..floats::single(
        "floor of singles",
        f32::floor,
        "floorf({0})",
        Accuracy::Exact,
    )
};

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let data_type: DataType = arguments.signature.arguments[0].clone();
    let Some(scale) = scale_of(&data_type) else {
        return floats::lower(builder, arguments, &DOUBLE, &SINGLE);
    };
    let ([value], valid) = arguments.strict(builder)?;
    if scale == 1 {
        return Ok(Nullable { value, valid });
    }
    let whole = builder.divide_by(Rounding::Zero, value, scale);
    let (unit, zero, next) = (builder.int(scale), builder.int(0), builder.int(-1));
    let rest = builder.remainder(value, unit);
    let is_beyond = builder.compare(Comparison::Less, rest, zero);
    let next = builder.exact(IntegerOp::Add, whole, next);
    let whole = builder.select(is_beyond, next, whole);
    let value = decimals::of_whole(builder, ("floor", &data_type), whole, scale, valid);
    Ok(Nullable { value, valid })
}
