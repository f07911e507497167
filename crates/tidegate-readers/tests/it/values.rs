//! Values: numbers, dates, timestamps. Beside each file stands what the sniffer of DuckDB 2.0 makes of it, and why we differ.

use crate::read::check;

#[test]
fn clean() {
    // DuckDB: the same.
    check(
        b"id,name,at\n1,ann,2024-01-31 10:00:00\n2,bob,2024-02-01 11:30:00\n",
        &[("id", "BIGINT"), ("name", "VARCHAR"), ("at", "TIMESTAMP")],
        &[
            &[Some("1"), Some("ann"), Some("2024-01-31T10:00:00")],
            &[Some("2"), Some("bob"), Some("2024-02-01T11:30:00")],
        ],
    );
}

#[test]
fn leading_zeros() {
    // DuckDB: the same.
    check(
        b"zip,n\n01234,1\n90210,2\n",
        &[("zip", "VARCHAR"), ("n", "BIGINT")],
        &[&[Some("01234"), Some("1")], &[Some("90210"), Some("2")]],
    );
}

#[test]
fn one_leading_zero_among_many() {
    // DuckDB: the same.
    check(
        b"zip\n12345\n90210\n00501\n",
        &[("zip", "VARCHAR")],
        &[&[Some("12345")], &[Some("90210")], &[Some("00501")]],
    );
}

#[test]
fn comment_newline_and_null_words() {
    // DuckDB: id BIGINT; note VARCHAR; v VARCHAR and 3 rows; a word that stands for no number in a
    // column of numbers is NULL.
    check(
        b"# exported 2024\nid,note,v\n1,\"two\nlines\",5\n2,x,N/A\n3,y,7\n",
        &[("id", "BIGINT"), ("note", "VARCHAR"), ("v", "BIGINT")],
        &[
            &[Some("1"), Some("two\nlines"), Some("5")],
            &[Some("2"), Some("x"), None],
            &[Some("3"), Some("y"), Some("7")],
        ],
    );
}

#[test]
fn german() {
    // DuckDB: datum DATE; betrag VARCHAR; text VARCHAR and 2 rows; a decimal comma is found.
    check(
        b"datum;betrag;text\n31.01.2024;1.234,50;a\n01.02.2024;-7,25;b\n",
        &[("datum", "DATE"), ("betrag", "DOUBLE"), ("text", "VARCHAR")],
        &[
            &[Some("2024-01-31"), Some("1234.5"), Some("a")],
            &[Some("2024-02-01"), Some("-7.25"), Some("b")],
        ],
    );
}

#[test]
fn german_whole_groups() {
    // DuckDB: a DOUBLE; b VARCHAR and 2 rows; another column proves the decimal comma.
    check(
        b"a;b\n1.234;1,5\n12.345;2,25\n",
        &[("a", "BIGINT"), ("b", "DOUBLE")],
        &[&[Some("1234"), Some("1.5")], &[Some("12345"), Some("2.25")]],
    );
}

#[test]
fn american_groups() {
    // DuckDB: item VARCHAR; price VARCHAR and 2 rows; groups of three digits are read.
    check(
        b"item;price\nx;1,234.50\ny;7.25\n",
        &[("item", "VARCHAR"), ("price", "DOUBLE")],
        &[&[Some("x"), Some("1234.5")], &[Some("y"), Some("7.25")]],
    );
}

#[test]
fn quoted_groups() {
    // DuckDB: item VARCHAR; price VARCHAR and 2 rows; groups of three digits are read.
    check(
        b"item,price\nx,\"1,234\"\ny,\"12,500\"\n",
        &[("item", "VARCHAR"), ("price", "BIGINT")],
        &[&[Some("x"), Some("1234")], &[Some("y"), Some("12500")]],
    );
}

