//! Random queries over several tables, or of rows beside each other: joins, subqueries, set operations, windows, and
//! top-k over one column, in which NULLs come first or last.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::queries::{Query, boolean, group_keys, where_clause};
use super::shapes::unordered;

/// Pairs of columns that may be compared.
const PAIRS: [(&str, &str); 16] = [
    ("id", "id"),
    ("k", "k"),
    ("k", "i8"),
    ("i8", "i16"),
    ("i32", "i32"),
    ("i64", "i64"),
    ("u8", "i64"),
    ("u64", "u64"),
    ("f", "f"),
    ("n", "n"),
    ("n", "w"),
    ("d", "d"),
    ("ts", "ts"),
    ("s", "s"),
    ("v", "v"),
    ("e", "s"),
];

/// Columns without equal values that look different, as zeros and NaNs do.
const TOP_K: [&str; 14] = [
    "k", "i8", "i16", "i32", "i64", "u8", "u32", "u64", "n", "d", "ts", "s", "v", "id",
];

/// Gives one of these queries.
pub(super) fn combined(rng: &mut StdRng) -> Query {
    match rng.random_range(0..10) {
        0..3 => top_k(rng),
        3..6 => join(rng),
        6..8 => subquery(rng),
        8 => set_operation(rng),
        _ => window(rng),
    }
}

fn any(rng: &mut StdRng, of: &[&'static str]) -> &'static str {
    of.choose(rng).copied().unwrap_or_default()
}

fn table(rng: &mut StdRng) -> &'static str {
    any(rng, &["t", "p", "p"])
}

/// Gives a table, of which some rows may be left out.
fn rows(rng: &mut StdRng) -> String {
    let filter = rng.random_bool(0.5).then(|| boolean(rng, 1));
    format!("(SELECT * FROM {}{})", table(rng), where_clause(&filter))
}

fn top_k(rng: &mut StdRng) -> Query {
    let keys = match rng.random_bool(0.8) {
        true => vec![any(rng, &TOP_K)],
        false => vec![any(rng, &TOP_K), any(rng, &TOP_K)],
    };
    let mut order = Vec::new();
    for key in &keys {
        let direction = any(rng, &["", " DESC", " DESC"]);
        let nulls = any(rng, &["", " NULLS FIRST", " NULLS LAST"]);
        order.push(format!("{key}{direction}{nulls}"));
    }
    let filter = rng.random_bool(0.4).then(|| boolean(rng, 1));
    let columns: Vec<String> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| format!("{key} AS c{i}"))
        .collect();
    let sql = format!(
        "SELECT {} FROM {}{} ORDER BY {} LIMIT {}",
        columns.join(", "),
        table(rng),
        where_clause(&filter),
        order.join(", "),
        [1, 2, 5, 20, 150].choose(rng).expect("limits"),
    );
    Query {
        ordered: true,
        ..unordered(sql, true)
    }
}

fn condition(rng: &mut StdRng) -> String {
    let (left, right) = *PAIRS.choose(rng).expect("pairs");
    let (left, right) = match rng.random_bool(0.5) {
        true => (left, right),
        false => (right, left),
    };
    let equal = any(rng, &["=", "=", "IS NOT DISTINCT FROM"]);
    let more = match rng.random_range(0..6) {
        0 => " AND a.k = b.k",
        1 => " AND a.s IS NOT DISTINCT FROM b.s",
        2 => " AND a.i16 < b.i16",
        _ => "",
    };
    format!("a.{left} {equal} b.{right}{more}")
}

fn join(rng: &mut StdRng) -> Query {
    let kind = any(
        rng,
        &[
            "JOIN",
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
        ],
    );
    let from = format!(
        "{} a {kind} {} b ON {}",
        rows(rng),
        rows(rng),
        condition(rng)
    );
    let calls = "count(*), count(a.id), count(b.id), sum(a.id), sum(b.id), min(a.v), max(b.d)";
    let sql = match rng.random_range(0..3) {
        0 => format!("SELECT {calls} FROM {from}"),
        1 => format!("SELECT a.k, {calls} FROM {from} GROUP BY a.k"),
        _ => format!("SELECT b.s, b.p, {calls} FROM {from} GROUP BY b.s, b.p"),
    };
    unordered(sql, true)
}

fn subquery(rng: &mut StdRng) -> Query {
    let (outer, inner, condition) = (rows(rng), rows(rng), condition(rng));
    let not = any(rng, &["", "NOT "]);
    let (left, right) = *PAIRS.choose(rng).expect("pairs");
    let sql = match rng.random_range(0..4) {
        0 => format!(
            "SELECT a.id, a.s FROM {outer} a WHERE {not}EXISTS (SELECT 1 FROM {inner} b WHERE {condition})"
        ),
        1 => format!(
            "SELECT a.id, a.s FROM {outer} a WHERE a.{left} {not}IN (SELECT b.{right} FROM {inner} b)"
        ),
        2 => format!(
            "SELECT a.id, (SELECT max(b.i32) FROM {inner} b WHERE b.k = a.k) AS c1 FROM {outer} a"
        ),
        _ => format!(
            "SELECT a.id, a.k FROM {outer} a LEFT {} JOIN {inner} b ON {condition}",
            any(rng, &["SEMI", "ANTI"]),
        ),
    };
    unordered(sql, true)
}

fn set_operation(rng: &mut StdRng) -> Query {
    let columns = any(
        rng,
        &[
            "k", "s, k", "i8", "v", "d, p", "u8, n", "ts", "f", "h, k", "e",
        ],
    );
    let (left, right) = (rows(rng), rows(rng));
    let operation = any(
        rng,
        &[
            "UNION",
            "UNION ALL",
            "INTERSECT",
            "EXCEPT",
            "INTERSECT ALL",
            "EXCEPT ALL",
        ],
    );
    let sql = format!("SELECT {columns} FROM {left} {operation} SELECT {columns} FROM {right}");
    let counted = operation
        .strip_suffix(" ALL")
        .filter(|kind| *kind != "UNION");
    // DataFusion does not count copies; numbered, each is a row of its own.
    let in_other_words = counted.map(|kind| {
        let number = format!("row_number() OVER (PARTITION BY {columns}) AS copy");
        let side = |rows: &str| format!("SELECT {columns}, {number} FROM {rows}");
        format!(
            "SELECT {columns} FROM ({} {kind} {})",
            side(&left),
            side(&right)
        )
    });
    Query {
        in_other_words,
        ..unordered(sql, true)
    }
}

fn window(rng: &mut StdRng) -> Query {
    let keys = group_keys(rng);
    let partition = match keys.is_empty() {
        true => String::new(),
        false => format!("PARTITION BY {} ", keys.join(", ")),
    };
    let first = any(
        rng,
        &["id", "k, id", "s DESC, id", "f, id", "d NULLS FIRST, id"],
    );
    let frame = any(
        rng,
        &[
            "",
            " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        ],
    );
    let sql = format!(
        "SELECT id, row_number() OVER ({partition}ORDER BY {first}) AS c1, \
         sum(i16) OVER ({partition}ORDER BY {first}{frame}) AS c2, \
         lag(s) OVER (ORDER BY id) AS c3, count(k) OVER ({partition}) AS c4 FROM {}",
        rows(rng),
    );
    unordered(sql, true)
}
