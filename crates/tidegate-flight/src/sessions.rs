//! What a caller has here: a session, its prepared statements, its results.
//!
//! A handle is the session's random id and a number within it. It works from any connection of the
//! same user, so a client may fetch a result elsewhere than it asked for it, and a stranger cannot
//! guess it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use tidegate::{CancelHandle, ClientOptions, HeldMemory, Planned, Session};
use tonic::Status;

use crate::job::Job;
use crate::options::Limits;
use crate::random::{Secret, hex, secret};
use crate::status::status;
use crate::users::Person;

/// Bytes that a prepared statement takes at least.
const PREPARED_BYTES: usize = 4 << 10;
/// Bytes that its text and plan take, for each byte of the text.
const PLAN_BYTES: usize = 8;

/// A prepared statement, with the rows of parameters that were bound last.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) planned: Planned,
    pub(crate) parameters: Vec<RecordBatch>,
    /// The memory that they take.
    _held: Arc<HeldMemory>,
}

impl Prepared {
    /// Counts a prepared statement against the memory limit.
    pub(crate) fn new(
        session: &Session,
        planned: Planned,
        parameters: Vec<RecordBatch>,
    ) -> Result<Self, Status> {
        let sizes = parameters.iter().map(RecordBatch::get_array_memory_size);
        let plan = PREPARED_BYTES + PLAN_BYTES * planned.sql().len();
        let bytes = plan + sizes.sum::<usize>();
        let held = session.hold_memory("prepared statements", bytes);
        Ok(Self {
            planned,
            parameters,
            _held: Arc::new(held.map_err(status)?),
        })
    }
}

/// A result: asked for, or being sent.
#[derive(Debug)]
enum Outcome {
    Waiting(Job, CancelHandle, Instant),
    Running(CancelHandle),
}

/// What one client has here.
pub(crate) struct ClientSession {
    id: Secret,
    pub(crate) user: Arc<str>,
    pub(crate) is_admin: bool,
    pub(crate) session: Session,
    /// Stops whatever runs when the session ends.
    pub(crate) closed: CancelHandle,
    next: AtomicU64,
    prepared: Mutex<HashMap<u64, Prepared>>,
    outcomes: Mutex<HashMap<u64, Outcome>>,
    num_running: AtomicUsize,
    last_call: Mutex<Instant>,
    handles_max: usize,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Bytes by which a client names something of its session.
pub(crate) type Handle = [u8; 24];

fn parse(handle: &[u8]) -> Option<(Secret, u64)> {
    let (id, number) = handle.split_at_checked(16)?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((id.try_into().ok()?, number))
}

impl ClientSession {
    fn handle(&self, number: u64) -> Handle {
        let mut handle = [0; 24];
        handle[..16].copy_from_slice(&self.id);
        handle[16..].copy_from_slice(&number.to_be_bytes());
        handle
    }

