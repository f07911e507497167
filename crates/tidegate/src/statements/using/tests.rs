//! Which columns get a table before them, and which stay.

use sqlparser::ast::{Ident, SetExpr};

use super::TableColumn;
use crate::statements::tests::query;

#[track_caller]
fn check(sql: &str, expect: &str) {
    let mut query = query(sql);
    if let SetExpr::Select(select) = query.body.as_mut() {
        super::bind(select, &[]);
    }
    super::bind_order(&mut query, &[]);
    super::write_conditions(&mut query, &[]);
    assert_eq!(query.to_string(), expect);
}

#[test]
fn conditions_name_the_side_that_is_kept() {
    for (from, expect) in [
        (
            "a JOIN b USING (k) WHERE k = 1 AND x = K",
            "a JOIN b USING(k) WHERE a.k = 1 AND x = a.K",
        ),
        (
            "a LEFT JOIN 'b.csv' AS b USING (k) WHERE k = 1",
            "a LEFT JOIN 'b.csv' AS b USING(k) WHERE a.k = 1",
        ),
        (
            "'a.csv' RIGHT JOIN 'b.csv' USING (k) WHERE k = 1",
            "'a.csv' RIGHT JOIN 'b.csv' USING(k) WHERE \"b.csv\".k = 1",
        ),
        (
            "a FULL JOIN b USING (k) WHERE k = 1",
            "a FULL JOIN b USING(k) WHERE coalesce(a.k, b.k) = 1",
        ),
        (
            "a JOIN b USING (k) LEFT JOIN c USING (k) WHERE k = 1",
            "a JOIN b USING(k) LEFT JOIN c USING(k) WHERE a.k = 1",
        ),
        (
            "a JOIN b USING (k) JOIN c ON c.x = k",
            "a JOIN b USING(k) JOIN c ON c.x = a.k",
        ),
        (
            "a JOIN b ON a.x = b.x JOIN c USING (k) WHERE k = 1",
            "a JOIN b ON a.x = b.x JOIN c USING(k) WHERE c.k = 1",
        ),
        (
            "a JOIN b USING (k) WHERE x -> 'y' = 1 AND k = 1",
            "a JOIN b USING(k) WHERE x -> 'y' = 1 AND a.k = 1",
        ),
    ] {
        check(
            &format!("SELECT x FROM {from}"),
            &format!("SELECT x FROM {expect}"),
        );
    }
}

#[test]
fn other_clauses_name_it_where_the_planner_would_take_another() {
    for (sql, expect) in [
        (
            "SELECT k, max(k) AS m FROM a RIGHT JOIN b USING(k) GROUP BY k ORDER BY k",
            "SELECT b.k AS k, max(b.k) AS m FROM a RIGHT JOIN b USING(k) GROUP BY b.k ORDER BY k",
        ),
        (
            "SELECT k + 1 FROM a FULL JOIN b USING(k) ORDER BY k",
            "SELECT coalesce(a.k, b.k) + 1 FROM a FULL JOIN b USING(k) ORDER BY coalesce(a.k, b.k)",
        ),
        (
            "SELECT * FROM a FULL JOIN b USING(k) JOIN c ON c.k = a.x",
            "SELECT a.* REPLACE (coalesce(a.\"k\", b.\"k\") AS \"k\"), b.* EXCLUDE (\"k\"), c.* \
             FROM a FULL JOIN b USING(k) JOIN c ON c.k = a.x",
        ),
        (
            "SELECT * EXCLUDE (x) FROM z LEFT JOIN b USING(k)",
            "SELECT * EXCLUDE (x) REPLACE (z.\"k\" AS \"k\") FROM z LEFT JOIN b USING(k)",
        ),
        (
            "SELECT sum(x) OVER w FROM a RIGHT JOIN b USING(k) WINDOW w AS (ORDER BY k) ORDER BY k + 1",
            "SELECT sum(x) OVER w FROM a RIGHT JOIN b USING(k) WINDOW w AS (ORDER BY b.k) ORDER BY b.k + 1",
        ),
        (
            "SELECT k FROM a JOIN b USING(k) JOIN c USING(k)",
            "SELECT a.k AS k FROM a JOIN b USING(k) JOIN c USING(k)",
        ),
    ] {
        check(sql, expect);
    }
}

