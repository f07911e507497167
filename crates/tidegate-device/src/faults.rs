//! Which launches, copies, reservations and events of a device fail, by their count, and how far the
//! device has come.
//!
//! A simulated device begins with the plan of its specification; any device takes another one while it
//! runs. What counts as what is the device's own: on a GPU every call of the driver is one operation,
//! and it fails before it is made.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::simulated::SpecError;

/// What can be planned to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Starting a kernel.
    Launch,
    /// Promising or taking memory of the device.
    Reservation,
    /// Copying, or filling memory.
    Copy,
    /// Telling when something is done, and waiting for it.
    Event,
}

/// One planned failure; counts begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The k-th launch fails without having run; the device goes on. Written `launch:k=fail`.
    LaunchFails {
        /// Which launch.
        launch: u64,
    },
    /// The device is lost at its k-th launch. Written `launch:k=lost`.
    DeviceLost {
        /// Which launch.
        launch: u64,
    },
    /// The k-th reservation finds no memory. Written `alloc:k=oom`.
    ReservationFails {
        /// Which reservation.
        reservation: u64,
    },
    /// The k-th copy fails without having run. Written `copy:k=fail`.
    CopyFails {
        /// Which copy.
        copy: u64,
    },
    /// The k-th end of a launch or copy is told as a failure: nobody can know what was done. Written
    /// `event:k=fail`.
    EventFails {
        /// Which event.
        event: u64,
    },
}

/// The failures planned for a device; by default none.
///
/// Written as its faults joined by `|`: `launch:3=fail|launch:5=lost|alloc:2=oom`. The empty string
/// is the plan without faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    faults: Vec<Fault>,
}

impl FaultPlan {
    /// Makes a plan of these faults. Of several for one launch the first counts.
    pub fn new(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            faults: faults.into_iter().collect(),
        }
    }

    /// Returns the planned faults.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns what happens at this operation of its kind, counted from 1.
    pub fn at(&self, operation: Operation, count: u64) -> Option<Fault> {
        let mut faults = self.faults.iter().copied();
        faults.find(|fault| fault.place() == (operation, count))
    }
}

impl Fault {
    /// Returns which operation fails, and which of its kind.
    fn place(self) -> (Operation, u64) {
        match self {
            Self::LaunchFails { launch } | Self::DeviceLost { launch } => {
                (Operation::Launch, launch)
            }
            Self::ReservationFails { reservation } => (Operation::Reservation, reservation),
            Self::CopyFails { copy } => (Operation::Copy, copy),
            Self::EventFails { event } => (Operation::Event, event),
        }
    }
}

/// A device's plan and how far the device has come in it. Without a plan nothing is counted, and
/// asking costs one load.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    is_planned: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    plan: FaultPlan,
    /// Operations of each kind since the plan was made.
    done: [u64; 4],
    /// Faults that happened, of all plans.
    met: u64,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        let faults = Self::default();
        faults.plan(plan);
        faults
    }

    /// Plans these faults in place of all others, and counts from 1 again.
    pub(crate) fn plan(&self, plan: FaultPlan) {
        let mut progress = self.progress.lock();
        let is_planned = !plan.faults.is_empty();
        progress.plan = plan;
        progress.done = [0; 4];
        self.is_planned.store(is_planned, Ordering::Release);
    }

    /// Counts an operation that is about to happen; returns the fault that happens in its place.
    pub(crate) fn meet(&self, operation: Operation) -> Option<Fault> {
        if !self.is_planned.load(Ordering::Acquire) {
            return None;
        }
        let progress = &mut *self.progress.lock();
        let count = &mut progress.done[operation as usize];
        *count += 1;
        let fault = progress.plan.at(operation, *count);
        progress.met += u64::from(fault.is_some());
        fault
    }

    /// Returns how many faults happened.
    pub(crate) fn met(&self) -> u64 {
        self.progress.lock().met
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaunchFails { launch } => write!(f, "launch:{launch}=fail"),
            Self::DeviceLost { launch } => write!(f, "launch:{launch}=lost"),
            Self::ReservationFails { reservation } => write!(f, "alloc:{reservation}=oom"),
            Self::CopyFails { copy } => write!(f, "copy:{copy}=fail"),
            Self::EventFails { event } => write!(f, "event:{event}=fail"),
        }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            let joint = if i == 0 { "" } else { "|" };
            write!(f, "{joint}{fault}")?;
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let unreadable = || SpecError::Fault(text.to_owned());
        let (place, effect) = text.split_once('=').ok_or_else(unreadable)?;
        let (event, count) = place.split_once(':').ok_or_else(unreadable)?;
        let count: u64 = count.trim().parse().map_err(|_| unreadable())?;
        if count == 0 {
            return Err(unreadable());
        }
        match (event.trim(), effect.trim()) {
            ("launch", "fail") => Ok(Self::LaunchFails { launch: count }),
            ("launch", "lost") => Ok(Self::DeviceLost { launch: count }),
            ("copy", "fail") => Ok(Self::CopyFails { copy: count }),
            ("event", "fail") => Ok(Self::EventFails { event: count }),
            ("alloc", "oom") => Ok(Self::ReservationFails { reservation: count }),
            _ => Err(unreadable()),
        }
    }
}

impl FromStr for FaultPlan {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let faults: Result<Vec<Fault>, SpecError> =
            text.split('|').map(|fault| fault.trim().parse()).collect();
        Ok(Self { faults: faults? })
    }
}

#[cfg(test)]
mod tests;
