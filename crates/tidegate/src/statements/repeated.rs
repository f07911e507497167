//! Numbers columns of a query that have the name of one before them: the second `x` of `SELECT *, x` is `x_1`.
//!
//! The planner refuses two columns of one name, but for those of two tables in the outermost query. Where `*`
//! stands among them, the columns of the tables are known, and a `*` with such a column becomes the list of its
//! columns. So does one of the fields of a struct, `x.*`, one with `RENAME`, which the planner does not have, or with `ILIKE`, which it does not obey
//! ([`is_open`]). A column that `RENAME` or `REPLACE` names and no table has is an error.

use std::collections::HashSet;

use regex::Regex;
use sqlparser::ast::{
    Expr, Ident, IdentWithAlias, JoinConstraint, JoinOperator, Query, RenameSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, WildcardAdditionalOptions,
};

use super::calls::{call, string};
use super::output_names::output_name;
use super::scope::{TableColumn, TableColumns, selects};
use super::using::{constraint_of, folded, leaves_out, table_of};

/// Tells whether a query has a `*` that the planner does not read as it is written.
pub(crate) fn is_open(query: &Query) -> bool {
    fn of_body(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                let mut items = select.projection.iter();
                items.any(|item| is_unread(item) || is_of_no_table(select, item))
            }
            SetExpr::SetOperation { left, right, .. } => of_body(left) || of_body(right),
            _ => false,
        }
    }
    of_body(&query.body)
}

fn is_unread(item: &SelectItem) -> bool {
    matches!(
        item,
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)
            if options.opt_rename.is_some() || options.opt_ilike.is_some() || options.opt_replace.is_some()
    )
}

/// Tells whether an item is `x.*` where no table is called `x`.
fn is_of_no_table(select: &Select, item: &SelectItem) -> bool {
    let Some(name) = qualifier_of(item) else {
        return false;
    };
    let is_it = |table: &TableFactor| {
        let known = table_of(table).unwrap_or_default();
        known
            .iter()
            .map(folded)
            .collect::<Vec<_>>()
            .ends_with(&name)
    };
    let mut tables = select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    });
    !tables.any(is_it)
}

/// Returns what stands before the `*` of `t.*`.
fn qualifier_of(item: &SelectItem) -> Option<Vec<String>> {
    match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let parts = name.0.iter().map(|part| part.as_ident().map(folded));
            parts.collect()
        }
        _ => None,
    }
}

/// Writes `x.*` of a struct as its fields. Returns whether there was any.
fn write_fields(select: &mut Select, columns: &[Option<Vec<TableColumn>>]) -> bool {
    let mut has_changed = false;
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let fields = match is_of_no_table(select, item) {
            true => fields_of(item, columns),
            false => None,
        };
        has_changed |= fields.is_some();
        items.extend(fields.unwrap_or_else(|| vec![item.clone()]));
    }
    select.projection = items;
    has_changed
}

fn fields_of(item: &SelectItem, columns: &[Option<Vec<TableColumn>>]) -> Option<Vec<SelectItem>> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) =
        item
    else {
        return None;
    };
    let own = qualifier_of(item)?.pop()?;
    let mut known = columns.iter().flatten().flatten();
    let of = known.find(|column| column.name == own && !column.fields.is_empty())?;
    let parts = name.0.iter().filter_map(|part| part.as_ident().cloned());
    let parts: Vec<Ident> = parts.collect();
    let root = match parts.as_slice() {
        [name] => Expr::Identifier(name.clone()),
        _ => Expr::CompoundIdentifier(parts),
    };
    let fields = of.fields.iter().filter(|field| !leaves_out(options, field));
    let items = fields.map(|field| SelectItem::ExprWithAlias {
        expr: call("get_field", vec![root.clone(), string(field)]),
        alias: Ident::with_quote('"', field),
    });
    Some(items.collect())
}

/// Tells whether a query may have two columns of one name that the planner refuses.
pub(crate) fn may_repeat(query: &Query, is_outermost: bool) -> bool {
    fn of_body(body: &SetExpr, is_outermost: bool) -> bool {
        match body {
            SetExpr::Select(select) => of_select(select, is_outermost),
            SetExpr::SetOperation { left, right, .. } => {
                of_body(left, is_outermost) || of_body(right, is_outermost)
            }
            _ => false,
        }
    }
    of_body(&query.body, is_outermost)
}

