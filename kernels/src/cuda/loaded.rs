//! The kernels that a device has loaded, found by their source.
//!
//! A source has tens of kilobytes. Hashing it takes longer than comparing it with what was used last,
//! which is nearly always what is looked for.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_device::cuda::Kernel;

/// Sources whose kernels are kept; what was used longest ago goes first.
const SOURCES_MAX: usize = 256;

/// The kernels of one program on the device.
pub(super) struct Loaded {
    pub(super) kernels: Vec<Kernel>,
}

/// Loaded kernels by their source.
#[derive(Default)]
pub(super) struct LoadedSources {
    /// What was used last stands in front.
    known: Mutex<VecDeque<(Box<str>, Arc<Loaded>)>>,
}

impl LoadedSources {
    /// Returns the kernels of a source if they are loaded.
    pub(super) fn find(&self, text: &str) -> Option<Arc<Loaded>> {
        let mut known = self.known.lock();
        let position = known.iter().position(|(source, _)| **source == *text)?;
        if position > 0 {
            let found = known.remove(position)?;
            known.push_front(found);
        }
        known.front().map(|(_, loaded)| Arc::clone(loaded))
    }

    /// Keeps the kernels of a source.
    pub(super) fn keep(&self, text: &str, loaded: Arc<Loaded>) {
        let mut known = self.known.lock();
        known.retain(|(source, _)| **source != *text);
        known.truncate(SOURCES_MAX - 1);
        known.push_front((text.into(), loaded));
    }
}

#[cfg(test)]
mod tests;
