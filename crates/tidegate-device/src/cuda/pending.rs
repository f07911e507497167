//! Work for a device's thread, and the future of its result.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;

use super::lane::Lane;
use crate::error::DeviceError;
use crate::info::DeviceId;

/// The result of submitted work, once the device's thread is done with it. Dropping it leaves the
/// work queued.
///
/// It is [`DeviceError::Lost`] if the device was lost before the work ended, and
/// [`DeviceError::LaunchFailed`] if the work panicked.
#[derive(Debug)]
#[must_use = "a pending result is the only way to learn that the work failed"]
pub struct Pending<T> {
    device: DeviceId,
    receiver: oneshot::Receiver<Result<T, DeviceError>>,
}

/// Delivers the result of what goes on after the work that began it. Dropped, it says that the device's
/// thread ended.
pub(super) type Delivery<T> = oneshot::Sender<Result<T, DeviceError>>;

impl<T> Pending<T> {
    /// Makes a result that is delivered later.
    pub(super) fn later(device: DeviceId) -> (Delivery<T>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self { device, receiver })
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, DeviceError>;

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Self::Output> {
        let device = self.device;
        self.receiver.poll_unpin(ctx).map(|received| {
            received.unwrap_or_else(|oneshot::Canceled| {
                Err(DeviceError::Lost {
                    device,
                    why: "its thread ended".to_owned(),
                })
            })
        })
    }
}

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
    let (sender, receiver) = oneshot::channel();
    let task = Task { work, sender };
    (Box::new(task), Pending { device, receiver })
}

/// Packs work for the queue.
pub(super) fn job<T, F>(device: DeviceId, work: F) -> (Box<dyn Job>, Pending<T>)
where
    T: Send + 'static,
    F: FnOnce(&Lane<'_>) -> T + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let task = Task { work, sender };
    (Box::new(task), Pending { device, receiver })
}

struct Task<T, F> {
    work: F,
    sender: oneshot::Sender<Result<T, DeviceError>>,
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
        Err(payload) => match lane.verdict(Err(panic_text(&*payload))) {
            Ok(()) => return,
            Err(error) => Err(error),
        },
    };
    // Nobody waiting is no failure: the work was to be done all the same.
    let _ = sender.send(outcome);
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("its work panicked: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::job;
    use crate::error::DeviceError;
    use crate::info::DeviceId;

    #[test]
    fn failed_and_forgotten_work_is_heard_of() {
        let lost = DeviceError::Lost {
            device: DeviceId(1),
            why: "a test".to_owned(),
        };
        let (work, pending) = job(DeviceId(1), |_| 1);
        work.fail(lost.clone());
        assert_eq!(block_on(pending), Err(lost));
        let (work, pending) = job(DeviceId(1), |_| 1);
        drop(work);
        let error = block_on(pending).unwrap_err();
        assert_eq!(
            error.to_string(),
            "device 1 is lost: its thread ended; its work can run elsewhere"
        );
    }

    #[test]
    fn nobody_has_to_wait() {
        let (work, pending) = job(DeviceId(1), |_| 1);
        drop(pending);
        work.fail(DeviceError::Lost {
            device: DeviceId(1),
            why: "a test".to_owned(),
        });
    }
}
