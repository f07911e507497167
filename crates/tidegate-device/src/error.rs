//! What can go wrong on a device.

use thiserror::Error;

use crate::info::DeviceId;

/// A failure of a device, never of the query's values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The budget cannot promise these bytes now, or ever if `wanted` exceeds `limit`.
    #[error("{device} is out of memory: {}", memory_shortage(*wanted, *free, *limit))]
    OutOfMemory {
        /// Where.
        device: DeviceId,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes of the limit that were not promised to anyone.
        free: u64,
        /// The whole budget.
        limit: u64,
    },
    /// A launch did not run to its end; the device goes on.
    #[error(
        "{} on {device} failed: {why}; its rows were not folded and can run elsewhere",
        named(*launch)
    )]
    LaunchFailed {
        /// Where.
        device: DeviceId,
        /// Which launch of the device, counted from 1; 0 for work that came to no launch, or to
        /// several.
        launch: u64,
        /// What is known of the cause.
        why: String,
    },
    /// A call was not done as asked; nothing was changed and the device goes on.
    #[error("{device} refuses to {what}: {why}")]
    Refused {
        /// Where.
        device: DeviceId,
        /// What was asked for, as a verb and its object.
        what: String,
        /// What is known of the cause.
        why: String,
    },
    /// The device answers no more, and whatever it held is gone.
    #[error("{device} is lost: {why}; its work can run elsewhere")]
    Lost {
        /// Which.
        device: DeviceId,
        /// What is known of the cause.
        why: String,
    },
}

impl DeviceError {
    /// Returns whether the device is gone for good.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns whether memory was asked for that no waiting can give, because it is more than the
    /// whole limit.
    pub fn is_impossible(&self) -> bool {
        matches!(self, Self::OutOfMemory { wanted, limit, .. } if wanted > limit)
    }
}

/// Names what failed by the number of its launch.
fn named(launch: u64) -> String {
    match launch {
        0 => "a run".to_owned(),
        number => format!("launch {number}"),
    }
}

fn memory_shortage(wanted: u64, free: u64, limit: u64) -> String {
    if wanted > limit {
        return format!(
            "{wanted} bytes were wanted and its whole limit is {limit}; \
             split the work or raise the limit"
        );
    }
    format!(
        "{wanted} bytes were wanted and {free} of its limit of {limit} are free; \
         wait for other work to end, split the work or raise the limit"
    )
}

#[cfg(test)]
mod tests;
