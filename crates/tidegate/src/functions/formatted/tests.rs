//! Formats of `printf` and `format`, and what they refuse.

use super::grammar::{Grammar, Piece, read};
use super::value::{Value, write};

#[track_caller]
fn check(grammar: Grammar, format: &str, values: &[Value<'_>], expect: Result<&str, &str>) {
    let written = read(grammar, format, values.len()).and_then(|pieces| {
        let mut line = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => line.push_str(&text),
                Piece::Place { argument, spec } => write(&mut line, &values[argument], &spec)?,
            }
        }
        Ok(line)
    });
    match (written, expect) {
        (Ok(line), Ok(expect)) => assert_eq!(line, expect, "{format}"),
        (Err(why), Err(part)) => assert!(why.contains(part), "{format}: {why}"),
        (written, _) => panic!("{format}: {written:?}"),
    }
}

fn float(number: f64) -> Value<'static> {
    let text = Box::leak(number.to_string().into_boxed_str());
    Value::Float { number, text }
}

#[test]
fn c_writes_numbers_and_strings() {
    let int = Value::Integer;
    for (format, value, expect) in [
        ("%d", int(42), "42"),
        ("%05d", int(-42), "-0042"),
        ("%+d|", int(42), "+42|"),
        ("%-5d|", int(42), "42   |"),
        ("%5s|", Value::Text("ab"), "   ab|"),
        ("%-5s|", Value::Text("ab"), "ab   |"),
        ("%.1s", Value::Text("ab"), "a"),
        ("%x %%", int(255), "ff %"),
        ("%#X", int(255), "0XFF"),
        ("%o", int(8), "10"),
        ("%c", int(65), "A"),
        ("%ld", int(7), "7"),
        ("%,d", int(-1_234_567), "-1,234,567"),
        ("%.2f", float(1.23456), "1.23"),
        ("%08.2f", float(-1.23456), "-0001.23"),
        ("%f", int(2), "2.000000"),
        ("%e", float(12345.678), "1.234568e+04"),
        ("%E", float(0.00012), "1.200000E-04"),
        ("%g", float(100000.0), "100000"),
        ("%g", float(1_000_000.0), "1e+06"),
        ("%g", float(0.0001), "0.0001"),
        ("%.3g", float(0.00001234), "1.23e-05"),
        ("%05f|", float(f64::INFINITY), "  inf|"),
        ("%s", float(1.5), "1.5"),
    ] {
        check(Grammar::C, format, &[value], Ok(expect));
    }
}

#[test]
fn fmt_writes_numbers_and_strings() {
    let int = Value::Integer;
    for (format, values, expect) in [
        ("{} is {}", vec![int(1), Value::Text("one")], "1 is one"),
        ("{1}{0}{1}", vec![int(1), Value::Text("a")], "a1a"),
        ("{{{}}}", vec![int(1)], "{1}"),
        ("{:,}", vec![int(1_234_567)], "1,234,567"),
        ("{:_}", vec![int(1_000)], "1_000"),
        ("{:t.}", vec![int(1_000)], "1.000"),
        ("{:.2f}", vec![float(1.23456)], "1.23"),
        ("{:,.2f}", vec![float(1234.5)], "1,234.50"),
        (
            "{:>6}|{:<6}|{:^6}|",
            vec![int(1), int(2), Value::Text("ab")],
            "     1|2     |  ab  |",
        ),
        ("{:*^7}", vec![Value::Text("ab")], "**ab***"),
        ("{:06}", vec![int(-42)], "-00042"),
        ("{:#x}", vec![int(255)], "0xff"),
        ("{:b}", vec![int(5)], "101"),
        ("{:+}", vec![float(1.5)], "+1.5"),
        ("{}", vec![float(-1.5)], "-1.5"),
    ] {
        check(Grammar::Fmt, format, &values, Ok(expect));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let int = Value::Integer;
    check(
        Grammar::C,
        "%d %d",
        &[int(1)],
        Err("a place for argument 2, and 1 are given"),
    );
    check(Grammar::C, "100%", &[], Err("written %%"));
    check(Grammar::C, "%y", &[int(1)], Err("%…y is not known"));
    check(Grammar::C, "%*d", &[int(1)], Err("and not *"));
    check(Grammar::C, "%2000d", &[int(1)], Err("1000 is the limit"));
    check(Grammar::C, "%d", &[float(1.5)], Err("takes an integer"));
    check(Grammar::C, "%d", &[Value::Text("a")], Err("takes a number"));
    check(Grammar::C, "%c", &[int(-1)], Err("no character"));
    check(Grammar::Fmt, "{", &[int(1)], Err("written {{"));
    check(Grammar::Fmt, "}", &[int(1)], Err("written }}"));
    check(Grammar::Fmt, "{:y}", &[int(1)], Err("is not known"));
    check(
        Grammar::Fmt,
        "{3}",
        &[int(1)],
        Err("a place for argument 4"),
    );
}
