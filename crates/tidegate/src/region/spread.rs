//! How what is kept is spread over devices: each gets as many rows as it has memory free, for whoever
//! else there is.

use std::sync::Arc;

use tidegate_kernels::PipelineDevice;
use tidegate_scheduler::{CachedTable, MorselLoader};

/// Deals morsels out to devices, so that the rows of each are as its free memory is.
pub(crate) struct Dealer {
    /// Free bytes, and the rows that were dealt.
    devices: Vec<(u64, u64)>,
}

impl Dealer {
    pub(crate) fn new(devices: &[Arc<dyn PipelineDevice>]) -> Self {
        let free = |device: &Arc<dyn PipelineDevice>| (device.budget().free().max(1), 0);
        Self {
            devices: devices.iter().map(free).collect(),
        }
    }

    /// Returns the number of the device that gets the next so many rows.
    pub(crate) fn deal(&mut self, num_rows: u64) -> usize {
        let full = |(free, rows): &(u64, u64)| (rows + num_rows) as f64 / *free as f64;
        let devices = self.devices.iter().enumerate();
        let least = devices.min_by(|(_, left), (_, right)| full(left).total_cmp(&full(right)));
        let number = least.map_or(0, |(number, _)| number);
        if let Some((_, rows)) = self.devices.get_mut(number) {
            *rows += num_rows;
        }
        number
    }
}

/// Tells tables what they hold together: all of what this loader reads.
pub(crate) fn say_what_is_held(loader: &Arc<dyn MorselLoader>, tables: &mut [CachedTable]) {
    let is_one = tables.len() == 1;
    for table in tables {
        match loader.scan_key() {
            Some(scan) if is_one => table.holds_all_of(scan),
            Some(scan) => table.holds_share_of(scan),
            None => {}
        }
    }
}
