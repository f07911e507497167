//! What the process really takes, beside what statements say they hold.
//!
//! DataFusion's operators count most of their memory, not all: what lies in queues between operators
//! and in decoders is nobody's. So the process's resident memory is looked at as well. What was there
//! while no statement held anything, such as tables in memory, is no statement's; what has come since
//! is theirs, counted or not. [`real_limit`] says how much of that is too much. Allocators keep what was
//! freed, so it is asked to give that back before a statement is refused.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, get_current_pid};

/// How old a look at the process may be, while it takes much less than it may, and otherwise.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOK_CLOSELY_EVERY: Duration = Duration::from_millis(1);

/// How long the allocator is left alone after it was asked for what it keeps.
const TRIM_EVERY: Duration = Duration::from_millis(250);

/// How many bytes a process takes more without any statement before the allocator is asked for what it keeps all
/// the same: what a statement freed just before its second try is not the process's own.
const MORE_BYTES: u64 = 16 << 20;

/// The part of a limit by which statements may exceed it.
const SLACK_SHARE: u64 = 8;

/// What a process takes without any statement varies by so many bytes: a smaller limit is kept by what
/// operators count alone.
const NOISE_BYTES: u64 = 64 << 20;

/// Bytes over a limit that operators which hold little may really take, at least.
const FAR_BYTES: u64 = 512 << 20;

/// What a process takes before its first statement, at most, in bytes. Under a small limit that is much,
/// so it is part of the limit.
const BARE_BYTES: u64 = 128 << 20;

/// Returns the bytes that statements and cached columns may really take under a limit, in a process that
/// takes `idle` bytes while no statement runs. Together with `idle` this is at most 1.125 times the limit
/// where no tables are held in memory and the process itself takes less than half of the limit.
pub(crate) fn real_limit(limit: u64, idle: u64) -> u64 {
    let bare = idle.min(BARE_BYTES).min(limit / 2);
    (limit + limit / SLACK_SHARE).saturating_sub(bare)
}

/// Returns the bytes above which operators that cannot spill, and hold much, are refused more: with `idle` at
/// most one and a half times the limit.
pub(crate) fn much_too_much(limit: u64, idle: u64) -> u64 {
    real_limit(limit, idle) + limit / 2 - limit / SLACK_SHARE
}

/// Returns the bytes above which all operators are refused more.
pub(crate) fn far_too_much(limit: u64, _: u64) -> u64 {
    limit.saturating_add(FAR_BYTES.max(limit / SLACK_SHARE))
}

/// Looks at the process's resident memory, now and then.
#[derive(Debug)]
pub(crate) struct RealMemory {
    look: fn() -> Option<u64>,
    /// Bytes above which the process is looked at more often.
    close_to: u64,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    at: Option<Instant>,
    resident: Option<u64>,
    /// What nobody counts, while no statement holds anything.
    idle: Option<u64>,
    /// When the allocator was asked last for what it keeps.
    trimmed: Option<Instant>,
}

/// What statements really take, and what the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Real {
    pub(crate) statements: u64,
    pub(crate) resident: u64,
    /// What is no statement's.
    pub(crate) idle: u64,
}

impl RealMemory {
    /// Looks at this process, more often where it takes more than half of a limit.
    pub(crate) fn of_process(limit: u64) -> Self {
        if limit < NOISE_BYTES {
            return Self::new(|| None);
        }
        Self {
            close_to: limit / 2,
            ..Self::new(resident_bytes)
        }
    }

    pub(super) fn new(look: fn() -> Option<u64>) -> Self {
        Self {
            look,
            close_to: u64::MAX,
            seen: Mutex::default(),
        }
    }

    /// Tells what statements take that say they hold `held` bytes, while `cached` are kept for later
    /// ones; `None` where the system does not say.
    pub(crate) fn now(&self, held: u64, cached: u64) -> Option<Real> {
        let mut seen = self.seen.lock();
        self.look(&mut seen);
        let resident = seen.resident?;
        let uncounted = resident.saturating_sub(held.saturating_add(cached));
        let idle = *seen.idle.get_or_insert(uncounted);
        Some(Real {
            statements: held.saturating_add(uncounted.saturating_sub(idle)),
            resident,
            idle,
        })
    }

    /// Notes that what the process takes beside `cached` bytes is no statement's: none holds anything.
    pub(crate) fn is_idle(&self, cached: u64) {
        let mut seen = self.seen.lock();
        self.look(&mut seen);
        // What earlier statements freed is not what a process takes without one.
        let known = seen.idle.map_or(u64::MAX, |idle| idle + cached);
        if seen.resident.is_some_and(|resident| {
            let is_more = resident.saturating_sub(known) > MORE_BYTES;
            let may_trim = seen.trimmed.is_none_or(|at| at.elapsed() >= TRIM_EVERY);
            resident > self.close_to && (is_more || may_trim)
        }) {
            tidegate_device::trim_heap();
            seen.trimmed = Some(Instant::now());
            seen.resident = (self.look)();
        }
        seen.idle = seen
            .resident
            .map(|resident| resident.saturating_sub(cached));
    }

    fn look(&self, seen: &mut Seen) {
        let is_close = seen
            .resident
            .is_some_and(|resident| resident > self.close_to);
        let age_max = if is_close {
            LOOK_CLOSELY_EVERY
        } else {
            LOOK_EVERY
        };
        if seen.at.is_none_or(|at| at.elapsed() >= age_max) {
            seen.at = Some(Instant::now());
            seen.resident = (self.look)();
        }
    }

    /// Has the allocator give back what it keeps, unless it was asked just before and a statement does not
    /// hang on it; tells whether it was asked. Blocks for milliseconds.
    pub(crate) fn trim(&self, is_needed: bool) -> bool {
        {
            let mut seen = self.seen.lock();
            if !is_needed && seen.trimmed.is_some_and(|at| at.elapsed() < TRIM_EVERY) {
                return false;
            }
            seen.trimmed = Some(Instant::now());
        }
        tidegate_device::trim_heap();
        self.seen.lock().at = None;
        true
    }
}

/// Asks the system for this process's resident memory.
fn resident_bytes() -> Option<u64> {
    // Linux tells without a walk over all processes.
    let told = std::fs::read_to_string("/proc/self/status").ok();
    let line = told.as_deref().and_then(|told| {
        let mut lines = told.lines();
        lines.find_map(|line| line.strip_prefix("VmRSS:"))
    });
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    if let Some(kilobytes) = kilobytes {
        return Some(kilobytes * 1024);
    }
    let pid = get_current_pid().ok()?;
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
    system.process(pid).map(|process| process.memory())
}

#[cfg(test)]
mod tests;
