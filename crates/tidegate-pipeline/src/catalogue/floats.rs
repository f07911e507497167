//! What functions of floats have in common: both widths, and kernels for each.

use arrow_schema::DataType;

use super::kernel::{Body, Kernel};
use super::{Accuracy, Arguments, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::interval::FloatRange;
use crate::program::{Builder, Class, FloatOp, Nullable, Type, ValueId};
use crate::types::is_float;

/// Makes a kernel of doubles, of whose results nothing is known.
pub(super) const fn double(
    name: &'static str,
    body: fn(f64) -> f64,
    cuda: &'static str,
    accuracy: Accuracy,
) -> Kernel {
    Kernel {
        name,
        accuracy,
        body: Body::Float(body),
        gives: any_double,
        cuda: Some(cuda),
    }
}

/// Makes a kernel of singles, of whose results nothing is known.
pub(super) const fn single(
    name: &'static str,
    body: fn(f32) -> f32,
    cuda: &'static str,
    accuracy: Accuracy,
) -> Kernel {
    Kernel {
        name,
        accuracy,
        body: Body::Single(body),
        gives: any_single,
        cuda: Some(cuda),
    }
}

/// Makes the entry of a function of one float.
pub(super) const fn entry(
    datafusion: &'static [&'static str],
    types: fn(&Signature) -> Result<(), Unsupported>,
    lower: fn(&mut Builder, &mut Arguments<'_>) -> Lowered,
    accuracy: Accuracy,
) -> ScalarEntry {
    ScalarEntry {
        name: datafusion[0],
        datafusion,
        constants: &[],
        arity: (1, 1),
        types,
        lower,
        accuracy,
        signatures: || signatures(1),
    }
}

/// Makes the entry of a function that Rust has under this name and CUDA under that one, and its kernels.
macro_rules! libm {
    ($function:ident, $cuda:literal, $ulps:literal) => {
        pub(super) static ENTRIES: &[$crate::catalogue::ScalarEntry] =
            &[$crate::catalogue::floats::entry(
                &[stringify!($function)],
                |signature| $crate::catalogue::floats::types(stringify!($function), signature),
                |builder, arguments| {
                    $crate::catalogue::floats::lower(builder, arguments, &DOUBLE, &SINGLE)
                },
                DOUBLE.accuracy,
            )];

        static DOUBLE: $crate::catalogue::Kernel = $crate::catalogue::floats::double(
            stringify!($function),
            f64::$function,
            concat!($cuda, "({0})"),
            $crate::catalogue::Accuracy::Ulps($ulps),
        );

        static SINGLE: $crate::catalogue::Kernel = $crate::catalogue::floats::single(
            concat!(stringify!($function), " of singles"),
            f32::$function,
            concat!($cuda, "f({0})"),
            $crate::catalogue::Accuracy::Ulps($ulps),
        );
    };
}
pub(super) use libm;

/// The root of a double.
pub(super) static SQRT: Kernel = double("sqrt", f64::sqrt, "__dsqrt_rn({0})", Accuracy::Exact);

/// Knows nothing of a double.
pub(super) fn any_double(_: &[Type]) -> Type {
    Type::Float64(FloatRange::ALL)
}

/// Knows nothing of a single.
pub(super) fn any_single(_: &[Type]) -> Type {
    Type::Float32(FloatRange::ALL)
}

/// Knows that a result is no farther from 0 than its argument, or than 1 beyond.
pub(super) fn next_to_argument(arguments: &[Type]) -> Type {
    let range = FloatRange::within(arguments[0].floats().bound + 1.0);
    match arguments[0] {
        Type::Float32(_) => Type::Float32(range),
        _ => Type::Float64(range),
    }
}

/// Checks that all arguments are floats of one width, and the result too.
pub(super) fn types(name: &str, signature: &Signature) -> Result<(), Unsupported> {
    let argument = &signature.arguments[0];
    let is_wrong = |data_type: &&DataType| !is_float(data_type) || *data_type != argument;
    if let Some(other) = signature.arguments.iter().find(is_wrong) {
        return Err(Unsupported::new(format!("{name} of {other}")));
    }
    signature.gives(name, argument)
}

/// Lowers a function that is NULL where an argument is, by its kernel for the width.
pub(super) fn lower(
    builder: &mut Builder,
    arguments: &mut Arguments<'_>,
    double: &'static Kernel,
    single: &'static Kernel,
) -> Lowered {
    let kernel = match arguments.signature.arguments[0] {
        DataType::Float32 => single,
        _ => double,
    };
    arguments.call(builder, kernel)
}

/// Makes a constant of the width of another value.
pub(super) fn constant(builder: &mut Builder, value: f64, like: ValueId) -> ValueId {
    let constant = builder.float(value);
    match builder.data(like).class() {
        Class::F32 => builder.convert(constant, Class::F32),
        _ => constant,
    }
}

/// Computes a value of a strict function of one argument.
pub(super) fn strict(
    builder: &mut Builder,
    arguments: &mut Arguments<'_>,
    compute: impl FnOnce(&mut Builder, ValueId) -> ValueId,
) -> Lowered {
    let ([value], valid) = arguments.strict(builder)?;
    let value = compute(builder, value);
    Ok(Nullable { value, valid })
}

/// Lowers the product with a constant of the argument's width.
pub(super) fn scaled(
    builder: &mut Builder,
    arguments: &mut Arguments<'_>,
    double: f64,
    single: f32,
) -> Lowered {
    let factor = match arguments.signature.arguments[0] {
        DataType::Float32 => f64::from(single),
        _ => double,
    };
    strict(builder, arguments, |builder, value| {
        let factor = constant(builder, factor, value);
        builder.float2(FloatOp::Multiply, value, factor)
    })
}

/// Returns the signatures of a function of so many floats.
pub(super) fn signatures(num: usize) -> Vec<Signature> {
    [DataType::Float64, DataType::Float32]
        .map(|of| Signature::new(vec![of.clone(); num], of))
        .into()
}
