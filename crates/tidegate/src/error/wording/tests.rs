//! Types and literals are those of SQL.

use datafusion::error::DataFusionError;

use super::{in_sql, plain};

#[test]
fn types_and_literals_are_those_of_sql() {
    for (given, expect) in [
        ("Utf8View + Int64", "VARCHAR + BIGINT"),
        ("t.a > Int64(1)", "t.a > 1"),
        ("f(Utf8(\"a (b)\"))", "f('a (b)')"),
        ("List(Int32)", "List(INT)"),
        ("'Int64' of Decimal128(10, 2)", "'Int64' of DECIMAL(10, 2)"),
        ("an Int64x", "an Int64x"),
        ("Timestamp(ns) + Time64(ns)", "TIMESTAMP + TIME"),
        (
            "Timestamp(ns, \"UTC\") - Interval(MonthDayNano)",
            "TIMESTAMP WITH TIME ZONE - INTERVAL",
        ),
        ("Interval(x)", "Interval(x)"),
    ] {
        assert_eq!(in_sql(given), expect);
    }
}

#[test]
fn nothing_of_the_engine_is_left() {
    let ast = "Unsupported ast node Pivot { table: Table { name: ObjectName([Identifier(Ident {";
    let inner = DataFusionError::Plan("Utf8View + Int64".into());
    for (error, expect) in [
        (
            DataFusionError::NotImplemented(ast.into()),
            "Unsupported ast node Pivot",
        ),
        (inner.context("type_coercion"), "VARCHAR + BIGINT"),
        (
            datafusion::common::internal_datafusion_err!("expected a Map type"),
            "expected a Map type",
        ),
    ] {
        let text = plain(&error);
        assert_eq!(text, expect);
    }
}
