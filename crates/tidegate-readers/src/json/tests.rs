//! Fields come in the file's order.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Date32Type};

use super::{Flattener, Fractions, GivenJson, JsonFormats, Layout, Texts, Wrapper, sniff_json};
use crate::sample::Sample;
use crate::temporal::{DateFormat, TimestampFormat};

#[track_caller]
fn check(text: &str, layout: Layout, columns: &[(&str, &str)]) {
    let found = sniff_json(&Sample::whole(text.into()), &GivenJson::default()).unwrap();
    assert_eq!(found.layout, layout);
    let schema = found.schema(&GivenJson::default());
    let fields = schema.fields().iter();
    let fields: Vec<_> = fields
        .map(|f| (f.name().clone(), f.data_type().to_string()))
        .collect();
    let expect: Vec<_> = columns
        .iter()
        .map(|(n, t)| (n.to_string(), t.to_string()))
        .collect();
    assert_eq!(fields, expect);
}

#[test]
fn fields_come_in_the_files_order() {
    check(
        "{\"z\": 1, \"a\": \"x\"}\n{\"a\": null, \"m\": true, \"z\": 2.5}\n",
        Layout::Objects,
        &[("z", "Float64"), ("a", "Utf8"), ("m", "Boolean")],
    );
    check(
        " [ {\"b\": [1]},\n {\"a\": 1} ] ",
        Layout::Array,
        &[("b", "List(Int64)"), ("a", "Int64")],
    );
    check(
        "{\"a\": 1}{\"a\": \"x\"}",
        Layout::Objects,
        &[("a", "Utf8")],
    );
    check("[]", Layout::Array, &[]);
}

#[test]
fn dates_and_times_are_found() {
    check(
        "{\"d\": \"2024-01-31\", \"t\": \"2024-01-31 10:00:00.5\", \"z\": \"2024-01-31T10:00:00+02:00\"}\n\
         {\"d\": null, \"t\": \"2024-01-31\", \"z\": \"2024-01-31T10:00:00Z\"}\n",
        Layout::Objects,
        &[
            ("d", "Date32"),
            ("t", "Timestamp(µs)"),
            ("z", "Timestamp(µs, \"UTC\")"),
        ],
    );
    for text in [
        "2024-13-01",
        "31.01.2024",
        "2024-01-31T10:00",
        "2024-01-31T25:00:00",
        "2024-01-31T10:00:00.123456789",
        "12345678-9",
    ] {
        let json = format!("{{\"a\": \"{text}\"}}\n{{\"a\": \"2024-01-31\"}}\n");
        check(&json, Layout::Objects, &[("a", "Utf8")]);
    }
}

#[test]
fn whole_numbers_of_more_than_64_bits_keep_their_digits() {
    // DuckDB has UBIGINT and HUGEINT for them.
    for (numbers, expect) in [
        ("12345678901234567890", "Decimal128(38, 0)"),
        ("-9223372036854775809", "Decimal128(38, 0)"),
        (
            "1, \"a\": 123456789012345678901234567890",
            "Decimal128(38, 0)",
        ),
        ("-9223372036854775808", "Int64"),
        ("12345678901234567890, \"a\": 1.5", "Float64"),
        ("12345678901234567890.0", "Float64"),
        ("1e20", "Float64"),
        ("[1, 12345678901234567890]", "List(Decimal128(38, 0))"),
        ("1234567890123456789012345678901234567890", "Float64"),
    ] {
        let json = format!("{{\"s\": \"\\\" 99999999999999999999\", \"a\": {numbers}}}\n");
        let columns = [("s", "Utf8"), ("a", expect)];
        check(&json, Layout::Objects, &columns);
    }
}

#[test]
fn columns_may_be_given_and_lines_left_out() {
    let columns = vec![("b".into(), DataType::Int64)];
    let given = GivenJson {
        columns: Some(columns),
        ..GivenJson::default()
    };
    let sniff = |text: &str, given| sniff_json(&Sample::whole(text.into()), given);
    let found = sniff("{\"a\": 1}\n{\"a\": {}}\n", &given).unwrap();
    assert_eq!(found.schema(&given).field(0).name(), "b");
    let given = GivenJson {
        ignore_errors: true,
        ..GivenJson::default()
    };
    let found = sniff("none\n{\"a\": 1}\n{\"a\": \n", &given).unwrap();
    assert_eq!(found.schema(&given).field(0).name(), "a");
    assert!(sniff("none\n", &given).is_err());
    let error = sniff("[{}]", &given).unwrap_err().to_string();
    assert!(error.contains("the file is an array"), "{error}");
}

