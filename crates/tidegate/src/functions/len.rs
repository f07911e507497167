//! `len(x)` and `length(x)`: the number of characters of a string, bytes of a blob or values of a list, as
//! DuckDB has it.
//!
//! DataFusion's `length` writes a list as text and counts that. Of strings `length` stays what it is there: an `INT`
//! that `character_length` computes.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
    cast as cast_expr,
};
use datafusion::prelude::character_length;

/// Counts characters, bytes or values; NULL of NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Len {
    name: &'static str,
    /// The type of a count of characters.
    of_text: DataType,
    signature: Signature,
}

impl Len {
    /// `len`.
    pub(crate) fn new() -> Self {
        Self {
            name: "len",
            of_text: DataType::Int64,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    /// `length`, whose counts of characters have DataFusion's type.
    pub(crate) fn length() -> Self {
        Self {
            name: "length",
            of_text: DataType::Int32,
            ..Self::new()
        }
    }
}

fn is_list(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    )
}

impl ScalarUDFImpl for Len {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of] if of.is_string() => Ok(self.of_text.clone()),
            _ => Ok(DataType::Int64),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Dictionary(_, of)] if of.is_string() => Ok(vec![of.as_ref().clone()]),
            [of] if of.is_string() || is_list(of) => Ok(vec![of.clone()]),
            [of] if of.is_binary() => Ok(vec![DataType::Binary]),
            [DataType::Null] => Ok(vec![DataType::Utf8]),
            _ => plan_err!("{} takes a string or a list", self.name),
        }
    }

    /// Writes what strings have a function for, which runs wherever that does.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.as_slice() {
            [text] if info.get_data_type(text)?.is_string() => {
                let count = character_length(text.clone());
                // Strings of 64-bit offsets have counts of 64 bits.
                let has_type = info.get_data_type(&count)? == self.of_text;
                Ok(ExprSimplifyResult::Simplified(match has_type {
                    true => count,
                    false => cast_expr(count, self.of_text.clone()),
                }))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return exec_err!("{} takes one argument", self.name);
        };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let array = value.to_array(args.number_rows)?;
        let counts = match array.data_type().is_string() {
            false => length(&array)?,
            true => {
                let texts = cast(&array, &DataType::Utf8View)?;
                let counts = texts.as_string_view().iter();
                let counts = counts.map(|text| text.map(|text| text.chars().count() as i64));
                Arc::new(counts.collect::<Int64Array>()) as ArrayRef
            }
        };
        let counts = cast(&counts, args.return_field.data_type())?;
        match is_scalar {
            true => Ok(ScalarValue::try_from_array(&counts, 0)?.into()),
            false => Ok(ColumnarValue::Array(counts)),
        }
    }
}
