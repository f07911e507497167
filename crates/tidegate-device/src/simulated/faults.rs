//! Which launches, copies, reservations and events of a simulated device fail, by their count.

use std::fmt;
use std::str::FromStr;

use super::spec::SpecError;

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
    /// The k-th copy that belongs to no launch fails without having run. Written `copy:k=fail`.
    CopyFails {
        /// Which copy.
        copy: u64,
    },
    /// The k-th launch or copy that was done is told to have failed: nobody can know what it did.
    /// Written `event:k=fail`.
    EventFails {
        /// Which event.
        event: u64,
    },
}

/// The failures planned for a simulated device; by default none.
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

    /// Returns what happens at this launch, counted from 1.
    pub fn launch_fault(&self, count: u64) -> Option<Fault> {
        self.faults.iter().copied().find(|fault| match fault {
            Fault::LaunchFails { launch } | Fault::DeviceLost { launch } => *launch == count,
            Fault::ReservationFails { .. } | Fault::CopyFails { .. } | Fault::EventFails { .. } => {
                false
            }
        })
    }

    /// Returns whether this copy, counted from 1, fails.
    pub fn fails_copy(&self, count: u64) -> bool {
        self.faults.contains(&Fault::CopyFails { copy: count })
    }

    /// Returns whether the end of this launch or copy, counted from 1, is told as a failure.
    pub fn fails_event(&self, count: u64) -> bool {
        self.faults.contains(&Fault::EventFails { event: count })
    }

    /// Returns whether this reservation, counted from 1, finds no memory.
    pub fn fails_reservation(&self, count: u64) -> bool {
        self.faults
            .contains(&Fault::ReservationFails { reservation: count })
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
mod tests {
    use super::{Fault, FaultPlan};
    use crate::simulated::spec::SpecError;

    #[test]
    fn a_plan_reads_back_as_it_prints() {
        let text = "launch:3=fail|launch:5=lost|alloc:2=oom|copy:4=fail|event:7=fail";
        let plan: FaultPlan = text.parse().unwrap();
        assert_eq!(plan.to_string(), text);
        assert_eq!(
            plan.faults(),
            [
                Fault::LaunchFails { launch: 3 },
                Fault::DeviceLost { launch: 5 },
                Fault::ReservationFails { reservation: 2 },
                Fault::CopyFails { copy: 4 },
                Fault::EventFails { event: 7 },
            ]
        );
        assert_eq!("".parse(), Ok(FaultPlan::default()));
        assert_eq!(FaultPlan::default().to_string(), "");
    }

    #[test]
    fn faults_meet_their_count_only() {
        let text = "launch:3=fail | alloc:2=oom | copy:3=fail | event:9=fail";
        let plan: FaultPlan = text.parse().unwrap();
        assert!(plan.fails_copy(3) && !plan.fails_copy(2));
        assert!(plan.fails_event(9) && !plan.fails_event(3));
        assert_eq!(plan.launch_fault(2), None);
        assert_eq!(plan.launch_fault(3), Some(Fault::LaunchFails { launch: 3 }));
        assert!(plan.fails_reservation(2));
        assert!(!plan.fails_reservation(3));
    }

    #[test]
    fn an_unreadable_fault_is_named() {
        for text in [
            "launch",
            "launch:0=fail",
            "launch:x=fail",
            "alloc:1=lost",
            "copy:1=lost",
        ] {
            let error = text.parse::<FaultPlan>().unwrap_err();
            assert_eq!(error, SpecError::Fault(text.to_owned()));
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
