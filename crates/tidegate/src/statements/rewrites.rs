//! Changes parsed statements whose meaning DataFusion's planner would drop or change in silence.
//!
//! Most clauses that the parser knows and the planner does not are errors of the planner. What it
//! ignores instead is refused here: a clause is obeyed or is an error. `FROM t` becomes `SELECT * FROM
//! t`, and `x AT TIME ZONE z` becomes `timezone(z, x)`, which the planner would take for a cast. Functions of
//! other systems become what they are here ([`forms`]), arrows are bound and made lambdas ([`arrows`]), and
//! `IS DISTINCT FROM` takes its nearest operands ([`distinct`]), and operators are bound as in PostgreSQL ([`operators`]). Columns
//! of `USING` get their table ([`using`]), PIVOT becomes a subquery ([`pivot`]), and calls that differ in casts alone are
//! kept apart ([`casts`]). A share of the rows in LIMIT becomes a condition ([`shares`]), `BETWEEN SYMMETRIC` two that are not
//! ([`symmetric`]), and `WITH ORDINALITY` one more list ([`unnested`]), whose fields are told from columns ([`table_fields`](super::table_fields)). A window that begins with the name of another is written out ([`windows`](super::windows)).
//! Intervals of computed numbers are products ([`intervals`]), conditions are summed as numbers ([`truths`]), and numbers of many
//! digits are cast with all of them ([`exact_numbers`]), rows and UUIDs as [`typed_values`]. Standard SQL that the planner
//! does not take is written as it does: [`any_lists`], [`array_queries`], [`assignments`], [`collations`], [`escapes`],
//! [`fetches`], [`from_the_end`], [`grouped`], [`list_literals`], [`methods`], [`series`], [`shadowed`](super::shadowed), [`shifts`], [`tuples`] and [`value_types`].

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::execution::context::SessionState;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::parser::{CopyToSource, Statement};
use sqlparser::ast::{
    self, AccessExpr, BinaryOperator, ColumnDef, ColumnOption, ColumnOptionDef,
    ConstraintCharacteristics, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectFlavor, SelectItem, Set,
    Subscript, TableConstraint, TableFactor, UnaryOperator, Visit, VisitMut, VisitorMut,
};

use super::calls::{call, string, take};
use super::shadowed::NamedQueries;
use super::table_fields::TableNames;
use super::table_macros::TableMacros;
use super::truncate::deletion;
use super::visits::count_expressions;
use super::windows::NamedWindows;
use super::{
    any_lists, array_queries, arrows, asof, assignments, casts, collations, distinct, escapes,
    exact_numbers, fetches, from_the_end, grouped, intervals, joins, json_paths, json_structures,
    json_tables, list_literals, methods, operators, pivot, series, shares, shifts, symmetric,
    truths, tuples, typed_values, unnested, using, value_types, visits, zones,
};
use crate::clients::TEMP_SCHEMA;
use crate::error::{Error, ErrorKind};
use crate::functions::macros::Macro;
use crate::functions::{forms, is_users};
use crate::options::UncheckedConstraints;

/// The most expressions that a call may have more than its text when it is written out.
const FORM_PARTS_MAX: usize = 10_000;

/// The function that `AT TIME ZONE` calls.
const AT_TIME_ZONE: &str = "timezone";

/// What rewriting needs to know of the session.
pub(crate) struct Rewrites<'a> {
    /// What becomes of constraints that nobody checks.
    pub(crate) constraints: UncheckedConstraints,
    /// Knows the functions that there are.
    pub(crate) functions: &'a SessionState,
    /// Whether temporary tables have a schema of their own, beside those of other clients.
    pub(crate) is_client: bool,
}

