//! What a statement's meaning hangs on beside its text: settings, tables and functions.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, ScalarUDF, TableType, Volatility};
use datafusion::prelude::SessionContext;

use crate::functions::is_users;
use crate::query::Snapshot;

/// The settings, tables and functions with which a statement was planned.
#[derive(Debug)]
pub(super) struct Dependencies {
    /// Held, so that a change of any setting makes other options of it.
    options: Arc<ConfigOptions>,
    tables: Tables,
    functions: Functions,
}

/// Tables by the names under which a session finds them.
#[derive(Debug)]
pub(super) struct Tables(Vec<(ResolvedTableReference, Weak<dyn TableProvider>)>);

/// Functions by the names under which a session finds them.
#[derive(Debug, Default)]
pub(super) struct Functions {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
}

impl Tables {
    /// Looks the tables up that a text names; `None` if there is one that has no name of its own,
    /// such as a file.
    pub(super) async fn of(
        ctx: &SessionContext,
        options: &ConfigOptions,
        names: &[TableReference],
    ) -> Option<Self> {
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            let (catalog, schema) = (
                &options.catalog.default_catalog,
                &options.catalog.default_schema,
            );
            let name = name.clone().resolve(catalog, schema);
            let table = lookup(ctx, &name).await?;
            tables.push((name, Arc::downgrade(&table)));
        }
        Some(Self(tables))
    }

    /// Returns whether the names still stand for the same tables.
    pub(super) async fn are_the_same(&self, ctx: &SessionContext) -> bool {
        for (name, table) in &self.0 {
            let now = lookup(ctx, name).await;
            let is_same =
                now.is_some_and(|now| std::ptr::addr_eq(table.as_ptr(), Arc::as_ptr(&now)));
            if !is_same {
                return false;
            }
        }
        true
    }

    /// Returns whether what a snapshot is of changes with these tables: it is one of them, or read
    /// by a view.
    fn vouch_for(&self, snapshot: &Snapshot) -> bool {
        self.0.iter().any(|(_, table)| {
            table.upgrade().is_some_and(|table| {
                snapshot.is_of(&table) || table.table_type() == TableType::View
            })
        })
    }
}

impl Dependencies {
    /// Gathers what a plan hangs on; `names` are the tables that the text names. `None` if its
    /// meaning also changes with time, or with something else that cannot be told.
    pub(super) async fn of(
        ctx: &SessionContext,
        state: &SessionState,
        names: &[TableReference],
        plan: &LogicalPlan,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let functions = Functions::of(plan)?;
        let options = Arc::clone(state.config_options());
        let tables = Tables::of(ctx, &options, names).await?;
        let is_all = tables.vouch_for(snapshot) && functions.are_those_of(state);
        is_all.then_some(Self {
            options,
            tables,
            functions,
        })
    }

    /// Returns whether the same text would be planned alike now.
    pub(super) async fn hold(&self, ctx: &SessionContext) -> bool {
        self.hold_but_for_tables(ctx) && self.tables.are_the_same(ctx).await
    }

    /// Returns whether settings and functions are as they were.
    pub(super) fn hold_but_for_tables(&self, ctx: &SessionContext) -> bool {
        let state = ctx.state_ref();
        let state = state.read();
        Arc::ptr_eq(&self.options, state.config_options()) && self.functions.are_those_of(&state)
    }

    /// Returns the options with which the statement was planned.
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
    /// Gathers a plan's functions; `None` if one gives another value another time.
    fn of(plan: &LogicalPlan) -> Option<Self> {
        let mut functions = Self::default();
        let mut is_fixed = true;
        let walked = plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    is_fixed &= functions.take(expr);
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        (walked.is_ok() && is_fixed).then_some(functions)
    }

    /// Takes an expression's own function in; returns whether its value is fixed.
    fn take(&mut self, expr: &Expr) -> bool {
        match expr {
            Expr::ScalarFunction(call) => {
                let function = &call.func;
                for name in names(function.name(), function.aliases()) {
                    self.scalar.insert(name, Arc::clone(function));
                }
                function.signature().volatility == Volatility::Immutable
            }
            Expr::AggregateFunction(call) => {
                let function = &call.func;
                for name in names(function.name(), function.aliases()) {
                    self.aggregate.insert(name, Arc::clone(function));
                }
                function.signature().volatility == Volatility::Immutable
            }
            Expr::WindowFunction(_) | Expr::ScalarVariable(..) => false,
            _ => true,
        }
    }

    /// Gathers the functions of users that a plan calls.
    pub(super) fn of_users(plan: &LogicalPlan) -> Self {
        let mut functions = Self::default();
        let walked = plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if matches!(expr, Expr::ScalarFunction(call) if is_users(&call.func)) {
                        functions.take(expr);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        debug_assert!(walked.is_ok(), "nothing in the walk fails");
        functions
    }

    /// Returns whether a session finds the same functions under their names.
    pub(super) fn are_those_of(&self, state: &SessionState) -> bool {
        let scalar = state.scalar_functions();
        let aggregate = state.aggregate_functions();
        self.scalar.iter().all(|(name, function)| {
            scalar
                .get(name)
                .is_some_and(|now| Arc::ptr_eq(now, function))
        }) && self.aggregate.iter().all(|(name, function)| {
            aggregate
                .get(name)
                .is_some_and(|now| Arc::ptr_eq(now, function))
        })
    }
}

fn names(name: &str, aliases: &[String]) -> impl Iterator<Item = String> {
    let aliases = aliases.to_vec();
    std::iter::once(name.to_string()).chain(aliases)
}
