//! A statement's rows on their way out, and everything that may stop them.
//!
//! Rows are made as the client reads them: what it does not read is not made, which is all the
//! back-pressure there is. A client that stops reading would hold its permit and memory for ever, so a
//! guard beside each statement takes its rows away when it is cancelled, its session ends, its time
//! is over or nobody has read for too long; whether or not anybody polls. Long before that it gives the
//! statement's permit back if others wait for one: the statement is paused until its client reads on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::task::AtomicWaker;
use futures::{FutureExt, Stream};
use parking_lot::Mutex;
use tidegate::CancelHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::admission::{Admission, Pause, StatementPermit};
use crate::sessions::RunningGuard;

/// How long rows stay unread before a statement returns its permit, if another waits for one.
const PAUSE_AFTER: Duration = Duration::from_millis(250);

/// What stops a statement.
#[derive(Debug)]
pub(crate) struct Stops {
    /// Somebody who cancels it.
    pub(crate) cancel: CancelHandle,
    /// The end of its session.
    pub(crate) closed: CancelHandle,
    /// When its time is over, and how long that was.
    pub(crate) deadline: Option<(Instant, Duration)>,
    /// How long its rows may lie unread.
    pub(crate) stall: Duration,
}

impl Stops {
    /// Waits until something stops the statement, other than a client that does not read.
    pub(crate) async fn stopped(&self) -> Status {
        let overdue = async {
            match self.deadline {
                Some((deadline, limit)) => {
                    tokio::time::sleep_until(deadline.into()).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancel.cancelled() => Status::cancelled("the statement was cancelled"),
            () = self.closed.cancelled() => Status::cancelled("the statement's session has ended"),
            limit = overdue => ran_too_long(limit),
        }
    }

    /// Waits for work, at most until something stops the statement.
    pub(crate) async fn or<T>(
        &self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        tokio::select! {
            done = work => done,
            why = self.stopped() => Err(why),
        }
    }
}

/// Says that a statement reached the server's limit.
pub(crate) fn ran_too_long(limit: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "the statement ran longer than this server's --statement-timeout of {} s",
        limit.as_secs_f64()
    ))
}

/// What a running statement holds.
pub(crate) struct Held {
    pub(crate) rows: BoxStream<'static, Result<RecordBatch, Status>>,
    /// Given back when the rows are gone.
    pub(crate) permit: PermitState,
    pub(crate) _guard: RunningGuard,
}

/// Whether a statement has its permit.
pub(crate) enum PermitState {
    /// It needs none.
    Unneeded,
    /// It has one.
    Held {
        permit: StatementPermit,
        admission: Arc<Admission>,
        user: Arc<str>,
    },
    /// It returned its permit, and nobody has read on since.
    Paused {
        pause: Pause,
        admission: Arc<Admission>,
        user: Arc<str>,
    },
    /// Its client reads on, and it waits for a permit.
    Resuming {
        /// It counts as paused until then.
        pause: Pause,
        resumed: BoxFuture<'static, Result<StatementPermit, Status>>,
        admission: Arc<Admission>,
        user: Arc<str>,
    },
}

impl PermitState {
    /// Returns the permit if others wait for one.
    fn pause(&mut self, end: &CancellationToken) {
        *self = match std::mem::replace(self, Self::Unneeded) {
            Self::Held {
                permit,
                admission,
                user,
            } if admission.is_wanted(&user) => {
                let pause = admission.pause(end.clone());
                drop(permit);
                Self::Paused {
                    pause,
                    admission,
                    user,
                }
            }
            other => other,
        };
    }

    /// Waits until the statement has a permit, if it needs one.
    fn poll_resume(&mut self, ctx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        loop {
            *self = match std::mem::replace(self, Self::Unneeded) {
                Self::Paused {
                    pause,
                    admission,
                    user,
                } => Self::Resuming {
                    resumed: Arc::clone(&admission).resume(Arc::clone(&user)).boxed(),
                    pause,
                    admission,
                    user,
                },
                Self::Resuming {
                    mut resumed,
                    pause,
                    admission,
                    user,
                } => match resumed.poll_unpin(ctx) {
                    Poll::Ready(permit) => Self::Held {
                        permit: permit?,
                        admission,
                        user,
                    },
                    Poll::Pending => {
                        *self = Self::Resuming {
                            resumed,
                            pause,
                            admission,
                            user,
                        };
                        return Poll::Pending;
                    }
                },
                has_permit => {
                    *self = has_permit;
                    return Poll::Ready(Ok(()));
                }
            };
        }
    }
}