    /// Notes that the client is there.
    pub(crate) fn touch(&self) {
        *self.last_call.lock() = Instant::now();
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps a prepared statement.
    pub(crate) fn prepare(&self, statement: Prepared) -> Result<Handle, Status> {
        let mut prepared = self.prepared.lock();
        if prepared.len() >= self.handles_max {
            return Err(Status::resource_exhausted(format!(
                "the session has {} prepared statements, the maximum: close some",
                prepared.len()
            )));
        }
        let number = self.number();
        prepared.insert(number, statement);
        Ok(self.handle(number))
    }

    /// Returns a prepared statement.
    pub(crate) fn prepared(&self, number: u64) -> Result<Prepared, Status> {
        let prepared = self.prepared.lock().get(&number).cloned();
        prepared
            .ok_or_else(|| Status::not_found("there is no such prepared statement: it was closed"))
    }

    /// Binds parameters to a prepared statement.
    pub(crate) fn bind(&self, number: u64, parameters: Vec<RecordBatch>) -> Result<(), Status> {
        let planned = self.prepared(number)?.planned;
        let bound = Prepared::new(&self.session, planned, parameters)?;
        match self.prepared.lock().get_mut(&number) {
            Some(prepared) => {
                *prepared = bound;
                Ok(())
            }
            None => Err(Status::not_found(
                "there is no such prepared statement: it was closed",
            )),
        }
    }

    /// Lets a prepared statement go; one that is not there is gone already.
    pub(crate) fn unprepare(&self, number: u64) {
        self.prepared.lock().remove(&number);
    }

    /// Keeps a statement until its rows are fetched. Of too many the oldest that waits goes.
    pub(crate) fn keep(&self, job: Job, cancel: CancelHandle) -> Handle {
        let number = self.number();
        let mut outcomes = self.outcomes.lock();
        if outcomes.len() >= self.handles_max {
            let waiting = outcomes.iter().filter_map(|(number, outcome)| {
                matches!(outcome, Outcome::Waiting(..)).then_some(*number)
            });
            if let Some(oldest) = waiting.min() {
                outcomes.remove(&oldest);
            }
        }
        outcomes.insert(number, Outcome::Waiting(job, cancel, Instant::now()));
        self.handle(number)
    }

    /// Takes a statement that is to run, once.
    pub(crate) fn take(&self, number: u64) -> Result<(Job, CancelHandle), Status> {
        let mut outcomes = self.outcomes.lock();
        match outcomes.remove(&number) {
            Some(Outcome::Waiting(job, cancel, _)) => {
                outcomes.insert(number, Outcome::Running(cancel.clone()));
                Ok((job, cancel))
            }
            Some(running) => {
                outcomes.insert(number, running);
                Err(Status::failed_precondition(
                    "the result of this ticket is being fetched already: ask for the query again",
                ))
            }
            None => Err(Status::not_found(
                "there is no result for this ticket: it was fetched, cancelled or left for too long; \
                 ask for the query again",
            )),
        }
    }

    /// Forgets results that nobody has fetched for so long.
    fn forget_left(&self, limit: Duration) {
        let mut outcomes = self.outcomes.lock();
        outcomes.retain(|_, outcome| match outcome {
            Outcome::Waiting(_, _, since) => since.elapsed() <= limit,
            Outcome::Running(_) => true,
        });
    }

    /// Stops a statement, or forgets it if it has not started; false if it is not there.
    pub(crate) fn cancel(&self, number: u64) -> bool {
        match self.outcomes.lock().remove(&number) {
            Some(Outcome::Running(cancel)) => {
                cancel.cancel();
                true
            }
            outcome => outcome.is_some(),
        }
    }

    /// Counts a statement as running until the guard is dropped.
    pub(crate) fn running(self: &Arc<Self>, number: Option<u64>) -> RunningGuard {
        self.num_running.fetch_add(1, Ordering::Relaxed);
        RunningGuard {
            session: Arc::clone(self),
            number,
        }
    }

    fn is_idle(&self, limit: Duration) -> bool {
        self.num_running.load(Ordering::Relaxed) == 0 && self.last_call.lock().elapsed() > limit
    }
}

/// A statement that runs in a session.
#[derive(Debug)]
pub(crate) struct RunningGuard {
    session: Arc<ClientSession>,
    number: Option<u64>,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.session.num_running.fetch_sub(1, Ordering::Relaxed);
        self.session.touch();
        if let Some(number) = self.number {
            self.session.outcomes.lock().remove(&number);
        }
    }
}

/// A token and what it stands for.
#[derive(Debug)]
struct Login {
    session: Arc<ClientSession>,
    until: Instant,
}

/// Everyone's sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    server: Session,
    limits: Limits,
    locked: Vec<String>,
    by_id: Mutex<HashMap<Secret, Arc<ClientSession>>>,
    logins: Mutex<HashMap<String, Login>>,
}

impl Sessions {
    pub(crate) fn new(server: Session, limits: Limits, locked: Vec<String>) -> Self {
        Self {
            server,
            limits,
            locked,
            by_id: Mutex::default(),
            logins: Mutex::default(),
        }
    }

