//! What calls say in literals that are part of their shape.

use arrow_schema::DataType;

use super::{Options, Signature};
use crate::check::Unsupported;
use crate::scalar::{Scalar, ScalarValue};

/// Returns the small integer that a call says at a place; `otherwise` if it says nothing there.
pub(super) fn int(
    signature: &Signature,
    at: usize,
    name: &str,
    otherwise: i32,
) -> Result<i32, Unsupported> {
    let constant = signature.constants().get(at);
    let Some(constant) = constant else {
        return Ok(otherwise);
    };
    let value = match constant.value {
        ScalarValue::Int(value) => i32::try_from(value).ok(),
        _ => None,
    };
    // Beyond that many places no type has digits.
    let fits = |value: &i32| value.abs() <= 300;
    value
        .filter(fits)
        .ok_or_else(|| Unsupported::new(format!("{name} with {constant}")))
}

/// Returns the text that a call says at a place, in lower case.
pub(super) fn text(signature: &Signature, at: usize, name: &str) -> Result<String, Unsupported> {
    let constant = signature.constants().get(at);
    match constant.map(|constant| &constant.value) {
        Some(ScalarValue::Utf8(text)) => Ok(text.to_lowercase()),
        _ => Err(Unsupported::new(format!("{name} without a constant"))),
    }
}

/// Makes a signature with one constant, or none.
pub(super) fn signature(
    arguments: Vec<DataType>,
    constant: Option<i64>,
    result: DataType,
) -> Signature {
    let constant = constant.map(|value| Scalar {
        data_type: DataType::Int64,
        value: ScalarValue::Int(value),
    });
    let constants = Options::Constants(constant.into_iter().collect());
    Signature::with(arguments, result, constants)
}

/// Makes a signature with a text as its one constant.
pub(super) fn signature_of_text(
    arguments: Vec<DataType>,
    constant: &str,
    result: DataType,
) -> Signature {
    let constant = Scalar {
        data_type: DataType::Utf8,
        value: ScalarValue::Utf8(constant.into()),
    };
    Signature::with(arguments, result, Options::Constants(vec![constant]))
}
