//! Random expressions over random rows: the interpreter, reached through a device that answers
//! everything, against DataFusion's own operators.
//!
//! `TIDEGATE_FUZZ_SEED` and `TIDEGATE_FUZZ_EXPRESSIONS` choose what is run; a failure prints its seed.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt16Array,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate::Session;

use crate::support::{host_only, lines, simulated};

/// An expression's type, as far as the generator cares.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Number,
    Decimal,
    Text,
    Date,
    Truth,
}

fn rows(random: &mut StdRng) -> RecordBatch {
    const NUM_ROWS: usize = 60;
    fn column<T>(random: &mut StdRng, mut value: impl FnMut(&mut StdRng) -> T) -> Vec<Option<T>> {
        (0..NUM_ROWS)
            .map(|_| {
                let null = random.random_bool(0.15);
                let value = value(random);
                (!null).then_some(value)
            })
            .collect()
    }
    let small = |random: &mut StdRng| random.random_range(-3..4_i32);
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "i8",
            Arc::new(Int8Array::from(column(random, |r| r.random::<i8>()))),
        ),
        ("i32", Arc::new(Int32Array::from(column(random, small)))),
        (
            "i64",
            Arc::new(Int64Array::from(column(random, |r| {
                match r.random_range(0..6) {
                    0 => i64::MAX,
                    1 => i64::MIN,
                    _ => r.random_range(-1000..1000),
                }
            }))),
        ),
        (
            "u16",
            Arc::new(UInt16Array::from(column(random, |r| r.random::<u16>()))),
        ),
        (
            "f64",
            Arc::new(Float64Array::from(column(random, |r| {
                match r.random_range(0..8) {
                    0 => f64::NAN,
                    1 => -0.0,
                    2 => 0.0,
                    3 => f64::INFINITY,
                    _ => f64::from(r.random_range(-50..50)) / 4.0,
                }
            }))),
        ),
        (
            "d",
            Arc::new(
                Decimal128Array::from(column(random, |r| r.random_range(-99_999..99_999_i128)))
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
        ),
        (
            "s",
            Arc::new(StringArray::from(column(random, |r| {
                ["", "a", "ab", "abc", "b%", "Äb", "a_c", "zz"][r.random_range(0..8)]
            }))),
        ),
        (
            "day",
            Arc::new(Date32Array::from(column(random, |r| {
                r.random_range(-40_000..40_000)
            }))),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(column(random, |r| {
                r.random_range(-4_000_000_000_000_000..4_000_000_000_000_000)
            }))),
        ),
        (
            "b",
            Arc::new(BooleanArray::from(column(random, |r| r.random::<bool>()))),
        ),
    ];
    let named = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}

fn pick<'a>(random: &mut StdRng, choices: &[&'a str]) -> &'a str {
    choices[random.random_range(0..choices.len())]
}

fn expression(random: &mut StdRng, kind: Kind, depth: u32) -> String {
    if depth == 0 || random.random_bool(0.2) {
        return leaf(random, kind);
    }
    let next = depth - 1;
    if random.random_bool(0.12) {
        let when = expression(random, Kind::Truth, next);
        let (then, otherwise) = (
            expression(random, kind, next),
            expression(random, kind, next),
        );
        return format!("CASE WHEN {when} THEN {then} ELSE {otherwise} END");
    }
    match kind {
        Kind::Number => number(random, next),
        Kind::Decimal => {
            let (left, right) = (leaf(random, kind), leaf(random, kind));
            format!("({left} {} {right})", pick(random, &["+", "-", "*"]))
        }
        Kind::Text => {
            let text = expression(random, kind, next);
            format!(
                "substr({text}, {}, {})",
                random.random_range(0..4),
                random.random_range(0..3)
            )
        }
        Kind::Date => {
            let date = expression(random, kind, next);
            let unit = pick(random, &["day", "month", "year"]);
            format!(
                "({date} + INTERVAL '{}' {unit})",
                random.random_range(-20..20)
            )
        }
        Kind::Truth => truth(random, next),
    }
}

fn number(random: &mut StdRng, depth: u32) -> String {
    match random.random_range(0..6) {
        0 => format!(
            "date_part('{}', day)",
            pick(random, &["year", "month", "day", "dow", "doy", "week"])
        ),
        1 => format!(
            "date_part('{}', ts)",
            pick(random, &["year", "hour", "minute", "second", "quarter"])
        ),
        2 => format!("(- {})", expression(random, Kind::Number, depth)),
        3 => {
            let inner = expression(random, Kind::Number, depth);
            format!(
                "TRY_CAST({inner} AS {})",
                pick(random, &["INT", "SMALLINT", "DOUBLE", "BIGINT"])
            )
        }
        _ => {
            let left = expression(random, Kind::Number, depth);
            let right = expression(random, Kind::Number, depth);
            format!("({left} {} {right})", pick(random, &["+", "-", "*"]))
        }
    }
}

