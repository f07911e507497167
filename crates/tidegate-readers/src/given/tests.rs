//! What is given is read as it was written.

use arrow::datatypes::{DataType, TimeUnit};

use super::Given;
use crate::{DateFormat, Encoding, TimestampFormat};

#[test]
fn what_is_given_is_read_as_it_was_written() {
    let zone = DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into()));
    let given = Given {
        delimiter: Some(b';'),
        quote: Some(None),
        escape: Some(Some(b'\\')),
        comment: None,
        encoding: Encoding::named("latin-1"),
        null_words: Some(vec![String::new(), "nichts".into()]),
        date_format: Some(DateFormat::Custom("%d.%m.%Y".into())),
        timestamp_format: Some(TimestampFormat::default()),
        columns: Some(vec![
            ("a".into(), DataType::Decimal128(20, 3)),
            ("b".into(), zone),
        ]),
        types: vec![("a".into(), DataType::Utf8)],
        types_by_place: vec![None, Some(DataType::Int32)],
        sample_rows: Some(usize::MAX),
        ..Given::default()
    };
    for given in [given, Given::default()] {
        let written = serde_json::to_string(&given).unwrap();
        assert_eq!(
            serde_json::from_str::<Given>(&written).unwrap(),
            given,
            "{written}"
        );
    }
    assert!(serde_json::from_str::<Given>("{}").is_err());
}
