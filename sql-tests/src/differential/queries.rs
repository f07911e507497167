//! Random queries over the columns of a random table, and what may be expected of their answers.
//!
//! Expressions that can raise stand only in the select list of a query without a filter. Variances of
//! the float columns are left out: where there is an infinity or a NaN, they depend on which rows were
//! added up together.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::combined::combined;
use super::shapes::shaped;

/// A statement and how its answer is compared.
pub(crate) struct Query {
    pub(crate) sql: String,
    /// What plain DataFusion is asked instead, where it answers the statement wrongly or not at all.
    pub(crate) in_other_words: Option<String>,
    /// Rows come in a total order.
    pub(crate) ordered: bool,
    /// A filter may keep rows from raising.
    pub(crate) filtered: bool,
    /// Columns that may differ a little.
    pub(crate) inexact: Vec<Inexact>,
}

/// A float aggregate and the column beside it that says how large its terms are.
pub(crate) struct Inexact {
    pub(crate) column: usize,
    pub(crate) scale: usize,
    pub(crate) spread: Spread,
}

/// What the difference of two answers is held against.
#[derive(Clone, Copy)]
pub(crate) enum Spread {
    /// A sum or an average: the sum or average of the terms' magnitudes.
    Sum,
    /// A variance: the mean square.
    Variance,
    /// A standard deviation: its square is a variance.
    Deviation,
}

impl Query {
    /// Returns the query as plain DataFusion is asked it.
    pub(crate) fn for_stock(&self) -> &str {
        self.in_other_words.as_ref().unwrap_or(&self.sql)
    }

    /// Returns whether rows are left out once there are enough, so that they may or may not be computed.
    pub(crate) fn is_limited(&self) -> bool {
        self.sql.contains(" LIMIT ")
    }

    pub(crate) fn random(rng: &mut StdRng) -> Self {
        match rng.random_range(0..26) {
            0..6 => projection(rng),
            6..15 => aggregate(rng),
            15..20 => shaped(rng),
            _ => combined(rng),
        }
    }
}

fn projection(rng: &mut StdRng) -> Query {
    let filter = rng.random_bool(0.7).then(|| boolean(rng, 2));
    let mut columns = vec!["id".to_owned()];
    for i in 0..rng.random_range(1..=4) {
        columns.push(format!("{} AS c{i}", value(rng)));
    }
    if filter.is_none() && rng.random_bool(0.3) {
        columns.push(format!("{} AS r", raising(rng)));
    }
    let ordered = rng.random_bool(0.4);
    let order = match ordered {
        true if rng.random_bool(0.5) => format!(" ORDER BY id LIMIT {}", limit(rng)),
        true if rng.random_bool(0.5) => {
            let key = ["f", "-f", "h", "f - f", "nullif(f, 0)"]
                .choose(rng)
                .expect("keys");
            let order = ["", "DESC", "NULLS FIRST"].choose(rng).expect("orders");
            format!(" ORDER BY {key} {order}, id LIMIT {}", limit(rng))
        }
        true => format!(" ORDER BY k DESC, s NULLS FIRST, id LIMIT {}", limit(rng)),
        false => String::new(),
    };
    let sql = format!(
        "SELECT {} FROM {}{}{order}",
        columns.join(", "),
        source(rng),
        where_clause(&filter),
    );
    Query {
        sql,
        in_other_words: None,
        ordered,
        filtered: filter.is_some(),
        inexact: Vec::new(),
    }
}

fn aggregate(rng: &mut StdRng) -> Query {
    let filter = rng.random_bool(0.6).then(|| boolean(rng, 2));
    let keys = group_keys(rng);
    let mut columns: Vec<String> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| format!("{key} AS g{i}"))
        .collect();
    let mut inexact = Vec::new();
    for i in 0..rng.random_range(1..=5) {
        let condition = match rng.random_bool(0.25) {
            true => format!(" FILTER (WHERE {})", boolean(rng, 1)),
            false => String::new(),
        };
        if rng.random_bool(0.6) {
            columns.push(format!("{}{condition} AS a{i}", exact_aggregate(rng)));
            continue;
        }
        let (call, scale, spread) = inexact_aggregate(rng);
        inexact.push(Inexact {
            column: columns.len(),
            scale: columns.len() + 1,
            spread,
        });
        columns.push(format!("{call}{condition} AS a{i}"));
        columns.push(format!("{scale}{condition} AS m{i}"));
    }
    if filter.is_none() && rng.random_bool(0.1) {
        columns.push(format!("sum({}) AS r", raising_integer(rng)));
    }

    let aliases: Vec<String> = (0..keys.len()).map(|i| format!("g{i}")).collect();
    let group = match keys.is_empty() {
        true => String::new(),
        false => format!(" GROUP BY {}", aliases.join(", ")),
    };
    let having = match rng.random_range(0..10) {
        0 => " HAVING count(*) > 1",
        1 if !keys.is_empty() => " HAVING sum(i16) > 10 OR min(k) IS NULL",
        _ => "",
    };
    let ordered = !keys.is_empty() && rng.random_bool(0.4);
    let order = match ordered {
        true => format!(" ORDER BY {} LIMIT {}", aliases.join(" DESC, "), limit(rng)),
        false => String::new(),
    };
    let sql = format!(
        "SELECT {} FROM {}{}{group}{having}{order}",
        columns.join(", "),
        source(rng),
        where_clause(&filter),
    );
    Query {
        sql,
        in_other_words: None,
        ordered,
        filtered: filter.is_some(),
        inexact,
    }
}