impl Rewrites<'_> {
    /// Rewrites a statement.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for a clause that would be ignored.
    pub(crate) fn apply(&self, statement: &mut Statement) -> Result<(), Error> {
        match statement {
            Statement::Statement(inner) => self.visit(inner.as_mut()),
            Statement::CreateExternalTable(create) => {
                let name = create.name.to_string();
                self.constraints(&name, &mut create.constraints, &mut create.columns)?;
                for column in &mut create.columns {
                    // Nobody has checked the file.
                    let options = &mut column.options;
                    options.retain(|option| option.option != ColumnOption::NotNull);
                }
                Ok(())
            }
            Statement::CopyTo(copy) => match &mut copy.source {
                CopyToSource::Query(query) => self.visit(query.as_mut()),
                CopyToSource::Relation(_) => Ok(()),
            },
            Statement::Explain(explain) => self.apply(&mut explain.statement),
            Statement::Reset(_) => Ok(()),
        }
    }

    fn visit(&self, node: &mut (impl Visit + VisitMut)) -> Result<(), Error> {
        let mut visitor = Visitor {
            rewrites: self,
            windows: NamedWindows::default(),
            queries: NamedQueries::default(),
            tables: TableNames::default(),
            depth: 0,
            written_out: None,
            macros: TableMacros::default(),
            is_insert: false,
        };
        if let ControlFlow::Break(error) = visits::change(node, &mut visitor) {
            return Err(error);
        }
        list_literals::as_calls(node);
        casts::keep_apart(node);
        Ok(())
    }

    /// Takes constraints that nobody checks out of a table's definition, or refuses them.
    fn constraints(
        &self,
        table: &str,
        constraints: &mut Vec<TableConstraint>,
        columns: &mut [ColumnDef],
    ) -> Result<(), Error> {
        let of_columns = columns.iter_mut().map(|column| &mut column.options);
        let mut named: Vec<(&'static str, bool)> = constraints.iter().map(of_table).collect();
        constraints.clear();
        for options in of_columns {
            for ColumnOptionDef { option, .. } in options.iter() {
                match option {
                    ColumnOption::Null
                    | ColumnOption::NotNull
                    | ColumnOption::Default(_)
                    | ColumnOption::Comment(_) => {}
                    other => match of_column(other) {
                        Some(constraint) => named.push(constraint),
                        None => {
                            return Err(not_supported(&format!(
                                "table {table}: the column option {other} is not supported: leave it \
                                 out"
                            )));
                        }
                    },
                }
            }
            options.retain(|option| of_column(&option.option).is_none());
        }
        let enforced = named.iter().find(|(_, is_enforced)| *is_enforced);
        match (enforced, self.constraints) {
            (Some((constraint, _)), UncheckedConstraints::Refuse) => Err(not_supported(&format!(
                "table {table}: {constraint} is not checked here: leave it out, write {constraint} \
                 … NOT ENFORCED, or SET tidegate.unchecked_constraints = 'ignore'"
            ))),
            _ => Ok(()),
        }
    }

    /// Makes a temporary table a table of the session: any is, but for clients of a server.
    fn temporary(&self, is_temporary: &mut bool, name: &mut ObjectName) -> Result<(), Error> {
        if !std::mem::take(is_temporary) || !self.is_client {
            return Ok(());
        }
        match name.0.as_slice() {
            [_] => {
                let schema = ObjectNamePart::Identifier(Ident::new(TEMP_SCHEMA));
                name.0.insert(0, schema);
                Ok(())
            }
            [.., ObjectNamePart::Identifier(schema), _] if schema.value == TEMP_SCHEMA => Ok(()),
            _ => Err(not_supported(&format!(
                "a temporary table is in the schema {TEMP_SCHEMA}, and {name} is in another: leave \
                 the schema out"
            ))),
        }
    }

    fn query(&self, query: &Query) -> Result<(), Error> {
        refuse(
            query.for_clause.is_some(),
            "FOR XML, JSON or BROWSE",
            "leave it out",
        )?;
        refuse(
            !query.locks.is_empty(),
            "FOR UPDATE or FOR SHARE",
            "leave it out; rows are not locked, and a statement reads them as they were when it began",
        )?;
        refuse(query.settings.is_some(), "SETTINGS", "use SET")?;
        refuse(
            query.format_clause.is_some(),
            "FORMAT",
            "leave it out; clients and COPY choose formats",
        )
    }

    fn select(&self, select: &mut Select) -> Result<(), Error> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            let all = SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
            select.projection.push(all);
            select.flavor = SelectFlavor::Standard;
        }
        for item in &mut select.projection {
            self.keep_name(item);
        }
        joins::name_subqueries(select);
        for table in &mut select.from {
            joins::bind(table)?;
        }
        refuse(select.prewhere.is_some(), "PREWHERE", "use WHERE")?;
        refuse(
            !select.connect_by.is_empty(),
            "CONNECT BY",
            "use WITH RECURSIVE",
        )?;
        refuse(
            !select.distribute_by.is_empty(),
            "DISTRIBUTE BY",
            "leave it out",
        )?;
        refuse(
            select.exclude.is_some(),
            "EXCLUDE here",
            "use * EXCLUDE (…)",
        )?;
        refuse(
            select.value_table_mode.is_some(),
            "SELECT AS VALUE or STRUCT",
            "use struct()",
        )?;
        let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) =
            &select.group_by;
        refuse(
            !modifiers.is_empty(),
            "GROUP BY … WITH ROLLUP, CUBE or TOTALS",
            "use GROUP BY ROLLUP (…) or CUBE (…)",
        )
    }

    fn table(&self, table: &mut TableFactor) -> Result<(), Error> {
        let aggregates = self.functions.aggregate_functions();
        pivot::expand(table, &|name| {
            aggregates.contains_key(forms::renamed(name).unwrap_or(name))
        })?;
        json_tables::bind(table);
        unnested::unnest_lists(table)?;
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = table
        {
            return joins::bind(table_with_joins);
        }
        let TableFactor::Table {
            version,
            with_ordinality,
            partitions,
            json_path,
            ..
        } = table
        else {
            return Ok(());
        };
        refuse(
            version.is_some(),
            "the version of a table (AS OF, AT or BEFORE)",
            "leave it out",
        )?;
        refuse(
            *with_ordinality,
            "WITH ORDINALITY",
            "use row_number() OVER ()",
        )?;
        refuse(
            !partitions.is_empty(),
            "PARTITION (…) behind a table's name",
            "use WHERE",
        )?;
        refuse(
            json_path.is_some(),
            "a path behind a table's name",
            "leave it out",
        )
    }

    /// Has a column keep the name of a call that becomes something else.
    fn keep_name(&self, item: &mut SelectItem) {
        let SelectItem::UnnamedExpr(expr) = item else {
            return;
        };
        let is_replaced = match &*expr {
            Expr::Function(call) => {
                let is_replaced = self.form(call).is_some() || self.macro_of(call).is_some();
                is_replaced && forms::name_of(call).as_deref() != Some("explode")
            }
            expr => forms::extraction(expr).is_some(),
        };
        if is_replaced {
            let alias = Ident::with_quote('"', expr.to_string());
            let expr = expr.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }

    /// Returns what a call of a function that is not registered stands for.
    fn form(&self, call: &Function) -> Option<Expr> {
        let name = forms::name_of(call)?;
        let functions = self.functions;
        let scalar = functions.scalar_functions().get(&name);
        let is_other = |known: &ScalarUDF| is_users(known) || !forms::is_wider(&name, known.name());
        let is_registered = scalar.is_some_and(|known| is_other(known))
            || functions.aggregate_functions().contains_key(&name)
            || functions.window_functions().contains_key(&name)
            || functions.higher_order_functions().contains_key(&name);
        match is_registered && !forms::takes_other(&name, call) {
            true => None,
            false => forms::form(call),
        }
    }

    /// Tells whether there is the function of a call.
    fn knows(&self, call: &Function) -> bool {
        let functions = self.functions;
        let name = call.name.to_string().to_lowercase();
        functions.scalar_functions().contains_key(&name)
            || functions.aggregate_functions().contains_key(&name)
            || functions.higher_order_functions().contains_key(&name)
            || self.form(call).is_some()
    }

    /// Returns the macro that a call is of.
    fn macro_of(&self, call: &Function) -> Option<&Macro> {
        let function = self.functions.scalar_functions();
        Macro::of(function.get(&forms::name_of(call)?)?)
    }

    /// Makes lambdas of the arguments of a function that takes lambdas.
    fn lambdas(&self, call: &mut Function) {
        let known = self.functions.higher_order_functions();
        let takes =
            forms::name_of(call).is_some_and(|name| known.contains_key(&name) || name == "columns");
        let FunctionArguments::List(list) = &mut call.args else {
            return;
        };
        if !takes {
            return;
        }
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                arrows::lambda(expr);
            }
        }
    }

    fn call(&self, call: &Function) -> Result<(), Error> {
        unnested::refuse_depth(call)?;
        let (clauses, is_distinct) = match &call.args {
            FunctionArguments::List(list) => (
                list.clauses.as_slice(),
                list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct),
            ),
            _ => (&[][..], false),
        };
        let clause = if call.filter.is_some() {
            "FILTER"
        } else if is_distinct {
            "DISTINCT"
        } else if call.null_treatment.is_some() || !call.within_group.is_empty() {
            "IGNORE NULLS or WITHIN GROUP"
        } else if !clauses.is_empty() {
            "ORDER BY or another clause"
        } else {
            return Ok(());
        };
        let name = call.name.to_string().to_lowercase();
        if !self.functions.scalar_functions().contains_key(&name)
            || self.functions.aggregate_functions().contains_key(&name)
            || self.functions.window_functions().contains_key(&name)
        {
            return Ok(());
        }
        let message = format!(
            "{name}: {clause} belongs to aggregate functions; {name} is none: leave it out"
        );
        Err(Error::new(ErrorKind::Sql, message))
    }
}

