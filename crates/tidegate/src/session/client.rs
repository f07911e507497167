//! Sessions on behalf of clients: tables are everyone's, settings and the schema `temp` are their own.
//!
//! A server makes one session, fills its catalog, and then a session for each client from it. The
//! catalog, devices, memory limit, object stores and history are shared; `CREATE TABLE` by one client
//! is seen by all. What a client calls `temp.…` is its own and ends with its session. Settings begin
//! as the server's were when the client came, and some of them are locked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemorySchemaProvider, SchemaProvider,
};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;

use super::{Session, files};
use crate::error::{Error, ErrorKind};
use crate::query::Owner;

/// The schema whose tables are a client's own.
pub const TEMP_SCHEMA: &str = "temp";

/// Settings that strangers should not change: what protects the process from them, and what decides
/// over devices and memory that others use too. A `*` at the end stands for all that begin so.
pub const LOCKED_SETTINGS: [&str; 26] = [
    "tidegate.memory_limit",
    "tidegate.query_memory_limit",
    "tidegate.max_running_queries",
    "tidegate.max_waiting_queries",
    "tidegate.queue_timeout",
    "tidegate.priority",
    "tidegate.host_cache_limit",
    "tidegate.pinned_cache_limit",
    "tidegate.disk_cache_limit",
    "tidegate.max_page_size",
    "tidegate.placement",
    "tidegate.regions",
    "tidegate.replay_placement",
    "tidegate.devices",
    "tidegate.device_slots",
    "tidegate.device_memory_limit",
    "tidegate.morsel_rows",
    "datafusion.runtime.*",
    "datafusion.sql_parser.*",
    "datafusion.catalog.location",
    "datafusion.catalog.format",
    "datafusion.catalog.create_default_catalog_and_schema",
    "datafusion.execution.batch_size",
    "datafusion.execution.target_partitions",
    "datafusion.execution.planning_concurrency",
    "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown",
];

/// Who a session is for, and what it may not do.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The client's name; clients of one name may stop each other's queries, and see them.
    pub user: String,
    /// Whether the client may stop and see everyone's queries.
    pub is_admin: bool,
    /// Settings that the client cannot change, as in [`LOCKED_SETTINGS`].
    pub locked: Vec<String>,
}

/// Who a session is for, carried as an extension of its config.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) user: Arc<str>,
    pub(crate) is_admin: bool,
    locked: Vec<String>,
    pub(crate) opened: SystemTime,
    asked: Mutex<Asking>,
}

/// What a client has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asking {
    /// Statements that were planned and kept in the history.
    pub(crate) statements: u64,
    pub(crate) last: Option<SystemTime>,
}

/// The clients that have sessions now.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<Vec<Weak<Client>>>);

impl Clients {
    fn add(&self, client: &Arc<Client>) {
        let mut clients = self.0.lock();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Lists the sessions that a client may see, oldest first; all for the process itself.
    pub(crate) fn visible_to(&self, client: Option<&Client>) -> Vec<Arc<Client>> {
        let clients: Vec<Arc<Client>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let visible =
            |other: &Arc<Client>| client.is_none_or(|own| own.oversees(Some(&other.user)));
        clients.into_iter().filter(visible).collect()
    }
}

impl Client {
    fn new(options: ClientOptions) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            user: options.user.into(),
            is_admin: options.is_admin,
            locked: options.locked,
            opened: SystemTime::now(),
            asked: Mutex::default(),
        }
    }

    /// Counts a statement, and says whose it is.
    pub(crate) fn asks(&self) -> Owner {
        let mut asked = self.asked.lock();
        asked.statements += 1;
        asked.last = Some(SystemTime::now());
        Owner {
            user: Arc::clone(&self.user),
            session: self.id,
        }
    }

    /// Returns what the client has asked for.
    pub(crate) fn asking(&self) -> Asking {
        *self.asked.lock()
    }

    /// Returns who the session of a config is for; `None` for a session of the process itself.
    pub(crate) fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Tells whether the client may see and stop what `owner` runs.
    pub(crate) fn oversees(&self, owner: Option<&str>) -> bool {
        self.is_admin || owner == Some(&*self.user)
    }

    /// Refuses a plan that changes a locked setting.
    pub(crate) fn check(&self, plan: &LogicalPlan) -> Result<(), Error> {
        let name = match plan {
            LogicalPlan::Statement(PlanStatement::SetVariable(set)) => &set.variable,
            LogicalPlan::Statement(PlanStatement::ResetVariable(reset)) => &reset.variable,
            _ => return Ok(()),
        };
        let lower = name.to_lowercase();
        let is_locked = self
            .locked
            .iter()
            .any(|locked| match locked.strip_suffix('*') {
                Some(start) => lower.starts_with(start),
                None => lower == *locked,
            });
        if !is_locked {
            return Ok(());
        }
        let message = format!("setting {name} is locked on this server: its operator sets it");
        Err(Error::new(ErrorKind::Denied, message))
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Makes a session for a client of `server`.
pub(super) fn session_for(server: &Session, options: ClientOptions) -> Session {
    let client = Arc::new(Client::new(options));
    server.runtime.clients().add(&client);
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
    let own_id = || NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let id = client.as_ref().map_or_else(own_id, |client| client.id);
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
        let temp = Arc::clone(&self.temp);
        Some(Arc::new(ClientCatalog { shared, temp }))
    }
}

#[derive(Debug)]
struct ClientCatalog {
    shared: Arc<dyn CatalogProvider>,
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

fn refuse_temp(name: &str) -> PlanResult<()> {
    if name == TEMP_SCHEMA || name == "system" {
        let message = format!("the schema {name} is there as long as the session");
        return Err(DataFusionError::from(Error::new(ErrorKind::Sql, message)));
    }
    Ok(())
}
