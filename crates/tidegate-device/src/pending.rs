//! The way of a result from a device's thread to whoever waits for it.

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::channel::oneshot;

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

/// Delivers a result. Dropped, it says that the device's thread ended.
pub(crate) type Delivery<T> = oneshot::Sender<Result<T, DeviceError>>;

impl<T> Pending<T> {
    /// Makes a result that is delivered later.
    pub(crate) fn later(device: DeviceId) -> (Delivery<T>, Self) {
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

/// Returns what a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}