#[test]
fn an_array_becomes_its_objects() {
    let text = br#"[{"a": [1, 2], "b": "],\"[null"}, null,{"a": [null]}]"#;
    for buffer in [1, 3, 100] {
        let mut flattener = Flattener::default();
        let mut flat = text.to_vec();
        flat.chunks_mut(buffer)
            .for_each(|chunk| flattener.flatten(chunk));
        let expect = r#" {"a": [1, 2], "b": "],\"[null"}  {}   {"a": [null]} "#;
        assert_eq!(String::from_utf8(flat).unwrap(), expect);
    }
}

#[test]
fn what_is_no_json_says_where() {
    let error = |text: &str| {
        sniff_json(&Sample::whole(text.into()), &GivenJson::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error("{\"a\": 1}\n{\"a\": x}\n"), "line 2: expected value");
    assert_eq!(error("[{\"a\": 1},\n{\"a\": x}]"), "line 2: expected value");
    assert_eq!(error("[{\"a\": 1}"), "the array has no end, ]");
    assert!(error("7").contains("neither objects"));
}

#[test]
fn fields_of_several_kinds_are_text() {
    let text = r#"{"a": 1, "b": [{"c": 1}, 2], "d": {"e": 1}}
{"a": {"x": [1]}, "b": [], "d": {"e": 2}}"#;
    let columns = [("a", "Utf8"), ("b", "Utf8"), ("d", "Struct(\"e\": Int64)")];
    check(text, Layout::Objects, &columns);
}

#[test]
fn types_of_some_columns_may_be_given() {
    let given = GivenJson {
        types: vec![
            ("b".into(), DataType::Utf8),
            ("late".into(), DataType::Int64),
        ],
        ..GivenJson::default()
    };
    let text = r#"{"a": 1, "b": 2}"#;
    let found = sniff_json(&Sample::whole(text.into()), &given).unwrap();
    let schema = found.schema(&given);
    let columns = schema.fields().iter();
    let columns: Vec<_> = columns
        .map(|field| (field.name().as_str(), field.data_type().clone()))
        .collect();
    let expect = [
        ("a", DataType::Int64),
        ("b", DataType::Utf8),
        ("late", DataType::Int64),
    ];
    assert_eq!(columns, expect);
    assert_eq!(found.texts(&given, &schema), ["b"]);
}

#[test]
fn nested_values_of_some_fields_become_strings() {
    let text = r#"{"a": {"b\"": "}\\", "c": [1,
 2]}, "b": {"a": [3]}, "c" : [ ]}
{"a": 5, "x": {"a": {}}, "c": "[\"", "a": [{}]}"#;
    let expect = r#"{"a": "{\"b\\\"\": \"}\\\\\", \"c\": [1,  2]}", "b": {"a": [3]}, "c" : "[ ]"}
{"a": 5, "x": {"a": {}}, "c": "[\"", "a": "[{}]"}"#;
    for buffer in [1, 2, 3, 7, 1000] {
        let mut texts = Texts::new(["a".to_string(), "c".to_string()]);
        let mut made = Vec::new();
        for chunk in text.as_bytes().chunks(buffer) {
            texts.push(chunk, &mut made);
        }
        assert_eq!(String::from_utf8(made).unwrap(), expect, "{buffer}");
    }
}