fn of_select(select: &Select, is_outermost: bool) -> bool {
    let is_all = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    };
    let items = &select.projection;
    if items.iter().any(is_all) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        return items.len() > 1 || (!is_outermost && joins.sum::<usize>() > 1);
    }
    let mut names = HashSet::new();
    let mut known = items.iter().filter_map(|item| Output::of(item.clone()));
    !is_outermost && !known.all(|output| names.insert(output.name))
}

/// Numbers the columns of a query whose tables have these columns. Returns whether it changed anything.
pub(crate) fn number(query: &mut Query, tables: &TableColumns, is_outermost: bool) -> bool {
    let mut rest = tables.as_slice();
    let mut has_changed = false;
    for select in selects(&mut query.body) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        let (own, others) = rest.split_at(joins.sum::<usize>().min(rest.len()));
        rest = others;
        has_changed |= write_fields(select, own);
        has_changed |= number_select(select, own, is_outermost).is_some();
    }
    has_changed
}

/// A column of a select list.
struct Output {
    item: SelectItem,
    /// The table whose column it is, as it stands in the text; empty if it is computed or has a name of its own.
    table: Vec<String>,
    name: String,
}

impl Output {
    /// Returns the column of an item; `None` if it has no name or may become several.
    fn of(item: SelectItem) -> Option<Self> {
        let (table, name) = match &item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                let (name, table) = parts.split_last()?;
                (table.iter().map(folded).collect(), folded(name))
            }
            item => (Vec::new(), output_name(item)?),
        };
        Some(Self { item, table, name })
    }

    fn clashes(&self, other: &Self, is_outermost: bool) -> bool {
        let may_share = is_outermost && !self.table.is_empty() && !other.table.is_empty();
        self.name == other.name && !(may_share && self.table != other.table)
    }
}

/// Numbers a select list; `None` if nothing is to be changed, or it cannot be told.
fn number_select(
    select: &mut Select,
    columns: &[Option<Vec<TableColumn>>],
    is_outermost: bool,
) -> Option<()> {
    let tables = visible(select, columns);
    if let Some(unknown) = unknown(select, &tables) {
        // The planner says where it stands, and which columns there are.
        select.projection = vec![SelectItem::UnnamedExpr(unknown)];
        return Some(());
    }
    let mut groups = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        groups.push(match item {
            // Columns of joins are there once.
            SelectItem::Wildcard(_) if has_using(select) => return None,
            SelectItem::Wildcard(options) => all_of(&tables, None, options)?,
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(_),
                options,
            ) => all_of(&tables, Some(&qualifier_of(item)?), options)?,
            item => vec![item.clone()],
        });
    }
    let mut has_changed = false;
    let mut before: Vec<Output> = Vec::new();
    let outputs = groups.iter().flatten();
    let names = outputs.filter_map(|item| Some(Output::of(item.clone())?.name));
    let mut taken: HashSet<String> = names.collect();
    let mut items = Vec::with_capacity(groups.len());
    for (item, group) in select.projection.iter().zip(groups) {
        let mut numbered = Vec::with_capacity(group.len());
        let mut is_changed = is_unread(item);
        for column in group {
            let Some(mut output) = Output::of(column.clone()) else {
                numbered.push(column);
                continue;
            };
            if before
                .iter()
                .any(|other| other.clashes(&output, is_outermost))
            {
                output = renamed(output, &mut taken);
                is_changed = true;
            }
            numbered.push(output.item.clone());
            before.push(output);
        }
        has_changed |= is_changed;
        match is_changed {
            true => items.append(&mut numbered),
            false => items.push(item.clone()),
        }
    }
    select.projection = items;
    has_changed.then_some(())
}

/// Gives a column a name that no other one has: its own, with a number.
fn renamed(output: Output, taken: &mut HashSet<String>) -> Output {
    let numbered = |number: usize| format!("{}_{number}", output.name);
    let free = (1..).map(numbered).find(|name| !taken.contains(name));
    let name = free.unwrap_or_default();
    taken.insert(name.clone());
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = output.item
    else {
        return output;
    };
    let alias = Ident::with_quote('"', &name);
    Output {
        item: SelectItem::ExprWithAlias { expr, alias },
        table: Vec::new(),
        name,
    }
}

/// A table whose columns a query sees.
pub(super) struct Visible<'a> {
    name: Option<Vec<Ident>>,
    columns: Option<&'a [TableColumn]>,
}

