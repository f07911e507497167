//! Random queries of particular shapes: what has gone wrong where plans were placed or rewritten.
//!
//! Some of them plain DataFusion answers wrongly or not at all. Those are asked of it in other words,
//! which mean the same (`Query::in_other_words`).

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::queries::{Query, boolean, group_keys, integer, raising_integer, source, where_clause};

/// Gives a query of one of these shapes.
pub(super) fn shaped(rng: &mut StdRng) -> Query {
    match rng.random_range(0..6) {
        0 => hidden_keys(rng),
        1 => recursive(rng),
        2 => filtered_raising(rng),
        3 => constant_rollup(rng),
        4 => truth_tests(rng),
        _ => guarded(rng),
    }
}

/// A term that may raise behind one that keeps it from raising, in a filter or in the output.
fn guarded(rng: &mut StdRng) -> Query {
    let (guard, term) = *[
        ("z <> 0", "i64 / z"),
        ("z > 0", "i32 % z"),
        ("k > 0", "i16 / k"),
        ("k + 3 <> 0", "100 / (k + 3)"),
        ("i64 BETWEEN -9 AND 9", "i64::int"),
        ("i32 BETWEEN 0 AND 100", "i32::tinyint"),
    ]
    .choose(rng)
    .expect("terms");
    let bound = rng.random_range(-3..9);
    let other = boolean(rng, 1);
    let (source, shape) = (source(rng), rng.random_range(0..4));
    let is_or = rng.random_bool(0.4);
    let asked = |tested: &str| {
        let logic = match is_or {
            true => format!("(NOT ({guard}) OR {tested} > {bound})"),
            false => format!("({guard} AND {tested} > {bound})"),
        };
        match shape {
            0 => format!("SELECT id, k, s FROM {source} WHERE {logic} AND {other}"),
            1 => format!("SELECT id, {logic} AS c0, {other} AS c1 FROM {source}"),
            2 => format!(
                "SELECT k AS g, count(*) FROM {source} WHERE {other} AND {logic} GROUP BY k"
            ),
            _ => format!(
                "SELECT {logic} AS g, count(*) FILTER (WHERE {logic} OR {other}) FROM {source} GROUP BY 1"
            ),
        }
    };
    let in_other_words = asked(&format!("(CASE WHEN {guard} THEN {term} END)"));
    Query {
        in_other_words: Some(in_other_words),
        ..unordered(asked(&format!("({term})")), false)
    }
}

/// Aggregates that are exact and never raise.
fn plain_aggregates(rng: &mut StdRng) -> Vec<&'static str> {
    let mut calls = [
        "count(*)",
        "count(i16)",
        "sum(i32)",
        "min(d)",
        "max(s)",
        "sum(n)",
        "max(i64)",
        "count(DISTINCT k)",
    ];
    calls.shuffle(rng);
    let count = rng.random_range(1..=3);
    calls[..count].to_vec()
}

pub(super) fn unordered(sql: String, filtered: bool) -> Query {
    Query {
        sql,
        in_other_words: None,
        ordered: false,
        filtered,
        inexact: Vec::new(),
    }
}

/// A group-by of which not every key, or none, is in the output.
fn hidden_keys(rng: &mut StdRng) -> Query {
    let keys = loop {
        let keys = group_keys(rng);
        if !keys.is_empty() {
            break keys;
        }
    };
    let shown = rng.random_range(0..keys.len());
    let mut columns: Vec<&str> = keys[..shown].to_vec();
    columns.extend(plain_aggregates(rng));
    let filter = rng.random_bool(0.5).then(|| boolean(rng, 2));
    let having = match rng.random_bool(0.2) {
        true => " HAVING count(*) > 1",
        false => "",
    };
    let distinct = match rng.random_bool(0.2) {
        true => "DISTINCT ",
        false => "",
    };
    let grouped = format!(
        "SELECT {distinct}{} FROM {}{} GROUP BY {}{having}",
        columns.join(", "),
        source(rng),
        where_clause(&filter),
        keys.join(", "),
    );
    let names: Vec<String> = (0..columns.len()).map(|i| format!("c{i}")).collect();
    let sql = match rng.random_range(0..4) {
        0 => format!(
            "SELECT c0, count(*) FROM ({grouped}) AS q({}) GROUP BY c0",
            names.join(", ")
        ),
        1 => format!("{grouped} UNION ALL {grouped}"),
        2 => format!(
            "SELECT q.* FROM ({grouped}) AS q({}) JOIN (SELECT k AS jk FROM t GROUP BY k, p) ON (c0 IS NOT DISTINCT FROM c0) AND jk = 1",
            names.join(", ")
        ),
        _ => grouped,
    };
    unordered(sql, filter.is_some())
}