    /// Opens a session for someone.
    pub(crate) fn open(&self, person: Person) -> Result<Arc<ClientSession>, Status> {
        let id = secret()?;
        let mut by_id = self.by_id.lock();
        if by_id.len() >= self.limits.sessions {
            return Err(Status::resource_exhausted(format!(
                "{} sessions are open, the maximum of this server: try again later",
                by_id.len()
            )));
        }
        let of_user = by_id
            .values()
            .filter(|session| *session.user == person.name);
        let of_user = of_user.count();
        if of_user >= self.limits.sessions_per_user {
            return Err(Status::resource_exhausted(format!(
                "user '{}' has {of_user} sessions, the maximum per user: close some",
                person.name
            )));
        }
        let options = ClientOptions {
            user: person.name.clone(),
            is_admin: person.is_admin,
            locked: self.locked.clone(),
        };
        let session = Arc::new(ClientSession {
            id,
            user: person.name.into(),
            is_admin: person.is_admin,
            session: self.server.for_client(options),
            closed: CancelHandle::new(),
            next: AtomicU64::new(1),
            prepared: Mutex::default(),
            outcomes: Mutex::default(),
            num_running: AtomicUsize::new(0),
            last_call: Mutex::new(Instant::now()),
            handles_max: self.limits.handles,
        });
        by_id.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Ends a session and whatever runs in it.
    pub(crate) fn close(&self, session: &ClientSession) {
        session.closed.cancel();
        self.by_id.lock().remove(&session.id);
        let mut logins = self.logins.lock();
        logins.retain(|_, login| login.session.id != session.id);
    }

    /// Ends all sessions.
    pub(crate) fn close_all(&self) {
        let all: Vec<_> = self.by_id.lock().values().cloned().collect();
        for session in all {
            self.close(&session);
        }
    }

    /// Opens a session with a token that stands for it.
    pub(crate) fn log_in(&self, person: Person) -> Result<String, Status> {
        let session = self.open(person)?;
        let token = hex([secret()?, secret()?].as_flattened());
        let login = Login {
            session,
            until: Instant::now() + self.limits.token_life,
        };
        self.logins.lock().insert(token.clone(), login);
        Ok(token)
    }

    /// Finds the session of a token.
    pub(crate) fn of_token(&self, token: &str) -> Result<Arc<ClientSession>, Status> {
        let logins = self.logins.lock();
        match logins.get(token) {
            Some(login) if login.until > Instant::now() => Ok(Arc::clone(&login.session)),
            _ => Err(Status::unauthenticated(
                "the token is unknown or has expired: log in again",
            )),
        }
    }

    /// Finds what a handle names, if the caller's user has it.
    pub(crate) fn find(
        &self,
        handle: &[u8],
        caller: &ClientSession,
    ) -> Result<(Arc<ClientSession>, u64), Status> {
        let Some((id, number)) = parse(handle) else {
            return Err(Status::invalid_argument(
                "the ticket or handle was not made by this server",
            ));
        };
        let found = self.by_id.lock().get(&id).cloned();
        match found.filter(|session| session.user == caller.user) {
            Some(session) => Ok((session, number)),
            None => Err(Status::not_found(
                "the ticket or handle is of a session that has ended",
            )),
        }
    }

    /// Ends sessions of tokens that have expired, and those that were left.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let idle = self.limits.session_idle;
        let gone: Vec<_> = {
            let logins = self.logins.lock();
            let over = |login: &&Login| login.until <= now || login.session.is_idle(idle);
            let gone = logins.values().filter(over);
            gone.map(|login| Arc::clone(&login.session)).collect()
        };
        for session in gone {
            self.close(&session);
        }
        let open: Vec<_> = self.by_id.lock().values().cloned().collect();
        for session in open {
            session.forget_left(self.limits.result_idle);
        }
    }

    /// Returns how many statements are admitted, and how many uploads are coming in.
    pub(crate) fn num_running(&self) -> usize {
        let by_id = self.by_id.lock();
        let running = by_id
            .values()
            .map(|session| session.num_running.load(Ordering::Relaxed));
        running.sum()
    }

    /// Returns how many sessions are open.
    pub(crate) fn len(&self) -> usize {
        self.by_id.lock().len()
    }
}
