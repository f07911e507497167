//! TCP connections, each of which can be told from the others.
//!
//! A client that does not log in has one session for its connection. The connection's handle travels
//! with every request, and ends the session when the socket is gone.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::server::Connected;

use crate::sessions::{ClientSession, Sessions};

/// How long to wait after the system refused to accept, for example for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection has here.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The session of a client that did not log in.
    pub(crate) session: Mutex<Option<Arc<ClientSession>>>,
    /// The socket is gone: a call that is still on its way opens no session. Set under the lock above.
    pub(crate) is_gone: AtomicBool,
}

/// A connection's socket; dropping it ends the connection's session.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
    sessions: Arc<Sessions>,
    open: Arc<AtomicUsize>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        let mut session = self.connection.session.lock();
        self.connection.is_gone.store(true, Ordering::Relaxed);
        if let Some(session) = session.take() {
            self.sessions.close(&session);
        }
    }
}

/// Accepts connections, `max` at a time: one more is closed at once.
pub(crate) fn accept(
    listener: TcpListener,
    sessions: Arc<Sessions>,
    max: usize,
) -> impl Stream<Item = io::Result<Socket>> {
    let open = Arc::new(AtomicUsize::new(0));
    unfold(
        (listener, sessions, open),
        move |(listener, sessions, open)| async move {
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(_) => {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                if open.load(Ordering::Relaxed) >= max {
                    drop(stream);
                    continue;
                }
                open.fetch_add(1, Ordering::Relaxed);
                // Small answers should not wait for more; a socket that cannot do it works too.
                let _ = stream.set_nodelay(true);
                let socket = Socket {
                    stream,
                    connection: Arc::new(Connection {
                        session: Mutex::new(None),
                        is_gone: AtomicBool::new(false),
                    }),
                    sessions: Arc::clone(&sessions),
                    open: Arc::clone(&open),
                };
                return Some((Ok(socket), (listener, sessions, open)));
            }
        },
    )
}

impl Connected for Socket {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(ctx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(ctx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