/// A recursive CTE over a few rows of a table.
fn recursive(rng: &mut StdRng) -> Query {
    let table = *["t", "p"].choose(rng).expect("tables");
    let base = integer(rng, 1);
    let rounds = rng.random_range(1..6);
    let step = *["n + 1", "(n * 3 + d) % 101", "n % 17 + x", "x - n % 5"]
        .choose(rng)
        .expect("steps");
    let joined = *[
        "r CROSS JOIN (SELECT count(*) AS x FROM p WHERE k > 0)",
        "r JOIN (SELECT k AS jk, max(i16) AS x FROM t WHERE k IS NOT NULL GROUP BY k) ON n % 4 = jk",
        "r JOIN (SELECT value AS x FROM generate_series(1, 6) WHERE value % 3 = 0) ON x <> n",
        "(SELECT n, d, n % 7 AS x FROM r WHERE n % 3 <> 1)",
        "(SELECT n, d, id AS x FROM r JOIN p ON id = (n % 50))",
    ]
    .choose(rng)
    .expect("inputs");
    let all = *["ALL ", "ALL ", ""].choose(rng).expect("words");
    let output = *[
        "SELECT n, d FROM r",
        "SELECT n % 5, count(*), sum(d) FROM r GROUP BY n % 5",
        "SELECT count(*), max(n) FROM r GROUP BY d, n % 3",
        "SELECT a.n, count(*) FROM r a JOIN r b ON a.n = b.d GROUP BY a.n",
        "SELECT count(*), min(n), max(d) FROM r WHERE n > 3",
    ]
    .choose(rng)
    .expect("outputs");
    let sql = format!(
        "WITH RECURSIVE r(n, d) AS (SELECT ({base})::bigint % 1000, 0::bigint FROM {table} WHERE id < 12 AND {filter} \
         UNION {all}SELECT ({step})::bigint, d + 1 FROM {joined} WHERE d < {rounds} AND n IS NOT NULL) {output}",
        filter = boolean(rng, 0),
    );
    unordered(sql, true)
}

/// Aggregates with a filter over arguments that may raise for the rows that it drops.
fn filtered_raising(rng: &mut StdRng) -> Query {
    let key = *["k", "s", "i16 % 5", "p"].choose(rng).expect("keys");
    let (mut calls, mut in_other_words) = (Vec::new(), Vec::new());
    for i in 0..rng.random_range(1..=3) {
        let function = *["sum", "min", "max", "count"]
            .choose(rng)
            .expect("functions");
        let (term, condition) = match rng.random_range(0..4) {
            0 => (raising_integer(rng), boolean(rng, 1)),
            1 => ("i64 / z".to_owned(), "z <> 0".to_owned()),
            2 => ("100 / (k + 3) + i16 / k".to_owned(), "k > 0".to_owned()),
            _ => (
                "i32 % z".to_owned(),
                format!("z > 0 AND {}", boolean(rng, 0)),
            ),
        };
        calls.push(format!(
            "{function}({term}) FILTER (WHERE {condition}) AS a{i}"
        ));
        in_other_words.push(format!(
            "{function}(CASE WHEN {condition} THEN {term} END) AS a{i}"
        ));
    }
    let source = source(rng);
    let (keys, group) = match rng.random_bool(0.6) {
        true => (format!("{key} AS g, "), format!(" GROUP BY {key}")),
        false => (String::new(), String::new()),
    };
    let asked =
        |calls: &[String]| format!("SELECT {keys}{} FROM {source}{group}", calls.join(", "));
    Query {
        in_other_words: Some(asked(&in_other_words)),
        ..unordered(asked(&calls), false)
    }
}

