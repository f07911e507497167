//! Names, blanks, words for NULL, and what is no number. Beside each file stands what the sniffer of DuckDB 2.0 makes of it, and why we differ.

use std::sync::Arc;

use tidegate_readers::{Given, Mapping, Sample, sniff, together};

use crate::read::{check, check_given};

#[test]
fn delimiter_at_the_end() {
    // DuckDB: the same.
    check(
        b"x,y\n1,2,\n3,4,\n",
        &[("x", "BIGINT"), ("y", "BIGINT")],
        &[&[Some("1"), Some("2")], &[Some("3"), Some("4")]],
    );
}

#[test]
fn blank_lines() {
    // DuckDB: the same.
    check(
        b"a,b\n\n1,2\n\n3,4\n\n",
        &[("a", "BIGINT"), ("b", "BIGINT")],
        &[&[Some("1"), Some("2")], &[Some("3"), Some("4")]],
    );
}

#[test]
fn spaces() {
    // DuckDB: the same.
    check(
        b"a, b\n 1, 2\n3 ,4\n",
        &[("a", "BIGINT"), ("b", "BIGINT")],
        &[&[Some("1"), Some("2")], &[Some("3"), Some("4")]],
    );
}

#[test]
fn empty_values() {
    // DuckDB: the same.
    check(
        b"a,b,c\n1,,x\n,2,\n",
        &[("a", "BIGINT"), ("b", "BIGINT"), ("c", "VARCHAR")],
        &[&[Some("1"), None, Some("x")], &[None, Some("2"), None]],
    );
}

#[test]
fn null_words() {
    // DuckDB: a VARCHAR; b VARCHAR; c VARCHAR; d VARCHAR and 3 rows; a word that stands for no value in
    // a typed column is NULL.
    check(
        b"a,b,c,d\n1,null,2024-01-31,true\nNA,2.5,-,\\N\n3,n/a,NULL,false\n",
        &[
            ("a", "BIGINT"),
            ("b", "DOUBLE"),
            ("c", "DATE"),
            ("d", "BOOLEAN"),
        ],
        &[
            &[Some("1"), None, Some("2024-01-31"), Some("true")],
            &[None, Some("2.5"), None, None],
            &[Some("3"), None, None, Some("false")],
        ],
    );
}

#[test]
fn null_words_in_text() {
    // DuckDB: the same.
    check(
        b"code,v\nNA,1\nDE,2\n",
        &[("code", "VARCHAR"), ("v", "BIGINT")],
        &[&[Some("NA"), Some("1")], &[Some("DE"), Some("2")]],
    );
}

#[test]
fn booleans() {
    // DuckDB: the same.
    check(
        b"a,b\ntrue,TRUE\nfalse,False\n",
        &[("a", "BOOLEAN"), ("b", "BOOLEAN")],
        &[
            &[Some("true"), Some("true")],
            &[Some("false"), Some("false")],
        ],
    );
}

#[test]
fn one_letter_codes() {
    // DuckDB: sex BOOLEAN; v BIGINT and 2 rows; F alone is a code, not false.
    check(
        b"sex,v\nF,1\nF,2\n",
        &[("sex", "VARCHAR"), ("v", "BIGINT")],
        &[&[Some("F"), Some("1")], &[Some("F"), Some("2")]],
    );
}

#[test]
fn large_numbers() {
    // DuckDB: the same.
    check(
        b"a,b\n9223372036854775807,12345678901234567890\n1,2\n",
        &[("a", "BIGINT"), ("b", "DECIMAL(38,0)")],
        &[
            &[Some("9223372036854775807"), Some("12345678901234567890")],
            &[Some("1"), Some("2")],
        ],
    );
}

#[test]
fn numbers_with_exponents() {
    // DuckDB: the same.
    check(
        b"a,b\n1e3,.5\n-2.5E-1,5.\n",
        &[("a", "DOUBLE"), ("b", "DOUBLE")],
        &[
            &[Some("1000.0"), Some("0.5")],
            &[Some("-0.25"), Some("5.0")],
        ],
    );
}

#[test]
fn not_numbers() {
    // DuckDB: the same columns, rows [['1.5'], ['nan'], ['-inf']]; only NaN is spelled in another way.
    check(
        b"a\n1.5\nNaN\n-inf\n",
        &[("a", "DOUBLE")],
        &[&[Some("1.5")], &[Some("NaN")], &[Some("-inf")]],
    );
}

#[test]
fn phone_numbers() {
    // DuckDB: the same.
    check(
        b"p,v\n+4930123,1\n+4940456,2\n",
        &[("p", "VARCHAR"), ("v", "BIGINT")],
        &[
            &[Some("+4930123"), Some("1")],
            &[Some("+4940456"), Some("2")],
        ],
    );
}