/// Returns the tables whose columns a query sees; of semi joins, one side.
pub(super) fn visible<'a>(
    select: &Select,
    columns: &'a [Option<Vec<TableColumn>>],
) -> Vec<Visible<'a>> {
    let mut known = columns.iter();
    let mut table = |factor: &TableFactor| Visible {
        name: table_of(factor),
        columns: known.next().and_then(Option::as_deref),
    };
    let mut tables = Vec::new();
    for from in &select.from {
        let first = tables.len();
        tables.push(table(&from.relation));
        for join in &from.joins {
            let right = table(&join.relation);
            match &join.join_operator {
                JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_) => continue,
                JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => tables.truncate(first),
                _ => {}
            }
            tables.push(right);
        }
    }
    tables
}

pub(super) fn has_using(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|from| &from.joins);
    joins.any(|join| {
        matches!(
            constraint_of(&join.join_operator),
            Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
        )
    })
}

/// Lists the columns that `*` stands for, of all tables or of one; `None` if it cannot be told.
pub(super) fn all_of(
    tables: &[Visible<'_>],
    of: Option<&[String]>,
    options: &WildcardAdditionalOptions,
) -> Option<Vec<SelectItem>> {
    if options.opt_alias.is_some() {
        return None;
    }
    let pattern = match &options.opt_ilike {
        Some(ilike) => Some(pattern_of(&ilike.pattern)?),
        None => None,
    };
    let is_like = |name: &str| {
        pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(name))
    };
    let is_it = |table: &&Visible<'_>| match (of, &table.name) {
        (None, _) => true,
        (Some(of), Some(name)) => name.iter().map(folded).eq(of.iter().cloned()),
        (Some(_), None) => false,
    };
    let mut items = Vec::new();
    let mut found = tables.iter().filter(is_it).peekable();
    found.peek()?;
    for table in found {
        for column in table.columns? {
            if is_like(&column.name) && !leaves_out(options, &column.name) {
                items.push(item_of(table, column, options));
            }
        }
    }
    Some(items)
}

fn item_of(
    table: &Visible<'_>,
    column: &TableColumn,
    options: &WildcardAdditionalOptions,
) -> SelectItem {
    let own = Ident::with_quote('"', &column.name);
    let is_it = |name: &Ident| folded(name) == column.name;
    let replaced = options
        .opt_replace
        .iter()
        .flat_map(|replace| &replace.items);
    let mut replaced = replaced.filter(|replace| is_it(&replace.column_name));
    let named = match (&table.name, column.table.as_slice()) {
        (Some(name), _) => name.as_slice(),
        (None, name) => name,
    };
    let expr = match replaced.next() {
        Some(replace) => {
            let expr = replace.expr.clone();
            return SelectItem::ExprWithAlias { expr, alias: own };
        }
        None if named.is_empty() => Expr::Identifier(own),
        None => Expr::CompoundIdentifier([named, &[own]].concat()),
    };
    match renames_of(options)
        .iter()
        .find(|rename| is_it(&rename.ident))
    {
        Some(rename) => SelectItem::ExprWithAlias {
            expr,
            alias: rename.alias.clone(),
        },
        None => SelectItem::UnnamedExpr(expr),
    }
}

fn renames_of(options: &WildcardAdditionalOptions) -> &[IdentWithAlias] {
    match &options.opt_rename {
        Some(RenameSelectItem::Single(rename)) => std::slice::from_ref(rename),
        Some(RenameSelectItem::Multiple(renames)) => renames.as_slice(),
        None => &[],
    }
}