/// A ROLLUP or CUBE over two keys of which one is constant, or equals the other.
fn constant_rollup(rng: &mut StdRng) -> Query {
    let first = *["k", "v", "u8", "i16 % 3", "d"].choose(rng).expect("keys");
    let (second, condition) = match rng.random_range(0..4) {
        0 => ("'p'", None),
        1 => ("7", None),
        2 => ("p", Some("p")),
        _ => ("s", Some("s = 'a'")),
    };
    let source = source(rng);
    let condition = condition.map_or("true".to_owned(), str::to_owned);
    let filter = match rng.random_bool(0.4) {
        true => format!("{condition} AND {}", boolean(rng, 1)),
        false => condition,
    };
    let calls = plain_aggregates(rng).join(", ");
    let is_cube = rng.random_bool(0.4);
    let sets = match (is_cube, rng.random_bool(0.3)) {
        (true, _) => format!("CUBE({first}, {second})"),
        (false, true) => format!("GROUPING SETS (({first}, {second}), ({first}), ())"),
        (false, false) => format!("ROLLUP({first}, {second})"),
    };
    let ordered = rng.random_bool(0.6);
    let columns = 2 + calls.split(", ").count();
    let order = match ordered {
        true => {
            let rest: Vec<String> = (3..=columns).map(|i| i.to_string()).collect();
            format!(" ORDER BY 2 DESC NULLS FIRST, 1, {}", rest.join(", "))
        }
        false => String::new(),
    };
    let sql = format!(
        "SELECT {first} AS c0, {second} AS c1, {calls} FROM {source} WHERE {filter} GROUP BY {sets}{order}"
    );
    let from = format!("FROM {source} WHERE {filter}");
    let mut parts = vec![
        format!("SELECT {first} AS c0, {second} AS c1, {calls} {from} GROUP BY {first}, {second}"),
        format!("SELECT {first}, NULL, {calls} {from} GROUP BY {first}"),
        format!("SELECT NULL, NULL, {calls} {from}"),
    ];
    if is_cube {
        parts.push(format!(
            "SELECT NULL, {second}, {calls} {from} GROUP BY {second}"
        ));
    }
    Query {
        in_other_words: Some(format!("{}{order}", parts.join(" UNION ALL "))),
        ordered,
        ..unordered(sql, true)
    }
}

/// IS TRUE and its kin as columns of DISTINCT, and as group keys.
fn truth_tests(rng: &mut StdRng) -> Query {
    let filter = rng.random_bool(0.4).then(|| boolean(rng, 1));
    let tested = boolean(rng, 1);
    let (test, in_other_words) = match rng.random_range(0..6) {
        0 => ("IS TRUE", format!("coalesce({tested}, false)")),
        1 => ("IS FALSE", format!("coalesce(NOT ({tested}), false)")),
        2 => ("IS UNKNOWN", format!("({tested}) IS NULL")),
        3 => ("IS NOT TRUE", format!("NOT coalesce({tested}, false)")),
        4 => (
            "IS NOT FALSE",
            format!("NOT coalesce(NOT ({tested}), false)"),
        ),
        _ => ("IS NOT UNKNOWN", format!("({tested}) IS NOT NULL")),
    };
    let written = format!("({tested}) {test}");
    let other = *["k", "s", "id % 3", "u8"].choose(rng).expect("columns");
    let (source, shape) = (source(rng), rng.random_range(0..4));
    let asked = |expr: &str| {
        let from = format!("FROM {source}{}", where_clause(&filter));
        match shape {
            0 => format!("SELECT DISTINCT {expr} AS c0, {other} AS c1 {from}"),
            1 => format!("SELECT {expr} AS c0, count(*), min({other}) {from} GROUP BY {expr}"),
            2 => format!("SELECT count(*) {from} GROUP BY {expr}, {other}"),
            _ => format!("SELECT count(DISTINCT {expr}), count({other}) {from}"),
        }
    };
    Query {
        in_other_words: Some(asked(&in_other_words)),
        ..unordered(asked(&written), filter.is_some())
    }
}
