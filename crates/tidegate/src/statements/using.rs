//! The columns of `JOIN … USING (k)`: the one `k` that both sides have together.
//!
//! It is the column of the side whose rows are all kept, and of a full join that of either side. The planner
//! takes that of the left side, which is NULL where a right or full join found no row there; and it calls `k`
//! ambiguous in `WHERE`, in the `ON` of a further join, and where `USING` has named it twice. So its table is
//! written before it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator,
    ObjectNamePart, OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select,
    SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut, WildcardAdditionalOptions,
    visit_expressions,
};

use super::rewrites::call;

/// Writes tables before the columns of `USING` in a query's clauses.
pub(super) fn bind(select: &mut Select) {
    let columns = Columns::of(select);
    if columns.merged.is_empty() {
        return;
    }
    if let Some(condition) = &mut select.selection {
        columns.put_into(condition, |_| true);
    }
    for item in &mut select.projection {
        columns.put_into_item(item);
    }
    let groups = match &mut select.group_by {
        GroupByExpr::Expressions(groups, _) => groups.as_mut_slice(),
        GroupByExpr::All(_) => &mut [],
    };
    let on = match &mut select.distinct {
        Some(Distinct::On(exprs)) => exprs.as_mut_slice(),
        _ => &mut [],
    };
    let filters = select.having.iter_mut().chain(&mut select.qualify);
    for expr in groups.iter_mut().chain(on).chain(filters) {
        columns.put_into(expr, Merged::is_misread);
    }
}

/// Writes tables before the columns of `USING` by which a query is ordered and that it does not select.
pub(super) fn bind_order(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|by| &mut by.kind)
    else {
        return;
    };
    let columns = Columns::of(select);
    for key in order {
        if let Expr::Identifier(column) = &key.expr
            && let Some(merged) = columns.misread(column)
            && !select.projection.iter().any(|item| selects(item, column))
        {
            key.expr = merged.expr(column);
        }
    }
}

fn selects(item: &SelectItem, column: &Ident) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name))
        | SelectItem::ExprWithAlias { alias: name, .. } => folded(name) == folded(column),
        SelectItem::UnnamedExpr(_) => false,
        _ => true,
    }
}

/// The columns of a query's `USING`.
#[derive(Default)]
struct Columns {
    merged: HashMap<String, Merged>,
    /// How many joins there are.
    num_joins: usize,
}

/// A column of `USING`.
#[derive(Clone)]
struct Merged {
    /// The tables that have it; its value is the first that is not NULL.
    tables: Vec<Vec<Ident>>,
    /// How often `USING` names it.
    times: usize,
    /// Whether it may be NULL on the left side and not on the right one.
    is_outer: bool,
}

impl Merged {
    /// Tells whether the planner takes another column for it, or none, in a select list.
    fn is_misread(&self) -> bool {
        self.is_outer || self.times > 1
    }

    /// Returns the column with its table.
    fn expr(&self, column: &Ident) -> Expr {
        let of_table = |table: &Vec<Ident>| {
            let mut parts = table.clone();
            parts.push(column.clone());
            Expr::CompoundIdentifier(parts)
        };
        let mut exprs: Vec<Expr> = self.tables.iter().map(of_table).collect();
        match exprs.len() {
            1 => exprs.remove(0),
            _ => call("coalesce", exprs),
        }
    }
}

/// The side of a join whose columns of `USING` the join has.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Any,
    Left,
    Right,
    /// Either, where the other one is NULL.
    Both,
}

impl Columns {
    /// Reads a query's joins, and writes tables before the columns of `USING` in the conditions of further ones.
    fn of(select: &mut Select) -> Self {
        let mut columns = Self::default();
        // Another table may have such a column too.
        let [from] = select.from.as_mut_slice() else {
            return columns;
        };
        let mut left = table_of(&from.relation);
        for join in &mut from.joins {
            columns.join(left.take(), join);
        }
        columns
    }

