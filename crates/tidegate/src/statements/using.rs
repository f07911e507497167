//! The columns of `JOIN … USING (k)` and `NATURAL JOIN`: the one `k` that both sides have together.
//!
//! It is the column of the side whose rows are all kept, and of a full join that of either side. The planner
//! takes that of the left side, or in `*` of the table whose name comes first, which is NULL where an outer join
//! found no row there; and it calls `k` ambiguous in `WHERE`, in the `ON` of a further join, and where `USING` has
//! named it twice. So its table is written before it. Where the text does not tell which table has it
//! ([`is_open`]), the columns of the tables do.
//!
//! A further `USING (k)` means this `k` too. Behind a right or full join the planner would take that of the first table,
//! so that its condition is written out ([`write_conditions`]), once all clauses have their tables.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, LambdaFunction, ObjectName, ObjectNamePart, OneOrManyWithParens, OrderByKind,
    Query, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use super::calls::call;
use super::scope::{TableColumn, TableColumns, selects};
use super::visits;

/// Tells whether the text of a query leaves open which tables have the columns of its joins.
pub(crate) fn is_open(query: &Query) -> bool {
    fn of_body(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => is_open_select(select),
            SetExpr::SetOperation { left, right, .. } => of_body(left) || of_body(right),
            _ => false,
        }
    }
    of_body(&query.body)
}

/// Tells it of a select list: a natural join names no columns, several tables on the left may have one, and `* EXCLUDE (…)`
/// does not tell of which tables it leaves columns out.
pub(super) fn is_open_select(select: &Select) -> bool {
    let is_partial = |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if leaves_any_out(options));
    let has_partial = select.projection.iter().any(is_partial);
    select.from.iter().any(|from| {
        let mut named: Vec<String> = Vec::new();
        from.joins.iter().enumerate().any(|(place, join)| {
            match constraint_of(&join.join_operator) {
                Some(JoinConstraint::Natural) => true,
                Some(JoinConstraint::Using(_)) if has_partial => true,
                Some(JoinConstraint::Using(names)) => {
                    let names: Vec<String> =
                        names.iter().filter_map(column_of).map(folded).collect();
                    let is_known = |name: &String| place == 0 || named.contains(name);
                    let is_open = !names.iter().all(is_known);
                    named.extend(names);
                    is_open
                }
                _ => false,
            }
        })
    })
}

/// Writes tables before the columns of joins in a query whose tables have these columns.
pub(crate) fn bind_open(query: &mut Query, tables: &TableColumns) {
    let mut rest = tables.as_slice();
    for select in selects(&mut query.body) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        let (own, others) = rest.split_at(joins.sum::<usize>().min(rest.len()));
        rest = others;
        bind(select, own);
    }
    bind_order(query, tables);
    write_conditions(query, tables);
}

/// Writes out the conditions of joins that the planner would read otherwise, in a query whose clauses have been
/// bound. `tables` has the columns of its tables, or is empty.
pub(super) fn write_conditions(query: &mut Query, tables: &[Option<Vec<TableColumn>>]) {
    let mut rest = tables;
    for select in selects(&mut query.body) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        let (own, others) = rest.split_at(joins.sum::<usize>().min(rest.len()));
        rest = others;
        let mut columns = Columns {
            writes_conditions: true,
            ..Columns::default()
        };
        columns.read(select, own);
    }
}

/// Writes tables before the columns of joins in a query's clauses. `tables` has the columns of its tables, or
/// is empty.
pub(super) fn bind(select: &mut Select, tables: &[Option<Vec<TableColumn>>]) {
    let columns = Columns::of(select, tables);
    if columns.merged.is_empty() {
        return;
    }
    if let Some(condition) = &mut select.selection {
        columns.put_into(condition, |_| true);
    }
    let items = std::mem::take(&mut select.projection);
    let items = items
        .into_iter()
        .flat_map(|item| columns.put_into_item(item));
    select.projection = items.collect();
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
    for window in &mut select.named_window {
        columns.put_into(window, Merged::is_misread);
    }
}

