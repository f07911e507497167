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

/// What two tables are joined on; `§` stands between a table and its column.
struct Condition {
    left: String,
    right: String,
    nulls_are_equal: bool,
    more: String,
}

impl Condition {
    fn random(rng: &mut StdRng, one: &str, other: &str) -> Self {
        let (left, right) = *PAIRS.choose(rng).expect("pairs");
        let (left, right) = match rng.random_bool(0.5) {
            true => (left, right),
            false => (right, left),
        };
        let more = match rng.random_range(0..6) {
            0 => format!(" AND {one}§k = {other}§k"),
            1 => format!(" AND {one}§i16 < {other}§i16"),
            _ => String::new(),
        };
        Self {
            left: format!("{one}§{left}"),
            right: format!("{other}§{right}"),
            nulls_are_equal: rng.random_bool(0.3),
            more,
        }
    }

    fn written(&self) -> String {
        let equal = match self.nulls_are_equal {
            true => "IS NOT DISTINCT FROM",
            false => "=",
        };
        format!("{} {equal} {}{}", self.left, self.right, self.more)
    }

    /// Writes it without a join in which NULLs are equal.
    fn in_other_words(&self) -> String {
        let Self { left, right, .. } = self;
        let equal = match self.nulls_are_equal {
            true => format!("coalesce({left} = {right}, {left} IS NULL AND {right} IS NULL)"),
            false => format!("{left} = {right}"),
        };
        format!("{equal}{}", self.more)
    }
}

/// Conditions over rows of two tables, of which one may have no row.
const OVER_BOTH: [&str; 6] = [
    "b§i16 > coalesce(a§i16, 0)",
    "a§s <> coalesce(b§s, '') AND a§id > 3",
    "(a§k IS NULL OR b§k > 0)",
    "b§s >= substr(a§s, 1, 1) AND b§s < 'zz'",
    "a§k = b§i8",
    "b§d > coalesce(a§d, DATE '1970-01-01') AND b§k > 0",
];

/// Joins of tables whose columns have the same names. DataFusion takes such columns for each other, and the NULL
/// rule of one join for that of all, so it is asked over columns with names of their own.
fn join(rng: &mut StdRng) -> Query {
    const COLUMNS: [&str; 17] = [
        "id", "k", "i8", "i16", "i32", "i64", "u8", "u64", "f", "n", "w", "d", "ts", "s", "v", "e",
        "p",
    ];
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
    let (left, right) = (rows(rng), rows(rng));
    let first = Condition::random(rng, "a", "b");
    let few = format!("(SELECT * FROM {} WHERE id % 5 = 1)", table(rng));
    let third = rng.random_bool(0.3).then(|| {
        let other = any(rng, &["a", "b"]);
        Condition::random(rng, other, "c")
    });
    let filter = match rng.random_bool(0.4) {
        true => format!(" WHERE {}", any(rng, &OVER_BOTH)),
        false => String::new(),
    };
    let calls = "count(*), count(a§id), count(b§id), sum(a§id), sum(b§id), min(a§v), max(b§d)";
    let (keys, group) = *[
        ("", ""),
        ("a§k, ", " GROUP BY a§k"),
        ("b§s, b§p, ", " GROUP BY b§s, b§p"),
    ]
    .choose(rng)
    .expect("keys");
    let sql = |is_apart: bool| {
        let table = |rows: &str, name: &str| {
            if !is_apart {
                return format!("{rows} {name}");
            }
            let own = COLUMNS.map(|column| format!("{column} AS {name}_{column}"));
            format!("(SELECT {} FROM {rows}) {name}", own.join(", "))
        };
        let on = |condition: &Condition| match is_apart {
            true => condition.in_other_words(),
            false => condition.written(),
        };
        let third = third
            .as_ref()
            .map(|third| format!(" JOIN {} ON {}", table(&few, "c"), on(third)));
        let sql = format!(
            "SELECT {keys}{calls} FROM {} {kind} {} ON {}{}{filter}{group}",
            table(&left, "a"),
            table(&right, "b"),
            on(&first),
            third.unwrap_or_default(),
        );
        ["a", "b", "c"].iter().fold(sql, |sql, name| {
            let column = match is_apart {
                true => format!("{name}.{name}_"),
                false => format!("{name}."),
            };
            sql.replace(&format!("{name}§"), &column)
        })
    };
    Query {
        in_other_words: Some(sql(true)),
        ..unordered(sql(false), true)
    }
}

fn subquery(rng: &mut StdRng) -> Query {
    let (outer, inner) = (rows(rng), rows(rng));
    let condition = Condition::random(rng, "a", "b").written().replace('§', ".");
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
    let counted = operation
        .strip_suffix(" ALL")
        .filter(|kind| *kind != "UNION");
    // Of copies that are equal and look different, as zeros do, any may stay.
    let columns = match counted {
        Some(_) => any(rng, &["k", "s, k", "i8", "v", "d, p", "u8, n", "ts", "e"]),
        None => any(rng, &["k", "s, k", "i8", "v", "d, p", "ts", "f", "h, k"]),
    };
    let sql = format!("SELECT {columns} FROM {left} {operation} SELECT {columns} FROM {right}");
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
            " ROWS UNBOUNDED PRECEDING",
            " GROUPS UNBOUNDED PRECEDING",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        ],
    );
    let number = any(
        rng,
        &["row_number()", "rank()", "dense_rank()", "first_value(s)"],
    );
    let framed = any(
        rng,
        &[
            "sum(i16)",
            "count(s)",
            "max(s)",
            "min(k)",
            "sum(d)",
            "avg(i16)",
            "last_value(k)",
        ],
    );
    let shifted = any(
        rng,
        &[
            "lag(s)",
            "lead(s)",
            "lag(k, 3, 7)",
            "lead(d, 2)",
            "lag(s, 90)",
            "lead(k, 90)",
        ],
    );
    let sql = format!(
        "SELECT id, {number} OVER ({partition}ORDER BY {first}) AS c1, \
         {framed} OVER ({partition}ORDER BY {first}{frame}) AS c2, \
         {shifted} OVER (ORDER BY id) AS c3, count(k) OVER ({partition}) AS c4, \
         sum(i16) OVER ({partition}ORDER BY k) AS c5 FROM {}",
        rows(rng),
    );
    unordered(sql, true)
}