#[test]
fn addresses_and_versions() {
    // DuckDB: the same.
    check(
        b"ip,v\n10.0.0.1,1.2.3\n192.168.1.10,1.2.4\n",
        &[("ip", "VARCHAR"), ("v", "VARCHAR")],
        &[
            &[Some("10.0.0.1"), Some("1.2.3")],
            &[Some("192.168.1.10"), Some("1.2.4")],
        ],
    );
}

#[test]
fn times_of_day() {
    // DuckDB: the same.
    check(
        b"t,v\n10:00:00,1\n11:30:00,2\n",
        &[("t", "TIME"), ("v", "BIGINT")],
        &[
            &[Some("10:00:00"), Some("1")],
            &[Some("11:30:00"), Some("2")],
        ],
    );
}

#[test]
fn one_column() {
    // DuckDB: the same.
    check(
        b"n\n1\n2\n",
        &[("n", "BIGINT")],
        &[&[Some("1")], &[Some("2")]],
    );
}

#[test]
fn one_column_of_text() {
    // DuckDB: the same.
    check(
        b"name\nann, of rome\nbob\ncy\n",
        &[("name", "VARCHAR")],
        &[&[Some("ann, of rome")], &[Some("bob")], &[Some("cy")]],
    );
}

#[test]
fn one_column_of_dates() {
    // DuckDB: column0 VARCHAR; column1 BIGINT and 2 rows; a comma within a date separates nothing.
    check(
        b"Jan 31, 2024\nFeb 1, 2024\n",
        &[("column0", "DATE")],
        &[&[Some("2024-01-31")], &[Some("2024-02-01")]],
    );
}

#[test]
fn json_in_a_value() {
    // DuckDB: the same.
    check(
        b"id,j\n1,\"{\"\"a\"\": 1, \"\"b\"\": 2}\"\n2,\"{}\"\n",
        &[("id", "BIGINT"), ("j", "VARCHAR")],
        &[
            &[Some("1"), Some("{\"a\": 1, \"b\": 2}")],
            &[Some("2"), Some("{}")],
        ],
    );
}

#[test]
fn many_columns_are_found_by_their_names() {
    let given = Given {
        header: Some(true),
        ..Given::default()
    };
    let header = |name: &dyn Fn(usize) -> String| {
        let names: Vec<String> = (0..40_000).map(name).collect();
        let row = vec!["1"; names.len()].join(",");
        sniff(
            &Sample::whole(format!("{}\n{row}\n", names.join(",")).into()),
            &given,
        )
        .unwrap()
    };
    let all = header(&|n| format!("c{n}"));
    let backwards = header(&|n| format!("C{}", 39_999 - n));
    let schema = Arc::new(together(&[("a", &all), ("b", &backwards)], false).unwrap());
    assert_eq!(schema.fields().len(), 40_000);
    let columns: Vec<usize> = (0..40_000).collect();
    Mapping::new(&backwards, &schema, &columns, false).unwrap();
    let same = header(&|_| "x".into());
    assert_eq!(same.columns[39_999].name, "x_39999");
    let error = together(&[("a", &all), ("b", &same)], false).unwrap_err();
    assert!(error.to_string().contains("a has not"), "{error}");
}

#[test]
fn one_column_of_text_with_colons() {
    // DuckDB: the same, but for TIME of 07:30.
    for values in [
        ["url", "http://a.com/x", "https://b.org/y"],
        ["time", "07:30", "18:45"],
        ["host", "localhost:8080", "example.com:443"],
        ["mac", "00:1a:2b:3c:4d:5e", "00:1a:2b:3c:4d:5f"],
        ["message", "Error: file not found", "Warning: disk full"],
        ["path", "~/a", "~/b"],
        ["power", "2^8", "10^3"],
    ] {
        let [name, first, second] = values;
        check(
            format!("{name}\n{first}\n{second}\n").as_bytes(),
            &[(name, "VARCHAR")],
            &[&[Some(first)], &[Some(second)]],
        );
    }
}

#[test]
fn colons_and_a_header_that_is_said_to_be() {
    // DuckDB: the same.
    let given = Given {
        header: Some(true),
        ..Given::default()
    };
    check_given(
        b"url\nhttp://a.com/x\nhttps://b.org/y\n",
        &given,
        &[("url", "VARCHAR")],
        &[&[Some("http://a.com/x")], &[Some("https://b.org/y")]],
    );
}

#[test]
fn colons_where_they_are_said_to_separate() {
    // DuckDB: the same.
    let given = Given {
        delimiter: Some(b':'),
        header: Some(false),
        ..Given::default()
    };
    check_given(
        b"root:x:0\nbin:x:2\n",
        &given,
        &[
            ("column0", "VARCHAR"),
            ("column1", "VARCHAR"),
            ("column2", "BIGINT"),
        ],
        &[
            &[Some("root"), Some("x"), Some("0")],
            &[Some("bin"), Some("x"), Some("2")],
        ],
    );
}