pub(super) fn source(rng: &mut StdRng) -> &'static str {
    match rng.random_range(0..22) {
        20 => "t JOIN (SELECT DISTINCT f AS jf FROM p) ON f = jf",
        21 => "(SELECT * FROM p WHERE h IN (SELECT -h FROM t WHERE h <= 0 OR h > 0))",
        0..8 => "t",
        8..16 => "p",
        16 => "(SELECT * FROM t WHERE u8 < 200 OR u8 IS NULL)",
        17 => "(SELECT * FROM t UNION ALL SELECT * FROM t)",
        18 => "t JOIN (SELECT k AS jk, count(*) AS jc FROM p GROUP BY k) ON k = jk",
        _ => "p JOIN (SELECT s AS js, min(i32) AS jm FROM t GROUP BY s) ON s = js",
    }
}

pub(super) fn where_clause(filter: &Option<String>) -> String {
    match filter {
        Some(filter) => format!(" WHERE {filter}"),
        None => String::new(),
    }
}

fn limit(rng: &mut StdRng) -> usize {
    *[0, 1, 3, 10, 100, 10_000].choose(rng).expect("limits")
}

pub(super) fn group_keys(rng: &mut StdRng) -> Vec<&'static str> {
    let mut keys = [
        "k",
        "k",
        "s",
        "e",
        "p",
        "f",
        "n",
        "w",
        "u8",
        "i8",
        "i64",
        "v",
        "d",
        "ts",
        "k % 2",
        "i32 % 3",
        "extract(year FROM d) % 4",
        "extract(month FROM d)",
        "d < DATE '1990-06-15'",
        "u64",
        "CASE WHEN i16 > 20 THEN 'high' WHEN i16 > 5 THEN 'low' END",
        "coalesce(k, 9)",
        "s = 'a'",
        "f",
        "-f",
        "f - f",
        "h",
        "g * 0",
        "f > 0",
    ];
    keys.shuffle(rng);
    let count = *[0, 0, 1, 1, 1, 2, 2, 3].choose(rng).expect("counts");
    keys[..count].to_vec()
}

fn exact_aggregate(rng: &mut StdRng) -> String {
    let any = [
        "k", "i8", "i16", "i32", "i64", "u8", "u32", "u64", "g", "h", "n", "m", "w", "d", "ts",
        "ms", "s", "v", "e", "p",
    ];
    match rng.random_range(0..12) {
        0 => "count(*)".to_owned(),
        1 => format!("count({})", any.choose(rng).expect("columns")),
        2 | 3 => format!("sum({})", integer(rng, 2)),
        4 => format!(
            "sum({})",
            ["u8", "u32", "u64", "k"].choose(rng).expect("columns")
        ),
        5 => format!("sum({})", decimal(rng)),
        6 => format!("avg({})", ["n", "m", "n + m"].choose(rng).expect("columns")),
        7 => format!(
            "{}({})",
            ["min", "max"].choose(rng).expect("functions"),
            ["f", "-f", "f - f", "h", "f * 0"]
                .choose(rng)
                .expect("floats")
        ),
        8 => format!("max({})", integer(rng, 1)),
        9 => format!(
            "count(DISTINCT {})",
            ["k", "s", "i16", "p", "f", "f - f", "h"]
                .choose(rng)
                .expect("columns")
        ),
        10 => format!("min({})", any.choose(rng).expect("columns")),
        _ => format!("max({})", any.choose(rng).expect("columns")),
    }
}

