//! `docs/SUPPORT.md` is what the lowering code says: type by operation, on a device or the reason.
//!
//! `TIDEGATE_UPDATE_DOCS=1` writes the page anew.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use tidegate::{PlacementExt, Session};
use tidegate_pipeline::catalogue::{Accuracy, aggregates, functions};

use crate::support::simulated;

/// Each operation, as a query over column `c` of table `t`.
const OPERATIONS: [(&str, &str); 17] = [
    ("group key", "SELECT c, count(*) FROM t GROUP BY c"),
    ("= <", "SELECT count(*) FROM t WHERE c = o OR c < o"),
    ("IN", "SELECT count(*) FROM t WHERE c IN (o, c)"),
    ("IS NULL", "SELECT count(*) FROM t WHERE c IS NULL"),
    (
        "CASE",
        "SELECT count(CASE WHEN k > 0 THEN c ELSE o END) FROM t",
    ),
    ("+ -", "SELECT count(c + o), count(c - o) FROM t"),
    ("*", "SELECT count(c * o) FROM t"),
    ("/ %", "SELECT count(c / o), count(c % o) FROM t"),
    ("+ INTERVAL", "SELECT count(c + INTERVAL '1 month') FROM t"),
    ("date_part", "SELECT count(date_part('year', c)) FROM t"),
    (
        "LIKE, substr",
        "SELECT count(substr(c, 1, 2)) FROM t WHERE c LIKE 'a%'",
    ),
    ("CAST to BIGINT", "SELECT count(CAST(c AS BIGINT)) FROM t"),
    ("count", "SELECT k, count(c) FROM t GROUP BY k"),
    ("min, max", "SELECT k, min(c), max(c) FROM t GROUP BY k"),
    ("sum", "SELECT k, sum(c) FROM t GROUP BY k"),
    ("avg", "SELECT k, avg(c) FROM t GROUP BY k"),
    (
        "var, stddev",
        "SELECT k, var(c), stddev(c) FROM t GROUP BY k",
    ),
];

fn types() -> Vec<DataType> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(7, 2),
        DataType::Decimal64(15, 2),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(30, 2),
        DataType::Decimal256(40, 2),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Duration(TimeUnit::Second),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary,
        DataType::Binary,
        DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
    ]
}

/// Says where a query's region would run: `device`, a reason, or `None` if it is no valid SQL.
async fn place(session: &Session, sql: &str) -> Option<Result<(), String>> {
    let frame = session.sql(sql).await.ok()?;
    let regions = frame.placement().await.ok()?;
    if regions.is_empty() {
        return Some(Err("planned away".into()));
    }
    let mut refused: Vec<&String> = regions.iter().flat_map(|region| &region.reasons).collect();
    refused.dedup();
    match refused.as_slice() {
        [] => Some(Ok(())),
        reasons => {
            let texts: Vec<String> = reasons
                .iter()
                .map(|reason| reason.replace("not lowered: ", ""))
                .collect();
            Some(Err(texts.join("; ")))
        }
    }
}

async fn page() -> String {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    let mut reasons: Vec<String> = Vec::new();
    let mut table = String::new();
    let heads: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
    writeln!(table, "| type | {} |", heads.join(" | ")).unwrap();
    writeln!(table, "|---{}|", "|---".repeat(heads.len())).unwrap();
    for data_type in types() {
        let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
        let schema = Arc::new(Schema::new(vec![
            field("c", data_type.clone()),
            field("o", data_type.clone()),
            field("k", DataType::Int32),
        ]));
        let columns = schema
            .fields()
            .iter()
            .map(|f| new_null_array(f.data_type(), 3))
            .collect();
        session.context().deregister_table("t").unwrap();
        session
            .register_batch("t", RecordBatch::try_new(schema, columns).unwrap())
            .unwrap();
        let mut cells = Vec::new();
        for (_, sql) in OPERATIONS {
            cells.push(match place(&session, sql).await {
                None => String::new(),
                Some(Ok(())) => "yes".into(),
                Some(Err(reason)) => {
                    let number = reasons.iter().position(|known| *known == reason);
                    let number = number.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    format!("({})", number + 1)
                }
            });
        }
        writeln!(table, "| {data_type} | {} |", cells.join(" | ")).unwrap();
    }
    let notes: String =
        reasons
            .iter()
            .enumerate()
            .fold(String::new(), |mut notes, (index, reason)| {
                writeln!(notes, "{}. {reason}", index + 1).unwrap();
                notes
            });
    format!(
        "# What runs on a device\n\n\
         Written by a test from what the lowering code says; `TIDEGATE_UPDATE_DOCS=1 cargo test \
         --workspace support_matrix` writes it anew.\n\n\
         Rows are types, columns operations, with nullable columns throughout: NULL changes no cell. \
         Encodings change no cell either. A GPU refuses some of it still, with its own reason in EXPLAIN: \
         intervals that are no constants. An empty cell is no valid SQL; a number \
         is the reason why the host runs it.\n\n\
         {table}\n\
         The reasons:\n\n\
         {notes}\n\
         On any type: FILTER, HAVING, ORDER BY and LIMIT over groups, and aggregates over aggregates \
         run in an atomic region. DISTINCT aggregates, ordered aggregates, GROUPING SETS, joins, \
         windows and sorts of rows run on the host; EXPLAIN names the reason.\n\n\
         {}",
        catalogue_page()
    )
}

/// Lists the functions and aggregates that the catalogue has beside operators and what has syntax of its own.
fn catalogue_page() -> String {
    let mut page = String::from(
        "## Functions\n\n\
         By their names in SQL, with the types that they are tested with against DataFusion. A function that \
         is not exact may differ in its last bits between host and device: there it is in no filter, cast, \
         key, MIN or MAX, nor beneath a function that is exact. Functions of strings are computed on the \
         host, once for each string of a column's dictionary.\n\n\
         | function | of | accuracy |\n|---|---|---|\n",
    );
    let listed = |types: Vec<String>| {
        let mut distinct: Vec<String> = Vec::new();
        for of in types {
            if !distinct.contains(&of) {
                distinct.push(of);
            }
        }
        distinct.join(", ")
    };
    for entry in functions() {
        for name in entry.datafusion {
            let types = (entry.signatures)().into_iter();
            let types = types.map(|signature| signature.arguments[0].to_string());
            let accuracy = match entry.accuracy {
                Accuracy::Exact => "exact".to_owned(),
                Accuracy::Ulps(most) => format!("{most} ulp"),
            };
            let types = listed(types.collect());
            writeln!(page, "| {name} | {types} | {accuracy} |").unwrap();
        }
    }
    page += "\n## Aggregates\n\n| aggregate | of |\n|---|---|\n";
    for entry in aggregates() {
        for name in entry.datafusion {
            let arguments = (entry.arguments)().into_iter();
            let types = arguments.map(|types| {
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                types.join(" and ")
            });
            let types = types.filter(|types| !types.is_empty()).collect();
            writeln!(page, "| {name} | {} |", listed(types)).unwrap();
        }
    }
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn the_support_matrix_is_what_lowering_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SUPPORT.md");
    let expected = page().await;
    if std::env::var_os("TIDEGATE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/SUPPORT.md is out of date: run with TIDEGATE_UPDATE_DOCS=1"
    );
}