struct Visitor<'a> {
    rewrites: &'a Rewrites<'a>,
    windows: NamedWindows,
    queries: NamedQueries,
    tables: TableNames,
    /// Expressions around the one that is visited, which is counted too.
    depth: usize,
    /// The outermost call around that was written out.
    written_out: Option<WrittenOut>,
    macros: TableMacros,
    /// The next query has the rows of an INSERT.
    is_insert: bool,
}

/// A call that was replaced by what it stands for.
struct WrittenOut {
    depth: usize,
    /// Expressions that it has more than its text, with what the calls within were replaced by.
    num_added: usize,
}

impl Visitor<'_> {
    /// Counts what a call becomes.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if the outermost call has become too large: some arguments are there several times.
    fn note_form(&mut self, call: &Function, form: &Expr) -> Result<(), Error> {
        let depth = self.depth;
        let outermost = self.written_out.get_or_insert(WrittenOut {
            depth,
            num_added: 0,
        });
        let num_added = count_expressions(form).saturating_sub(count_expressions(call));
        outermost.num_added += num_added;
        if outermost.num_added <= FORM_PARTS_MAX {
            return Ok(());
        }
        let message = format!(
            "{}: this call, or one around it, has more than {FORM_PARTS_MAX} parts when it is written out: compute its \
             arguments in a subquery",
            call.name
        );
        Err(Error::new(ErrorKind::Sql, message))
    }
}