/// Gives an aggregate that rounds, what its error is measured by, and how.
fn inexact_aggregate(rng: &mut StdRng) -> (String, String, Spread) {
    if rng.random_bool(0.6) {
        let function = *["sum", "avg"].choose(rng).expect("functions");
        let term = match rng.random_range(0..4) {
            0 => "f".to_owned(),
            1 if function == "avg" => integer(rng, 1),
            _ => float(rng),
        };
        // Not abs(), which regions do not know: the whole query would stay on the host.
        let scale = format!(
            "{function}(CASE WHEN ({term})::double < 0 THEN 0 - ({term})::double ELSE ({term})::double END)"
        );
        return (format!("{function}({term})"), scale, Spread::Sum);
    }
    let term = *["i16", "k", "n"].choose(rng).expect("columns");
    let (function, spread) = *[
        ("var", Spread::Variance),
        ("var_pop", Spread::Variance),
        ("stddev", Spread::Deviation),
        ("stddev_pop", Spread::Deviation),
    ]
    .choose(rng)
    .expect("functions");
    let scale = format!("avg({term}::double * {term}::double)");
    (format!("{function}({term})"), scale, spread)
}

/// Gives an expression of any type that cannot raise.
fn value(rng: &mut StdRng) -> String {
    match rng.random_range(0..7) {
        0 | 1 => integer(rng, 2),
        2 => float(rng),
        3 => decimal(rng),
        4 => boolean(rng, 2),
        5 => {
            let columns = ["f", "u64", "d", "ts", "ms", "s", "v", "e", "p", "w"];
            (*columns.choose(rng).expect("columns")).to_owned()
        }
        _ => {
            let calls = [
                "d + INTERVAL '1 month'",
                "d - INTERVAL '40 days'",
                "d + 7",
                "upper(s)",
                "s || '-' || v",
                "nullif(k, 1)",
                "date_trunc('month', ts)",
                "CASE WHEN k > 0 THEN s ELSE 'none' END",
                "try_cast(v AS int)",
                "i16::double",
                "n::double",
                "p::int",
                "k::varchar",
                "extract(dow FROM d)",
                "extract(hour FROM ts)",
                "coalesce(f, -1)",
                "f = f",
                "-f = f",
                "nullif(f, 0)",
                "nullif(f, -f)",
                "CASE f WHEN 0 THEN 'zero' WHEN 'NaN'::double THEN 'nan' ELSE 'other' END",
                "greatest(f, g)",
                "least(f, h)",
                "f IS DISTINCT FROM -f",
            ];
            (*calls.choose(rng).expect("calls")).to_owned()
        }
    }
}

pub(super) fn integer(rng: &mut StdRng, depth: u32) -> String {
    if depth == 0 {
        let columns = ["k", "i8", "i16", "i32", "i64", "u8", "u32"];
        return match rng.random_range(0..5) {
            0 => rng.random_range(-5..100).to_string(),
            _ => (*columns.choose(rng).expect("columns")).to_owned(),
        };
    }
    let (left, right) = (integer(rng, depth - 1), integer(rng, depth - 1));
    match rng.random_range(0..10) {
        0 | 1 => format!("({left} + {right})"),
        2 | 3 => format!("({left} - {right})"),
        4 => format!("({left} * {right})"),
        5 => format!("({left} % {})", rng.random_range(2..9)),
        6 => format!("({left} / {})", rng.random_range(2..9)),
        7 => format!("CASE WHEN {} THEN {left} ELSE {right} END", boolean(rng, 0)),
        8 => format!("coalesce({left}, {right})"),
        _ => left,
    }
}

fn float(rng: &mut StdRng) -> String {
    let terms = [
        "g",
        "h",
        "g + h",
        "g * 0.25",
        "g - 1000",
        "g / 3",
        "h * h",
        "i16 * 0.5",
        "g * (1 - h)",
        "-g",
        "CASE WHEN k > 0 THEN g ELSE h END",
        "coalesce(g, 0.5)",
        "k::double / 7",
    ];
    (*terms.choose(rng).expect("terms")).to_owned()
}

fn decimal(rng: &mut StdRng) -> String {
    let terms = [
        "n",
        "m",
        "w",
        "n + m",
        "n - m",
        "n * m",
        "m * (1 - n)",
        "m * 2",
        "-n",
        "w + w",
        "n * n",
        "CASE WHEN p THEN n ELSE m END",
        "coalesce(n, 0)",
        "m * (1 - n) * (1 + n)",
    ];
    (*terms.choose(rng).expect("terms")).to_owned()
}

fn raising(rng: &mut StdRng) -> String {
    let terms = [
        "f::bigint",
        "v::int",
        "m / n",
        "n % w",
        "i64::int",
        "i32::tinyint",
        "g::decimal(7, 2)",
    ];
    match rng.random_bool(0.5) {
        true => raising_integer(rng),
        false => (*terms.choose(rng).expect("terms")).to_owned(),
    }
}

pub(super) fn raising_integer(rng: &mut StdRng) -> String {
    let terms = [
        "i64 / z",
        "i32 % z",
        "k / z",
        "100 / (k + 3)",
        "i16 / k",
        "i64::int",
    ];
    (*terms.choose(rng).expect("terms")).to_owned()
}

