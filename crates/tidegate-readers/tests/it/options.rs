//! What a user says stands above what is found.

use arrow::datatypes::DataType;
use tidegate_readers::{DateFormat, Given, TimestampFormat};

use crate::read::check_given;

#[test]
fn words_for_null() {
    let given = Given {
        null_words: Some(vec!["-999".into(), "NA".into()]),
        ..Given::default()
    };
    check_given(
        b"a,b\n1,NA\n-999,x\n",
        &given,
        &[("a", "BIGINT"), ("b", "VARCHAR")],
        &[&[Some("1"), None], &[None, Some("x")]],
    );
}

#[test]
fn a_decimal_comma() {
    let given = Given {
        decimal: Some(b','),
        ..Given::default()
    };
    check_given(
        b"a;b\n1.234;x\n2.500;y\n",
        &given,
        &[("a", "BIGINT"), ("b", "VARCHAR")],
        &[&[Some("1234"), Some("x")], &[Some("2500"), Some("y")]],
    );
}

#[test]
fn formats_of_dates() {
    let given = Given {
        date_format: Some(DateFormat::Custom("%m/%d/%Y".into())),
        timestamp_format: Some(TimestampFormat::Custom("%Y%m%d %H%M".into())),
        ..Given::default()
    };
    check_given(
        b"d,t\n01/02/2024,20240131 1005\n",
        &given,
        &[("d", "DATE"), ("t", "TIMESTAMP")],
        &[&[Some("2024-01-02"), Some("2024-01-31T10:05:00")]],
    );
}

#[test]
fn integers_without_a_sign() {
    let given = Given {
        types: vec![("u".into(), DataType::UInt64)],
        ..Given::default()
    };
    check_given(
        b"u\n18446744073709551615\n9223372036854775808\n7\n",
        &given,
        &[("u", "UInt64")],
        &[
            &[Some("18446744073709551615")],
            &[Some("9223372036854775808")],
            &[Some("7")],
        ],
    );
}

#[test]
fn types_and_names() {
    let given = Given {
        types: vec![
            ("B".into(), DataType::Decimal128(10, 2)),
            ("c".into(), DataType::Int32),
            ("e".into(), DataType::Boolean),
        ],
        ..Given::default()
    };
    check_given(
        b"a,b,c,e\n1,2.5,007,yes\n",
        &given,
        &[
            ("a", "BIGINT"),
            ("b", "DECIMAL(10,2)"),
            ("c", "Int32"),
            ("e", "BOOLEAN"),
        ],
        &[&[Some("1"), Some("2.50"), Some("7"), Some("true")]],
    );
    let given = Given {
        names: Some(vec!["x".into(), "y".into()]),
        ..Given::default()
    };
    check_given(
        b"1,a\n2,b\n",
        &given,
        &[("x", "BIGINT"), ("y", "VARCHAR")],
        &[&[Some("1"), Some("a")], &[Some("2"), Some("b")]],
    );
    let given = Given {
        all_text: true,
        ..Given::default()
    };
    check_given(
        b"a,b\n1,2\n",
        &given,
        &[("a", "VARCHAR"), ("b", "VARCHAR")],
        &[&[Some("1"), Some("2")]],
    );
}

#[test]
fn types_by_place() {
    let given = Given {
        types_by_place: vec![
            Some(DataType::Utf8),
            None,
            Some(DataType::Decimal128(5, 1)),
            Some(DataType::Date32),
        ],
        all_text: true,
        ..Given::default()
    };
    check_given(
        b"a,b,c,d,e\n007,1,-2.25,2024-01-31,1\n8,2,9999.949,2024-01-31 10:00:00,2\n",
        &given,
        &[
            ("a", "VARCHAR"),
            ("b", "VARCHAR"),
            ("c", "DECIMAL(5,1)"),
            ("d", "DATE"),
            ("e", "VARCHAR"),
        ],
        &[
            &[
                Some("007"),
                Some("1"),
                Some("-2.3"),
                Some("2024-01-31"),
                Some("1"),
            ],
            &[
                Some("8"),
                Some("2"),
                Some("9999.9"),
                Some("2024-01-31"),
                Some("2"),
            ],
        ],
    );
}

#[test]
fn all_columns() {
    let given = Given {
        columns: Some(vec![
            ("n".into(), DataType::Int64),
            ("t".into(), DataType::Utf8),
        ]),
        header: Some(true),
        ..Given::default()
    };
    check_given(
        b"a,b\n1,2\n",
        &given,
        &[("n", "BIGINT"), ("t", "VARCHAR")],
        &[&[Some("1"), Some("2")]],
    );
}

#[test]
fn short_rows_are_filled() {
    let given = Given {
        null_padding: true,
        ..Given::default()
    };
    check_given(
        b"a,b,c\n1\n2,x\n3,y,z\n",
        &given,
        &[("a", "BIGINT"), ("b", "VARCHAR"), ("c", "VARCHAR")],
        &[
            &[Some("1"), None, None],
            &[Some("2"), Some("x"), None],
            &[Some("3"), Some("y"), Some("z")],
        ],
    );
}

#[test]
fn separators_comments_and_lines_before() {
    let given = Given {
        delimiter: Some(b'+'),
        quote: Some(None),
        comment: Some(Some(b'%')),
        skip: Some(1),
        header: Some(false),
        ..Given::default()
    };
    check_given(
        b"a title\n1+\"x\n% no row\n2+y\n",
        &given,
        &[("column0", "BIGINT"), ("column1", "VARCHAR")],
        &[&[Some("1"), Some("\"x")], &[Some("2"), Some("y")]],
    );
}
