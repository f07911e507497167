//! What is wrong with a file is told with its place and the way out.

use tidegate_readers::{Encoding, Given, Sample, sniff};

use crate::read::read;

/// Reads a file of which only the first bytes are looked at.
#[track_caller]
fn error(bytes: &[u8], looked_at: usize, given: &Given) -> String {
    let sniffed = sniff(&Sample::head(bytes[..looked_at].to_vec()), given).unwrap();
    read(bytes, &sniffed, 1 << 16).0.unwrap_err().to_string()
}

#[test]
fn a_value_that_contradicts_names_its_place_and_the_options() {
    let text = b"id,v\n1,2\n3,4\n5,\"x\ny\"\n";
    assert_eq!(
        error(text, 13, &Given::default()),
        "line 4, column \"v\": 'x\\ny' is not a BIGINT, which the rows that were looked at are; read the \
         column as text with types => {'v': 'VARCHAR'}, look at more rows with sample_size => -1, read all \
         as text with all_varchar => true, or leave such rows out with ignore_errors => true"
    );
    let zeros = error(b"zip\n12345\n54321\n00501\n", 16, &Given::default());
    assert!(
        zeros.starts_with("line 4, column \"zip\": '00501' is not a BIGINT"),
        "{zeros}"
    );
    let date = error(b"d;v\n31.01.2024;1\n01.31.2024;1\n", 17, &Given::default());
    assert!(
        date.contains("'01.31.2024' is not a DATE written as %d.%m.%Y"),
        "{date}"
    );
    let given = Given {
        types: vec![("v".into(), arrow::datatypes::DataType::Int16)],
        ..Given::default()
    };
    let typed = error(b"v\n1\n70000\n", 4, &given);
    assert!(
        typed.contains(
            "'70000' is not a SMALLINT, the type that was given; leave such rows out with ignore_errors"
        ),
        "{typed}"
    );
}

#[test]
fn a_row_of_another_width_names_its_line() {
    let short = error(b"a,b\n1,2\n\n3\n4,5\n", 8, &Given::default());
    assert!(
        short.starts_with(
            "line 4: the row has 1 values, and the file has 2 columns; fill short rows"
        ),
        "{short}"
    );
    let long = error(b"# c\na,b\n1,2\n3,4,5\n", 12, &Given::default());
    assert!(long.starts_with("line 4: the row has 3 values"), "{long}");
}

#[test]
fn bytes_of_another_encoding_name_their_line() {
    let message = error(b"a,b\n1,x\n2,K\xf6ln\n", 8, &Given::default());
    assert!(
        message.starts_with("line 3: the bytes are not UTF-8; say what they are with encoding =>"),
        "{message}"
    );
    let given = Given {
        encoding: Some(Encoding::Utf8),
        ..Given::default()
    };
    assert!(error(b"a\nK\xf6ln\n", 7, &given).starts_with("line 2: the bytes"));
}

#[test]
fn a_quote_that_is_never_closed_ends_at_a_limit() {
    let mut text = b"a,b\n1,2\n3,\"".to_vec();
    text.resize(70 << 20, b'x');
    let message = error(&text, 8, &Given::default());
    assert!(
        message.starts_with("line 3: the row is longer than 67108864 bytes"),
        "{message}"
    );
}

#[test]
fn rows_that_are_left_out_are_counted() {
    let text = b"a,b\n1,2\nx,3\n4\n5,6\n7,K\xf6\n8,y\n";
    let given = Given {
        ignore_errors: true,
        ..Given::default()
    };
    let sniffed = sniff(&Sample::head(text[..8].to_vec()), &given).unwrap();
    for buffer in [1, 100] {
        let (rows, left_out) = read(text, &sniffed, buffer);
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(rows[1], [Some("5".into()), Some("6".into())]);
        assert_eq!(left_out.count(), 4);
        let first = left_out.first().unwrap();
        assert!(first.contains("line"), "{first}");
    }
}

#[test]
fn files_that_cannot_be_looked_at_say_why() {
    let refused = |bytes: &[u8], given: &Given| {
        sniff(&Sample::whole(bytes.to_vec()), given)
            .unwrap_err()
            .to_string()
    };
    let given = Given::default();
    assert_eq!(
        refused(b"", &given),
        "there are no rows in it, and no header"
    );
    assert_eq!(
        refused(b"\n\n", &given),
        "there are no rows in it, and no header"
    );
    let message = refused(b"PK\x03\x04\0\0\x01", &given);
    assert!(
        message.starts_with("it is not text: it has zero bytes, and begins with 50 4b"),
        "{message}"
    );
    let given = Given {
        types: vec![("c".into(), arrow::datatypes::DataType::Utf8)],
        ..Given::default()
    };
    assert_eq!(
        refused(b"a,b\n1,2\n", &given),
        "types: there is no column 'c'; there are a, b"
    );
}