/// Writes tables before the columns of joins by which a query is ordered and that it does not select.
pub(super) fn bind_order(query: &mut Query, tables: &[Option<Vec<TableColumn>>]) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|by| &mut by.kind)
    else {
        return;
    };
    let columns = Columns::of(select, tables);
    let is_selected = |name: &String| select.projection.iter().any(|item| selects_it(item, name));
    let selected: Vec<String> = columns
        .merged
        .keys()
        .filter(|name| is_selected(name))
        .cloned()
        .collect();
    for key in order {
        columns.put_all(&mut key.expr, Merged::is_misread, selected.clone());
    }
}

fn selects_it(item: &SelectItem, column: &str) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name))
        | SelectItem::ExprWithAlias { alias: name, .. } => folded(name) == column,
        SelectItem::UnnamedExpr(_) => false,
        _ => true,
    }
}

/// The tables of a query, and the columns of its joins.
#[derive(Default)]
struct Columns {
    tables: Vec<Table>,
    merged: HashMap<String, Merged>,
    /// Whether a join has a column of which it is not known where it is.
    has_unknown: bool,
    /// Whether conditions are written out as they are read.
    writes_conditions: bool,
}

struct Table {
    name: Option<Vec<Ident>>,
    columns: Option<Vec<TableColumn>>,
    /// Whether the query sees its columns: those of one side of a semi join it does not.
    is_visible: bool,
}

/// A column of a join.
struct Merged {
    /// The tables whose value it has: the first that is not NULL.
    values: Vec<Vec<Ident>>,
    /// All tables that have it, by their places.
    members: Vec<usize>,
    /// Whether it may be NULL on the left side and not on the right one.
    is_right: bool,
    /// Whether it may be NULL on either side.
    is_outer: bool,
    /// Whether the condition of its join is written out, so that the planner knows of several columns.
    is_condition: bool,
}

impl Merged {
    /// Tells whether the planner takes another column for it, or none, in a select list.
    fn is_misread(&self) -> bool {
        self.is_condition || self.is_right || self.members.len() > 2
    }

    /// Tells whether the planner takes another column for it, or none, in a further join.
    fn is_misjoined(&self) -> bool {
        self.is_condition || self.is_right
    }

    /// Returns the column with its table.
    fn expr(&self, column: &Ident) -> Expr {
        let values = self.values.iter();
        let mut exprs: Vec<Expr> = values.map(|table| of_table(table, column)).collect();
        match exprs.len() {
            1 => exprs.remove(0),
            _ => call("coalesce", exprs),
        }
    }
}

/// Writes a column with its table.
fn of_table(table: &[Ident], column: &Ident) -> Expr {
    let mut parts = table.to_vec();
    parts.push(column.clone());
    Expr::CompoundIdentifier(parts)
}

/// The side of a join whose columns the join has.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Any,
    Left,
    Right,
    /// Either, where the other one is NULL.
    Both,
}

pub(super) fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Returns how a join that has the columns of both sides joins them.
fn merging(operator: &mut JoinOperator) -> Option<(&mut JoinConstraint, Side)> {
    Some(match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, Side::Any),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
            (constraint, Side::Left)
        }
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (constraint, Side::Right)
        }
        JoinOperator::FullOuter(constraint) => (constraint, Side::Both),
        _ => return None,
    })
}

fn column_of(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(column)] => Some(column),
        _ => None,
    }
}

impl Columns {
    /// Reads a query's joins, writes tables before the columns of joins in the conditions of further ones, and
    /// names the columns of natural joins.
    fn of(select: &mut Select, tables: &[Option<Vec<TableColumn>>]) -> Self {
        let mut columns = Self::default();
        columns.read(select, tables);
        columns
    }

    fn read(&mut self, select: &mut Select, tables: &[Option<Vec<TableColumn>>]) {
        // Another table may have such a column too.
        let [from] = select.from.as_mut_slice() else {
            return;
        };
        let mut known = tables.iter().cloned();
        self.add(&from.relation, known.next().flatten());
        for join in &mut from.joins {
            self.join(join, known.next().flatten());
        }
    }

    fn add(&mut self, table: &TableFactor, columns: Option<Vec<TableColumn>>) {
        self.tables.push(Table {
            name: table_of(table),
            columns,
            is_visible: true,
        });
    }

