//! Errors keep their kind and shed their nesting.

use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use super::{Error, ErrorKind, in_one_text};

#[test]
fn kinds_say_who_must_act() {
    let table: [(DataFusionError, ErrorKind, &str); 4] = [
        (
            DataFusionError::Plan("no table x".into()),
            ErrorKind::Sql,
            "no table x",
        ),
        (
            DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None),
            ErrorKind::Sql,
            "division by zero",
        ),
        (
            DataFusionError::NotImplemented("x".into()),
            ErrorKind::NotSupported,
            "x",
        ),
        (
            DataFusionError::IoError(std::io::Error::other("disk")),
            ErrorKind::Io,
            "disk",
        ),
    ];
    for (given, kind, text) in table {
        let error = Error::from(given);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn an_error_of_ours_survives_the_way_through_datafusion() {
    let ours = Error::new(ErrorKind::Cancelled, "statement timeout");
    let wrapped = DataFusionError::Shared(Arc::new(DataFusionError::from(ours)));
    let back = Error::from(wrapped.context("while collecting"));
    assert_eq!(
        (back.kind(), back.to_string().as_str()),
        (ErrorKind::Cancelled, "statement timeout")
    );
}

#[test]
fn exhausted_memory_names_the_setting() {
    let error = Error::from(DataFusionError::ResourcesExhausted("wanted 5 MB".into()));
    assert!(
        error.to_string().contains("tidegate.memory_limit"),
        "{error}"
    );
}

#[test]
fn what_a_row_raises_has_one_text() {
    let table = [
        (ArrowError::DivideByZero, "division by zero"),
        (
            ArrowError::ArithmeticOverflow("Overflow happened on: 9 * 9".into()),
            "arithmetic overflow: 9 * 9",
        ),
        (
            ArrowError::CastError("Can't cast value 300 to type Int8".into()),
            "cannot cast value 300 to type TINYINT",
        ),
        (
            ArrowError::InvalidArgumentError(
                "10.00 is too large to store in a Decimal128 of precision 3. Max is 9.99".into(),
            ),
            "10.00 is too large to store in a DECIMAL of precision 3. Max is 9.99",
        ),
    ];
    for (given, text) in table {
        let given = DataFusionError::ArrowError(Box::new(given), None);
        let wrapped = DataFusionError::Shared(Arc::new(given)).context("while folding constants");
        let raised = in_one_text(wrapped);
        let back = Error::from(raised);
        assert_eq!(
            (back.kind(), back.to_string().as_str()),
            (ErrorKind::Sql, text)
        );
    }
}
