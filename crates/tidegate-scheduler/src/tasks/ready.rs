//! The ready tasks, and the slots and memory that are free for them.
//!
//! Tasks with the same needs are in one heap, so that choosing looks at one task per kind of need
//! and not at all waiting tasks.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use super::Needs;
use super::node::Node;

/// A ready task, ordered so that the greatest goes first.
struct Ranked(Arc<Node>);

impl Ranked {
    fn rank(&self) -> (i32, std::cmp::Reverse<u64>) {
        (self.0.priority, std::cmp::Reverse(self.0.number))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

/// Ready tasks and free slots.
pub(super) struct Ready {
    heaps: HashMap<Arc<Needs>, BinaryHeap<Ranked>>,
    free: HashMap<Arc<str>, u32>,
}

/// What came of looking for a task.
pub(super) enum Choice {
    /// This one runs; its slots are taken.
    Run(Arc<Node>),
    /// This one goes first, if its memory can be had; its slots are taken until it is put back.
    Reserve(Arc<Node>),
    /// There is none, or none that fits.
    Nothing,
}

impl Ready {
    pub(super) fn new(slots: &HashMap<Arc<str>, u32>) -> Self {
        Self {
            heaps: HashMap::new(),
            free: slots.clone(),
        }
    }

    pub(super) fn push(&mut self, node: Arc<Node>) {
        let needs = Arc::clone(&node.needs);
        self.heaps.entry(needs).or_default().push(Ranked(node));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heaps.is_empty()
    }

    /// Chooses the task that goes next. `without_memory` are needs for whose memory there is no room:
    /// nothing else that takes memory overtakes them.
    pub(super) fn choose(&mut self, without_memory: bool) -> Choice {
        let mut held: HashSet<Arc<str>> = HashSet::new();
        let mut kinds: Vec<(&Arc<Needs>, &Ranked)> = self
            .heaps
            .iter()
            .filter_map(|(needs, heap)| Some((needs, heap.peek()?)))
            .collect();
        kinds.sort_unstable_by(|left, right| right.1.cmp(left.1));
        let mut chosen = None;
        for (needs, _) in kinds {
            let lacks = |(name, count): &(&Arc<str>, &u32)| {
                held.contains(*name) || self.free.get(*name).is_none_or(|free| free < *count)
            };
            let lacking: Vec<Arc<str>> = needs
                .slots
                .iter()
                .filter(lacks)
                .map(|(name, _)| Arc::clone(name))
                .collect();
            if lacking.is_empty() && !(without_memory && needs.memory_bytes > 0) {
                chosen = Some(Arc::clone(needs));
                break;
            }
            // What it waits for is kept for it.
            held.extend(lacking);
        }
        let Some(needs) = chosen else {
            return Choice::Nothing;
        };
        let Some(Ranked(node)) = self.heaps.get_mut(&needs).and_then(BinaryHeap::pop) else {
            return Choice::Nothing;
        };
        if self.heaps.get(&needs).is_some_and(BinaryHeap::is_empty) {
            self.heaps.remove(&needs);
        }
        for (name, count) in &needs.slots {
            if let Some(free) = self.free.get_mut(name) {
                *free -= count;
            }
        }
        match needs.memory_bytes {
            0 => Choice::Run(node),
            _ => Choice::Reserve(node),
        }
    }

    /// Returns whether the slots are free that some task needs.
    pub(super) fn has_room(&self) -> bool {
        let is_free = |(name, count): (&Arc<str>, &u32)| {
            self.free.get(name).is_some_and(|free| free >= count)
        };
        self.heaps
            .keys()
            .any(|needs| needs.slots.iter().all(is_free))
    }

    /// Gives a task's slots back.
    pub(super) fn release(&mut self, needs: &Needs) {
        for (name, count) in &needs.slots {
            if let Some(free) = self.free.get_mut(name) {
                *free += count;
            }
        }
    }
}
