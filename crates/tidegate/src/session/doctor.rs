//! What `tidegate doctor` tells.

use std::fmt;

use datafusion::prelude::SessionContext;

use super::Session;
use crate::memory::describe_folder;

/// What was found on this machine, and what a session may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorReport {
    /// One line for each device that regions can run on.
    pub devices: Vec<String>,
    /// Every place that was looked at for a driver and a compiler, and what was there.
    pub findings: Vec<String>,
    /// Why there is no device, if there is none.
    pub no_device: Option<String>,
    /// Bytes that statements may hold on the host.
    pub memory_limit: u64,
    /// Where that limit comes from.
    pub memory_limit_origin: String,
    /// Where statements spill.
    pub spill_folders: Vec<String>,
    /// Bytes that they may spill.
    pub spill_limit: u64,
    /// Partitions of a plan.
    pub target_partitions: usize,
}

impl DoctorReport {
    pub(super) fn of(session: &Session) -> Self {
        let runtime = session.runtime();
        let device = |info: &tidegate_device::DeviceInfo| {
            format!("{info}: {}, {} MB", info.name, info.memory_bytes >> 20)
        };
        let devices: Vec<String> = runtime
            .devices()
            .iter()
            .map(|found| device(found.info()))
            .collect();
        Self {
            no_device: devices
                .is_empty()
                .then(|| runtime.why_no_device().to_string()),
            devices,
            findings: runtime
                .discovery()
                .findings
                .iter()
                .map(ToString::to_string)
                .collect(),
            memory_limit: session.memory.bytes,
            memory_limit_origin: session.memory.origin.clone(),
            spill_folders: vec![describe_folder(&session.spill.root())],
            spill_limit: session.spill.limit(),
            target_partitions: target_partitions(&session.ctx),
        }
    }
}

fn target_partitions(ctx: &SessionContext) -> usize {
    ctx.copied_config().target_partitions()
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            writeln!(f, "device      {device}")?;
        }
        if let Some(why) = &self.no_device {
            writeln!(f, "device      {why}")?;
        }
        for finding in &self.findings {
            writeln!(f, "looked at   {finding}")?;
        }
        let megabytes = self.memory_limit >> 20;
        writeln!(
            f,
            "memory      {megabytes} MB for statements ({})",
            self.memory_limit_origin
        )?;
        for folder in &self.spill_folders {
            writeln!(
                f,
                "spill       {folder}, at most {} MB",
                self.spill_limit >> 20
            )?;
        }
        write!(f, "partitions  {}", self.target_partitions)
    }
}
