//! Groups as standard SQL writes them and the planner does not take them.
//!
//! `ROLLUP ((a, b), c)` and `CUBE ((a, b), c)`, whose parts are several columns, become the `GROUPING SETS` that they are. `HAVING
//! true` of a query without groups becomes a condition on the number of its rows, so that the query still has one group.

use sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Select, Value};

use super::calls::call;

/// The most parts of a CUBE that is written out, which has two to this power of sets.
const CUBE_MAX: usize = 8;

/// Writes a query's groups so that the planner takes them.
pub(super) fn bind(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else {
        return;
    };
    for group in groups.iter_mut() {
        if let Some(sets) = sets_of(group) {
            *group = Expr::GroupingSets(sets);
        }
    }
    if groups.is_empty()
        && let Some(condition) = &mut select.having
        && let Expr::Value(value) = &*condition
        && let Value::Boolean(keeps) = value.value
    {
        let all = Expr::Value(Value::Number("1".into(), false).with_empty_span());
        let none = Expr::Value(Value::Number("0".into(), false).with_empty_span());
        *condition = Expr::BinaryOp {
            left: Box::new(call("count", vec![all])),
            op: match keeps {
                true => BinaryOperator::GtEq,
                false => BinaryOperator::Lt,
            },
            right: Box::new(none),
        };
    }
}

/// Returns the sets that a ROLLUP or a CUBE of parts with several columns stands for.
fn sets_of(group: &Expr) -> Option<Vec<Vec<Expr>>> {
    let (Expr::Rollup(parts) | Expr::Cube(parts)) = group else {
        return None;
    };
    if parts.iter().all(|part| part.len() == 1) {
        return None;
    }
    let num_parts = parts.len();
    Some(match group {
        Expr::Rollup(_) => {
            let lengths = (0..=num_parts).rev();
            lengths.map(|length| parts[..length].concat()).collect()
        }
        _ if num_parts > CUBE_MAX => return None,
        _ => {
            let chosen = (0..1_usize << num_parts).rev();
            let set = |chosen: usize| {
                let is_in = |place: &usize| (chosen >> (num_parts - 1 - place)) & 1 == 1;
                let places = (0..num_parts).filter(is_in);
                let columns = places.flat_map(|place| parts[place].clone());
                columns.collect::<Vec<Expr>>()
            };
            chosen.map(set).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::SetExpr;

    use super::bind;
    use crate::statements::tests::query;

    #[track_caller]
    fn check(rest: &str, expect: &str) {
        let sql = format!("SELECT 1 FROM t {rest}");
        let mut query = query(&sql);
        let SetExpr::Select(select) = query.body.as_mut() else {
            panic!("{sql} selects nothing");
        };
        bind(select);
        assert_eq!(query.to_string(), format!("SELECT 1 FROM t {expect}"));
    }

    #[test]
    fn groups_are_written_as_the_planner_takes_them() {
        for (rest, expect) in [
            (
                "GROUP BY ROLLUP ((a, b), c)",
                "GROUP BY GROUPING SETS ((a, b, c), (a, b), ())",
            ),
            (
                "GROUP BY CUBE ((a, b), c)",
                "GROUP BY GROUPING SETS ((a, b, c), (a, b), (c), ())",
            ),
            ("GROUP BY ROLLUP (a, b)", "GROUP BY ROLLUP (a, b)"),
            ("HAVING true", "HAVING count(1) >= 0"),
            ("HAVING false", "HAVING count(1) < 0"),
            ("GROUP BY a HAVING true", "GROUP BY a HAVING true"),
        ] {
            check(rest, expect);
        }
    }
}
