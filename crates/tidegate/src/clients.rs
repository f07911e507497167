//! Who sessions are for: the clients of a server, and what they may not do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind};
use crate::runtime::Runtime;

/// The schema whose tables are a client's own.
pub const TEMP_SCHEMA: &str = "temp";

/// Settings that untrusted clients must not change: those that protect the process, and those that
/// control devices and memory that others use too. A trailing `*` matches any suffix.
pub const LOCKED_SETTINGS: [&str; 25] = [
    "tidegate.memory_limit",
    "tidegate.query_memory_limit",
    "tidegate.max_running_queries",
    "tidegate.max_waiting_queries",
    "tidegate.queue_timeout",
    "tidegate.priority",
    "tidegate.host_cache_limit",
    "tidegate.pinned_cache_limit",
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
    /// The client's name; clients with the same name may see and cancel each other's queries.
    pub user: String,
    /// Whether the client may see and cancel everyone's queries.
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
    /// Returns the clients of a runtime.
    pub(crate) fn of(runtime: &Runtime) -> Arc<Self> {
        runtime.shared()
    }

    /// Adds a client.
    pub(crate) fn add(&self, client: &Arc<Client>) {
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
    /// Makes a client with the next number.
    pub(crate) fn new(options: ClientOptions) -> Self {
        Self {
            id: next_id(),
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
        self.owner()
    }

    /// Says whose a statement is that was not counted.
    pub(crate) fn owner(&self) -> Owner {
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

/// The client that asked for a query.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) user: Arc<str>,
    /// The number of its session.
    pub(crate) session: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Returns the number of the next session.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}
