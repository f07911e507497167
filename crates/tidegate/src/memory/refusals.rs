//! What operators keep after they were refused memory and spilled.
//!
//! DataFusion's aggregations grow their table first and ask for its bytes then. Refused, they spill, and ask
//! for what the emptied table still has, which may be more than they had before; a refusal of that fails the
//! statement ("Decreasing allocation after spilling should succeed"), although memory was just given back.

use std::collections::HashMap;

use datafusion::execution::memory_pool::MemoryConsumer;
use parking_lot::Mutex;

/// The bytes that consumers were refused last, by their identifiers.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<usize, usize>>);

impl Refusals {
    /// Notes that a consumer was refused so many bytes, and so will spill if it can.
    pub(super) fn note(&self, consumer: &MemoryConsumer, additional: usize) {
        if consumer.can_spill() {
            self.0.lock().insert(consumer.id(), additional);
        }
    }

    /// Returns whether so many bytes are what a consumer keeps of those that it was refused just before.
    pub(super) fn is_rest(&self, consumer: &MemoryConsumer, additional: usize) -> bool {
        let refused = match consumer.can_spill() {
            true => self.0.lock().remove(&consumer.id()),
            false => None,
        };
        refused.is_some_and(|refused| additional < refused)
    }

    /// Forgets a consumer that ends.
    pub(super) fn forget(&self, consumer: &MemoryConsumer) {
        self.0.lock().remove(&consumer.id());
    }
}
