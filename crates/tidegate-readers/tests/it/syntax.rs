//! Encodings, delimiters, quotes, lines before the header, headers. Beside each file stands what the sniffer of DuckDB 2.0 makes of it, and why we differ.

use tidegate_readers::{Given, Sample, sniff};

use crate::read::check;

#[test]
fn bom_and_crlf() {
    // DuckDB: the same.
    check(
        b"\xef\xbb\xbfid,v\r\n1,2\r\n3,4\r\n",
        &[("id", "BIGINT"), ("v", "BIGINT")],
        &[&[Some("1"), Some("2")], &[Some("3"), Some("4")]],
    );
}

#[test]
fn carriage_returns_alone() {
    // DuckDB: the same.
    check(
        b"id,v\r1,x\r2,y\r",
        &[("id", "BIGINT"), ("v", "VARCHAR")],
        &[&[Some("1"), Some("x")], &[Some("2"), Some("y")]],
    );
}

#[test]
fn windows_1252() {
    // DuckDB: an error: Invalid Input Error: CSV Error on Line: 2; what is not UTF-8 is Windows-1252.
    check(
        b"id;ort\n1;K\xf6ln\n2;Stra\xdfe \x96 5\n",
        &[("id", "BIGINT"), ("ort", "VARCHAR")],
        &[&[Some("1"), Some("Köln")], &[Some("2"), Some("Straße – 5")]],
    );
}

#[test]
fn utf_16() {
    // DuckDB: an error: Invalid Input Error: CSV Error on Line: 1; UTF-16 is known by its mark.
    check(
        b"\xff\xfei\x00d\x00\t\x00v\x00\n\x001\x00\t\x00\xe4\x00\n\x00",
        &[("id", "BIGINT"), ("v", "VARCHAR")],
        &[&[Some("1"), Some("ä")]],
    );
}

#[test]
fn utf_16_without_mark() {
    // DuckDB: ?i?d? VARCHAR; ?v? VARCHAR and 2 rows; UTF-16 is known by its zero bytes.
    check(
        b"\x00i\x00d\x00,\x00v\x00\n\x001\x00,\x00x\x00\n\x002\x00,\x00y\x00\n",
        &[("id", "BIGINT"), ("v", "VARCHAR")],
        &[&[Some("1"), Some("x")], &[Some("2"), Some("y")]],
    );
}

#[test]
fn tabs() {
    // DuckDB: the same.
    check(
        b"id\tname\n1\tann, bob\n2\tcy\n",
        &[("id", "BIGINT"), ("name", "VARCHAR")],
        &[&[Some("1"), Some("ann, bob")], &[Some("2"), Some("cy")]],
    );
}

#[test]
fn pipes() {
    // DuckDB: the same.
    check(
        b"id|name\n1|a;b\n2|c\n",
        &[("id", "BIGINT"), ("name", "VARCHAR")],
        &[&[Some("1"), Some("a;b")], &[Some("2"), Some("c")]],
    );
}

#[test]
fn single_quotes() {
    // DuckDB: the same.
    check(
        b"id,name\n1,'a,b'\n2,'c'\n",
        &[("id", "BIGINT"), ("name", "VARCHAR")],
        &[&[Some("1"), Some("a,b")], &[Some("2"), Some("c")]],
    );
}

#[test]
fn backslash_escapes() {
    // DuckDB: the same.
    check(
        b"id,name\n1,\"say \\\"hi\\\", x\"\n2,y\n",
        &[("id", "BIGINT"), ("name", "VARCHAR")],
        &[&[Some("1"), Some("say \"hi\", x")], &[Some("2"), Some("y")]],
    );
}

#[test]
fn a_quoted_value_may_end_in_a_backslash() {
    // DuckDB: the same.
    check(
        b"i,s,n\n1,\"a,\\\",7\n2,\"z,\",8\n3,\"q\"\"\",8\n",
        &[("i", "BIGINT"), ("s", "VARCHAR"), ("n", "BIGINT")],
        &[
            &[Some("1"), Some("a,\\"), Some("7")],
            &[Some("2"), Some("z,"), Some("8")],
            &[Some("3"), Some("q\""), Some("8")],
        ],
    );
}

#[test]
fn doubled_quotes() {
    // DuckDB: the same.
    check(
        b"id,name\n1,\"say \"\"hi\"\"\"\n2,y\n",
        &[("id", "BIGINT"), ("name", "VARCHAR")],
        &[&[Some("1"), Some("say \"hi\"")], &[Some("2"), Some("y")]],
    );
}

#[test]
fn inches() {
    // DuckDB: the same.
    check(
        b"id,size\n1,5\" disk\n2,3.5\" disk\n",
        &[("id", "BIGINT"), ("size", "VARCHAR")],
        &[
            &[Some("1"), Some("5\" disk")],
            &[Some("2"), Some("3.5\" disk")],
        ],
    );
}

