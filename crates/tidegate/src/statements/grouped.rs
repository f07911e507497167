//! Groups as standard SQL writes them and the planner does not take them.
//!
//! `ROLLUP ((a, b), c)` and `CUBE ((a, b), c)`, whose parts are several columns, become the `GROUPING SETS` that they are. `HAVING
//! true` of a query without groups becomes a condition on the number of its rows, so that the query still has one group. A name of
//! the select list in HAVING is what it stands for, as in DuckDB, unless the query groups by a column of that name.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Query, Select, SelectItem, Value, VisitorMut,
};

use super::calls::call;
use super::using::folded;
use super::visits::change;

/// The most parts of a CUBE that is written out, which has two to this power of sets.
const CUBE_MAX: usize = 8;

/// Writes a query's groups so that the planner takes them.
pub(super) fn bind(select: &mut Select) {
    write_names(select);
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

/// Writes what names of the select list stand for where HAVING uses them outside of calls: in the argument of an aggregate, a
/// name is that of a column.
fn write_names(select: &mut Select) {
    let Some(condition) = &mut select.having else {
        return;
    };
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((folded(alias), expr)),
        _ => None,
    });
    let mut values: HashMap<String, &Expr> = named.collect();
    if let GroupByExpr::Expressions(groups, _) = &select.group_by {
        for column in columns_of(groups) {
            values.remove(&column);
        }
    }
    let _ = change(condition, &mut Names { values, depth: 0 });
}

/// Returns the names of the columns that a query groups by, those of sets included.
fn columns_of(groups: &[Expr]) -> Vec<String> {
    let mut columns = Vec::new();
    for group in groups {
        match group {
            Expr::Identifier(column) => columns.push(folded(column)),
            Expr::CompoundIdentifier(parts) => columns.extend(parts.last().map(folded)),
            Expr::Nested(inner) => columns.extend(columns_of(std::slice::from_ref(&**inner))),
            Expr::Tuple(parts) => columns.extend(columns_of(parts)),
            Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => {
                columns.extend(sets.iter().flat_map(|set| columns_of(set)));
            }
            _ => {}
        }
    }
    columns
}

/// Writes values in the place of their names.
struct Names<'a> {
    values: HashMap<String, &'a Expr>,
    /// Calls and queries around.
    depth: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(matches!(expr, Expr::Function(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let value = match &*expr {
            Expr::Function(_) => {
                self.depth -= 1;
                None
            }
            Expr::Identifier(name) if self.depth == 0 => self.values.get(&folded(name)),
            _ => None,
        };
        if let Some(value) = value {
            *expr = Expr::Nested(Box::new(Expr::clone(value)));
        }
        ControlFlow::Continue(())
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
        check_query(
            &format!("SELECT 1 FROM t {rest}"),
            &format!("SELECT 1 FROM t {expect}"),
        );
    }

    #[track_caller]
    fn check_query(sql: &str, expect: &str) {
        let mut query = query(sql);
        let SetExpr::Select(select) = query.body.as_mut() else {
            panic!("{sql} selects nothing");
        };
        bind(select);
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn names_in_having_are_values_unless_they_are_grouped_by() {
        check_query(
            "SELECT sum(a) AS a, k + 1 AS k FROM t GROUP BY t.k HAVING a > 5 AND sum(a) < 9 AND k > 1",
            "SELECT sum(a) AS a, k + 1 AS k FROM t GROUP BY t.k HAVING (sum(a)) > 5 AND sum(a) < 9 AND k > 1",
        );
        check_query(
            "SELECT f(k) AS k FROM t GROUP BY ROLLUP (a), f(k) HAVING k > 1",
            "SELECT f(k) AS k FROM t GROUP BY ROLLUP (a), f(k) HAVING (f(k)) > 1",
        );
        check_query(
            "SELECT k + 1 AS k FROM t GROUP BY ALL HAVING k > (SELECT k)",
            "SELECT k + 1 AS k FROM t GROUP BY ALL HAVING (k + 1) > (SELECT k)",
        );
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
