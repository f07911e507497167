//! Work for a simulated device's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::DeviceError;
use crate::info::DeviceId;
use crate::memory::Reservation;
use crate::pending::{Delivery, Pending, panic_text};

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
) -> (Box<dyn Parcel>, Pending<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (sender, pending) = Pending::later(device);
    let parcel = TypedParcel {
        device,
        memory,
        task: Some(task),
        result: None,
        sender,
    };
    (Box::new(parcel), pending)
}

struct TypedParcel<T, F> {
    device: DeviceId,
    memory: Option<Reservation>,
    task: Option<F>,
    result: Option<T>,
    sender: Delivery<T>,
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
        let result = catch_unwind(AssertUnwindSafe(task))
            .map_err(|panic| format!("its task panicked: {}", panic_text(&*panic)))?;
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