#[test]
fn title_lines() {
    // DuckDB: the same.
    check(
        b"Report of sales\nmade by hand\n\nid,v,w\n1,2,x\n3,4,y\n",
        &[("id", "BIGINT"), ("v", "BIGINT"), ("w", "VARCHAR")],
        &[
            &[Some("1"), Some("2"), Some("x")],
            &[Some("3"), Some("4"), Some("y")],
        ],
    );
}

#[test]
fn comments_between_rows() {
    // DuckDB: the same.
    check(
        b"id,v\n1,2\n# a note, with, commas\n3,4\n",
        &[("id", "BIGINT"), ("v", "BIGINT")],
        &[&[Some("1"), Some("2")], &[Some("3"), Some("4")]],
    );
}

#[test]
fn no_header() {
    // DuckDB: the same.
    check(
        b"1,ann\n2,bob\n",
        &[("column0", "BIGINT"), ("column1", "VARCHAR")],
        &[&[Some("1"), Some("ann")], &[Some("2"), Some("bob")]],
    );
}

#[test]
fn all_text_with_header() {
    // DuckDB: the same.
    check(
        b"name,city\nann,rome\nbob,oslo\n",
        &[("name", "VARCHAR"), ("city", "VARCHAR")],
        &[&[Some("ann"), Some("rome")], &[Some("bob"), Some("oslo")]],
    );
}

#[test]
fn all_text_without_header() {
    // DuckDB: ann VARCHAR; rome VARCHAR and 2 rows; a header's words do not come again below it.
    check(
        b"ann,rome\nbob,oslo\nann,oslo\n",
        &[("column0", "VARCHAR"), ("column1", "VARCHAR")],
        &[
            &[Some("ann"), Some("rome")],
            &[Some("bob"), Some("oslo")],
            &[Some("ann"), Some("oslo")],
        ],
    );
}

#[test]
fn years_in_the_header() {
    // DuckDB: column0 VARCHAR; column1 BIGINT; column2 BIGINT and 3 rows; a name and then years are a
    // header.
    check(
        b"country,2019,2020\nDE,1,2\nFR,3,4\n",
        &[
            ("country", "VARCHAR"),
            ("2019", "BIGINT"),
            ("2020", "BIGINT"),
        ],
        &[
            &[Some("DE"), Some("1"), Some("2")],
            &[Some("FR"), Some("3"), Some("4")],
        ],
    );
}

#[test]
fn header_only() {
    // DuckDB: the same.
    check(b"id,name\n", &[("id", "VARCHAR"), ("name", "VARCHAR")], &[]);
}

#[test]
fn same_names_and_none() {
    // DuckDB: the same.
    check(
        b"id,id,\n1,2,3\n4,5,6\n",
        &[("id", "BIGINT"), ("id_1", "BIGINT"), ("column2", "BIGINT")],
        &[
            &[Some("1"), Some("2"), Some("3")],
            &[Some("4"), Some("5"), Some("6")],
        ],
    );
}

#[test]
fn index_column() {
    // DuckDB: the same.
    check(
        b",a,b\n0,1,x\n1,2,y\n",
        &[("column0", "BIGINT"), ("a", "BIGINT"), ("b", "VARCHAR")],
        &[
            &[Some("0"), Some("1"), Some("x")],
            &[Some("1"), Some("2"), Some("y")],
        ],
    );
}

#[test]
fn a_quote_without_its_partner() {
    // DuckDB: the same.
    check(
        b"a,b\n1,\"x\n2,\"y\"\n3,z\n",
        &[("a", "BIGINT"), ("b", "VARCHAR")],
        &[
            &[Some("1"), Some("\"x")],
            &[Some("2"), Some("\"y\"")],
            &[Some("3"), Some("z")],
        ],
    );
    // DuckDB: a,b VARCHAR and 4 rows; rows that a value has swallowed are an error here.
    let given = Given {
        quote: Some(Some(b'"')),
        ..Given::default()
    };
    let text = b"a,b\n0,w\n1,\"x\n2,\"y\"\n3,z\n";
    let error = sniff(&Sample::whole(text.to_vec()), &given).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("line 3: a quote is opened"), "{error}");
}

#[test]
fn a_quote_without_its_partner_in_one_column() {
    // DuckDB: the same.
    check(
        b"t\n\"x\ny\" z\nw\n",
        &[("t", "VARCHAR")],
        &[&[Some("\"x")], &[Some("y\" z")], &[Some("w")]],
    );
}

#[test]
fn quoted_values_of_several_lines() {
    // DuckDB: the same.
    check(
        b"a,b\n1,\"x \"\"y\"\"\n2,\"\n3,\"z\"\n",
        &[("a", "BIGINT"), ("b", "VARCHAR")],
        &[&[Some("1"), Some("x \"y\"\n2,")], &[Some("3"), Some("z")]],
    );
}
