//! Planning, kept from stopping anybody else: off the caller's threads, on a large stack, and with an end.
//!
//! Planning computes for as long as the statement makes it: it recurses over expressions, walks the plan
//! once for each rule, and evaluates constants. [`apart`] runs it on a thread for blocking work, so that the
//! threads that serve others stay free. Whoever waits gets an error as soon as the statement's time is over
//! or it is dropped, and the planning itself ends at the next rule that asks [`check`]
//! (`crate::query::rules`). How large a plan may be is bounded by `crate::query::plan_size`.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{Deadline, cancelled, panicked};
use crate::error::Error;
use crate::functions::folding::Folding;

/// Stack that must be left before planning goes on where it is.
const RED_ZONE_BYTES: usize = 8 << 20;

/// Stack that is taken otherwise; only pages that are touched cost memory.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    /// The statement that this thread plans.
    static CURRENT: RefCell<Option<Arc<Work>>> = const { RefCell::new(None) };
}

/// What one call of [`apart`] does.
#[derive(Debug, Default)]
struct Work {
    stop: CancellationToken,
    /// It has been planned and runs now, in its own time.
    has_begun: AtomicBool,
}

/// Plans on a thread for blocking work, for at most `timeout`; dropping the future stops it.
///
/// A panic becomes an error. Inside another call, and without a tokio runtime, the work runs in place.
///
/// # Errors
/// Those of the work; [`crate::ErrorKind::Cancelled`] when the time is over.
pub(crate) fn apart<T: Send + 'static>(
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> impl Future<Output = Result<T, Error>> + Send {
    // Planning is a large future, and those of its callers would hold it.
    run_apart(timeout, Box::pin(work))
}

async fn run_apart<T: Send + 'static>(
    timeout: Option<Duration>,
    work: BoxFuture<'static, Result<T, Error>>,
) -> Result<T, Error> {
    let is_nested = CURRENT.with_borrow(Option::is_some);
    let runtime = match Handle::try_current() {
        Ok(runtime) if !is_nested => runtime,
        _ => return on_large_stack(work).await,
    };
    let state = Arc::new(Work::default());
    let _stop = state.stop.clone().drop_guard();
    let inside = Arc::clone(&state);
    let mut task = runtime.spawn_blocking(move || {
        let _current = Current::enter(&inside);
        Handle::current().block_on(async {
            let work = pin!(on_large_stack(work));
            tokio::select! {
                biased;
                () = inside.stop.cancelled() => Err(cancelled()),
                done = work => done,
            }
        })
    });
    let joined = match timeout {
        None => task.await,
        Some(timeout) => match Deadline::after(timeout).before(&mut task).await {
            Ok(joined) => joined,
            // What runs now has a deadline of its own.
            Err(_) if state.has_begun.load(Ordering::Relaxed) => task.await,
            Err(over) => return Err(over),
        },
    };
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => Err(panicked(&*panic)),
        // The runtime is shutting down.
        Err(_) => Err(cancelled()),
    })
}

/// Says that what follows inside [`apart`] is no planning any more: it is not cut by the time for planning.
pub(crate) fn begins() {
    CURRENT.with_borrow(|current| {
        if let Some(work) = current {
            work.has_begun.store(true, Ordering::Relaxed);
        }
    });
}

/// Fails if nobody waits any more for what this thread plans.
///
/// # Errors
/// [`crate::ErrorKind::Cancelled`].
pub(crate) fn check() -> Result<(), Error> {
    let is_stopped = CURRENT.with_borrow(|current| {
        let work = current.as_ref();
        work.is_some_and(|work| work.stop.is_cancelled())
    });
    match is_stopped {
        true => Err(cancelled()),
        false => Ok(()),
    }
}

/// Runs one step of a rule, unless nobody waits any more for the plan.
///
/// # Errors
/// Those of [`check`] and of the step.
pub(super) fn in_rule<T, E: From<Error>>(step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    check()?;
    let _folding = Folding::begin();
    step()
}

/// Marks a thread as planning for as long as it lives.
struct Current;

impl Current {
    fn enter(work: &Arc<Work>) -> Self {
        CURRENT.set(Some(Arc::clone(work)));
        Self
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Polls a future with room to recurse.
///
/// What a statement may nest is bounded before it is parsed (`crate::statements`); this gives the recursion
/// over whatever passes that bound room on any thread of any runtime.
pub(crate) async fn on_large_stack<F: Future>(future: F) -> F::Output {
    LargeStack {
        inner: Box::pin(future),
    }
    .await
}

struct LargeStack<F> {
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for LargeStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Self::Output> {
        stacker::maybe_grow(RED_ZONE_BYTES, STACK_BYTES, || {
            self.inner.as_mut().poll(ctx)
        })
    }
}
