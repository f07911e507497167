//! `abs(a)` of numbers; integers raise where their width does not hold it.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Arguments, Kernel, Lowered, ScalarEntry, Signature, floats};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::program::{Builder, Comparison, IntegerOp, Nullable, Raised, Type};
use crate::types::{Decimal, is_float};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "abs",
    datafusion: &["abs"],
    constants: &[],
    arity: (1, 1),
    types: |signature| {
        let argument = &signature.arguments[0];
        let is_number =
            argument.is_integer() || is_float(argument) || Decimal::of(argument).is_some();
        if !is_number {
            return Err(Unsupported::new(format!("abs of {argument}")));
        }
        signature.gives("abs", argument)
    },
    lower,
    accuracy: Accuracy::Exact,
    signatures: || {
        [
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt64,
            DataType::Float32,
            DataType::Float64,
            DataType::Decimal32(7, 2),
            DataType::Decimal64(12, 3),
            DataType::Decimal128(15, 2),
            DataType::Decimal128(38, 6),
        ]
        .map(|of| Signature::new(vec![of.clone()], of))
        .into()
    },
}];

static DOUBLE: Kernel = Kernel {
    gives: |arguments| arguments[0],
    ..floats::double("abs", f64::abs, "fabs({0})", Accuracy::Exact)
};

static SINGLE: Kernel = Kernel {
    gives: |arguments| arguments[0],
    ..floats::single("abs of singles", f32::abs, "fabsf({0})", Accuracy::Exact)
};

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let data_type = arguments.signature.arguments[0].clone();
    if is_float(&data_type) {
        return floats::lower(builder, arguments, &DOUBLE, &SINGLE);
    }
    let ([value], valid) = arguments.strict(builder)?;
    let interval = builder.interval(value);
    if interval.low >= 0 {
        return Ok(Nullable { value, valid });
    }
    let zero = builder.int(0);
    let is_negative = builder.compare(Comparison::Less, value, zero);
    let limit = Interval::of_type(&data_type).unwrap_or(Interval::ALL);
    let (negated, failed) = builder.failing(IntegerOp::Subtract, limit, zero, value);
    let overflows = builder.and(is_negative, failed);
    let operation = format!("abs of {data_type}");
    builder.raise(overflows, valid, Raised::Overflow { operation });
    let value = match builder.is(failed, false) {
        true => {
            let magnitude = i128::try_from(interval.magnitude()).unwrap_or(i128::MAX);
            let data = Type::Int(Interval::new(0, magnitude));
            builder.select_as(is_negative, negated, value, data)
        }
        false => builder.select(is_negative, negated, value),
    };
    Ok(Nullable { value, valid })
}