impl VisitorMut for Visitor<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        tuples::bind_rows(statement);
        self.is_insert = matches!(statement, ast::Statement::Insert(_));
        self.tables.has_target = matches!(
            statement,
            ast::Statement::Update(_) | ast::Statement::Delete(_) | ast::Statement::Merge(_)
        );
        flow(match statement {
            ast::Statement::CreateTable(create) => {
                let name = create.name.to_string();
                let checked = repeated_column(&create.columns);
                let checked = checked.and_then(|()| {
                    self.rewrites
                        .constraints(&name, &mut create.constraints, &mut create.columns)
                });
                checked.and_then(|()| {
                    self.rewrites
                        .temporary(&mut create.temporary, &mut create.name)
                })
            }
            ast::Statement::CreateView(create) => self
                .rewrites
                .temporary(&mut create.temporary, &mut create.name),
            ast::Statement::Delete(delete) => refuse(
                delete.limit.is_some(),
                "DELETE … LIMIT",
                "name the rows in WHERE",
            ),
            ast::Statement::Update(update) => refuse(
                update.limit.is_some() || !update.order_by.is_empty(),
                "UPDATE … ORDER BY or LIMIT",
                "name the rows in WHERE",
            )
            .and_then(|()| assignments::split(update)),
            ast::Statement::Insert(insert) => {
                exact_numbers::quote_rows(insert);
                refuse(
                    insert.on.is_some() || insert.or.is_some() || insert.ignore,
                    "ON CONFLICT, OR REPLACE and OR IGNORE",
                    "no table has keys that could conflict: INSERT INTO t SELECT … FROM s WHERE NOT EXISTS (SELECT 1 \
                     FROM t WHERE t.k = s.k) adds the rows that are new, and UPDATE t SET … FROM s changes the others",
                )
            }
            ast::Statement::Set(set) => {
                zones::set_time_zone(set);
                let is_query = matches!(set, Set::SingleAssignment { values, .. }
                    if matches!(values.as_slice(), [Expr::Subquery(_)]));
                refuse(
                    is_query,
                    "SET to the result of a query",
                    "give the value itself",
                )
            }
            ast::Statement::Truncate(truncate) => {
                if let Some(delete) = deletion(truncate) {
                    *statement = delete;
                }
                Ok(())
            }
            _ => Ok(()),
        })
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.queries.enter(query);
        // The table that takes rows has the types of their columns.
        if !std::mem::take(&mut self.is_insert) {
            value_types::cast_strings(query);
        }
        collations::order(query);
        series::name_columns(query);
        let checked = self.rewrites.query(query);
        let checked = checked.and_then(|()| fetches::as_limit(query));
        flow(checked.and_then(|()| shares::limit(query)))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if !using::is_open(query) {
            using::bind_order(query, &[]);
            using::write_conditions(query, &[]);
        }
        self.queries.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        grouped::bind(select);
        self.tables.enter(select);
        let checked = self.rewrites.select(select);
        flow(checked.and_then(|()| self.windows.enter(select)))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.windows.leave();
        self.tables.leave();
        // By now lambdas are told from arrows.
        if !using::is_open_select(select) {
            using::bind(select, &[]);
        }
        asof::nest(select);
        flow(tuples::bind(select))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        if let Err(error) = self.macros.write_out(self.rewrites.functions, table) {
            return ControlFlow::Break(error);
        }
        flow(self.rewrites.table(table))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.depth += 1;
        if let Err(error) = collations::bind(expr) {
            return ControlFlow::Break(error);
        }
        array_queries::bind(expr);
        self.tables.bind(expr);
        methods::bind(expr, &|call| self.rewrites.knows(call));
        if let Expr::Function(call) = expr {
            json_paths::bind(call);
            json_structures::bind(call);
            if let Some(form) = self.rewrites.form(call) {
                if let Err(error) = self.note_form(call, &form) {
                    return ControlFlow::Break(error);
                }
                *expr = form;
                return ControlFlow::Continue(());
            }
            self.rewrites.lambdas(call);
            if let Some(ast::WindowType::WindowSpec(window)) = &mut call.over
                && let Err(error) = self.windows.extend(window)
            {
                return ControlFlow::Break(error);
            }
            return flow(self.rewrites.call(call));
        }
        if let Some(form) = forms::extraction(expr) {
            *expr = form;
            return ControlFlow::Continue(());
        }
        intervals::bind(expr);
        if let Expr::Interval(interval) = expr {
            quote_number(interval);
        }
        exact_numbers::quote(expr);
        typed_values::bind(expr);
        if let Some(column) = column_of_keyword(expr) {
            *expr = column;
        }
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            access_chain.iter_mut().for_each(close_slice);
            access_chain.iter_mut().for_each(by_name);
        }
        if let Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr: operand,
        } = expr
            && !is_string(operand)
        {
            *expr = complement(take(operand));
        }
        if let Expr::AtTimeZone {
            timestamp,
            time_zone,
        } = expr
        {
            *expr = call(AT_TIME_ZONE, vec![take(time_zone), take(timestamp)]);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self
            .written_out
            .as_ref()
            .is_some_and(|call| call.depth == self.depth)
        {
            self.written_out = None;
        }
        self.depth = self.depth.saturating_sub(1);
        // Its arguments are written out by now, so that what they grow to is known; its body was when it was made.
        if let Expr::Function(call) = expr
            && let Some(written) = self
                .rewrites
                .macro_of(call)
                .and_then(|made| made.expand(call))
        {
            *expr = written;
        }
        operators::bind(expr);
        distinct::bind(expr);
        arrows::bind(expr);
        arrows::fields(expr);
        truths::count(expr);
        any_lists::bind(expr);
        from_the_end::bind(expr);
        let bound = symmetric::bind(expr).and_then(|()| escapes::bind(expr));
        flow(bound.and_then(|()| shifts::bind(expr)))
    }
}

