//! Errors keep their kind and shed their nesting.

use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
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
fn a_sort_without_memory_names_our_setting() {
    let short = DataFusionError::ResourcesExhausted("cannot allocate 5 MB".into());
    let error = Error::from(short.context(
        "Not enough memory to continue external sort. Consider increasing the memory limit config: \
         'datafusion.runtime.memory_limit', or decreasing the config: \
         'datafusion.execution.sort_spill_reservation_bytes'.",
    ));
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted);
    let text = error.to_string();
    assert!(
        text.contains("cannot allocate 5 MB; raise tidegate.memory_limit"),
        "{text}"
    );
    assert!(!text.contains("datafusion.runtime"), "{text}");
    assert!(std::error::Error::source(&error).is_none());
}

#[test]
fn an_array_that_is_too_large_is_a_limit() {
    let overflow = ArrowError::OffsetOverflowError(1 << 32);
    let many =
        ArrowError::InvalidArgumentError("offset overflow: data exceeds the capacity".into());
    for given in [overflow, many] {
        let error = Error::from(DataFusionError::ArrowError(Box::new(given), None));
        assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{error}");
        assert!(error.to_string().contains("batch_size"), "{error}");
    }
    let of_panic = |said| Error::of_panic(said, "a bug".into()).kind();
    assert_eq!(
        of_panic("byte array offset overflow"),
        ErrorKind::ResourcesExhausted
    );
    assert_eq!(of_panic("index out of bounds"), ErrorKind::Internal);
}

#[test]
fn tables_of_one_name_are_told() {
    let (qualifier, name) = (Box::new("a".into()), "x".to_string());
    for (cause, expect) in [
        (
            SchemaError::DuplicateQualifiedField {
                qualifier,
                name: name.clone(),
            },
            "two tables of FROM are called 'a'",
        ),
        (
            SchemaError::DuplicateUnqualifiedField { name },
            "two tables of FROM have no name, and both have a column 'x'",
        ),
    ] {
        let error = DataFusionError::SchemaError(Box::new(cause), Box::new(None));
        let error = Error::from(error.context("while planning"));
        assert_eq!(error.kind(), ErrorKind::Sql);
        assert!(error.to_string().starts_with(expect), "{error}");
    }
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
