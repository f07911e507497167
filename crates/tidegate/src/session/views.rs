//! Views: the query of a view is planned again when a table that it reads has become another one.
//!
//! DataFusion keeps the plan that a view's query had when it was made, and that plan goes on reading tables which
//! were dropped, replaced or altered since. A [`View`] keeps the statement that made it as well, and which tables its
//! plan reads; [`refresh`] is called before a statement that names it is planned.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    CreateView, DdlStatement, Expr, LogicalPlan, TableProviderFilterPushDown, TableType,
};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use parking_lot::RwLock;
use sqlparser::ast;

use super::Session;
use super::hinted::with_hint;
use super::statement::{self, Source};
use crate::clients::TEMP_SCHEMA;
use crate::error::{Error, ErrorKind};

/// The tables that a plan reads, by the names under which a session finds them.
pub(super) type TablesRead = Vec<(ResolvedTableReference, Weak<dyn TableProvider>)>;

/// A view that follows its tables.
#[derive(Debug)]
pub(super) struct View {
    /// The statement that makes it.
    sql: Arc<str>,
    definition: Option<String>,
    /// Where its query looks names up that say no catalog, or no schema.
    catalog: String,
    schema: String,
    planned: RwLock<Arc<PlannedView>>,
}

#[derive(Debug)]
struct PlannedView {
    table: ViewTable,
    /// Views and what those read, too. Files are not among them: they are another table each time.
    tables: TablesRead,
}

/// The views that are being planned again, one within the other.
#[derive(Debug, Default)]
struct Refreshed(Vec<ResolvedTableReference>);

/// Makes a view.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if there is a table of the name, or a view that is not to be replaced;
/// [`ErrorKind::Sql`] if the view would read itself.
pub(super) async fn create(
    ctx: &SessionContext,
    state: &SessionState,
    source: &Source,
    create: CreateView,
) -> Result<(), DataFusionError> {
    let catalog = &state.config_options().catalog;
    let (default_catalog, default_schema) = (&catalog.default_catalog, &catalog.default_schema);
    let name = create.name.clone();
    let own = name.clone().resolve(default_catalog, default_schema);
    let schema = state.schema_for_ref(name.clone())?;
    let there = match schema.table_exist(&own.table) {
        true => schema.table(&own.table).await?,
        false => None,
    };
    if let Some(there) = &there {
        if !create.or_replace {
            let message = format!("Table '{name}' already exists");
            return Err(Error::new(ErrorKind::AlreadyExists, message).into());
        }
        if there.table_type() != TableType::View {
            let message = format!("'{name}' is a table, not a view: DROP TABLE {name} before");
            return Err(Error::new(ErrorKind::AlreadyExists, message).into());
        }
    }
    let names = source.names.as_deref().unwrap_or_default();
    let tables = tables_read(ctx, state, names).await;
    if tables.iter().any(|(read, _)| *read == own) {
        return Err(reads_itself(&own).into());
    }
    let view = View {
        sql: Arc::clone(&source.sql),
        definition: create.definition.clone(),
        catalog: default_catalog.clone(),
        schema: default_schema.clone(),
        planned: RwLock::new(Arc::new(PlannedView::new(&create, tables)?)),
    };
    if there.is_some() {
        schema.deregister_table(&own.table)?;
    }
    schema.register_table(own.table.to_string(), Arc::new(view))?;
    Ok(())
}

/// Plans the views again that a statement names and whose tables are others now.
///
/// # Errors
/// Those of a view's query, with the view's name.
pub(super) async fn refresh(
    session: &Session,
    state: &SessionState,
    statement: &Statement,
) -> Result<()> {
    if let Statement::Statement(statement) = statement
        && matches!(**statement, ast::Statement::Drop { .. })
    {
        return Ok(());
    }
    // What is wrong with the names is said where the statement is planned.
    let names = state
        .resolve_table_references(statement)
        .unwrap_or_default();
    for name in names {
        let name = resolved(state, name);
        let Some(table) = registered(&session.ctx, &name).await else {
            continue;
        };
        if let Some(view) = table.downcast_ref::<View>()
            && !view.is_hidden_from(&session.ctx, &name.catalog)
            && !view.is_current(&session.ctx).await
        {
            view.plan_again(session, state, &name).await?;
        }
    }
    Ok(())
}

/// Returns the tables that a view's plan reads; none of another table.
pub(super) fn read_by(table: &dyn TableProvider) -> TablesRead {
    match table.downcast_ref::<View>() {
        Some(view) => view.planned.read().tables.clone(),
        None => TablesRead::new(),
    }
}

impl View {
    /// Returns whether each table that it reads is still the one under its name.
    async fn is_current(&self, ctx: &SessionContext) -> bool {
        let planned = Arc::clone(&self.planned.read());
        for (name, table) in &planned.tables {
            let now = registered(ctx, name).await;
            if !now.is_some_and(|now| std::ptr::addr_eq(table.as_ptr(), Arc::as_ptr(&now))) {
                return false;
            }
        }
        true
    }