fn truth(random: &mut StdRng, depth: u32) -> String {
    match random.random_range(0..9) {
        0 => format!("NOT ({})", expression(random, Kind::Truth, depth)),
        1 | 2 => {
            let left = expression(random, Kind::Truth, depth);
            let right = expression(random, Kind::Truth, depth);
            format!("({left} {} {right})", pick(random, &["AND", "OR"]))
        }
        3 => {
            let pattern = pick(random, &["a%", "%b", "_b%", "", "%", "a\\_c", "b\\%"]);
            format!(
                "{} {} '{pattern}'",
                expression(random, Kind::Text, depth),
                pick(random, &["LIKE", "NOT LIKE", "ILIKE"])
            )
        }
        4 => {
            let list = pick(random, &["(1, 2, NULL)", "(-1, 0, 3)", "(2)"]);
            format!("i32 {} {list}", pick(random, &["IN", "NOT IN"]))
        }
        5 => {
            let kind =
                [Kind::Number, Kind::Text, Kind::Date, Kind::Decimal][random.random_range(0..4)];
            format!(
                "({}) IS {}NULL",
                expression(random, kind, depth),
                pick(random, &["", "NOT "])
            )
        }
        _ => {
            let kind = [
                Kind::Number,
                Kind::Number,
                Kind::Text,
                Kind::Date,
                Kind::Decimal,
            ][random.random_range(0..5)];
            let (left, right) = (
                expression(random, kind, depth),
                expression(random, kind, depth),
            );
            let op = pick(
                random,
                &[
                    "=",
                    "<>",
                    "<",
                    "<=",
                    ">",
                    ">=",
                    "IS DISTINCT FROM",
                    "IS NOT DISTINCT FROM",
                ],
            );
            format!("({left} {op} {right})")
        }
    }
}

fn leaf(random: &mut StdRng, kind: Kind) -> String {
    let choices: &[&str] = match kind {
        Kind::Number => &[
            "i8",
            "i32",
            "i64",
            "u16",
            "f64",
            "7",
            "-2",
            "0.5e0",
            "NULL::int",
        ],
        Kind::Decimal => &["d", "1.25", "-0.01", "CAST(i32 AS DECIMAL(6, 1))"],
        Kind::Text => &["s", "'ab'", "''", "NULL::varchar"],
        Kind::Date => &["day", "DATE '2000-02-29'", "CAST(ts AS DATE)"],
        Kind::Truth => &["b", "TRUE", "NULL::boolean", "i32 > 0"],
    };
    pick(random, choices).to_string()
}

async fn run(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    session
        .collect(sql)
        .await
        .map(|rows| lines(&rows))
        .map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn random_expressions_agree() {
    let from_env = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = from_env("TIDEGATE_FUZZ_SEED").unwrap_or(1);
    let count: u64 = from_env("TIDEGATE_FUZZ_EXPRESSIONS").unwrap_or(400);
    let host = host_only();
    // A row-wise region on a device, forced: every morsel goes there.
    let device = simulated("1GB", &["placement = 'device'", "morsel_rows = 7"]).await;
    let (mut ran, mut placed) = (0, 0);
    for seed in first..first + count {
        let mut random = StdRng::seed_from_u64(seed);
        let batch = rows(&mut random);
        for session in [&host, &device] {
            session.context().deregister_table("t").unwrap();
            session.register_batch("t", batch.clone()).unwrap();
        }
        let kinds = [
            Kind::Number,
            Kind::Decimal,
            Kind::Text,
            Kind::Date,
            Kind::Truth,
        ];
        let kind = kinds[random.random_range(0..kinds.len())];
        let value = expression(&mut random, kind, 3);
        let predicate = expression(&mut random, Kind::Truth, 2);
        let sql = format!("SELECT {value} AS x FROM t WHERE {predicate}");
        let (expected, found) = (run(&host, &sql).await, run(&device, &sql).await);
        match (&expected, &found) {
            (Ok(expected), Ok(found)) => assert_eq!(found, expected, "seed {seed}: {sql}"),
            // The host may raise for a row that is not selected; a device never does.
            (Err(_), _) => continue,
            (Ok(_), Err(error)) => panic!("seed {seed}: {sql}: only the device raises: {error}"),
        }
        ran += 1;
        let report = device.last_report().unwrap();
        placed += u64::from(
            report
                .regions
                .iter()
                .any(|region| region.form == "additive"),
        );
    }
    assert!(ran * 2 > count, "only {ran} of {count} expressions ran");
    assert!(
        placed * 2 > ran,
        "only {placed} of {ran} expressions were lowered"
    );
}