/// Returns the column of `user.name` or `t.user.name`: the parser takes some words without parentheses for calls, of
/// which nothing has fields.
fn column_of_keyword(expr: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return None;
    };
    let mut parts = match root.as_ref() {
        Expr::CompoundIdentifier(parts) => parts.clone(),
        root => vec![name_of(root)?],
    };
    let field = |access: &AccessExpr| match access {
        AccessExpr::Dot(part) => name_of(part),
        AccessExpr::Subscript(_) => None,
    };
    let fields: Vec<Ident> = access_chain.iter().map_while(field).collect();
    if fields.is_empty() {
        return None;
    }
    let rest = access_chain[fields.len()..].to_vec();
    parts.extend(fields);
    let column = Expr::CompoundIdentifier(parts);
    Some(match rest.is_empty() {
        true => column,
        false => Expr::CompoundFieldAccess {
            root: Box::new(column),
            access_chain: rest,
        },
    })
}

/// Returns the name that an expression is, or that the parser takes for a call without parentheses.
fn name_of(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::Function(call) if call.args == FunctionArguments::None => call
            .name
            .0
            .first()
            .and_then(ObjectNamePart::as_ident)
            .cloned(),
        _ => None,
    }
}

/// Tells whether an operand is a string: `a =~ 'x'` is meant for a match.
fn is_string(operand: &Expr) -> bool {
    matches!(operand, Expr::Value(value) if matches!(value.value, ast::Value::SingleQuotedString(_)))
}

