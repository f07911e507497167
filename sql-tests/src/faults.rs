//! Devices that fail by plan: whatever fails, the answers are the host's, and all memory comes back.
//!
//! [`at_every_operation`] has the first operation of a kind fail under a query, then the second, and so
//! on until the query has no more of them; and that in every way in which a query uses a device.
//! [`at_random`] has random operations fail under queries that run at once. Both are tests on a
//! simulated device, and [`start`] is a program for a GPU. A run that has met no fault is a failure.
//!
//! The device is opened once and takes one plan after the other, but for plans that lose it.

mod bench;
mod rounds;
mod sweep;

use std::error::Error;
use std::time::Duration;

use tidegate::{FaultPlan, Session};

pub use bench::{Bench, Device};
pub use rounds::at_random;
pub use sweep::{Kind, at_every_operation};

/// Why a run has failed: an answer that differs, memory that is held, or a fault that was not met.
pub type Failure = Box<dyn Error + Send + Sync>;

/// How long abandoned work may take to give its memory back.
const DRAINED_WITHIN: Duration = Duration::from_secs(10);

/// Runs the program: every kind of fault, then random ones. `simulate` among the words takes the
/// simulated device; a number is how many seconds of random faults there are, by default 60.
///
/// # Errors
/// Another word; no GPU; what a run finds.
#[expect(clippy::print_stdout, reason = "it is a program")]
pub async fn start(words: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    let (mut device, mut seconds) = (Device::Gpu, 60);
    for word in words {
        match (word.as_str(), word.parse()) {
            ("simulate", _) => device = Device::Simulated,
            (_, Ok(number)) => seconds = number,
            (_, Err(_)) => {
                return Err(format!("'{word}' is neither a number of seconds nor simulate").into());
            }
        }
    }
    let bench = Bench::new(device).await?;
    println!(
        "{:<12} {:<10} {:>7} {:>7} {:>9}",
        "way", "fault", "met", "retries", "unretried"
    );
    for kind in Kind::ALL {
        for row in at_every_operation(&bench, kind).await? {
            println!("{row}");
        }
    }
    let tally = at_random(&bench, Duration::from_secs(seconds)).await?;
    println!("random: {tally}");
    Ok(())
}

/// Plans faults for a session's device; returns how many it has met until now.
fn plan(session: &Session, faults: FaultPlan) -> Result<u64, Failure> {
    let device = session.runtime().devices().first().ok_or("no device")?;
    device.plan_faults(faults);
    Ok(device.planned_faults_met())
}

/// Returns whether the session's device is lost.
fn is_lost(session: &Session) -> bool {
    let devices = session.runtime().devices();
    devices.iter().any(|device| device.is_lost())
}

/// Returns the bytes of device memory that are promised.
fn used(session: &Session) -> u64 {
    let devices = session.runtime().devices().iter();
    devices.map(|device| device.budget().used()).sum()
}

/// Waits until no more than these bytes are promised: work that was abandoned ends by itself.
async fn drained(session: &Session, held: u64) -> Result<(), Failure> {
    let waiting = async {
        while used(session) > held {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let drained = tokio::time::timeout(DRAINED_WITHIN, waiting).await;
    drained.map_err(|_| format!("{} bytes are held, not {held}", used(session)).into())
}
