//! Keeps a device's thread on the processors that are near the device.
//!
//! A copy through memory of another NUMA node is slower, and what a thread touches first lies in the
//! node it runs on. So the device's thread runs on the processors of the device's node, of those that
//! it may run on at all; the threads that it starts inherit that. Where that cannot be had it runs
//! anywhere, as it would without this, and says why.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "processors are set through the system's C interface"
    )
)]

use std::fmt;
use std::fs;

/// Where a device's thread runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// On so many processors of this NUMA node.
    Node {
        /// The node.
        node: u32,
        /// Its processors that the process may use.
        processors: usize,
    },
    /// There is but one node, or the system tells none.
    NoNodes,
    /// Wherever the system likes; the text says what kept it from the node.
    Anywhere(String),
}

impl fmt::Display for Nearness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { node, processors } => {
                write!(f, "runs on {processors} processors of NUMA node {node}")
            }
            Self::NoNodes => f.write_str("runs on any processor: no NUMA node is known"),
            Self::Anywhere(why) => {
                write!(f, "runs on any processor, copies may be slower: {why}")
            }
        }
    }
}

/// Keeps this thread on the processors of a node.
pub(super) fn keep_near(node: Option<u32>) -> Nearness {
    let Some(node) = node else {
        return Nearness::NoNodes;
    };
    let file = format!("/sys/devices/system/node/node{node}/cpulist");
    let listed = match fs::read_to_string(&file) {
        Ok(text) => processors(&text),
        Err(error) => return Nearness::Anywhere(format!("{file}: {error}")),
    };
    let Some(listed) = listed else {
        return Nearness::Anywhere(format!("{file} is not a list of processors"));
    };
    match keep_on(&listed) {
        Ok(processors) => Nearness::Node { node, processors },
        Err(why) => Nearness::Anywhere(format!("NUMA node {node}: {why}")),
    }
}

/// Reads a list as Linux writes it, such as `0-3,8`; `None` if it is none.
fn processors(text: &str) -> Option<Vec<usize>> {
    let mut listed = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        listed.extend(first..=last.min(first.saturating_add(4096)));
    }
    Some(listed)
}

/// Keeps this thread on those of these processors on which it may run; returns how many they are.
#[cfg(target_os = "linux")]
fn keep_on(listed: &[usize]) -> Result<usize, String> {
    use std::io::Error;

    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of processors is plain bits, of which all values are sets.
    let (mut may, mut wanted): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is this thread, and `may` has the `size` bytes that are written.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut may) } != 0 {
        return Err(format!(
            "its processors are unknown: {}",
            Error::last_os_error()
        ));
    }
    let mut kept = 0;
    for &processor in listed.iter().filter(|&&processor| processor < size * 8) {
        // SAFETY: the processor is less than the bits of a set, as was just checked.
        unsafe {
            if libc::CPU_ISSET(processor, &may) {
                libc::CPU_SET(processor, &mut wanted);
                kept += 1;
            }
        }
    }
    if kept == 0 {
        return Err("the process may use none of its processors".to_owned());
    }
    // SAFETY: 0 is this thread, and `wanted` has the `size` bytes that are read.
    if unsafe { libc::sched_setaffinity(0, size, &raw const wanted) } != 0 {
        return Err(format!("the system forbids it: {}", Error::last_os_error()));
    }
    Ok(kept)
}

#[cfg(not(target_os = "linux"))]
fn keep_on(_: &[usize]) -> Result<usize, String> {
    Err("only Linux lets a thread choose its processors".to_owned())
}

#[cfg(test)]
mod tests;
