//! The way of a result from the device's thread to whoever waits for it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::channel::oneshot;

use crate::error::DeviceError;
use crate::info::DeviceId;
use crate::memory::Reservation;

/// The result of queued work, once the device is done with it. Dropping it leaves the work queued.
#[derive(Debug)]
#[must_use = "a completion is the only way to learn that the work failed"]
pub struct Completion<T> {
    device: DeviceId,
    receiver: oneshot::Receiver<Result<T, DeviceError>>,
}

impl<T> Future for Completion<T> {
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

/// A task and where its result goes, for a queue that knows neither type.
pub(super) trait Parcel: Send {
    /// Runs the task and keeps its result; a panic becomes the error's text.
    fn run(&mut self) -> Result<(), String>;

    /// Sends the result of [`Parcel::run`], or `failure` in its place.
    fn deliver(self: Box<Self>, outcome: Result<(), DeviceError>);
}

/// Packs a task for the queue, with memory that goes back when the work is over.
pub(super) fn parcel<T, F>(
    device: DeviceId,
    memory: Option<Reservation>,
    task: F,
) -> (Box<dyn Parcel>, Completion<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let parcel = TypedParcel {
        device,
        memory,
        task: Some(task),
        result: None,
        sender,
    };
    (Box::new(parcel), Completion { device, receiver })
}

struct TypedParcel<T, F> {
    device: DeviceId,
    memory: Option<Reservation>,
    task: Option<F>,
    result: Option<T>,
    sender: oneshot::Sender<Result<T, DeviceError>>,
}

impl<T, F> Parcel for TypedParcel<T, F>
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    fn run(&mut self) -> Result<(), String> {
        let Some(task) = self.task.take() else {
            return Err("it ran before".to_owned());
        };
        // Nothing that the task touched is looked at again after a panic, save through the task's
        // own locks.
        let result =
            catch_unwind(AssertUnwindSafe(task)).map_err(|payload| panic_text(&*payload))?;
        self.result = Some(result);
        Ok(())
    }

    fn deliver(self: Box<Self>, outcome: Result<(), DeviceError>) {
        let Self {
            device,
            memory,
            task,
            result,
            sender,
        } = *self;
        // Whoever hears of the end finds the memory free.
        drop(task);
        drop(memory);
        let message = outcome.and_then(|()| {
            result.ok_or_else(|| DeviceError::Lost {
                device,
                why: "the work was never run".to_owned(),
            })
        });
        // Nobody waiting is no failure: the work was to be done all the same.
        let _ = sender.send(message);
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("its task panicked: {}", text.unwrap_or("without a message"))
}