    fn join(&mut self, join: &mut Join, columns: Option<Vec<TableColumn>>) {
        let right = self.tables.len();
        self.add(&join.relation, columns);
        match &mut join.join_operator {
            JoinOperator::LeftSemi(constraint) | JoinOperator::LeftAnti(constraint) => {
                self.tables[right].is_visible = false;
                if let (JoinConstraint::Using(names), true) = (&*constraint, self.writes_conditions)
                    && let Some(condition) = self.condition(names, right)
                {
                    *constraint = JoinConstraint::On(condition);
                }
            }
            JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => {
                let hidden = self.tables.iter_mut().take(right);
                hidden.for_each(|table| table.is_visible = false);
                self.merged.clear();
            }
            _ => {}
        }
        let Some((constraint, side)) = merging(&mut join.join_operator) else {
            return;
        };
        if *constraint == JoinConstraint::Natural
            && let Some(common) = self.common(right)
        {
            *constraint = JoinConstraint::Using(common);
        }
        match constraint {
            JoinConstraint::On(condition) => self.put_into(condition, |_| true),
            JoinConstraint::Using(names) => {
                let condition = self.condition(names, right);
                for column in names.iter().filter_map(column_of) {
                    self.merge(folded(column), side, right, condition.is_some());
                }
                if let Some(condition) = condition.filter(|_| self.writes_conditions) {
                    *constraint = JoinConstraint::On(condition);
                }
            }
            JoinConstraint::Natural | JoinConstraint::None => {}
        }
    }

    /// Returns the condition of a join with a table, if the planner takes another column for one of those on the left.
    fn condition(&self, names: &[ObjectName], right: usize) -> Option<Expr> {
        let columns: Vec<&Ident> = names.iter().filter_map(column_of).collect();
        let is_misjoined = |column: &&Ident| {
            let merged = self.merged.get(&folded(column));
            merged.is_some_and(Merged::is_misjoined)
        };
        if columns.len() < names.len() || !columns.iter().any(is_misjoined) {
            return None;
        }
        let conditions = columns.into_iter().map(|column| {
            Some(Expr::BinaryOp {
                left: Box::new(self.left_expr(column, right)?),
                op: BinaryOperator::Eq,
                right: Box::new(of_table(
                    &self.tables[right].called(&folded(column))?,
                    column,
                )),
            })
        });
        let conditions: Option<Vec<Expr>> = conditions.collect();
        conditions?.into_iter().reduce(|all, next| Expr::BinaryOp {
            left: Box::new(all),
            op: BinaryOperator::And,
            right: Box::new(next),
        })
    }

    /// Returns a column of the tables before another one, with its table.
    fn left_expr(&self, column: &Ident, right: usize) -> Option<Expr> {
        let name = folded(column);
        match self.merged.get(&name) {
            Some(merged) => Some(merged.expr(column)),
            None => {
                let (_, table) = self.on_left(&name, right)?;
                Some(of_table(&table?, column))
            }
        }
    }

    /// Returns the columns that a table and those before it have, if all are known and there are any.
    fn common(&self, right: usize) -> Option<Vec<ObjectName>> {
        let mut left: Vec<&String> = Vec::new();
        for table in self.tables[..right].iter().filter(|table| table.is_visible) {
            left.extend(table.columns.as_ref()?.iter().map(|column| &column.name));
        }
        let columns = self.tables[right].columns.as_ref()?;
        let common = columns.iter().filter(|column| left.contains(&&column.name));
        let names: Vec<ObjectName> = common
            .map(|column| ObjectName::from(vec![Ident::with_quote('"', &column.name)]))
            .collect();
        (!names.is_empty()).then_some(names)
    }