pub(super) fn boolean(rng: &mut StdRng, depth: u32) -> String {
    if depth > 0 {
        let (left, right) = (boolean(rng, depth - 1), boolean(rng, depth - 1));
        return match rng.random_range(0..7) {
            0 | 1 => format!("({left} AND {right})"),
            2 | 3 => format!("({left} OR {right})"),
            4 => format!("NOT ({left})"),
            5 => format!(
                "({left}) IS {}",
                ["TRUE", "NOT TRUE", "FALSE", "UNKNOWN"]
                    .choose(rng)
                    .expect("tests")
            ),
            _ => left,
        };
    }
    let compared = comparison(rng);
    // DataFusion's parser takes all that follows as the right operand.
    match compared.contains("DISTINCT FROM") {
        true => format!("({compared})"),
        false => compared,
    }
}

fn comparison(rng: &mut StdRng) -> String {
    let operator = *[
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
    ]
    .choose(rng)
    .expect("operators");
    let small = rng.random_range(-5..60);
    match rng.random_range(0..20) {
        18 => format!(
            "f {}IN ({})",
            ["", "NOT "].choose(rng).expect("words"),
            [
                "0, 1.5",
                "'NaN'::double, -1.5",
                "1.5, 7",
                "-0.0, 1, 2, 3, 4",
                "g, 0"
            ]
            .choose(rng)
            .expect("lists")
        ),
        19 => format!(
            "f {}BETWEEN {} AND {}",
            ["", "NOT "].choose(rng).expect("words"),
            ["0", "-1.5", "'-inf'::double", "h"]
                .choose(rng)
                .expect("ends"),
            ["0", "1.5", "'inf'::double", "'NaN'::double"]
                .choose(rng)
                .expect("ends")
        ),
        0..3 => format!("{} {operator} {}", integer(rng, 1), integer(rng, 1)),
        3 => format!("{} {operator} {small}", integer(rng, 1)),
        4 => format!(
            "f {operator} {}",
            [
                "0",
                "1.5",
                "'NaN'::double",
                "'inf'::double",
                "-0.0",
                "g",
                "-f",
                "f"
            ]
            .choose(rng)
            .expect("floats")
        ),
        5 => format!(
            "{} {operator} {}",
            float(rng),
            rng.random_range(-1000..500_000)
        ),
        6 => format!(
            "{} {operator} {}",
            ["n", "m", "w", "n + m"].choose(rng).expect("columns"),
            ["0", "12.5", "m", "n"].choose(rng).expect("columns")
        ),
        7 => format!(
            "d {operator} DATE '{}-0{}-28'",
            rng.random_range(1925..2020),
            rng.random_range(1..10)
        ),
        8 => format!(
            "d + INTERVAL '{} months' {operator} DATE '1971-03-01'",
            rng.random_range(-20..20)
        ),
        9 => format!("ts {operator} TIMESTAMP '1970-01-01T00:00:00'"),
        10 => format!(
            "extract({} FROM d) {operator} {small}",
            ["year", "month", "day", "doy"].choose(rng).expect("parts")
        ),
        11 => format!(
            "{} {operator} '{}'",
            ["s", "e", "v"].choose(rng).expect("columns"),
            ["", "a", "promo", "key 7"].choose(rng).expect("strings")
        ),
        12 => format!(
            "{} {}LIKE '{}'",
            ["s", "e", "v"].choose(rng).expect("columns"),
            ["", "NOT "].choose(rng).expect("words"),
            ["a%", "%o%", "_", "%", "%1_", "key%"]
                .choose(rng)
                .expect("patterns")
        ),
        13 => format!(
            "k {}IN ({small}, 1, 2{})",
            ["", "NOT "].choose(rng).expect("words"),
            ["", ", NULL"].choose(rng).expect("words")
        ),
        14 => format!(
            "{} {}IN ('a', '', 'promo')",
            ["s", "e"].choose(rng).expect("columns"),
            ["", "NOT "].choose(rng).expect("words")
        ),
        15 => format!(
            "{} IS {}NULL",
            ["k", "f", "s", "e", "d", "n", "p", "i64"]
                .choose(rng)
                .expect("columns"),
            ["", "NOT "].choose(rng).expect("words")
        ),
        16 => format!(
            "{} BETWEEN {} AND {}",
            ["i16", "g", "n", "u8", "i64"].choose(rng).expect("columns"),
            rng.random_range(-10..10),
            rng.random_range(0..200)
        ),
        _ => (*["p", "NOT p", "p = (k > 0)", "u64 > 50"]
            .choose(rng)
            .expect("terms"))
        .to_owned(),
    }
}
