//! `to_timestamp_seconds`, `…_millis`, `…_micros` and `…_nanos` of integers and timestamps: casts.

use arrow_schema::{DataType, TimeUnit};

use super::cast;
use crate::catalogue::{Accuracy, Arguments, Lowered, Options, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::expr::CastFailure;
use crate::program::Builder;

const fn entry(
    name: &'static str,
    datafusion: &'static [&'static str],
    types: fn(&Signature) -> Result<(), Unsupported>,
    signatures: fn() -> Vec<Signature>,
) -> ScalarEntry {
    ScalarEntry {
        name,
        datafusion,
        constants: &[],
        arity: (1, 1),
        types,
        lower,
        accuracy: Accuracy::Exact,
        signatures,
    }
}

pub(super) static ENTRIES: &[ScalarEntry] = &[
    entry(
        "to_timestamp_seconds",
        &["to_timestamp_seconds"],
        |signature| types(signature, TimeUnit::Second),
        || signatures(TimeUnit::Second),
    ),
    entry(
        "to_timestamp_millis",
        &["to_timestamp_millis"],
        |signature| types(signature, TimeUnit::Millisecond),
        || signatures(TimeUnit::Millisecond),
    ),
    entry(
        "to_timestamp_micros",
        &["to_timestamp_micros"],
        |signature| types(signature, TimeUnit::Microsecond),
        || signatures(TimeUnit::Microsecond),
    ),
    entry(
        "to_timestamp_nanos",
        &["to_timestamp_nanos"],
        |signature| types(signature, TimeUnit::Nanosecond),
        || signatures(TimeUnit::Nanosecond),
    ),
];

fn as_cast(signature: &Signature) -> Signature {
    Signature {
        options: Options::OnFailure(CastFailure::Raise),
        ..signature.clone()
    }
}

fn types(signature: &Signature, unit: TimeUnit) -> Result<(), Unsupported> {
    let argument = &signature.arguments[0];
    let is_cast = argument.is_integer() || matches!(argument, DataType::Timestamp(_, None));
    if !is_cast {
        return Err(Unsupported::new(format!("to_timestamp of {argument}")));
    }
    let gives_unit = matches!(signature.result, DataType::Timestamp(of, _) if of == unit);
    if !gives_unit {
        let result = &signature.result;
        return Err(Unsupported::new(format!("to_timestamp as {result}")));
    }
    (cast::ENTRIES[0].types)(&as_cast(signature))
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let signature = as_cast(arguments.signature);
    let arguments = &mut Arguments {
        signature: &signature,
        lower: &mut *arguments.lower,
    };
    (cast::ENTRIES[0].lower)(builder, arguments)
}

fn signatures(unit: TimeUnit) -> Vec<Signature> {
    let of = [
        DataType::Int64,
        DataType::Int32,
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ];
    let gives = DataType::Timestamp(unit, None);
    of.map(|of| Signature::new(vec![of], gives.clone())).into()
}
