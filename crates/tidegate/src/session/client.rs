//! Sessions on behalf of clients: tables are everyone's, settings and the schema `temp` are their own.
//!
//! A server makes one session, fills its catalog, and then a session for each client from it. The
//! catalog, devices, memory limit, object stores and history are shared; `CREATE TABLE` by one client
//! is seen by all. What a client calls `temp.…` is its own and ends with its session. Settings begin
//! as the server's were when the client came, and some of them are locked.
//!
//! A name without a schema, or with the default one, stands for a client's own table if there is one.

use std::sync::Arc;

use datafusion::catalog::MemorySchemaProvider;
use datafusion::execution::session_state::SessionStateBuilder;

use super::Session;
use super::added::Added;
use crate::clients::{Client, ClientOptions, Clients, next_id};

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
    let mut config = state.config().clone();
    // What the process was sent is not a client's.
    let inputs = server.inputs.clone().filter(|_| client.is_none());
    if let Some(client) = client {
        config.set_extension(client);
    }
    let state =
        SessionStateBuilder::new_from_existing(state).with_session_id(format!("client-{id}"));
    let added = Added {
        temp: Some(Arc::new(MemorySchemaProvider::new())),
        tables: Arc::default(),
    };
    server.with_added(state, config, inputs, added)
}
