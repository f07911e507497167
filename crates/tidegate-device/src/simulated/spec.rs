//! What a simulated device is made of, and the text that says so.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::Cost;
use crate::faults::FaultPlan;
use crate::info::DeviceRates;

/// What a launch is modelled to take at most, so that no rate makes a device hang for ever.
const LAUNCH_TIME_MAX: Duration = Duration::from_secs(3600);

/// The size, speed and faults of a simulated device. A rate that is not above zero takes no time.
///
/// # Text
/// ```text
/// spec   = size { "," option }
/// option = "copy=" size "/s"          host to device and back, default 25GB/s
///        | "rows=" number "/s"        rows folded, default 2e9/s
///        | "launch=" duration         before the first row, default 10us
///        | "compile=" duration        before the first fold of a program, default 0s
///        | "slow=" factor             multiplies all times, default 1
///        | "faults=" fault { "|" fault }
/// fault  = "launch:" k "=fail" | "launch:" k "=lost" | "alloc:" k "=oom"
///        | "copy:" k "=fail" | "event:" k "=fail"    (k counts from 1)
/// ```
/// A size is a number with `B`, `KB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB`, `TiB` or nothing for
/// bytes; the units are powers of 1024, as in every other size, and of 1000 in a rate. A duration one with `s`, `ms`, `us` or `ns`. Upper and lower case are the same.
///
/// ```
/// use tidegate_device::SimulatedSpec;
///
/// let spec: SimulatedSpec = "2GB,copy=10GB/s,faults=launch:3=fail|alloc:2=oom".parse()?;
/// assert_eq!(spec.memory_bytes, 2 << 30);
/// assert_eq!(spec.copy_bytes_per_second, 1e10);
/// assert_eq!(spec.faults.to_string(), "launch:3=fail|alloc:2=oom");
/// # Ok::<(), tidegate_device::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedSpec {
    /// All of its memory, which is also the limit of its budget.
    pub memory_bytes: u64,
    /// Host to device and back, each way.
    pub copy_bytes_per_second: f64,
    /// Rows folded by a kernel.
    pub rows_per_second: f64,
    /// What a launch takes before its first row.
    pub launch_seconds: f64,
    /// What compiling a program takes, before its first fold.
    pub compile_seconds: f64,
    /// Multiplies every modelled time.
    pub slow_down: f64,
    /// What fails, unless other faults are planned.
    pub faults: FaultPlan,
}

/// A simulated device's text that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Not a size.
    #[error("'{0}' is not a size: write a number of bytes above zero, such as 512MiB or 2GB")]
    Size(String),
    /// Not a rate.
    #[error("'{0}' is not a rate: write an amount per second above zero, such as 25GB/s or 2e9/s")]
    Rate(String),
    /// Not a duration.
    #[error("'{0}' is not a duration: write 10us, 1ms or 0.5s")]
    Duration(String),
    /// Not a slow-down.
    #[error("'{0}' is not a slow-down: write a factor above zero, such as 10")]
    SlowDown(String),
    /// Not a fault.
    #[error(
        "'{0}' is not a fault: write launch:k=fail, launch:k=lost, alloc:k=oom, copy:k=fail or \
         event:k=fail, k counting from 1, several joined by |"
    )]
    Fault(String),
    /// Not an option.
    #[error(
        "'{0}' is not an option of a simulated device: write copy=, rows=, launch=, compile=, slow= or \
         faults="
    )]
    Option(String),
}

impl SimulatedSpec {
    /// Describes a device with this much memory and otherwise the defaults.
    ///
    /// The default rates are round numbers below those of a data-centre GPU (55 GB/s pinned, some
    /// 1e11 rows/s, 8 µs measured on an H200): a link that a transfer is felt on, and kernels
    /// faster than a host's cores together, so that placements weigh the one against the other.
    pub fn with_memory(bytes: u64) -> Self {
        Self {
            memory_bytes: bytes,
            copy_bytes_per_second: 25e9,
            rows_per_second: 2e9,
            launch_seconds: 1e-5,
            compile_seconds: 0.0,
            slow_down: 1.0,
            faults: FaultPlan::default(),
        }
    }