#[test]
fn many_fields_keep_their_order() {
    // Each object has a field of its own, and one that all have.
    let objects = (0..20_000).map(|n| format!("{{\"k{n}\": {n}, \"all\": 1}}\n"));
    let text: String = objects
        .chain([r#"{"k7": 0.5, "all": "x"}"#.into()])
        .collect();
    let found = sniff_json(&Sample::whole(text.into()), &GivenJson::default()).unwrap();
    let schema = found.schema(&GivenJson::default());
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names.len(), 20_001);
    assert_eq!(names[..3], ["k0", "all", "k1"]);
    assert_eq!(names[20_000], "k19999");
    assert_eq!(*schema.field(1).data_type(), DataType::Utf8);
    assert_eq!(*schema.field(8).data_type(), DataType::Float64);
}

#[test]
fn dates_may_be_written_as_the_user_says() {
    let given = GivenJson {
        formats: JsonFormats {
            date: Some(DateFormat::Custom("%d.%m.%Y".into())),
            timestamp: Some(TimestampFormat::Custom("%d.%m.%Y %H:%M".into())),
        },
        ..GivenJson::default()
    };
    for objects in [
        r#"{"d": "31.01.2024", "t": "31.01.2024 10:00", "i": "2024-01-31", "n": 1, "x": "31.01.2024"}
{"d": null, "t": "01.02.2024 10:00", "i": "2024-01-31", "x": 1}"#,
        r#"[{"d": "31.01.2024", "t": "31.01.2024 10:00", "i": "2024-01-31", "n": 1, "x": "31.01.2024"},
{"d": null, "t": "01.02.2024 10:00", "i": "2024-01-31", "x": 1}]"#,
    ] {
        let found = sniff_json(&Sample::whole(objects.into()), &given).unwrap();
        let schema = Arc::new(found.schema(&given));
        let types: Vec<String> = schema
            .fields()
            .iter()
            .map(|field| field.data_type().to_string())
            .collect();
        assert_eq!(types, ["Date32", "Timestamp(µs)", "Utf8", "Int64", "Utf8"]);
        let texts = given.formats.texts(&schema);
        assert_eq!(*texts.field(0).data_type(), DataType::Utf8);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![Some("31.01.2024"), None])),
            Arc::new(StringArray::from(vec!["31.01.2024 10:00", "x"])),
        ];
        let schema = Arc::new(schema.project(&[0, 1]).unwrap());
        let texts = Arc::new(texts.project(&[0, 1]).unwrap());
        let batch = RecordBatch::try_new(texts, columns).unwrap();
        let error = given
            .formats
            .times(&batch, &schema)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("\"x\" is not written as %d.%m.%Y %H:%M"),
            "{error}"
        );
        let read = given.formats.times(&batch.slice(0, 1), &schema).unwrap();
        assert_eq!(read.column(0).as_primitive::<Date32Type>().value(0), 19_753);
    }
}

#[test]
fn arrays_of_other_values_have_one_column() {
    for (text, data_type) in [
        ("[1, 2, 3]", "Int64"),
        ("[null, \"x\"]", "Utf8"),
        ("[[1], []]", "List(Int64)"),
        ("[1, {\"a\": 2}]", "Utf8"),
    ] {
        check(text, Layout::Values, &[("json", data_type)]);
    }
    check("[{\"a\": 1}, null]", Layout::Array, &[("a", "Int64")]);
}

#[test]
fn other_values_become_objects() {
    let text = br#" [1 ,"a,]\" [", [2, [3]],null,
 {"a": "}"} ] "#;
    let expect = r#" {"json":1 }
{"json":"a,]\" ["}
 {"json":[2, [3]]}
{"json":null}

 {"json":{"a": "}"} }
 "#;
    for buffer in [1, 2, 5, 100] {
        let (mut wrapper, mut made) = (Wrapper::default(), Vec::new());
        for chunk in text.chunks(buffer) {
            wrapper.push(chunk, &mut made);
        }
        assert_eq!(String::from_utf8(made).unwrap(), expect, "{buffer}");
    }
}

#[test]
fn fractions_of_whole_fields_become_strings() {
    for (text, expect) in [
        ("{\"a\": 1.5}", "{\"a\": \"1.5\"}"),
        ("{\"a\":-15e-1 ,\"b\":2.5}", "{\"a\":\"-15e-1\" ,\"b\":2.5}"),
        ("{\"a\" : 2.0}{\"a\":1e3}", "{\"a\" : 2.0}{\"a\":1e3}"),
        ("{\"a\":-1,\"b\":\"1.5\"}", "{\"a\":-1,\"b\":\"1.5\"}"),
        (
            "{\"b\":\"\\\"a\\\": 1.5\",\"aa\":0.5}",
            "{\"b\":\"\\\"a\\\": 1.5\",\"aa\":0.5}",
        ),
    ] {
        for size in 1..text.len() {
            let mut fractions = Fractions::new(["a".to_string()]);
            let mut made = Vec::new();
            for part in text.as_bytes().chunks(size) {
                fractions.push(part, &mut made);
            }
            fractions.finish(&mut made);
            assert_eq!(String::from_utf8(made).unwrap(), expect, "{size}");
        }
    }
}
