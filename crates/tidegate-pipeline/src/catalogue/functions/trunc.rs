//! `trunc(a[, places])` of floats and decimals, towards 0 after so many places.

use arrow_schema::DataType;

use crate::catalogue::decimals::scale_of;
use crate::catalogue::{
    Accuracy, Arguments, Kernel, Lowered, ScalarEntry, Signature, constants, floats, whole,
};
use crate::check::Unsupported;
use crate::program::{Builder, IntegerOp, Nullable, Rounding};
use crate::types::{Decimal, DecimalWidth};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "trunc",
    datafusion: &["trunc"],
    constants: &[1],
    arity: (1, 1),
    types: |signature| {
        places(signature)?;
        match scale_of(&signature.arguments[0]) {
            Some(_) => signature.gives("trunc", &signature.arguments[0]),
            None => floats::types("trunc", signature),
        }
    },
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

static DOUBLE: Kernel = whole::double("trunc", f64::trunc, "trunc({0})");

static SINGLE: Kernel = whole::single("trunc of singles", f32::trunc, "truncf({0})");

/// Returns the places after the point.
fn places(signature: &Signature) -> Result<i32, Unsupported> {
    constants::int(signature, 0, "trunc", 0)
}

/// Returns how many digits of a decimal are dropped; `None` if it is all of them.
fn dropped(decimal: Decimal, places: i32) -> Option<u32> {
    let digits = match decimal.width {
        DecimalWidth::W32 => 9,
        DecimalWidth::W64 => 18,
        DecimalWidth::W128 => 38,
    };
    let dropped = (i32::from(decimal.scale) - places).max(0);
    (dropped < digits).then_some(dropped as u32)
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let places = places(arguments.signature)?;
    let has_places = !arguments.signature.constants().is_empty();
    let argument = arguments.signature.arguments[0].clone();
    let ([value], valid) = arguments.strict(builder)?;
    let value = match (Decimal::of(&argument), &argument) {
        (Some(decimal), _) => match dropped(decimal, places) {
            Some(0) => value,
            Some(dropped) => {
                let unit = 10_i128.pow(dropped);
                let whole = builder.divide_by(Rounding::Zero, value, unit);
                let unit = builder.int(unit);
                builder.exact(IntegerOp::Multiply, whole, unit)
            }
            None => builder.int(0),
        },
        (None, of) => {
            let (factor, kernel) = match of {
                DataType::Float32 => (f64::from(10_f32.powi(places)), &SINGLE),
                _ => (10_f64.powi(places), &DOUBLE),
            };
            match has_places {
                true => whole::in_units(builder, value, factor, kernel),
                // Of the two zeros there is one here.
                false => {
                    let zero = floats::constant(builder, 0.0, value);
                    let is_zero = builder.compare(crate::program::Comparison::Equal, value, zero);
                    let whole = builder.call(kernel, vec![value]);
                    builder.select(is_zero, zero, whole)
                }
            }
        }
    };
    Ok(Nullable { value, valid })
}

fn signatures() -> Vec<Signature> {
    [
        (DataType::Float64, None),
        (DataType::Float64, Some(2)),
        (DataType::Float64, Some(0)),
        (DataType::Float32, None),
        (DataType::Float32, Some(-1)),
        (DataType::Decimal32(7, 2), None),
        (DataType::Decimal64(12, 3), Some(1)),
        (DataType::Decimal128(15, 2), Some(-4)),
        (DataType::Decimal128(38, 6), Some(2)),
        (DataType::Decimal128(38, 6), Some(-60)),
    ]
    .map(|(argument, places)| constants::signature(vec![argument.clone()], places, argument))
    .into()
}
