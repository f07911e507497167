//! `round(a[, places])`: floats and decimals to so many places after the point, halves away from 0;
//! integers as they are.

use arrow_schema::DataType;

use crate::catalogue::decimals::scale_of;
use crate::catalogue::{
    Accuracy, Arguments, Kernel, Lowered, ScalarEntry, Signature, constants, floats, whole,
};
use crate::check::Unsupported;
use crate::program::{Builder, Nullable, Rounding};
use crate::types::Decimal;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "round",
    datafusion: &["round"],
    constants: &[1],
    arity: (1, 1),
    types,
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

static DOUBLE: Kernel = whole::double("round", f64::round, "round({0})");

static SINGLE: Kernel = whole::single("round of singles", f32::round, "roundf({0})");

/// Returns the places after the point.
fn places(signature: &Signature) -> Result<i32, Unsupported> {
    constants::int(signature, 0, "round", 0)
}

fn types(signature: &Signature) -> Result<(), Unsupported> {
    let places = places(signature)?;
    let argument = &signature.arguments[0];
    if places < 0 && !argument.is_floating() {
        return Err(Unsupported::new(format!(
            "round of {argument} to {places} places"
        )));
    }
    match Decimal::of(argument) {
        Some(decimal) => signature.gives("round", &rounded(decimal, places, signature)),
        None if argument.is_integer() => signature.gives("round", argument),
        None => floats::types("round", signature),
    }
}

/// Returns the type of a rounded decimal: places that are left out are free for digits.
fn rounded(decimal: Decimal, places: i32, signature: &Signature) -> DataType {
    let scale = i32::from(decimal.scale).min(places) as i8;
    match signature.arguments[0] {
        DataType::Decimal32(precision, _) => DataType::Decimal32(precision, scale),
        DataType::Decimal64(precision, _) => DataType::Decimal64(precision, scale),
        _ => DataType::Decimal128(decimal.precision, scale),
    }
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let places = places(arguments.signature)?;
    let argument = arguments.signature.arguments[0].clone();
    let ([value], valid) = arguments.strict(builder)?;
    let value = match scale_of(&argument) {
        Some(_) => {
            let given = Decimal::of(&argument).map_or(0, |decimal| decimal.scale);
            let dropped = u32::try_from(i32::from(given) - places).unwrap_or(0);
            builder.divide_by(Rounding::Nearest, value, 10_i128.pow(dropped))
        }
        None if argument.is_integer() => value,
        None => {
            let (factor, kernel) = match argument {
                DataType::Float32 => (f64::from(10_f64.powi(places) as f32), &SINGLE),
                _ => (10_f64.powi(places), &DOUBLE),
            };
            whole::in_units(builder, value, factor, kernel)
        }
    };
    Ok(Nullable { value, valid })
}

fn signatures() -> Vec<Signature> {
    use DataType::{Decimal32, Decimal64, Decimal128, Float32, Float64, Int64};

    [
        (Float64, None, Float64),
        (Float64, Some(2), Float64),
        (Float64, Some(-3), Float64),
        (Float32, None, Float32),
        (Float32, Some(1), Float32),
        (Int64, None, Int64),
        (Decimal32(7, 2), None, Decimal32(7, 0)),
        (Decimal64(12, 3), Some(1), Decimal64(12, 1)),
        (Decimal128(15, 2), Some(2), Decimal128(15, 2)),
        (Decimal128(38, 6), Some(2), Decimal128(38, 2)),
    ]
    .map(|(argument, places, result)| constants::signature(vec![argument], places, result))
    .into()
}