    /// Returns the rates as a placement should see them, the slow-down included.
    pub fn rates(&self) -> DeviceRates {
        let slow_down = positive(self.slow_down).unwrap_or(1.0);
        DeviceRates {
            copy_bytes_per_second: self.copy_bytes_per_second / slow_down,
            rows_per_second: self.rows_per_second / slow_down,
            launch_seconds: self.launch_seconds * slow_down,
        }
    }

    /// Returns the modelled time of a launch, an hour at most.
    pub fn launch_time(&self, cost: Cost) -> Duration {
        let rates = self.rates();
        duration(
            seconds(cost.copy_bytes, rates.copy_bytes_per_second)
                + seconds(cost.rows, rates.rows_per_second)
                + rates.launch_seconds,
        )
    }

    /// Returns the modelled time of compiling a program, an hour at most.
    pub fn compile_time(&self) -> Duration {
        duration(self.compile_seconds * positive(self.slow_down).unwrap_or(1.0))
    }

    /// Returns the modelled time of a copy alone, an hour at most.
    pub fn copy_time(&self, bytes: u64) -> Duration {
        duration(seconds(bytes, self.rates().copy_bytes_per_second))
    }
}

fn positive(number: f64) -> Option<f64> {
    (number > 0.0 && number.is_finite()).then_some(number)
}

fn seconds(amount: u64, per_second: f64) -> f64 {
    positive(per_second).map_or(0.0, |rate| amount as f64 / rate)
}

fn duration(seconds: f64) -> Duration {
    if seconds.is_nan() || seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds)
        .map_or(LAUNCH_TIME_MAX, |duration| duration.min(LAUNCH_TIME_MAX))
}

impl FromStr for SimulatedSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split(',').map(str::trim);
        let memory = parts.next().unwrap_or_default();
        let memory_bytes = size(memory).ok_or_else(|| SpecError::Size(memory.to_owned()))?;
        let mut spec = Self::with_memory(memory_bytes as u64);
        for part in parts {
            spec.set(part)?;
        }
        Ok(spec)
    }
}

impl SimulatedSpec {
    fn set(&mut self, option: &str) -> Result<(), SpecError> {
        let unknown = || SpecError::Option(option.to_owned());
        let (key, value) = option.split_once('=').ok_or_else(unknown)?;
        let value = value.trim();
        let rate = |read: fn(&str) -> Option<f64>| {
            let amount = value.strip_suffix("/s").and_then(read);
            amount.ok_or_else(|| SpecError::Rate(value.to_owned()))
        };
        match key.trim() {
            "copy" => self.copy_bytes_per_second = rate(bytes)?,
            "rows" => self.rows_per_second = rate(number)?,
            "launch" => {
                self.launch_seconds =
                    time(value).ok_or_else(|| SpecError::Duration(value.to_owned()))?;
            }
            "compile" => {
                self.compile_seconds =
                    time(value).ok_or_else(|| SpecError::Duration(value.to_owned()))?;
            }
            "slow" => {
                self.slow_down =
                    number(value).ok_or_else(|| SpecError::SlowDown(value.to_owned()))?;
            }
            "faults" => self.faults = value.parse()?,
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().and_then(positive)
}

/// Reads a number of bytes, at least one.
fn size(text: &str) -> Option<f64> {
    in_bytes(text, 1024.0)
}

/// Reads a number of bytes that pass in a second.
fn bytes(text: &str) -> Option<f64> {
    in_bytes(text, 1000.0)
}

fn in_bytes(text: &str, kilo: f64) -> Option<f64> {
    let units = [
        ("kib", 1024.0),
        ("mib", 1048576.0),
        ("gib", 1073741824.0),
        ("tib", 1099511627776.0),
        ("kb", kilo),
        ("mb", kilo.powi(2)),
        ("gb", kilo.powi(3)),
        ("tb", kilo.powi(4)),
        ("b", 1.0),
        ("", 1.0),
    ];
    scaled(text, &units).filter(|bytes| *bytes >= 1.0 && *bytes <= u64::MAX as f64)
}

fn time(text: &str) -> Option<f64> {
    scaled(
        text,
        &[
            ("ms", 1e-3),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("ns", 1e-9),
            ("s", 1.0),
        ],
    )
}

/// Reads a number above zero with one of the units; the longest units come first.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim().to_lowercase();
    let (amount, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number(amount).map(|amount| amount * unit)
}

#[cfg(test)]
mod tests;
