//! Connections of the Flight port, each of which can be told from the others.
//!
//! A client that does not log in has one session for its connection. The connection's handle travels
//! with every request, and ends the session when the socket is gone.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::Stream;
use futures::stream::unfold;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tonic::transport::server::{Connected, TlsConnectInfo};
use tonic::{Extensions, Status};

use crate::limiter::{ConnectionLimiter, ConnectionSlot, LimitedStream};
use crate::sessions::{ClientSession, Sessions};
use crate::users::Person;

/// What a connection has here.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Its place on the port.
    pub(crate) slot: Arc<ConnectionSlot>,
    sessions: Mutex<OwnSessions>,
    /// The socket is gone: a call that is still on its way opens no session. Set under the lock above.
    is_gone: AtomicBool,
}

/// The sessions of callers without a token, by their users.
type OwnSessions = HashMap<String, Arc<ClientSession>>;

impl Connection {
    /// Finds the connection that a call came by.
    pub(crate) fn of(extensions: &Extensions) -> Result<&Arc<Self>, Status> {
        let plain = extensions.get::<Arc<Self>>();
        let tls = extensions.get::<TlsConnectInfo<Arc<Self>>>();
        plain
            .or_else(|| tls.map(TlsConnectInfo::get_ref))
            .ok_or_else(|| Status::internal("the call came by no connection"))
    }

    /// Finds or opens the session that somebody has as long as the connection is there.
    pub(crate) fn session(
        &self,
        person: Person,
        sessions: &Sessions,
    ) -> Result<Arc<ClientSession>, Status> {
        let mut own = self.sessions.lock();
        if let Some(session) = own.get(&person.name)
            && !session.closed.is_cancelled()
        {
            return Ok(Arc::clone(session));
        }
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(Status::cancelled("the connection is gone"));
        }
        let name = person.name.clone();
        let session = sessions.open(person)?;
        own.insert(name, Arc::clone(&session));
        Ok(session)
    }
}

/// A connection's socket; dropping it ends the connection's sessions.
type Socket = LimitedStream<Own>;

/// What ends with a connection.
#[derive(Debug)]
pub(crate) struct Own {
    connection: Arc<Connection>,
    sessions: Arc<Sessions>,
}

impl Drop for Own {
    fn drop(&mut self) {
        let own = {
            let mut own = self.connection.sessions.lock();
            self.connection.is_gone.store(true, Ordering::Relaxed);
            std::mem::take(&mut *own)
        };
        for session in own.values() {
            self.sessions.close(session);
        }
    }
}

/// Accepts connections as the limiter lets them in.
pub(crate) fn accept(
    listener: TcpListener,
    sessions: Arc<Sessions>,
    limiter: Arc<ConnectionLimiter>,
) -> impl Stream<Item = io::Result<Socket>> {
    unfold(
        (listener, sessions, limiter),
        |(listener, sessions, limiter)| async move {
            let stream = limiter.accept(&listener).await;
            let connection = Connection {
                slot: Arc::clone(stream.slot()),
                sessions: Mutex::default(),
                is_gone: AtomicBool::new(false),
            };
            let own = Own {
                connection: Arc::new(connection),
                sessions: Arc::clone(&sessions),
            };
            Some((Ok(stream.holding(own)), (listener, sessions, limiter)))
        },
    )
}

impl Connected for Socket {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        Arc::clone(&self.held.connection)
    }
}
