//! Files that are damaged, deleted or empty.

use std::panic::catch_unwind;

use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;

use super::{blame, panic_text};
use crate::error::{Error, ErrorKind};

#[test]
fn the_decoders_errors_are_the_files() {
    let check = |error: DataFusionError, expect: &str| {
        let error = Error::from(blame("/a.parquet", error));
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Io, expect)
        );
    };
    let parquet = ParquetError::General("Invalid page header".into());
    check(
        DataFusionError::ParquetError(Box::new(parquet)),
        "cannot read /a.parquet: damaged or unsupported: Invalid page header",
    );
    check(
        DataFusionError::Internal("no root".into()),
        "cannot read /a.parquet: damaged or unsupported: no root",
    );
    let own = Error::new(ErrorKind::Io, "cannot read /a.parquet: it is gone");
    check(own.into(), "cannot read /a.parquet: it is gone");
}

#[test]
fn other_errors_stay_what_they_are() {
    let error = blame("/a.parquet", DataFusionError::Execution("1 / 0".into()));
    assert_eq!(Error::from(error).kind(), ErrorKind::Sql);
}

#[test]
fn a_panic_is_told_on_one_line() {
    let panic = catch_unwind(|| std::panic::resume_unwind(Box::new("left\n  right".to_string())));
    let text = panic.map_err(|panic| panic_text(&*panic));
    assert_eq!(text, Err("its decoder stopped: left right".to_string()));
}
