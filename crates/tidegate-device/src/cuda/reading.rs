//! Few bytes that leave the device once it has come so far, for which its thread does not wait.

use std::collections::VecDeque;
use std::mem;

use super::driver::{Event, Pinned, Stream};
use super::fault::{Fault, Severity};
use super::mark::Mark;
use super::staging::SMALL_BYTES;
use crate::error::DeviceError;

/// Bytes that were read, and how long the device took until they were, from a mark on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadBack {
    /// What was read.
    pub bytes: Vec<u8>,
    /// Seconds of the device since the mark; 0 if there was none.
    pub seconds: f64,
}

/// Hears what was read, or that the device is lost; on the device's thread.
pub(super) type Then = Box<dyn FnOnce(Result<ReadBack, DeviceError>) + Send>;

/// Copies that are under way, in the order in which they end.
#[derive(Default)]
pub(super) struct Readings {
    under_way: VecDeque<Reading>,
    /// Pinned memory that no copy writes to, each for [`SMALL_BYTES`].
    free: Vec<Pinned>,
}

struct Reading {
    memory: Pinned,
    bytes: usize,
    from: Option<Mark>,
    /// Recorded behind the copy.
    to: Event,
    then: Then,
}

/// What one look at the oldest copy has found.
pub(super) enum Settled {
    /// It has ended: this is to be called.
    Ended(Then, ReadBack),
    /// The device is lost, by this fault: these are to be told so.
    Lost(Vec<Then>, Fault),
    /// It is still under way.
    UnderWay,
    /// There is none.
    None,
}

impl Readings {
    /// Begins to read from the device's memory, behind what the stream holds.
    ///
    /// # Safety
    /// The range at `from` lies in one live buffer that the stream may use.
    #[expect(unsafe_code, reason = "memory of a device is known by its address")]
    pub(super) unsafe fn begin(
        &mut self,
        stream: &Stream,
        (address, bytes): (u64, usize),
        from: Option<Mark>,
        then: Then,
    ) -> Result<(), Fault> {
        let to = Event::timed(stream)?;
        let memory = match self.free.pop() {
            Some(memory) => memory,
            None => Pinned::new(SMALL_BYTES)?,
        };
        // SAFETY: whatever is free no copy writes to, and nobody looks at it before the event below.
        let pinned = unsafe { memory.range(0, bytes) };
        // SAFETY: the caller vouches for the source; the memory is kept until the event has happened.
        let copied = unsafe { stream.download(address, pinned) };
        let marked = to.record(stream);
        match marked {
            Ok(()) if copied.is_ok() => self.under_way.push_back(Reading {
                memory,
                bytes,
                from,
                to,
                then,
            }),
            Ok(()) => self.free.push(memory),
            // Nothing will tell when it is written: wait, and if that is no use either, never use it again.
            Err(_) if stream.synchronize().is_ok() => self.free.push(memory),
            Err(_) => mem::forget(memory),
        }
        copied.and(marked)
    }

    /// Looks at the oldest copy; `waits` for it.
    pub(super) fn settle(&mut self, waits: bool) -> Settled {
        let Some(first) = self.under_way.front() else {
            return Settled::None;
        };
        let is_done = match waits {
            true => first.to.wait().map(|()| true),
            false => first.to.is_done(),
        };
        match is_done {
            Ok(false) => return Settled::UnderWay,
            Ok(true) => {}
            // If it cannot be waited for it is asked later.
            Err(fault) if fault.severity() != Severity::Fatal => return Settled::UnderWay,
            Err(fault) => {
                let forget = |reading: Reading| {
                    // Nobody knows what is still written.
                    mem::forget(reading.memory);
                    reading.then
                };
                return Settled::Lost(self.under_way.drain(..).map(forget).collect(), fault);
            }
        }
        let Some(Reading {
            memory,
            bytes,
            from,
            to,
            then,
        }) = self.under_way.pop_front()
        else {
            return Settled::None;
        };
        let told = ReadBack {
            bytes: copy_of(&memory, bytes),
            seconds: seconds_between(from.as_ref(), &to),
        };
        self.free.push(memory);
        Settled::Ended(then, told)
    }
}

/// Returns what was copied to the front of pinned memory.
#[expect(unsafe_code, reason = "the device has written the memory")]
fn copy_of(memory: &Pinned, bytes: usize) -> Vec<u8> {
    // SAFETY: the copy has ended, and the memory is given to no other yet.
    let read = unsafe { memory.range(0, bytes) };
    read.to_vec()
}

fn seconds_between(from: Option<&Mark>, to: &Event) -> f64 {
    let from = from.and_then(Mark::own_event);
    let milliseconds = from.map(|from| from.milliseconds_to(to));
    // What cannot be told is not known; the device says elsewhere what is wrong with it.
    milliseconds.and_then(Result::ok).map_or(0.0, f64::from) / 1e3
}
