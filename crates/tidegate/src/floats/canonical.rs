//! The scalar function that maps equal floats to equal bits.
//!
//! NaN becomes the positive quiet NaN without a payload, −0.0 becomes 0.0, everything else stays. An
//! array is read once before it is written, and returned as it is if nothing in it changes. Floats
//! inside lists, structs, maps and dictionaries count too.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, make_array};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

static CANONICAL: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Canonical::new())));

/// Builds `canonical(expr)`.
pub(crate) fn canonical(expr: Expr) -> Expr {
    CANONICAL.call(vec![expr])
}

/// Returns the function `canonical`.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::clone(&CANONICAL)
}

/// Returns whether an expression is `canonical(…)`.
pub(crate) fn is_canonical(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Canonical>())
}

/// Returns the argument of a physical `canonical(…)`, or `None` for any other expression.
pub(crate) fn argument(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    match call.args() {
        [argument] if is(call) => Some(argument),
        _ => None,
    }
}

/// Returns a physical expression without any `canonical`, or `None` if there is none in it.
pub(crate) fn without(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let stripped = Arc::clone(expr).transform_up(|node| {
        let argument = argument(&node).map(Arc::clone);
        Ok(match argument {
            Some(argument) => Transformed::yes(argument),
            None => Transformed::no(node),
        })
    });
    let stripped = stripped.ok().filter(|stripped| stripped.transformed)?;
    Some(stripped.data)
}

/// Returns whether a physical call is `canonical(…)`.
pub(crate) fn is(call: &ScalarFunctionExpr) -> bool {
    call.fun().inner().is::<Canonical>()
}

/// Returns whether values of this type are floats or have floats inside.
pub(super) fn holds_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => holds_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_floats(field.data_type())),
        DataType::Union(fields, _) => fields
            .iter()
            .any(|(_, field)| holds_floats(field.data_type())),
        DataType::Dictionary(_, values) => holds_floats(values),
        _ => false,
    }
}

/// Returns whether a literal is what `canonical` returns for it.
pub(super) fn is_canonical_value(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => Float16Type::is_canonical(*value),
        ScalarValue::Float32(Some(value)) => Float32Type::is_canonical(*value),
        ScalarValue::Float64(Some(value)) => Float64Type::is_canonical(*value),
        value => value.is_null() || !holds_floats(&value.data_type()),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    signature: Signature,
}

impl Canonical {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &'static str {
        "canonical"
    }

    /// Names casts too, which other names leave out: keys of one column and of its cast are two columns.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(Expr::to_string).collect();
        Ok(format!("canonical({})", args.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => internal_err!("canonical of {} arguments", arguments.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [argument] => Ok(Arc::clone(argument)),
            arguments => internal_err!("canonical of {} arguments", arguments.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [argument] = args.args.as_slice() else {
            return internal_err!("canonical of {} arguments", args.args.len());
        };
        Ok(match argument {
            ColumnarValue::Array(array) => ColumnarValue::Array(canonical_array(array)?),
            ColumnarValue::Scalar(value) if is_canonical_value(value) => argument.clone(),
            ColumnarValue::Scalar(value) => {
                let array = canonical_array(&value.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.as_slice() {
            [inner] if is_canonical(inner) => Ok(ExprSimplifyResult::Simplified(args.remove(0))),
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }
}

/// Returns the array with one NaN and one zero; the same array if it has no others.
pub(crate) fn canonical_array(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(changed(array.as_ref())?.unwrap_or_else(|| Arc::clone(array)))
}

/// Returns what an array becomes, or `None` if it stays as it is.
fn changed(array: &dyn Array) -> Result<Option<ArrayRef>> {
    match array.data_type() {
        DataType::Float16 => Ok(changed_floats(array.as_primitive::<Float16Type>())),
        DataType::Float32 => Ok(changed_floats(array.as_primitive::<Float32Type>())),
        DataType::Float64 => Ok(changed_floats(array.as_primitive::<Float64Type>())),
        other if !holds_floats(other) => Ok(None),
        _ => {
            let data = array.to_data();
            let mut has_changed = false;
            let mut children = Vec::with_capacity(data.child_data().len());
            for child in data.child_data() {
                match changed(make_array(child.clone()).as_ref())? {
                    Some(changed) => {
                        has_changed = true;
                        children.push(changed.to_data());
                    }
                    None => children.push(child.clone()),
                }
            }
            if !has_changed {
                return Ok(None);
            }
            let rebuilt = data.into_builder().child_data(children).build()?;
            Ok(Some(make_array(rebuilt)))
        }
    }
}

fn changed_floats<T: FloatType>(array: &PrimitiveArray<T>) -> Option<ArrayRef> {
    // No early end: this way the loop is a few vector instructions.
    let is_any = |any: bool, value: &T::Native| any | !T::is_canonical(*value);
    if !array.values().iter().fold(false, is_any) {
        return None;
    }
    let changed: PrimitiveArray<T> = array.unary(T::canonical);
    Some(Arc::new(changed))
}

/// A type of floats, by their bits.
trait FloatType: ArrowPrimitiveType {
    /// Returns the one NaN for every NaN, and 0.0 for both zeros.
    fn canonical(value: Self::Native) -> Self::Native;

    /// Returns whether `canonical` returns the same bits.
    fn is_canonical(value: Self::Native) -> bool;
}

macro_rules! float_type {
    ($float_type:ty, $quiet_nan:expr, $infinity:expr, $sign:expr) => {
        impl FloatType for $float_type {
            fn canonical(value: Self::Native) -> Self::Native {
                let bits = value.to_bits();
                if bits & !$sign > $infinity {
                    <$float_type as ArrowPrimitiveType>::Native::from_bits($quiet_nan)
                } else if bits == $sign {
                    <$float_type as ArrowPrimitiveType>::Native::from_bits(0)
                } else {
                    value
                }
            }

            fn is_canonical(value: Self::Native) -> bool {
                let bits = value.to_bits();
                ((bits & !$sign <= $infinity) | (bits == $quiet_nan)) & (bits != $sign)
            }
        }
    };
}

float_type!(Float16Type, 0x7e00, 0x7c00, 0x8000);
float_type!(Float32Type, 0x7fc0_0000, 0x7f80_0000, 0x8000_0000);
float_type!(
    Float64Type,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x8000_0000_0000_0000
);

#[cfg(test)]
mod tests;
