//! How many connections a port takes, and for how long one may say nothing.
//!
//! A connection is *pending* until somebody has authenticated on it. Pending connections end after a
//! few idle seconds, and each address has a limited number of them. At a limit a new connection is not
//! refused: it displaces the oldest pending one, so that clients which connect and stay silent never
//! keep others from logging in. A connection whose password is being checked is displaced last, and its
//! time stands still. Each has a moment in any case, so that a flood of new connections does not displace
//! one before its first request has come: until the moment of the oldest is over, no other is accepted.
//!
//! The bounds are kept below TLS and HTTP: a [`LimitedStream`] fails to read and write once its
//! connection is to end, and whatever protocol runs above ends with it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How long no connection is displaced.
const MOMENT: Duration = Duration::from_millis(100);
/// How long to wait after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long to wait for connections to close that were displaced for want of file handles.
const DISPLACE_PAUSE: Duration = Duration::from_millis(5);
/// Connections that are displaced at a time for want of file handles.
const DISPLACED_AT_A_TIME: usize = 16;

/// The bounds of one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Connections at a time.
    pub(crate) total: usize,
    /// Pending connections of one address at a time.
    pub(crate) pending_per_address: usize,
    /// How long a pending connection may be idle.
    pub(crate) pending_idle: Duration,
}

/// Counts the connections of one port.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    limits: ConnectionLimits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    is_authenticated: bool,
    opened: Instant,
    idle_since: Instant,
    /// Passwords of the connection that are being checked.
    num_checks: usize,
    displaced: CancellationToken,
}

impl Open {
    fn num_pending_of(&self, address: IpAddr) -> usize {
        let entries = self.by_number.values();
        let pending = entries.filter(|entry| !entry.is_authenticated && entry.address == address);
        pending.count()
    }

    /// Ends the oldest pending connection, of an address if one is given, unless it is too new.
    fn displace(&mut self, address: Option<IpAddr>) -> Displaced {
        let pending = self.by_number.iter().filter(|(_, entry)| {
            !entry.is_authenticated && address.is_none_or(|address| entry.address == address)
        });
        let oldest = pending.min_by_key(|(_, entry)| (entry.num_checks > 0, entry.idle_since));
        let Some((&number, entry)) = oldest else {
            return Displaced::Nobody;
        };
        let moment = entry.opened + MOMENT;
        if moment > Instant::now() {
            return Displaced::NotBefore(moment);
        }
        entry.displaced.cancel();
        self.by_number.remove(&number);
        Displaced::One
    }
}

/// What became of displacing a connection.
enum Displaced {
    /// One was displaced.
    One,
    /// There is none to displace.
    Nobody,
    /// There is one to displace at that time.
    NotBefore(Instant),
}

/// What becomes of a new connection.
enum Admitted {
    /// It has a place.
    At(Arc<ConnectionSlot>),
    /// There is no place.
    Nowhere,
    /// There may be a place at that time.
    NotBefore(Instant),
}

/// Returns the address by which connections are counted: an IPv6 client has a network of its own.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            open: Mutex::default(),
        })
    }

    /// Accepts the next connection that finds a place. Others are closed at once.
    pub(crate) async fn accept(self: &Arc<Self>, listener: &TcpListener) -> LimitedStream {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers should not wait for more; a socket that cannot do it works too.
                    let _ = stream.set_nodelay(true);
                    if let Some(slot) = self.place(peer.ip()).await {
                        return LimitedStream::new(stream, slot);
                    }
                }
                Err(error) if is_out_of_files(&error) && self.displace_some() => {
                    tokio::time::sleep(DISPLACE_PAUSE).await;
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Gives a connection a place, once there is one to give; `None` if all are taken for good.
    async fn place(self: &Arc<Self>, address: IpAddr) -> Option<Arc<ConnectionSlot>> {
        loop {
            match self.admit(address) {
                Admitted::At(slot) => return Some(slot),
                Admitted::Nowhere => return None,
                Admitted::NotBefore(moment) => tokio::time::sleep_until(moment).await,
            }
        }
    }

    /// Gives a connection a place, if need be that of a pending one.
    fn admit(self: &Arc<Self>, address: IpAddr) -> Admitted {
        let address = counted(address);
        let mut open = self.open.lock();
        let of_address = open.num_pending_of(address) >= self.limits.pending_per_address;
        let is_full = open.by_number.len() >= self.limits.total;
        if of_address || is_full {
            match open.displace(of_address.then_some(address)) {
                Displaced::One => {}
                Displaced::Nobody => return Admitted::Nowhere,
                Displaced::NotBefore(moment) => return Admitted::NotBefore(moment),
            }
        }
        let number = open.next;
        open.next += 1;
        let displaced = CancellationToken::new();
        let now = Instant::now();
        let entry = Entry {
            address,
            is_authenticated: false,
            opened: now,
            idle_since: now,
            num_checks: 0,
            displaced: displaced.clone(),
        };
        open.by_number.insert(number, entry);
        Admitted::At(Arc::new(ConnectionSlot {
            limiter: Arc::clone(self),
            number,
            is_authenticated: AtomicBool::new(false),
            displaced,
        }))
    }

    fn displace_some(&self) -> bool {
        let mut open = self.open.lock();
        let mut displace = |_: &usize| matches!(open.displace(None), Displaced::One);
        (0..DISPLACED_AT_A_TIME).take_while(&mut displace).count() > 0
    }

    /// Returns how many connections are open, and how many of them are pending.
    #[cfg(test)]
    fn counts(&self) -> (usize, usize) {
        let open = self.open.lock();
        let entries = open.by_number.values();
        let pending = entries.filter(|entry| !entry.is_authenticated);
        (open.by_number.len(), pending.count())
    }
}

