//! Frames as statements, for a program that builds plans beside text: its tables in a statement's plan, a
//! frame started as a statement is, and errors explained as those of text are.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result as PlanResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::hinted::with_hint;
use super::{Session, files, statement};
use crate::clients::Client;
use crate::error::Error;
use crate::query::{CancelHandle, History, QueryProgress, apart, cancelled};
use crate::statements::Parsed;

type Tables = HashMap<String, Arc<dyn TableProvider>>;

impl Session {
    /// Lists the tables that a statement names without a schema and that there are not; none for what is no
    /// SQL of DataFusion's.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] for text that cannot be parsed.
    pub fn missing_tables(&self, sql: &str) -> Result<Vec<String>, Error> {
        let explained = |error: Error| with_hint(error, sql, self);
        let (text, mut source) = statement::read(self, sql).map_err(explained)?;
        let parsed = text.parse().map_err(|error| explained(error.into()))?;
        let Parsed::Standard(query) = parsed else {
            return Ok(Vec::new());
        };
        let state = self.ctx.state();
        let parsed = source.parse(&state, query);
        parsed.map_err(|error| explained(error.into()))?;
        let mut missing = Vec::new();
        for name in source.names.iter().flat_map(|names| names.iter()) {
            let TableReference::Bare { table } = name else {
                continue;
            };
            if !self.ctx.table_exist(name.clone())? {
                missing.push(table.to_string());
            }
        }
        Ok(missing)
    }

    /// Makes a view of this session in which these names, too, are tables of its default schema, unless it
    /// has tables of these names. What a statement makes in the view is made in the session; settings that
    /// it changes are the view's own.
    pub fn with_tables(&self, tables: Tables) -> Self {
        let state = self.ctx.state();
        // The state's builder would put an empty catalog in the place of the session's.
        let config = state
            .config()
            .clone()
            .with_create_default_catalog_and_schema(false);
        let names = &config.options().catalog;
        let catalogs = Arc::new(MoreTables {
            inner: Arc::clone(&self.catalogs),
            catalog: names.default_catalog.clone(),
            schema: names.default_schema.clone(),
            tables: Arc::new(tables),
        });
        let state = SessionStateBuilder::new_from_existing(state)
            .with_config(config)
            .with_catalog_list(Arc::clone(&catalogs) as Arc<dyn CatalogProviderList>)
            .build();
        let mut ctx = SessionContext::new_with_state(state);
        if self.reads_file_urls {
            ctx = files::with_file_tables(ctx, self.inputs.clone());
        }
        Self {
            ctx,
            plans: Arc::default(),
            catalogs,
            ..self.clone()
        }
    }

    /// Starts a frame as [`super::Planned::start`] starts a statement: `cancel` stops it, as does dropping the
    /// stream, and the statement's time limit counts.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`]; the stream's errors turn into [`Error`] by `From`.
    pub async fn start_frame(
        &self,
        frame: DataFrame,
        cancel: &CancelHandle,
    ) -> Result<SendableRecordBatchStream, Error> {
        let (mut state, plan) = frame.into_parts();
        state.config_mut().set_extension(Arc::new(cancel.clone()));
        let work = apart(statement::timeout(self), async move {
            super::rights::check_rights(&state, &plan)?;
            Ok(DataFrame::new(state, plan).execute_stream().await?)
        });
        tokio::select! {
            stream = work => stream.map_err(|error| self.explained(error)),
            () = cancel.cancelled() => Err(cancelled()),
        }
    }

    /// Adds to an error of a frame what was probably meant.
    pub fn explained(&self, error: impl Into<Error>) -> Error {
        with_hint(error, "", self)
    }

    /// Tells how far the query has come that this handle stops; `None` if it does not run.
    pub fn progress_of(&self, cancel: &CancelHandle) -> Option<QueryProgress> {
        let client = Client::of(&self.ctx.copied_config());
        History::of(&self.runtime).progress_of(client.as_deref(), cancel)
    }
}

/// A session's catalogs, with more tables in the default schema.
#[derive(Debug)]
struct MoreTables {
    inner: Arc<dyn CatalogProviderList>,
    catalog: String,
    schema: String,
    tables: Arc<Tables>,
}

impl CatalogProviderList for MoreTables {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = self.inner.catalog(name)?;
        if name != self.catalog {
            return Some(inner);
        }
        Some(Arc::new(MoreTablesOfCatalog {
            inner,
            schema: self.schema.clone(),
            tables: Arc::clone(&self.tables),
        }))
    }
}

#[derive(Debug)]
struct MoreTablesOfCatalog {
    inner: Arc<dyn CatalogProvider>,
    schema: String,
    tables: Arc<Tables>,
}

impl CatalogProvider for MoreTablesOfCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        if name != self.schema {
            return Some(inner);
        }
        Some(Arc::new(MoreTablesOfSchema {
            inner,
            tables: Arc::clone(&self.tables),
        }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> PlanResult<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> PlanResult<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

/// The tables that there are, and more that are only read: CREATE may take their names.
#[derive(Debug)]
struct MoreTablesOfSchema {
    inner: Arc<dyn SchemaProvider>,
    tables: Arc<Tables>,
}

#[async_trait]
impl SchemaProvider for MoreTablesOfSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        match self.inner.table(name).await? {
            None => Ok(self.tables.get(name).cloned()),
            found => Ok(found),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}
