//! PIVOT and UNPIVOT, and the queries that they stand for.

use std::ops::ControlFlow;

use sqlparser::ast::{TableFactor, VisitMut, VisitorMut};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::expand;

struct Expand;

impl VisitorMut for Expand {
    type Break = String;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<String> {
        match expand(table, &|name| ["sum", "max", "count"].contains(&name)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error.to_string()),
        }
    }
}

#[track_caller]
fn check(from: &str, expect: Result<&str, &str>) {
    let sql = format!("SELECT * FROM {from}");
    let mut statements = Parser::parse_sql(&GenericDialect {}, &sql).unwrap();
    match (statements.visit(&mut Expand), expect) {
        (ControlFlow::Continue(()), Ok(expect)) => {
            assert_eq!(statements[0].to_string(), format!("SELECT * FROM {expect}"));
        }
        (ControlFlow::Break(error), Err(part)) => assert!(error.contains(part), "{error}"),
        (done, _) => panic!("{from}: {done:?}"),
    }
}

#[test]
fn pivot_is_an_aggregate_for_each_value() {
    check(
        "t PIVOT (sum(v) FOR k IN ('a', 2 AS b)) AS p",
        Ok(
            "(SELECT * EXCLUDE (k, v), sum(v) FILTER (WHERE (k) = ('a')) AS \"a\", \
            sum(v) FILTER (WHERE (k) = (2)) AS \"b\" FROM t GROUP BY ALL) AS p",
        ),
    );
    check(
        "t PIVOT (count(*) AS n, max(v + w) FOR (j, k) IN ((1, NULL)))",
        Ok(
            "(SELECT * EXCLUDE (j, k, v, w), count(*) FILTER (WHERE (j) = (1) AND (k) IS NULL) AS \"1_NULL_n\", \
            max(v + w) FILTER (WHERE (j) = (1) AND (k) IS NULL) AS \"1_NULL_max(v + w)\" FROM t GROUP BY ALL)",
        ),
    );
    check(
        "t PIVOT (sum(v), \"group by\"(g, h) FOR k IN ('a'))",
        Ok("(SELECT g, h, sum(v) FILTER (WHERE (k) = ('a')) AS \"a\" FROM t GROUP BY ALL)"),
    );
    check(
        "t PIVOT (\"value of\"(round(sum(v)) + 1) AS r FOR k IN ('a'))",
        Ok(
            "(SELECT * EXCLUDE (k, v), round(sum(v) FILTER (WHERE (k) = ('a'))) + 1 AS \"a_r\" FROM t GROUP BY ALL)",
        ),
    );
    check("t PIVOT (sum(v) FOR k IN (ANY))", Err("list the values"));
    check(
        "t PIVOT (sum(v) FOR (j, k) IN (1))",
        Err("1 has 1 values, and FOR names 2 columns"),
    );
}

#[test]
fn unpivot_is_unnest_of_names_and_values() {
    check(
        "t UNPIVOT (v FOR k IN (a, B AS c))",
        Ok(
            "(SELECT * FROM (SELECT * EXCLUDE (a, B), unnest(make_array('a', 'c')) AS k, \
            unnest(make_array(a, B)) AS v FROM t) WHERE v IS NOT NULL)",
        ),
    );
    check(
        "t UNPIVOT INCLUDE NULLS (v FOR k IN (a)) AS u",
        Ok(
            "(SELECT * EXCLUDE (a), unnest(make_array('a')) AS k, unnest(make_array(a)) AS v FROM t) AS u",
        ),
    );
    check("t UNPIVOT (1 FOR k IN (a))", Err("1 is no name"));
}