#[test]
fn us_dates() {
    // DuckDB: the same.
    check(
        b"d,v\n01/31/2024,1\n02/01/2024,2\n",
        &[("d", "DATE"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31"), Some("1")],
            &[Some("2024-02-01"), Some("2")],
        ],
    );
}

#[test]
fn day_first_dates() {
    // DuckDB: the same.
    check(
        b"d,v\n31/01/2024,1\n01/02/2024,2\n",
        &[("d", "DATE"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31"), Some("1")],
            &[Some("2024-02-01"), Some("2")],
        ],
    );
}

#[test]
fn open_dates() {
    // DuckDB: the same.
    check(
        b"d,v\n01/02/2024,1\n03/04/2024,2\n",
        &[("d", "DATE"), ("v", "BIGINT")],
        &[
            &[Some("2024-02-01"), Some("1")],
            &[Some("2024-04-03"), Some("2")],
        ],
    );
}

#[test]
fn mixed_date_formats() {
    // DuckDB: d DATE and rows fail: Conversion Error: CSV Error on Line: 2 rows; no format holds both,
    // so they are text.
    check(
        b"d\n31/01/2024\n01/31/2024\n",
        &[("d", "VARCHAR")],
        &[&[Some("31/01/2024")], &[Some("01/31/2024")]],
    );
}

#[test]
fn month_names() {
    // DuckDB: d VARCHAR; v BIGINT and 2 rows; names of months are read.
    check(
        b"d;v\n31-Jan-2024;1\n01-Feb-2024;2\n",
        &[("d", "DATE"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31"), Some("1")],
            &[Some("2024-02-01"), Some("2")],
        ],
    );
}

#[test]
fn month_first_names() {
    // DuckDB: d VARCHAR; v BIGINT and 2 rows; names of months are read.
    check(
        b"d;v\nJan 31, 2024;1\nFeb 1, 2024;2\n",
        &[("d", "DATE"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31"), Some("1")],
            &[Some("2024-02-01"), Some("2")],
        ],
    );
}

#[test]
fn two_digit_years() {
    // DuckDB: the same.
    check(
        b"d;v\n31.01.24;1\n01.02.99;2\n",
        &[("d", "DATE"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31"), Some("1")],
            &[Some("1999-02-01"), Some("2")],
        ],
    );
}

#[test]
fn timestamps_with_zones() {
    // DuckDB: the same.
    check(
        b"t\n2024-01-31T10:00:00Z\n2024-01-31T12:00:00+02:00\n",
        &[("t", "TIMESTAMPTZ")],
        &[
            &[Some("2024-01-31T10:00:00Z")],
            &[Some("2024-01-31T10:00:00Z")],
        ],
    );
}

#[test]
fn timestamps_of_day_first() {
    // DuckDB: t VARCHAR; v BIGINT and 2 rows; a day may come first before a time too.
    check(
        b"t;v\n31.01.2024 10:05;1\n01.02.2024 11:00;2\n",
        &[("t", "TIMESTAMP"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31T10:05:00"), Some("1")],
            &[Some("2024-02-01T11:00:00"), Some("2")],
        ],
    );
}

#[test]
fn half_days() {
    // DuckDB: t VARCHAR; v BIGINT and 2 rows; AM and PM are read.
    check(
        b"t,v\n1/31/2024 1:05 PM,1\n2/1/2024 12:00 AM,2\n",
        &[("t", "TIMESTAMP"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31T13:05:00"), Some("1")],
            &[Some("2024-02-01T00:00:00"), Some("2")],
        ],
    );
}

#[test]
fn dates_and_timestamps() {
    // DuckDB: t VARCHAR; v BIGINT and 2 rows; a date is a timestamp at midnight.
    check(
        b"t,v\n2024-01-31,1\n2024-02-01 10:00:00,2\n",
        &[("t", "TIMESTAMP"), ("v", "BIGINT")],
        &[
            &[Some("2024-01-31T00:00:00"), Some("1")],
            &[Some("2024-02-01T10:00:00"), Some("2")],
        ],
    );
}

#[test]
fn nanoseconds() {
    // DuckDB: t TIMESTAMP; v BIGINT and 1 rows; no digit is lost.
    check(
        b"t,v\n2024-01-31 10:00:00.123456789,1\n",
        &[("t", "TIMESTAMP_NS"), ("v", "BIGINT")],
        &[&[Some("2024-01-31T10:00:00.123456789"), Some("1")]],
    );
}

#[test]
fn groups_or_fractions() {
    // DuckDB: a VARCHAR; b VARCHAR and 2 rows; each comma may stand before a group or a fraction.
    check(
        b"a;b\n1,234;x\n5,678;y\n",
        &[("a", "VARCHAR"), ("b", "VARCHAR")],
        &[&[Some("1,234"), Some("x")], &[Some("5,678"), Some("y")]],
    );
    // Another column proves which it is.
    check(
        b"a;b\n1,234;1,5\n5,678;2,25\n",
        &[("a", "DOUBLE"), ("b", "DOUBLE")],
        &[
            &[Some("1.234"), Some("1.5")],
            &[Some("5.678"), Some("2.25")],
        ],
    );
    check(
        b"a;b\n1,234;1.5\n5,678;2.25\n",
        &[("a", "BIGINT"), ("b", "DOUBLE")],
        &[&[Some("1234"), Some("1.5")], &[Some("5678"), Some("2.25")]],
    );
}

#[test]
fn words_are_no_numbers() {
    // DuckDB: name VARCHAR; n BIGINT and 2 rows.
    check(
        b"name,n\nNan,1\nInf,2\n",
        &[("name", "VARCHAR"), ("n", "BIGINT")],
        &[&[Some("Nan"), Some("1")], &[Some("Inf"), Some("2")]],
    );
}
