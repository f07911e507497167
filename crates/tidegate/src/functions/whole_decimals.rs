//! `ceil` and `floor` of decimals, whose values may have one digit more than their arguments: `ceil(9.5)` is 10.
//!
//! DataFusion gives them the type of the argument, and fails for such a value. Here the type has room for the digit: calls
//! are planned as [`Roomy`], and are DataFusion's of a wider decimal once types are coerced ([`plain_call`]).

use std::sync::Arc;

use datafusion::arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType,
};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, cast,
};

const NAMES: [&str; 2] = ["ceil", "floor"];

/// Returns the functions, which stand in the place of those that a registry has.
///
/// # Errors
/// Those of a registry that has none.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let functions = NAMES.map(|name| -> Result<ScalarUDF> {
        let of = registry.udf(name)?;
        Ok(Roomy { of }.into())
    });
    functions.into_iter().collect()
}

/// Tells whether a call is one of these functions.
pub(crate) fn is_such(call: &ScalarFunction) -> bool {
    call.func.inner().downcast_ref::<Roomy>().is_some()
}

/// Returns DataFusion's call of the same type; `None` for one of another function.
pub(crate) fn plain_call(call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let roomy = call.func.inner().downcast_ref::<Roomy>()?;
    let [of] = call.args.as_slice() else {
        return None;
    };
    // Columns of an outer query are of no schema that is known here, but know their type.
    let given = of.get_type(schema).ok()?;
    let of = match with_room(&given) {
        Some(wide) => cast(of.clone(), wide),
        None => of.clone(),
    };
    Some(roomy.of.call(vec![of]))
}

/// Returns a decimal type with one digit more; `None` of any other type, and where there is no room or no need.
fn with_room(data_type: &DataType) -> Option<DataType> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    Some(match *data_type {
        Decimal32(digits, scale) if scale > 0 && digits < DECIMAL32_MAX_PRECISION => {
            Decimal32(digits + 1, scale)
        }
        Decimal32(digits, scale) if scale > 0 => Decimal64(digits + 1, scale),
        Decimal64(digits, scale) if scale > 0 && digits < DECIMAL64_MAX_PRECISION => {
            Decimal64(digits + 1, scale)
        }
        Decimal64(digits, scale) if scale > 0 => Decimal128(digits + 1, scale),
        Decimal128(digits, scale) if scale > 0 && digits < DECIMAL128_MAX_PRECISION => {
            Decimal128(digits + 1, scale)
        }
        Decimal256(digits, scale) if scale > 0 && digits < DECIMAL256_MAX_PRECISION => {
            Decimal256(digits + 1, scale)
        }
        _ => return None,
    })
}

/// A function whose decimals have one digit more than those that it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Roomy {
    of: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Roomy {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let of = self.of.return_type(given)?;
        Ok(with_room(&of).unwrap_or(of))
    }

    fn is_strict(&self) -> bool {
        self.of.is_strict()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // A plan that is read from bytes has DataFusion's function by this name, and says what it returns.
        let returned = args.return_field.data_type();
        if returned.is_decimal() {
            for value in &mut args.args {
                *value = value.cast_to(returned, None)?;
            }
        }
        self.of.inner().invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }
}

#[cfg(test)]
mod tests {
    use super::{DataType, with_room};

    #[test]
    fn decimals_get_a_digit_where_there_is_room() {
        use DataType::{Decimal32, Decimal64, Decimal128, Float64};
        assert_eq!(with_room(&Decimal128(10, 2)), Some(Decimal128(11, 2)));
        assert_eq!(with_room(&Decimal32(9, 1)), Some(Decimal64(10, 1)));
        assert_eq!(with_room(&Decimal64(18, 1)), Some(Decimal128(19, 1)));
        for same in [Decimal128(38, 1), Decimal128(10, 0), Float64] {
            assert_eq!(with_room(&same), None, "{same}");
        }
    }
}
