//! Sessions made of another one that have more in its default catalog.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::{Session, files, stdin};
use crate::clients::TEMP_SCHEMA;
use crate::error::{Error, ErrorKind};

/// What a session has beside what is in the catalogs of the one that it was made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Added {
    /// The schema [`TEMP_SCHEMA`]. A name of the default schema stands for a table of this one if there is one.
    pub(super) temp: Option<Arc<dyn SchemaProvider>>,
    /// Tables of the default schema that are only read, unless it has tables of these names: CREATE may take them.
    pub(super) tables: Arc<HashMap<String, Arc<dyn TableProvider>>>,
}

impl Session {
    /// Makes a session of this one with these settings and inputs, and with more in its default catalog.
    pub(super) fn with_added(
        &self,
        state: SessionStateBuilder,
        config: SessionConfig,
        inputs: Option<stdin::Inputs>,
        added: Added,
    ) -> Self {
        // The state's builder would put an empty catalog in the place of the session's.
        let config = config.with_create_default_catalog_and_schema(false);
        let names = &config.options().catalog;
        let catalogs: Arc<dyn CatalogProviderList> = Arc::new(Catalogs {
            shared: Arc::clone(&self.catalogs),
            catalog: names.default_catalog.clone(),
            schema: names.default_schema.clone(),
            added,
        });
        let state = state
            .with_config(config)
            .with_catalog_list(Arc::clone(&catalogs))
            .build();
        let mut ctx = SessionContext::new_with_state(state);
        if self.reads_file_urls {
            ctx = files::with_file_tables(ctx, inputs.clone());
        }
        Self {
            ctx,
            plans: Arc::default(),
            catalogs,
            inputs,
            ..self.clone()
        }
    }
}

#[derive(Debug)]
struct Catalogs {
    shared: Arc<dyn CatalogProviderList>,
    catalog: String,
    schema: String,
    added: Added,
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.shared.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.shared.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let shared = self.shared.catalog(name)?;
        if name != self.catalog {
            return Some(shared);
        }
        Some(Arc::new(DefaultCatalog {
            shared,
            schema: self.schema.clone(),
            added: self.added.clone(),
        }))
    }
}

#[derive(Debug)]
struct DefaultCatalog {
    shared: Arc<dyn CatalogProvider>,
    schema: String,
    added: Added,
}

impl DefaultCatalog {
    fn refuse_temp(&self, name: &str) -> Result<()> {
        if self.added.temp.is_some() && (name == TEMP_SCHEMA || name == "system") {
            let message = format!("the schema {name} is there as long as the session");
            return Err(DataFusionError::from(Error::new(ErrorKind::Sql, message)));
        }
        Ok(())
    }
}

impl CatalogProvider for DefaultCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.shared.schema_names();
        names.extend(self.added.temp.as_ref().map(|_| TEMP_SCHEMA.to_string()));
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match &self.added.temp {
            Some(temp) if name == TEMP_SCHEMA => Some(Arc::clone(temp)),
            _ if name == self.schema => Some(Arc::new(DefaultSchema {
                shared: self.shared.schema(name)?,
                added: self.added.clone(),
            })),
            _ => self.shared.schema(name),
        }
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.refuse_temp(name)?;
        self.shared.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.refuse_temp(name)?;
        self.shared.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct DefaultSchema {
    shared: Arc<dyn SchemaProvider>,
    added: Added,
}

#[async_trait]
impl SchemaProvider for DefaultSchema {
    fn owner_name(&self) -> Option<&str> {
        self.shared.owner_name()
    }

    // Those of the schema `temp` are listed once, there.
    fn table_names(&self) -> Vec<String> {
        self.shared.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(temp) = &self.added.temp
            && let Some(own) = temp.table(name).await?
        {
            return Ok(Some(own));
        }
        let shared = self.shared.table(name).await?;
        Ok(shared.or_else(|| self.added.tables.get(name).cloned()))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.shared.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match &self.added.temp {
            Some(temp) if temp.table_exist(name) => temp.deregister_table(name),
            _ => self.shared.deregister_table(name),
        }
    }

    // A table for everyone may be made beside one of the same name that is a client's own.
    fn table_exist(&self, name: &str) -> bool {
        self.shared.table_exist(name)
    }
}