    fn merge(&mut self, column: String, side: Side, right: usize, is_condition: bool) {
        let known = self.merged.remove(&column);
        let was_right = known.as_ref().is_some_and(|known| known.is_right);
        let was_outer = known.as_ref().is_some_and(|known| known.is_outer);
        let (left, mut members) = match known {
            Some(known) => (Some(known.values), known.members),
            None => match self.on_left(&column, right) {
                Some((table, name)) => (name.map(|name| vec![name]), vec![table]),
                None => (None, Vec::new()),
            },
        };
        self.has_unknown |= members.is_empty();
        members.push(right);
        let right = self.tables[right].called(&column).map(|name| vec![name]);
        let values = match side {
            Side::Any => left.or(right),
            Side::Left => left,
            Side::Right => right,
            Side::Both => left.zip(right).map(|(left, right)| [left, right].concat()),
        };
        self.has_unknown |= values.is_none();
        if let Some(values) = values {
            let merged = Merged {
                values,
                members,
                is_right: was_right || matches!(side, Side::Right | Side::Both),
                is_outer: was_outer || side != Side::Any,
                is_condition,
            };
            self.merged.insert(column, merged);
        }
    }

    /// Finds the one table before another that has a column, and what it is called there.
    fn on_left(&self, column: &str, right: usize) -> Option<(usize, Option<Vec<Ident>>)> {
        let left = self.tables[..right].iter().enumerate();
        let mut having = left.filter(|(_, table)| {
            let columns = table.columns.as_ref();
            let has_it = columns.is_none_or(|known| known.iter().any(|known| known.name == column));
            table.is_visible && has_it
        });
        match (having.next(), having.next()) {
            (Some((place, table)), None) => Some((place, table.called(column))),
            _ => None,
        }
    }

    /// Writes tables before some of the columns, but for those of subqueries.
    fn put_into(&self, node: &mut impl VisitMut, which: fn(&Merged) -> bool) {
        self.put_all(node, which, Vec::new());
    }

    fn put_all(&self, node: &mut impl VisitMut, which: fn(&Merged) -> bool, hidden: Vec<String>) {
        if !self.merged.is_empty() {
            let _ = visits::change(
                node,
                &mut Put {
                    columns: self,
                    which,
                    hidden,
                    depth: 0,
                },
            );
        }
    }

    fn put_into_item(&self, mut item: SelectItem) -> Vec<SelectItem> {
        match &mut item {
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => {
                let merged = self.merged.get(&folded(column));
                if let Some(merged) = merged.filter(|merged| merged.is_misread()) {
                    let (expr, alias) = (merged.expr(column), column.clone());
                    return vec![SelectItem::ExprWithAlias { expr, alias }];
                }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                self.put_into(expr, Merged::is_misread);
            }
            SelectItem::Wildcard(options) => match self.all(options) {
                Some(items) => return items,
                None => self.put_into_all(options),
            },
            _ => {}
        }
        vec![item]
    }

    /// Writes `*` as the columns of each table: those of joins once, in the first table that has them.
    fn all(&self, options: &WildcardAdditionalOptions) -> Option<Vec<SelectItem>> {
        let others = WildcardAdditionalOptions {
            wildcard_token: options.wildcard_token.clone(),
            opt_exclude: options.opt_exclude.clone(),
            opt_except: options.opt_except.clone(),
            ..WildcardAdditionalOptions::default()
        };
        if self.has_unknown || *options != others {
            return None;
        }
        let mut items = Vec::new();
        let mut left_out = HashSet::new();
        for (place, table) in self.tables.iter().enumerate() {
            if !table.is_visible {
                continue;
            }
            let mut own = Vec::new();
            if leaves_any_out(options) {
                let columns = table.columns.as_ref()?.iter().map(|column| &column.name);
                own.extend(columns.filter(|column| leaves_out(options, column)));
                left_out.extend(own.iter().copied());
            }
            items.push(self.all_of(place, table.name.clone()?, &own));
        }
        // The planner says that there is none of a name.
        (left_out.len() == num_left_out(options)).then_some(items)
    }