/// Returns `~x`, which is the exclusive or of x and a number of ones alone.
fn complement(operand: Expr) -> Expr {
    let one = Expr::Value(ast::Value::Number("1".into(), false).with_empty_span());
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(operand))),
        op: BinaryOperator::PGBitwiseXor,
        right: Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(one),
        }),
    }))
}

/// Writes `.a` behind a value as `['a']`, which the planner knows.
fn by_name(access: &mut AccessExpr) {
    let AccessExpr::Dot(Expr::Identifier(name)) = access else {
        return;
    };
    let field = match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    };
    *access = AccessExpr::Subscript(Subscript::Index {
        index: string(field),
    });
}

/// Refuses a table with two columns of one name.
fn repeated_column(columns: &[ColumnDef]) -> Result<(), Error> {
    let mut names = HashSet::new();
    match columns
        .iter()
        .find(|column| !names.insert(using::folded(&column.name)))
    {
        None => Ok(()),
        Some(column) => {
            let message = format!(
                "two columns are called {}: give each a name of its own",
                column.name
            );
            Err(Error::new(ErrorKind::Sql, message))
        }
    }
}

/// Gives the ends of a slice that it leaves open, `[2:]` and `[:2]`, which the planner wants.
fn close_slice(access: &mut AccessExpr) {
    let AccessExpr::Subscript(Subscript::Slice {
        lower_bound,
        upper_bound,
        ..
    }) = access
    else {
        return;
    };
    let end = |text: &str| Expr::Value(ast::Value::Number(text.into(), false).with_empty_span());
    lower_bound.get_or_insert_with(|| end("1"));
    // The last place, counted from the end.
    upper_bound.get_or_insert_with(|| Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(end("1")),
    });
}

fn flow(result: Result<(), Error>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Refuses a clause that is there, with what to write instead.
pub(super) fn refuse(is_there: bool, clause: &str, instead: &str) -> Result<(), Error> {
    match is_there {
        false => Ok(()),
        true => Err(not_supported(&format!(
            "{clause} is not supported: {instead}"
        ))),
    }
}

fn not_supported(message: &str) -> Error {
    Error::new(ErrorKind::NotSupported, message)
}

/// Names a constraint of a table, and tells whether it asks to be checked.
fn of_table(constraint: &TableConstraint) -> (&'static str, bool) {
    match constraint {
        TableConstraint::PrimaryKey(key) => ("PRIMARY KEY", asks(key.characteristics)),
        TableConstraint::Unique(unique) => ("UNIQUE", asks(unique.characteristics)),
        TableConstraint::ForeignKey(key) => ("FOREIGN KEY", asks(key.characteristics)),
        TableConstraint::Check(check) => ("CHECK", check.enforced != Some(false)),
        TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
            ("a constraint USING INDEX", true)
        }
        TableConstraint::Index(_) | TableConstraint::FulltextOrSpatial(_) => ("INDEX", true),
    }
}

/// Names a constraint of a column, and tells whether it asks to be checked; `None` for other options.
fn of_column(option: &ColumnOption) -> Option<(&'static str, bool)> {
    Some(match option {
        ColumnOption::PrimaryKey(key) => ("PRIMARY KEY", asks(key.characteristics)),
        ColumnOption::Unique(unique) => ("UNIQUE", asks(unique.characteristics)),
        ColumnOption::ForeignKey(key) => ("REFERENCES", asks(key.characteristics)),
        ColumnOption::Check(check) => ("CHECK", check.enforced != Some(false)),
        _ => return None,
    })
}

fn asks(characteristics: Option<ConstraintCharacteristics>) -> bool {
    characteristics.is_none_or(|given| given.enforced != Some(false))
}

/// Writes `INTERVAL 3 DAYS` as `INTERVAL '3' DAYS`: the planner takes nothing else for the bound of a window.
fn quote_number(interval: &mut ast::Interval) {
    if interval.leading_field.is_some()
        && let Expr::Value(value) = interval.value.as_mut()
        && let ast::Value::Number(digits, _) = &value.value
    {
        value.value = ast::Value::SingleQuotedString(digits.clone());
    }
}
