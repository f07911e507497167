//! Work for a device's thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::lane::Lane;
use crate::error::DeviceError;
use crate::info::DeviceId;
use crate::pending::{Delivery, Pending, panic_text};

/// Work of any type of result.
pub(super) trait Job: Send {
    /// Does the work and delivers its result, if that may be believed.
    fn run(self: Box<Self>, lane: &Lane<'_>);

    /// Delivers this in place of a result.
    fn fail(self: Box<Self>, error: DeviceError);
}

/// A task of any type of result that has not begun.
pub(super) trait Start: Send {
    /// Begins the task, which delivers its result, if that may be believed, when it ends.
    fn start<'l>(self: Box<Self>, lane: Lane<'l>) -> LocalBoxFuture<'l, ()>;

    /// Delivers this in place of a result.
    fn fail(self: Box<Self>, error: DeviceError);
}

/// Packs a task for the queue.
pub(super) fn task<T, W>(device: DeviceId, work: W) -> (Box<dyn Start>, Pending<T>)
where
    T: Send + 'static,
    W: for<'l> FnOnce(Lane<'l>) -> LocalBoxFuture<'l, T> + Send + 'static,
{
    let (sender, pending) = Pending::later(device);
    (Box::new(Task { work, sender }), pending)
}

/// Packs work for the queue.
pub(super) fn job<T, F>(device: DeviceId, work: F) -> (Box<dyn Job>, Pending<T>)
where
    T: Send + 'static,
    F: FnOnce(&Lane<'_>) -> T + Send + 'static,
{
    let (sender, pending) = Pending::later(device);
    (Box::new(Task { work, sender }), pending)
}

struct Task<T, F> {
    work: F,
    sender: Delivery<T>,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnOnce(&Lane<'_>) -> T + Send,
{
    fn run(self: Box<Self>, lane: &Lane<'_>) {
        let Self { work, sender } = *self;
        // Nothing that the work touched is looked at again after a panic, save the lane, whose
        // calls leave it whole.
        let ran = catch_unwind(AssertUnwindSafe(|| work(lane)));
        deliver(lane, sender, ran);
    }

    fn fail(self: Box<Self>, error: DeviceError) {
        let Self { work, sender } = *self;
        // Whoever hears of the failure finds free what the work held.
        drop(work);
        let _ = sender.send(Err(error));
    }
}

impl<T, W> Start for Task<T, W>
where
    T: Send + 'static,
    W: for<'l> FnOnce(Lane<'l>) -> LocalBoxFuture<'l, T> + Send + 'static,
{
    fn start<'l>(self: Box<Self>, lane: Lane<'l>) -> LocalBoxFuture<'l, ()> {
        let Self { work, sender } = *self;
        async move {
            // As above.
            let run = AssertUnwindSafe(async { work(lane).await });
            deliver(&lane, sender, run.catch_unwind().await);
        }
        .boxed_local()
    }

    fn fail(self: Box<Self>, error: DeviceError) {
        let Self { work, sender } = *self;
        drop(work);
        let _ = sender.send(Err(error));
    }
}

/// Delivers what came of work.
fn deliver<T>(lane: &Lane<'_>, sender: Delivery<T>, ran: Result<T, Box<dyn Any + Send>>) {
    let outcome = match ran {
        Ok(result) => lane.verdict(Ok(())).map(|()| result),
        Err(payload) => {
            match lane.verdict(Err(format!("its work panicked: {}", panic_text(&*payload)))) {
                Ok(()) => return,
                Err(error) => Err(error),
            }
        }
    };
    // Nobody waiting is no failure: the work was to be done all the same.
    let _ = sender.send(outcome);
}

#[cfg(test)]
mod tests;