#[test]
fn further_joins_are_on_the_column_that_both_sides_have() {
    for (sql, expect) in [
        (
            "SELECT k FROM a RIGHT JOIN b USING(k) JOIN c USING(k) LEFT JOIN d USING(k) ORDER BY k",
            "SELECT b.k AS k FROM a RIGHT JOIN b USING(k) JOIN c ON b.k = c.k LEFT JOIN d ON b.k = d.k ORDER BY k",
        ),
        (
            "SELECT x FROM a FULL JOIN b USING(k, l) FULL JOIN c USING(k, l) ORDER BY k",
            "SELECT x FROM a FULL JOIN b USING(k, l) FULL JOIN c ON coalesce(a.k, b.k) = c.k AND coalesce(a.l, b.l) = c.l \
             ORDER BY coalesce(a.k, b.k, c.k)",
        ),
        (
            "SELECT x FROM a RIGHT JOIN b USING(k) LEFT SEMI JOIN c USING(k)",
            "SELECT x FROM a RIGHT JOIN b USING(k) LEFT SEMI JOIN c ON b.k = c.k",
        ),
        (
            "SELECT x FROM a LEFT JOIN b USING(k) RIGHT JOIN c USING(k)",
            "SELECT x FROM a LEFT JOIN b USING(k) RIGHT JOIN c USING(k)",
        ),
    ] {
        check(sql, expect);
    }
}

#[test]
fn columns_of_tables_tell_what_the_text_leaves_open() {
    let columns = |table: &str, names: &[&str]| {
        let column = |name: &&str| TableColumn {
            table: vec![Ident::new(table)],
            name: name.to_string(),
            fields: Vec::new(),
        };
        Some(names.iter().map(column).collect())
    };
    let tables = vec![
        columns("a", &["x", "y"]),
        columns("b", &["x", "k"]),
        columns("c", &["k", "z"]),
    ];
    for (sql, expect) in [
        (
            "SELECT * FROM a JOIN b ON a.x = b.x FULL JOIN c USING(k) WHERE k = 1",
            "SELECT a.*, b.* REPLACE (coalesce(b.\"k\", c.\"k\") AS \"k\"), c.* EXCLUDE (\"k\") \
             FROM a JOIN b ON a.x = b.x FULL JOIN c USING(k) WHERE coalesce(b.k, c.k) = 1",
        ),
        (
            "SELECT k FROM a NATURAL JOIN b NATURAL LEFT JOIN c WHERE x = 1 ORDER BY k",
            "SELECT k FROM a JOIN b USING(\"x\") LEFT JOIN c USING(\"k\") WHERE a.x = 1 ORDER BY k",
        ),
        (
            "SELECT * EXCLUDE (x) FROM a RIGHT JOIN b USING(x) JOIN c USING(k)",
            "SELECT a.* EXCLUDE (\"x\"), b.* EXCLUDE (\"x\"), c.* EXCLUDE (\"k\") \
             FROM a RIGHT JOIN b USING(x) JOIN c USING(k)",
        ),
    ] {
        let mut query = query(sql);
        assert!(super::is_open(&query), "{sql}");
        super::bind_open(&mut query, &tables);
        assert_eq!(query.to_string(), expect);
    }
}

#[test]
fn any_other_name_stays() {
    for sql in [
        "SELECT k FROM a JOIN b USING(k) GROUP BY k ORDER BY k",
        "SELECT * EXCLUDE (k) FROM a RIGHT JOIN b USING(k)",
        "SELECT * FROM z JOIN a USING(k) JOIN b USING(l)",
        "SELECT x FROM a JOIN b USING(k), c WHERE k = 1",
        "SELECT x FROM a JOIN b USING(k) WHERE x IN (SELECT k FROM c)",
        "SELECT x FROM a JOIN b USING(k) WHERE b.k = 1",
        "SELECT x FROM a JOIN b USING(k) WHERE \"K\" = 1",
    ] {
        check(sql, sql);
    }
}
