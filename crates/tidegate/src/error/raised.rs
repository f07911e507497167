//! What a row raises, in one text wherever it was computed: division by zero, overflow, a cast without
//! an image.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use super::{Error, ErrorKind, wording};

/// Gives an error that a row raised the kind and the text that it has everywhere; leaves any other as it
/// is.
pub(crate) fn in_one_text(error: DataFusionError) -> DataFusionError {
    match what_was_raised(&error) {
        Some(message) => Error::new(ErrorKind::Sql, message).into(),
        None => error,
    }
}

/// Says what a row raised; `None` of any other error.
pub(super) fn what_was_raised(error: &DataFusionError) -> Option<String> {
    let DataFusionError::ArrowError(cause, _) = error.find_root() else {
        return None;
    };
    match cause.as_ref() {
        ArrowError::DivideByZero => Some("division by zero".into()),
        ArrowError::ArithmeticOverflow(what) => {
            let what = what.strip_prefix("Overflow happened on: ").unwrap_or(what);
            Some(format!("arithmetic overflow: {what}"))
        }
        ArrowError::CastError(what) => {
            let rest = ["Can't cast ", "Cannot cast "]
                .iter()
                .find_map(|start| what.strip_prefix(start));
            let text = match rest {
                Some(rest) => format!("cannot cast {rest}"),
                None => format!("cannot cast: {what}"),
            };
            Some(wording::in_sql(&text))
        }
        ArrowError::InvalidArgumentError(what) if is_about_precision(what) => {
            Some(wording::in_sql(what))
        }
        _ => None,
    }
}

/// Returns whether a decimal had more digits than its type.
fn is_about_precision(what: &str) -> bool {
    what.contains("is too large to store in a Decimal")
        || what.contains("is too small to store in a Decimal")
}