    /// Writes `*` as the columns of a table but those that are left out.
    fn all_of(&self, place: usize, table: Vec<Ident>, left_out: &[&String]) -> SelectItem {
        let mut own: Vec<_> = self.merged.iter().collect();
        own.retain(|(name, merged)| merged.members.contains(&place) && !left_out.contains(name));
        own.sort_unstable_by_key(|(name, _)| *name);
        let is_first = |merged: &Merged| merged.members.first() == Some(&place);
        let (first, others): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|(_, merged)| is_first(merged));
        let others = others.into_iter().map(|(name, _)| name);
        let left_out: Vec<ObjectName> = others
            .chain(left_out.iter().copied())
            .map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]))
            .collect();
        let replaced = first
            .into_iter()
            .filter(|(_, merged)| merged.values != [table.clone()]);
        let replaced: Vec<_> = replaced
            .map(|(name, merged)| replacing(name, merged))
            .collect();
        let options = WildcardAdditionalOptions {
            opt_exclude: (!left_out.is_empty()).then_some(ExcludeSelectItem::Multiple(left_out)),
            opt_replace: (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced }),
            ..WildcardAdditionalOptions::default()
        };
        let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(table));
        SelectItem::QualifiedWildcard(name, options)
    }

    /// Has a `*` with options give the columns that the planner takes from the wrong side.
    fn put_into_all(&self, options: &mut WildcardAdditionalOptions) {
        let replaces = options.opt_replace.is_some() || options.opt_rename.is_some();
        // REPLACE takes every column of the name, so that no other table may have it.
        let is_only =
            |merged: &Merged| merged.is_outer && merged.members.len() == self.tables.len();
        let mut outer: Vec<_> = self.merged.iter().filter(|(_, m)| is_only(m)).collect();
        outer.retain(|(name, _)| !leaves_out(options, name));
        if outer.is_empty() || replaces {
            return;
        }
        outer.sort_unstable_by_key(|(name, _)| *name);
        let items = outer
            .into_iter()
            .map(|(name, merged)| replacing(name, merged));
        options.opt_replace = Some(ReplaceSelectItem {
            items: items.collect(),
        });
    }
}

impl Table {
    /// Returns the name that stands before a column of it, if it has one.
    fn called(&self, column: &str) -> Option<Vec<Ident>> {
        if self.name.is_some() {
            return self.name.clone();
        }
        let columns = self.columns.as_ref()?;
        let found = columns.iter().find(|known| known.name == column)?;
        (!found.table.is_empty()).then(|| found.table.clone())
    }
}

fn replacing(name: &str, merged: &Merged) -> Box<ReplaceSelectElement> {
    let column_name = Ident::with_quote('"', name);
    Box::new(ReplaceSelectElement {
        expr: merged.expr(&column_name),
        column_name,
        as_keyword: true,
    })
}

/// Tells whether `* EXCLUDE` or `* EXCEPT` leaves a column out.
pub(super) fn leaves_out(options: &WildcardAdditionalOptions, column: &str) -> bool {
    left_out(options).any(|name| folded(name) == column)
}

/// Tells whether `* EXCLUDE` or `* EXCEPT` leaves any column out.
fn leaves_any_out(options: &WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_some() || options.opt_except.is_some()
}

/// Counts the names that `* EXCLUDE` and `* EXCEPT` have.
fn num_left_out(options: &WildcardAdditionalOptions) -> usize {
    left_out(options).count()
}

fn left_out(options: &WildcardAdditionalOptions) -> impl Iterator<Item = &Ident> {
    let excluded = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
        None => &[],
    };
    let except = options.opt_except.iter();
    let except = except.flat_map(|except| {
        std::iter::once(&except.first_element).chain(&except.additional_elements)
    });
    excluded.iter().filter_map(column_of).chain(except)
}

struct Put<'a> {
    columns: &'a Columns,
    which: fn(&Merged) -> bool,
    /// Names that are something else here: parameters of lambdas, columns that are selected.
    hidden: Vec<String>,
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

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            self.hidden.extend(parameters(lambda));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Lambda(lambda) => {
                let outside = self.hidden.len() - parameters(lambda).count();
                self.hidden.truncate(outside);
            }
            Expr::Identifier(column) if self.depth == 0 => {
                let name = folded(column);
                if let Some(merged) = self.columns.merged.get(&name)
                    && (self.which)(merged)
                    && !self.hidden.contains(&name)
                {
                    *expr = merged.expr(column);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn parameters(lambda: &LambdaFunction) -> impl Iterator<Item = String> {
    let parameters = match &lambda.params {
        OneOrManyWithParens::One(parameter) => std::slice::from_ref(parameter),
        OneOrManyWithParens::Many(parameters) => parameters.as_slice(),
    };
    parameters.iter().map(|parameter| folded(&parameter.name))
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
pub(crate) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests;