    /// Returns whether a client's own table stands before one that the view reads: the view is everyone's, and is not
    /// planned with it.
    fn is_hidden_from(&self, ctx: &SessionContext, catalog: &str) -> bool {
        let own = ctx.catalog(catalog);
        let Some(own) = own.and_then(|catalog| catalog.schema(TEMP_SCHEMA)) else {
            return false;
        };
        let planned = self.planned.read();
        let mut names = planned.tables.iter().map(|(name, _)| &name.table);
        names.any(|name| own.table_exist(name))
    }

    async fn plan_again(
        &self,
        session: &Session,
        state: &SessionState,
        own: &ResolvedTableReference,
    ) -> Result<()> {
        let around = state.config().get_extension::<Refreshed>();
        let mut around = around.map_or_else(Vec::new, |around| around.0.clone());
        if around.contains(own) {
            return Err(reads_itself(own).into());
        }
        around.push(own.clone());
        let planned = self.planned_now(session, around).await;
        let planned = planned.map_err(|error| {
            let error = with_hint(error, &self.sql, session);
            let message = format!("view '{}': {}", own.table, error.message());
            let help = match error.help() {
                Some(help) => help.to_string(),
                None => format!(
                    "DROP VIEW {0} drops it, CREATE OR REPLACE VIEW {0} makes another",
                    own.table
                ),
            };
            Error::new(error.kind(), message).with_help(Some(help))
        })?;
        *self.planned.write() = Arc::new(planned);
        Ok(())
    }

    async fn planned_now(
        &self,
        session: &Session,
        around: Vec<ResolvedTableReference>,
    ) -> Result<PlannedView> {
        let (text, mut source) = statement::read(session, &self.sql)?;
        let mut state = statement::state_of(session, Arc::clone(&source.context))?;
        let config = state.config_mut();
        let catalog = &mut config.options_mut().catalog;
        catalog.default_catalog.clone_from(&self.catalog);
        catalog.default_schema.clone_from(&self.schema);
        config.set_extension(Arc::new(Refreshed(around)));
        let query = text.parse().map_err(Error::from)?.standard();
        let Some(query) = query else {
            return Err(not_a_view(&self.sql).into());
        };
        let parsed = source.parse(&state, query)?;
        // Before the plan is made: what changes meanwhile is noticed next time.
        let names = source.names.clone().unwrap_or_default();
        let tables = tables_read(&session.ctx, &state, &names).await;
        let plan = Box::pin(source.plan_parsed(session, &state, parsed)).await?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateView(create)) => PlannedView::new(&create, tables),
            _ => Err(not_a_view(&self.sql).into()),
        }
    }
}

impl PlannedView {
    fn new(create: &CreateView, tables: TablesRead) -> Result<Self> {
        let coercion = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
        let input = LogicalPlan::clone(&create.input);
        let input = coercion.execute_and_check(input, &Default::default(), |_, _| {})?;
        Ok(Self {
            table: ViewTable::new(input, create.definition.clone()),
            tables,
        })
    }
}

/// Looks up the tables of these names, and those that the views among them read.
async fn tables_read(
    ctx: &SessionContext,
    state: &SessionState,
    names: &[TableReference],
) -> TablesRead {
    let mut tables = TablesRead::new();
    for name in names {
        let name = resolved(state, name.clone());
        if let Some(table) = registered(ctx, &name).await {
            tables.push((name, Arc::downgrade(&table)));
            tables.append(&mut read_by(table.as_ref()));
        }
    }
    tables
}

fn resolved(state: &SessionState, name: TableReference) -> ResolvedTableReference {
    let catalog = &state.config_options().catalog;
    name.resolve(&catalog.default_catalog, &catalog.default_schema)
}

/// Returns the table of a name; `None` of a file.
async fn registered(
    ctx: &SessionContext,
    name: &ResolvedTableReference,
) -> Option<Arc<dyn TableProvider>> {
    let schema = ctx.catalog(&name.catalog)?.schema(&name.schema)?;
    if !schema.table_exist(&name.table) {
        return None;
    }
    schema.table(&name.table).await.ok().flatten()
}

fn reads_itself(name: &ResolvedTableReference) -> Error {
    let message = format!("view '{}' would read itself", name.table);
    Error::new(ErrorKind::Sql, message)
}

fn not_a_view(sql: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("{sql} makes no view"))
}

#[async_trait]
impl TableProvider for View {
    fn schema(&self) -> SchemaRef {
        self.planned.read().table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        let planned = self.planned.read();
        Some(Cow::Owned(planned.table.logical_plan().clone()))
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.planned.read().table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = Arc::clone(&self.planned.read());
        planned.table.scan(state, projection, filters, limit).await
    }
}
