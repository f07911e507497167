//! `like_pattern(pattern, text)`: the pattern of a LIKE, unless matching the text would take too long.
//!
//! Each wildcard of a pattern may begin at each place of a text, and a call that compares them cannot be stopped.
//! `repeat('a', 1000000) LIKE repeat('%a', 5000) || 'b'` would take a minute of a thread, or of the planner.

use datafusion::arrow::array::{Array, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::bounded::check_pairs;

/// Constant patterns of so many bytes are matched without asking.
const SHORT_BYTES: usize = 256;

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(LikePattern {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// Tells whether a pattern may have many wildcards.
pub(crate) fn may_be_long(like: &Like) -> bool {
    let mut pattern = like.pattern.as_ref();
    while let Expr::Cast(cast) = pattern {
        pattern = &cast.expr;
    }
    let is_short = match pattern {
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten();
            text.is_none_or(|text| text.len() <= SHORT_BYTES)
        }
        Expr::ScalarFunction(call) => call.func.inner().is::<LikePattern>(),
        _ => false,
    };
    !is_short && !like.pattern.is_volatile() && !like.expr.is_volatile()
}

/// Returns a LIKE whose pattern is checked.
pub(crate) fn checked(like: Like) -> Like {
    let (pattern, text) = (*like.pattern, like.expr.as_ref().clone());
    Like {
        pattern: Box::new(function().call(vec![pattern, text])),
        ..like
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LikePattern {
    signature: Signature,
}

impl ScalarUDFImpl for LikePattern {
    fn name(&self) -> &str {
        "like_pattern"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [pattern, text] = args.args.as_slice() else {
            return exec_err!("like_pattern takes a pattern and a text");
        };
        let rows = match (pattern, text) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => 1,
            _ => args.number_rows,
        };
        let (patterns, texts) = (strings(pattern, rows)?, strings(text, rows)?);
        let pairs = (0..rows).filter(|row| patterns.is_valid(*row) && texts.is_valid(*row));
        let pairs = pairs.map(|row| {
            let wildcards = patterns.value(row).bytes().filter(|byte| *byte == b'%');
            match wildcards.count() {
                0..=2 => 0,
                wildcards => (wildcards as u64).saturating_mul(texts.value(row).len() as u64),
            }
        });
        check_pairs("LIKE", pairs.fold(0, u64::saturating_add))?;
        Ok(pattern.clone())
    }
}

fn strings(value: &ColumnarValue, rows: usize) -> Result<StringViewArray> {
    let array = cast(&value.to_array(rows)?, &DataType::Utf8View)?;
    Ok(array.as_string_view().clone())
}
