//! A moment of a device's compute stream.

use std::fmt;
use std::sync::Arc;

use super::driver::Event;
use super::shared::{Garbage, Shared};

/// A moment on the compute stream, between the launches before and after it. See
/// [`Lane::elapsed_seconds`](super::Lane::elapsed_seconds).
pub struct Mark {
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    event: Option<Event>,
}

impl Mark {
    pub(super) fn new(shared: Arc<Shared>, event: Event) -> Self {
        Self {
            shared,
            event: Some(event),
        }
    }

    /// Returns the event, of whichever device.
    pub(super) fn own_event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Returns the event, if the mark is this device's.
    pub(super) fn event(&self, device: &Arc<Shared>) -> Option<&Event> {
        let event = self.event.as_ref();
        event.filter(|_| Arc::ptr_eq(&self.shared, device))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.shared.discard(Garbage::Event(event));
        }
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mark of {}", self.shared.info.id)
    }
}
