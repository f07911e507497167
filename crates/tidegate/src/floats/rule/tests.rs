//! Which operands are wrapped, and which plans stay as they are.

use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::SessionContext;

use super::CanonicalFloats;

/// Returns a statement's plan before and after the rule.
async fn analyzed(sql: &str) -> (LogicalPlan, LogicalPlan) {
    let context = SessionContext::new();
    let table = "CREATE TABLE t(k BIGINT, s VARCHAR, n DECIMAL(9, 2), x DOUBLE, y DOUBLE, h FLOAT)";
    context.sql(table).await.unwrap();
    let state = context.state();
    let plan = state.create_logical_plan(sql).await.unwrap();
    let config = state.config_options();
    let before = Analyzer::new()
        .execute_and_check(plan, config, |_, _| {})
        .unwrap();
    let after = CanonicalFloats.analyze(before.clone(), config).unwrap();
    let (was, is) = (before.schema(), after.schema());
    assert_eq!(was.field_names(), is.field_names(), "{sql}");
    assert_eq!(was.as_arrow(), is.as_arrow(), "{sql}");
    (before, after)
}

#[tokio::test]
async fn plans_without_comparisons_of_floats_stay_as_they_are() {
    for sql in [
        "SELECT k, sum(x), avg(y), count(h) FROM t WHERE k > 3 AND s <> 'a' GROUP BY k ORDER BY k",
        "SELECT DISTINCT k, s, n FROM t WHERE n BETWEEN 1 AND 2 OR k IN (1, 2) ORDER BY n LIMIT 3",
        "SELECT x, -y, x * h, coalesce(x, 0) FROM t WHERE k IS NOT NULL AND nullif(k, 1) = 2",
        "SELECT a.x FROM t a JOIN t b ON a.k = b.k AND a.n < b.n WHERE a.k IN (SELECT k FROM t)",
        "SELECT min(k), max(n), count(DISTINCT s), rank() OVER (ORDER BY min(k)) FROM t GROUP BY n",
    ] {
        let (before, after) = analyzed(sql).await;
        assert_eq!(before, after, "{sql}");
    }
}

#[tokio::test]
async fn running_again_changes_nothing() {
    for sql in [
        "SELECT x, count(DISTINCT y), max(h) FROM t WHERE x < 5 AND y > 2 GROUP BY x ORDER BY max(h)",
        "SELECT DISTINCT x + 1, h FROM t ORDER BY 2 LIMIT 3",
        "SELECT a.k FROM t a JOIN t b USING (x) WHERE a.y IN (SELECT y FROM t) AND a.h BETWEEN 1 AND 2",
        "SELECT k FROM t o WHERE EXISTS (SELECT 1 FROM t i WHERE i.x = o.x)",
        "SELECT x, y, count(*) FROM t GROUP BY ROLLUP (x, y)",
        "SELECT rank() OVER (PARTITION BY x ORDER BY y), min(x) OVER (ORDER BY k) FROM t",
    ] {
        let (_, once) = analyzed(sql).await;
        let config = SessionContext::new().state().config_options().clone();
        let twice = CanonicalFloats.analyze(once.clone(), &config).unwrap();
        assert_eq!(once.to_string(), twice.to_string(), "{sql}");
    }
}

/// Checks what the rule makes of a filter.
async fn check_filter(predicate: &str, expected: &str) {
    let (_, after) = analyzed(&format!("SELECT k FROM t WHERE {predicate}")).await;
    let text = after.to_string();
    let filter = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Filter: "));
    let filter = filter
        .unwrap()
        .replace("t.", "")
        .replace("Float64", "")
        .replace("Float32", "");
    assert_eq!(filter, expected, "{predicate}");
}

#[tokio::test]
async fn what_no_nan_passes_is_left_to_statistics_too() {
    for (predicate, expected) in [
        ("x < 5.5", "x < (5.5) AND canonical(x) < (5.5)"),
        ("x = 5.5", "x = (5.5) AND canonical(x) = (5.5)"),
        ("x = 0.0", "x <= (0) AND canonical(x) = (0)"),
        (
            "x > 1.5 AND x < 2.5",
            "x > (1.5) AND x < (2.5) AND canonical(x) < (2.5)",
        ),
        (
            "x BETWEEN 1.5 AND 2.5",
            "x BETWEEN (1.5) AND (2.5) AND canonical(x) <= (2.5)",
        ),
        (
            "x IN (1.5, 2.5)",
            "x IN ([(1.5), (2.5)]) AND canonical(x) IN ([(1.5), (2.5)])",
        ),
        (
            "x < 1.5 OR k = 1",
            "x < (1.5) AND canonical(x) < (1.5) OR k = Int64(1)",
        ),
    ] {
        check_filter(predicate, expected).await;
    }
}

#[tokio::test]
async fn what_nan_passes_does_not_prune() {
    for (predicate, expected) in [
        ("x > 5.5", "canonical(x) > (5.5)"),
        ("x >= 5.5", "canonical(x) >= (5.5)"),
        ("x <> 5.5", "canonical(x) != (5.5)"),
        ("NOT x < 5.5", "NOT canonical(x) < (5.5)"),
        ("x NOT IN (1.5)", "canonical(x) NOT IN ([(1.5)])"),
        (
            "x NOT BETWEEN 1.5 AND 2.5",
            "canonical(x) NOT BETWEEN (1.5) AND (2.5)",
        ),
        ("(x < 5.5) IS NOT TRUE", "canonical(x) < (5.5) IS NOT TRUE"),
        ("x < y", "canonical(x) < canonical(y)"),
    ] {
        check_filter(predicate, expected).await;
    }
}
