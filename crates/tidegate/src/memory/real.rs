//! What the process really takes, beside what statements say they hold.
//!
//! DataFusion's operators count most of their memory, not all: what lies in queues between operators
//! and in decoders is nobody's. So the process's resident memory is looked at as well. What was there
//! while no statement held anything, such as tables in memory, is no statement's; what has come since
//! is theirs, counted or not. A part of that is left to chance ([`left_to_chance`]), for allocators
//! keep what was freed.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, get_current_pid};

/// How old a look at the process may be.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Bytes over a limit that do not count, at least.
const CHANCE_BYTES: u64 = 512 << 20;

/// The part of a limit that does not count over it.
const CHANCE_SHARE: u64 = 8;

/// Returns the bytes by which the process may exceed a limit before statements are refused.
pub(crate) fn left_to_chance(limit: u64) -> u64 {
    CHANCE_BYTES.max(limit / CHANCE_SHARE)
}

/// Looks at the process's resident memory, now and then.
#[derive(Debug)]
pub(crate) struct RealMemory {
    look: fn() -> Option<u64>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    at: Option<Instant>,
    resident: Option<u64>,
    /// What nobody counts, while no statement holds anything.
    idle: Option<u64>,
}

/// What statements really take, and what the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Real {
    pub(crate) statements: u64,
    pub(crate) resident: u64,
}

impl RealMemory {
    pub(crate) fn of_process() -> Self {
        Self::new(resident_bytes)
    }

    pub(super) fn new(look: fn() -> Option<u64>) -> Self {
        Self {
            look,
            seen: Mutex::default(),
        }
    }

    /// Tells what statements take that say they hold `held` bytes, while `cached` are kept for later
    /// ones; `None` where the system does not say.
    pub(crate) fn now(&self, held: u64, cached: u64) -> Option<Real> {
        let mut seen = self.seen.lock();
        if seen.at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            seen.at = Some(Instant::now());
            seen.resident = (self.look)();
        }
        let resident = seen.resident?;
        let uncounted = resident.saturating_sub(held.saturating_add(cached));
        let idle = match seen.idle {
            Some(idle) if held > 0 => idle,
            _ => *seen.idle.insert(uncounted),
        };
        Some(Real {
            statements: held.saturating_add(uncounted.saturating_sub(idle)),
            resident,
        })
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
mod tests {
    use super::{RealMemory, left_to_chance, resident_bytes};

    #[test]
    fn the_process_takes_some_memory() {
        let bytes = resident_bytes().unwrap();
        assert!((1 << 20..1 << 40).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_was_there_before_is_no_statements() {
        let real = RealMemory::new(|| Some(1000));
        let idle = real.now(0, 100).unwrap();
        assert_eq!((idle.statements, idle.resident), (0, 1000));
        // What is held is part of what was there: freed memory that came to use again.
        assert_eq!(real.now(300, 100).unwrap().statements, 300);
        // The cache gave way, and what it had is the statements' now.
        assert_eq!(real.now(300, 0).unwrap().statements, 300);
        assert_eq!(real.now(950, 0).unwrap().statements, 950);
        let more = RealMemory::new(|| Some(5000));
        more.seen.lock().idle = Some(1000);
        assert_eq!(more.now(500, 0).unwrap().statements, 4000);
    }

    #[test]
    fn where_the_system_does_not_say_nothing_is_told() {
        assert_eq!(RealMemory::new(|| None).now(1, 0), None);
    }

    #[test]
    fn a_small_limit_leaves_room_for_noise() {
        assert_eq!(left_to_chance(0), 512 << 20);
        assert_eq!(left_to_chance(8 << 30), 1 << 30);
    }
}