/// Returns the first column that `RENAME` or `REPLACE` names and no table has; `None` if it cannot be told.
fn unknown(select: &Select, tables: &[Visible<'_>]) -> Option<Expr> {
    let all: Vec<_> = tables
        .iter()
        .map(|table| table.columns)
        .collect::<Option<_>>()?;
    for item in &select.projection {
        let (of, options) = match item {
            SelectItem::Wildcard(options) => (None, options),
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => (Some(name), options),
            _ => continue,
        };
        let renamed = renames_of(options).iter().map(|rename| &rename.ident);
        let replaced = options
            .opt_replace
            .iter()
            .flat_map(|replace| &replace.items);
        let replaced = replaced.map(|replace| &replace.column_name);
        for name in renamed.chain(replaced) {
            let mut columns = all.iter().copied().flatten();
            if columns.any(|column| column.name == folded(name)) {
                continue;
            }
            let table = of
                .iter()
                .flat_map(|of| of.0.iter().filter_map(|part| part.as_ident()));
            let mut parts: Vec<Ident> = table.chain([name]).cloned().collect();
            return Some(match parts.len() {
                1 => Expr::Identifier(parts.remove(0)),
                _ => Expr::CompoundIdentifier(parts),
            });
        }
    }
    None
}

/// Reads a pattern of `ILIKE`.
fn pattern_of(like: &str) -> Option<Regex> {
    let mut pattern = String::from("(?is)^");
    for c in like.chars() {
        match c {
            '%' => pattern.push_str(".*"),
            '_' => pattern.push('.'),
            other => pattern.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern.push('$');
    Regex::new(&pattern).ok()
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Ident;

    use super::{TableColumn, is_open, may_repeat, number, pattern_of};
    use crate::statements::tests::query;

    fn columns(table: &str, names: &[&str]) -> Option<Vec<TableColumn>> {
        let column = |name: &&str| TableColumn {
            table: vec![Ident::new(table)],
            name: name.to_string(),
            fields: Vec::new(),
        };
        Some(names.iter().map(column).collect())
    }

    #[track_caller]
    fn check(sql: &str, is_outermost: bool, expect: &str) {
        let tables = vec![columns("t", &["k", "x"]), columns("u", &["k", "y"])];
        let mut query = query(sql);
        assert!(may_repeat(&query, is_outermost), "{sql}");
        assert_eq!(number(&mut query, &tables, is_outermost), sql != expect);
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn the_second_column_of_a_name_has_a_number() {
        check("SELECT *, x FROM t", true, "SELECT *, x AS \"x_1\" FROM t");
        check(
            "SELECT x + 1 AS x, * FROM t",
            true,
            "SELECT x + 1 AS x, t.\"k\", t.\"x\" AS \"x_1\" FROM t",
        );
        check(
            "SELECT t.*, u.* FROM t, u",
            true,
            "SELECT t.*, u.* FROM t, u",
        );
        check(
            "SELECT t.*, u.* FROM t, u",
            false,
            "SELECT t.*, u.\"k\" AS \"k_1\", u.\"y\" FROM t, u",
        );
        check(
            "SELECT * FROM t JOIN u ON true",
            false,
            "SELECT t.\"k\", t.\"x\", u.\"k\" AS \"k_1\", u.\"y\" FROM t JOIN u ON true",
        );
        check(
            "SELECT t.k, u.k FROM t, u",
            false,
            "SELECT t.k, u.k AS \"k_1\" FROM t, u",
        );
        check(
            "SELECT * EXCLUDE (x), x + 1 AS x FROM t",
            true,
            "SELECT * EXCLUDE (x), x + 1 AS x FROM t",
        );
        check(
            "SELECT * FROM t LEFT SEMI JOIN u ON true",
            false,
            "SELECT * FROM t LEFT SEMI JOIN u ON true",
        );
    }

    #[test]
    fn what_the_planner_does_not_read_becomes_a_list() {
        let tables = vec![columns("t", &["k", "xa", "xb"])];
        for (sql, expect) in [
            (
                "SELECT * RENAME (xa AS k) FROM t",
                "SELECT t.\"k\", t.\"xa\" AS \"k_1\", t.\"xb\" FROM t",
            ),
            (
                "SELECT * ILIKE 'X_%', 1 FROM t",
                "SELECT t.\"xa\", t.\"xb\", 1 FROM t",
            ),
        ] {
            let mut query = query(sql);
            assert!(is_open(&query), "{sql}");
            assert!(number(&mut query, &tables, true));
            assert_eq!(query.to_string(), expect);
        }
        assert!(!is_open(&query("SELECT *, x FROM t")));
        let pattern = pattern_of("a%b_.").unwrap();
        assert!(
            pattern.is_match("AxxbY.") && !pattern.is_match("axxby-") && !pattern.is_match("axxb.")
        );
    }

    #[test]
    fn most_queries_need_not_be_looked_at() {
        for (sql, is_outermost) in [
            ("SELECT * FROM t, u", true),
            ("SELECT * FROM t", false),
            ("SELECT a, b, sum(x), sum(y) FROM t", false),
            ("SELECT t.k, u.k FROM t, u", true),
        ] {
            assert!(!may_repeat(&query(sql), is_outermost), "{sql}");
        }
    }
}