    /// Adds the columns of a join. `left` is the table on its left side, if it is only one.
    fn join(&mut self, left: Option<Vec<Ident>>, join: &mut Join) {
        self.num_joins += 1;
        let right = table_of(&join.relation);
        let (constraint, side) = match &mut join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
                (constraint, Side::Any)
            }
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                (constraint, Side::Left)
            }
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (constraint, Side::Right)
            }
            JoinOperator::FullOuter(constraint) => (constraint, Side::Both),
            _ => return,
        };
        let names = match constraint {
            JoinConstraint::On(condition) => return self.put_into(condition, |_| true),
            JoinConstraint::Using(names) => names,
            JoinConstraint::Natural | JoinConstraint::None => return,
        };
        for name in names {
            if let [ObjectNamePart::Identifier(column)] = name.0.as_slice() {
                self.merge(folded(column), side, left.clone(), right.clone());
            }
        }
    }

    fn merge(
        &mut self,
        column: String,
        side: Side,
        left: Option<Vec<Ident>>,
        right: Option<Vec<Ident>>,
    ) {
        let known = self.merged.remove(&column);
        let times = known.as_ref().map_or(0, |known| known.times) + 1;
        let was_outer = known.as_ref().is_some_and(|known| known.is_outer);
        let known = known.map(|known| known.tables);
        let left = known.or_else(|| left.map(|table| vec![table]));
        let right = right.map(|table| vec![table]);
        let tables = match side {
            Side::Any => left.or(right),
            Side::Left => left,
            Side::Right => right,
            Side::Both => left.zip(right).map(|(left, right)| [left, right].concat()),
        };
        let is_outer = was_outer || matches!(side, Side::Right | Side::Both);
        if let Some(tables) = tables {
            let merged = Merged {
                tables,
                times,
                is_outer,
            };
            self.merged.insert(column, merged);
        }
    }

    fn misread(&self, column: &Ident) -> Option<&Merged> {
        let merged = self.merged.get(&folded(column))?;
        merged.is_misread().then_some(merged)
    }

    /// Writes tables before some of the columns, but for those of subqueries.
    fn put_into(&self, expr: &mut Expr, which: fn(&Merged) -> bool) {
        if self.merged.is_empty() {
            return;
        }
        let has_arrow = visit_expressions(expr, |expr| match expr {
            // It may be a lambda, and the column its parameter.
            Expr::BinaryOp {
                op: BinaryOperator::Arrow,
                ..
            } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if has_arrow.is_continue() {
            let _ = expr.visit(&mut Put {
                columns: self,
                which,
                depth: 0,
            });
        }
    }

    fn put_into_item(&self, item: &mut SelectItem) {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => {
                if let Some(merged) = self.misread(column) {
                    let (expr, alias) = (merged.expr(column), column.clone());
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                self.put_into(expr, Merged::is_misread);
            }
            SelectItem::Wildcard(options) => self.put_into_all(options),
            _ => {}
        }
    }

    /// Has `*` give the columns that the planner takes from the wrong side.
    fn put_into_all(&self, options: &mut WildcardAdditionalOptions) {
        let is_plain = options.opt_ilike.is_none()
            && options.opt_exclude.is_none()
            && options.opt_except.is_none()
            && options.opt_replace.is_none()
            && options.opt_rename.is_none();
        // REPLACE takes every column of the name, so that no other table may have it.
        let is_only = |merged: &Merged| merged.is_outer && merged.times == self.num_joins;
        let mut outer: Vec<_> = self.merged.iter().filter(|(_, m)| is_only(m)).collect();
        if outer.is_empty() || !is_plain {
            return;
        }
        outer.sort_unstable_by_key(|(name, _)| *name);
        let items = outer.into_iter().map(|(name, merged)| {
            let column_name = Ident::with_quote('"', name);
            Box::new(ReplaceSelectElement {
                expr: merged.expr(&column_name),
                column_name,
                as_keyword: true,
            })
        });
        options.opt_replace = Some(ReplaceSelectItem {
            items: items.collect(),
        });
    }
}

struct Put<'a> {
    columns: &'a Columns,
    which: fn(&Merged) -> bool,
    /// How many queries are around.
    depth: usize,
}

impl VisitorMut for Put<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Identifier(column) = &*expr
            && let Some(merged) = self.columns.merged.get(&folded(column))
            && (self.which)(merged)
        {
            *expr = merged.expr(column);
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name by which a table's columns are called, if it has one.
pub(super) fn table_of(table: &TableFactor) -> Option<Vec<Ident>> {
    let (alias, name) = match table {
        TableFactor::Table {
            alias,
            name,
            args: None,
            ..
        } => (alias, Some(name)),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. } => (alias, None),
        _ => return None,
    };
    // A file's name stands in single quotes.
    let quoted = |name: &Ident| match name.quote_style {
        Some(_) => Ident::with_quote('"', &name.value),
        None => name.clone(),
    };
    match alias {
        Some(alias) => Some(vec![quoted(&alias.name)]),
        None => {
            let parts = name?.0.iter().map(|part| part.as_ident().map(quoted));
            parts.collect()
        }
    }
}

/// Returns a name as the planner reads it: in lower case, unless it is quoted.
pub(super) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::{SetExpr, Statement};
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        let Some(Statement::Query(query)) = statements.first_mut() else {
            panic!("{sql} is no query");
        };
        super::bind_order(query);
        if let SetExpr::Select(select) = query.body.as_mut() {
            super::bind(select);
        }
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
                "SELECT * FROM a FULL JOIN b USING(k)",
                "SELECT * REPLACE (coalesce(a.\"k\", b.\"k\") AS \"k\") FROM a FULL JOIN b USING(k)",
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
    fn any_other_name_stays() {
        for sql in [
            "SELECT k FROM a JOIN b USING(k) GROUP BY k ORDER BY k",
            "SELECT * FROM a LEFT JOIN b USING(k)",
            "SELECT * FROM a RIGHT JOIN b USING(k) JOIN c ON c.x = a.x",
            "SELECT x FROM a JOIN b USING(k), c WHERE k = 1",
            "SELECT x FROM a JOIN b USING(k) WHERE x IN (SELECT k FROM c)",
            "SELECT x FROM a JOIN b USING(k) WHERE f(l, k -> k > 1)",
            "SELECT x FROM a JOIN b USING(k) WHERE b.k = 1",
            "SELECT x FROM a JOIN b USING(k) WHERE \"K\" = 1",
        ] {
            check(sql, sql);
        }
    }
}
