//! Sessions on behalf of clients: tables are everyone's, settings and the schema `temp` are their own.
//!
//! A server makes one session, fills its catalog, and then a session for each client from it. The
//! catalog, devices, memory limit, object stores and history are shared; `CREATE TABLE` by one client
//! is seen by all. What a client calls `temp.…` is its own and ends with its session. Settings begin
//! as the server's were when the client came, and some of them are locked.
//!
//! A name without a schema, or with the default one, stands for a client's own table if there is one.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;

use super::{Session, files};
use crate::clients::{Client, ClientOptions, Clients, TEMP_SCHEMA, next_id};
use crate::error::{Error, ErrorKind};

/// Makes a session for a client of `server`.
pub(super) fn session_for(server: &Session, options: ClientOptions) -> Session {
    let client = Arc::new(Client::new(options));
    Clients::of(&server.runtime).add(&client);
    session_of(server, Some(client))
}

/// Makes a session that sees what a client may see, and is none of the clients' sessions.
pub(super) fn view_for(server: &Session, options: ClientOptions) -> Session {
    session_of(server, Some(Arc::new(Client::new(options))))
}

/// Makes a session of the same rights and settings whose schema `temp` is its own.
pub(super) fn with_own_tables(session: &Session) -> Session {
    session_of(session, None)
}

fn session_of(server: &Session, client: Option<Arc<Client>>) -> Session {
    let id = client.as_ref().map_or_else(next_id, |client| client.id);
    let state = server.ctx.state();
    // The state's builder would put an empty catalog in the place of the server's.
    let mut config = state
        .config()
        .clone()
        .with_create_default_catalog_and_schema(false);
    // What the process was sent is not a client's.
    let inputs = server.inputs.clone().filter(|_| client.is_none());
    if let Some(client) = client {
        config.set_extension(client);
    }
    let catalogs = Arc::new(ClientCatalogs {
        shared: Arc::clone(&server.catalogs),
        own: config.options().catalog.default_catalog.clone(),
        default_schema: config.options().catalog.default_schema.clone(),
        temp: Arc::new(MemorySchemaProvider::new()),
    });
    let state = SessionStateBuilder::new_from_existing(state)
        .with_session_id(format!("client-{id}"))
        .with_config(config)
        .with_catalog_list(Arc::clone(&catalogs) as Arc<dyn CatalogProviderList>)
        .build();
    let mut ctx = SessionContext::new_with_state(state);
    if server.reads_file_urls {
        ctx = files::with_file_tables(ctx, inputs.clone());
    }
    Session {
        ctx,
        runtime: Arc::clone(&server.runtime),
        memory: server.memory.clone(),
        function_memory: server.function_memory.clone(),
        spill: server.spill.clone(),
        plans: Arc::default(),
        tasks: Arc::clone(&server.tasks),
        catalogs,
        stores: Arc::clone(&server.stores),
        reads_file_urls: server.reads_file_urls,
        inputs,
    }
}

/// The server's catalogs, with a schema of the client's own in the default one.
#[derive(Debug)]
struct ClientCatalogs {
    shared: Arc<dyn CatalogProviderList>,
    own: String,
    default_schema: String,
    temp: Arc<dyn SchemaProvider>,
}

impl CatalogProviderList for ClientCatalogs {
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
        if name != self.own {
            return Some(shared);
        }
        Some(Arc::new(ClientCatalog {
            shared,
            default_schema: self.default_schema.clone(),
            temp: Arc::clone(&self.temp),
        }))
    }
}

#[derive(Debug)]
struct ClientCatalog {
    shared: Arc<dyn CatalogProvider>,
    default_schema: String,
    temp: Arc<dyn SchemaProvider>,
}

impl CatalogProvider for ClientCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.shared.schema_names();
        names.push(TEMP_SCHEMA.into());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            TEMP_SCHEMA => Some(Arc::clone(&self.temp)),
            name if name == self.default_schema => Some(Arc::new(DefaultSchema {
                shared: self.shared.schema(name)?,
                temp: Arc::clone(&self.temp),
            })),
            name => self.shared.schema(name),
        }
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> PlanResult<Option<Arc<dyn SchemaProvider>>> {
        refuse_temp(name)?;
        self.shared.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> PlanResult<Option<Arc<dyn SchemaProvider>>> {
        refuse_temp(name)?;
        self.shared.deregister_schema(name, cascade)
    }
}

/// The default schema, where names stand for a client's own tables first.
#[derive(Debug)]
struct DefaultSchema {
    shared: Arc<dyn SchemaProvider>,
    temp: Arc<dyn SchemaProvider>,
}

#[async_trait]
impl SchemaProvider for DefaultSchema {
    fn owner_name(&self) -> Option<&str> {
        self.shared.owner_name()
    }

    // A client's own are listed once, in their schema.
    fn table_names(&self) -> Vec<String> {
        self.shared.table_names()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        match self.temp.table(name).await? {
            Some(own) => Ok(Some(own)),
            None => self.shared.table(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> PlanResult<Option<TableType>> {
        match self.temp.table_type(name).await? {
            Some(own) => Ok(Some(own)),
            None => self.shared.table_type(name).await,
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.shared.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        match self.temp.table_exist(name) {
            true => self.temp.deregister_table(name),
            false => self.shared.deregister_table(name),
        }
    }

    // A table for everyone may be made beside one of the same name that is a client's own.
    fn table_exist(&self, name: &str) -> bool {
        self.shared.table_exist(name)
    }
}

fn refuse_temp(name: &str) -> PlanResult<()> {
    if name == TEMP_SCHEMA || name == "system" {
        let message = format!("the schema {name} is there as long as the session");
        return Err(DataFusionError::from(Error::new(ErrorKind::Sql, message)));
    }
    Ok(())
}