/// Tells whether the process or the system has no file handle left.
fn is_out_of_files(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// A connection's place on its port.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    /// What the entry says too; read for each message.
    is_authenticated: AtomicBool,
    displaced: CancellationToken,
}

impl ConnectionSlot {
    /// Notes that somebody has authenticated: the connection may be idle from now on.
    pub(crate) fn authenticated(&self) {
        if self.is_authenticated.load(Ordering::Relaxed) {
            return;
        }
        self.with_entry(|entry| {
            entry.is_authenticated = true;
            self.is_authenticated.store(true, Ordering::Relaxed);
        });
    }

    /// Notes that the client was answered, though nobody has authenticated.
    pub(crate) fn answered(&self) {
        if !self.is_authenticated.load(Ordering::Relaxed) {
            self.with_entry(|entry| entry.idle_since = Instant::now());
        }
    }

    /// Notes that a password of the connection is being checked, until the guard is dropped.
    pub(crate) fn checking(self: &Arc<Self>) -> CheckGuard {
        self.with_entry(|entry| entry.num_checks += 1);
        CheckGuard(Arc::clone(self))
    }

    fn with_entry(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.limiter.open.lock().by_number.get_mut(&self.number) {
            change(entry);
        }
    }

    /// Returns when the connection's time is over as far as is known now; `None` if it has
    /// authenticated. That of one that was displaced is over.
    fn deadline(&self) -> Option<Instant> {
        let pending_idle = self.limiter.limits.pending_idle;
        let mut deadline = Some(Instant::now());
        self.with_entry(|entry| {
            let since = match entry.num_checks {
                0 => entry.idle_since,
                _ => Instant::now(),
            };
            deadline = (!entry.is_authenticated).then(|| since + pending_idle);
        });
        deadline
    }

    fn leave(&self) {
        self.limiter.open.lock().by_number.remove(&self.number);
    }
}

/// A password that is being checked.
#[derive(Debug)]
pub(crate) struct CheckGuard(Arc<ConnectionSlot>);

impl Drop for CheckGuard {
    fn drop(&mut self) {
        self.0.with_entry(|entry| {
            entry.num_checks -= 1;
            entry.idle_since = Instant::now();
        });
    }
}

/// A connection that fails once it is displaced, or has been pending and idle for too long.
#[derive(Debug)]
pub(crate) struct LimitedStream<H = ()> {
    /// What ends with the connection.
    pub(crate) held: H,
    place: Place,
    stream: TcpStream,
    /// What ends the connection; `None` once it has authenticated.
    ends: Option<Ends>,
}

/// A slot that is left as the connection ends.
#[derive(Debug)]
struct Place(Arc<ConnectionSlot>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[derive(Debug)]
struct Ends {
    displaced: Pin<Box<WaitForCancellationFutureOwned>>,
    overdue: Pin<Box<Sleep>>,
}

impl LimitedStream {
    fn new(stream: TcpStream, slot: Arc<ConnectionSlot>) -> Self {
        let pending_idle = slot.limiter.limits.pending_idle;
        let ends = Ends {
            displaced: Box::pin(slot.displaced.clone().cancelled_owned()),
            overdue: Box::pin(tokio::time::sleep(pending_idle)),
        };
        Self {
            held: (),
            place: Place(slot),
            stream,
            ends: Some(ends),
        }
    }

    /// Has something end with the connection.
    pub(crate) fn holding<H>(self, held: H) -> LimitedStream<H> {
        LimitedStream {
            held,
            place: self.place,
            stream: self.stream,
            ends: self.ends,
        }
    }
}

impl<H> LimitedStream<H> {
    /// Returns the connection's place.
    pub(crate) fn slot(&self) -> &Arc<ConnectionSlot> {
        &self.place.0
    }

    /// Fails if the connection is to end; else has the task woken when it is.
    fn check(&mut self, ctx: &mut Context<'_>) -> io::Result<()> {
        let Some(ends) = &mut self.ends else {
            return Ok(());
        };
        if self.place.0.is_authenticated.load(Ordering::Relaxed) {
            self.ends = None;
            return Ok(());
        }
        if ends.displaced.as_mut().poll(ctx).is_ready() {
            let why = "the connection was displaced by a newer one before anybody authenticated";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
        }
        while ends.overdue.as_mut().poll(ctx).is_ready() {
            match self.place.0.deadline() {
                Some(deadline) if deadline > Instant::now() => {
                    ends.overdue.as_mut().reset(deadline);
                }
                Some(_) => {
                    let why = "nobody authenticated on the connection in time";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                None => {
                    self.ends = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl<H: Unpin> AsyncRead for LimitedStream<H> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(ctx)?;
        Pin::new(&mut self.stream).poll_read(ctx, buffer)
    }
}

impl<H: Unpin> AsyncWrite for LimitedStream<H> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(ctx)?;
        Pin::new(&mut self.stream).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(ctx)?;
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
        self.check(ctx)?;
        Pin::new(&mut self.stream).poll_write_vectored(ctx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