/// Where a statement stands.
enum State {
    Running(Box<Held>),
    /// It was stopped, and nobody was told yet.
    Stopped(Status),
    Ended,
}

struct Shared {
    state: Mutex<State>,
    /// Since when the client has not asked for the next rows; `None` while it waits for them.
    unread_since: Mutex<Option<Instant>>,
    waker: AtomicWaker,
}

impl Shared {
    /// Takes the rows away.
    fn stop(&self, why: Status) {
        let taken = {
            let mut state = self.state.lock();
            match &*state {
                State::Running(_) => std::mem::replace(&mut *state, State::Stopped(why)),
                State::Stopped(_) | State::Ended => return,
            }
        };
        drop(taken);
        self.waker.wake();
    }

    /// Returns for how long the client has not asked for the next rows.
    fn unread_for(&self) -> Duration {
        let unread_since = *self.unread_since.lock();
        unread_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the statement's permit if others wait for one.
    fn pause(&self, end: &CancellationToken) {
        // Who holds the lock is reading.
        if let Some(mut state) = self.state.try_lock()
            && let State::Running(held) = &mut *state
        {
            held.permit.pause(end);
        }
    }
}

/// A statement's rows. Dropping it stops the statement.
pub(crate) struct RowStream {
    schema: SchemaRef,
    shared: Arc<Shared>,
    done: CancellationToken,
}

impl RowStream {
    /// Watches over rows from now on.
    pub(crate) fn new(schema: SchemaRef, held: Held, stops: Stops) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Running(Box::new(held))),
            unread_since: Mutex::new(Some(Instant::now())),
            waker: AtomicWaker::new(),
        });
        let done = CancellationToken::new();
        tokio::spawn(watch(Arc::clone(&shared), stops, done.clone()));
        Self {
            schema,
            shared,
            done,
        }
    }

    /// Returns the columns as they travel.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

async fn watch(shared: Arc<Shared>, stops: Stops, done: CancellationToken) {
    let paused_for_too_many = CancellationToken::new();
    let unread = async {
        loop {
            let unread_for = shared.unread_for();
            let Some(rest) = stops.stall.checked_sub(unread_for) else {
                return;
            };
            if unread_for >= PAUSE_AFTER {
                shared.pause(&paused_for_too_many);
            }
            tokio::time::sleep(rest.min(PAUSE_AFTER)).await;
        }
    };
    let why = tokio::select! {
        () = done.cancelled() => return,
        why = stops.stopped() => why,
        () = paused_for_too_many.cancelled() => Status::resource_exhausted(
            "the statement's rows were not read while other statements waited, and the server \
             keeps no more paused results: read rows as they come, or raise --queue or --max-statements",
        ),
        () = unread => Status::deadline_exceeded(format!(
            "nobody read the statement's rows for {} s: read them as they come, or raise \
             --unread-timeout",
            stops.stall.as_secs_f64()
        )),
    };
    shared.stop(why);
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, Status>;

    fn poll_next(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let shared = &self.shared;
        shared.waker.register(ctx.waker());
        let mut state = shared.state.lock();
        let item = match &mut *state {
            State::Ended => return Poll::Ready(None),
            State::Stopped(why) => Some(Err(why.clone())),
            State::Running(held) => {
                let polled = match held.permit.poll_resume(ctx) {
                    Poll::Ready(Ok(())) => held.rows.as_mut().poll_next(ctx),
                    Poll::Ready(Err(why)) => Poll::Ready(Some(Err(why))),
                    Poll::Pending => Poll::Pending,
                };
                match polled {
                    Poll::Ready(item) => item,
                    Poll::Pending => {
                        *shared.unread_since.lock() = None;
                        return Poll::Pending;
                    }
                }
            }
        };
        *shared.unread_since.lock() = Some(Instant::now());
        if !matches!(item, Some(Ok(_))) {
            let ended = std::mem::replace(&mut *state, State::Ended);
            drop(state);
            drop(ended);
            self.done.cancel();
        }
        Poll::Ready(item)
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        self.done.cancel();
        // The guard beside the statement may hold it for another moment.
        let ended = std::mem::replace(&mut *self.shared.state.lock(), State::Ended);
        drop(ended);
    }
}
