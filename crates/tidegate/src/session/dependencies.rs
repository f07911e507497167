//! What a plan depends on beside its text: settings, tables and functions.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use datafusion::catalog::TableProvider;
use datafusion::common::ResolvedTableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, ScalarUDF, TableType, Volatility};
use datafusion::prelude::SessionContext;

use super::statement::Source;
use super::views;
use crate::query::Snapshot;

/// The settings, tables and functions with which a text is planned.
#[derive(Debug)]
pub(super) struct Dependencies {
    /// Held, so that a change of any setting makes other options of it.
    options: Arc<ConfigOptions>,
    /// By the names under which a session finds them.
    tables: Vec<(ResolvedTableReference, Weak<dyn TableProvider>)>,
    /// Whether each table has a name of its own, unlike a file.
    are_all_named: bool,
    functions: Functions,
}

/// Functions by the names under which a session finds them.
#[derive(Debug, Default)]
struct Functions {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    /// Whether one of them, or something else, gives another value another time.
    are_volatile: bool,
}

impl Dependencies {
    /// Looks the tables up that a text names, and takes in the functions of its plan. Without one the
    /// functions are left out.
    pub(super) async fn of(
        ctx: &SessionContext,
        source: &Source,
        plan: Option<&LogicalPlan>,
    ) -> Self {
        let catalog = &source.options.catalog;
        let names = source.names.as_deref();
        let mut tables = Vec::new();
        let mut read_by_views = Vec::new();
        for name in names.into_iter().flatten() {
            let (catalog, schema) = (&catalog.default_catalog, &catalog.default_schema);
            let name = name.clone().resolve(catalog, schema);
            if let Some(table) = lookup(ctx, &name).await {
                tables.push((name, Arc::downgrade(&table)));
                read_by_views.append(&mut views::read_by(table.as_ref()));
            }
        }
        let are_all_named = names.is_some_and(|names| names.len() == tables.len());
        tables.append(&mut read_by_views);
        let functions = match plan {
            Some(plan) => Functions::of(plan, &ctx.state_ref().read()),
            None => Functions::default(),
        };
        Self {
            options: Arc::clone(&source.options),
            are_all_named,
            tables,
            functions,
        }
    }

    /// Returns whether the same text would be planned alike now.
    pub(super) async fn hold(&self, ctx: &SessionContext) -> bool {
        let have_changed = {
            let state = ctx.state_ref();
            let state = state.read();
            !Arc::ptr_eq(&self.options, state.config_options())
                || !self.functions.are_those_of(&state)
        };
        if have_changed {
            return false;
        }
        for (name, table) in &self.tables {
            let now = lookup(ctx, name).await;
            if !now.is_some_and(|now| std::ptr::addr_eq(table.as_ptr(), Arc::as_ptr(&now))) {
                return false;
            }
        }
        true
    }

    /// Returns whether nothing but the rows of its one table changes what a plan gives, as long as
    /// these hold: the table is one of those that the text names, or read by a view.
    pub(super) fn are_all_of(&self, snapshot: &Snapshot) -> bool {
        let mut tables = self.tables.iter().filter_map(|(_, table)| table.upgrade());
        self.are_all_named
            && !self.functions.are_volatile
            && tables.any(|table| snapshot.is_of(&table) || table.table_type() == TableType::View)
    }

    /// Returns whether all tables of the text are known, so that [`Self::hold`] tells of all.
    pub(super) fn are_told(&self) -> bool {
        self.are_all_named
    }

    /// Returns the options of the session with which the statement was planned.
    pub(super) fn options(&self) -> &Arc<ConfigOptions> {
        &self.options
    }
}

async fn lookup(
    ctx: &SessionContext,
    name: &ResolvedTableReference,
) -> Option<Arc<dyn TableProvider>> {
    let schema = ctx.catalog(&name.catalog)?.schema(&name.schema)?;
    schema.table(&name.table).await.ok().flatten()
}

impl Functions {
    /// Gathers the functions of a plan that a session has under their names.
    fn of(plan: &LogicalPlan, state: &SessionState) -> Self {
        let mut functions = Self::default();
        let walked = plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    functions.are_volatile |= !functions.take(expr, state);
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        functions.are_volatile |= walked.is_err();
        functions
    }

    /// Takes an expression's own function in; returns whether its value is fixed as long as the session
    /// has that function.
    fn take(&mut self, expr: &Expr, state: &SessionState) -> bool {
        match expr {
            Expr::ScalarFunction(call) => {
                let function = &call.func;
                let names = (function.name(), function.aliases());
                let found = registered(function, names, state.scalar_functions());
                let is_found = !found.is_empty();
                self.scalar.extend(found);
                is_found && function.signature().volatility == Volatility::Immutable
            }
            Expr::AggregateFunction(call) => {
                let function = &call.func;
                let names = (function.name(), function.aliases());
                let found = registered(function, names, state.aggregate_functions());
                let is_found = !found.is_empty();
                self.aggregate.extend(found);
                is_found && function.signature().volatility == Volatility::Immutable
            }
            Expr::WindowFunction(_) | Expr::ScalarVariable(..) => false,
            _ => true,
        }
    }

    /// Returns whether a session has the same functions under their names.
    fn are_those_of(&self, state: &SessionState) -> bool {
        are_in(&self.scalar, state.scalar_functions())
            && are_in(&self.aggregate, state.aggregate_functions())
    }
}

/// Lists a function by each of its names under which a session has it.
fn registered<F>(
    function: &Arc<F>,
    (name, aliases): (&str, &[String]),
    by_name: &HashMap<String, Arc<F>>,
) -> Vec<(String, Arc<F>)> {
    let names = std::iter::once(name).chain(aliases.iter().map(String::as_str));
    let is_own = |name: &&str| {
        let found = by_name.get(*name);
        found.is_some_and(|found| Arc::ptr_eq(found, function))
    };
    let own = names.filter(is_own);
    own.map(|name| (name.to_owned(), Arc::clone(function)))
        .collect()
}

fn are_in<F>(functions: &HashMap<String, Arc<F>>, by_name: &HashMap<String, Arc<F>>) -> bool {
    functions.iter().all(|(name, function)| {
        let found = by_name.get(name);
        found.is_some_and(|found| Arc::ptr_eq(found, function))
    })
}
