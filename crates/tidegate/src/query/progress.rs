//! How far a query has come: what its scans have read of what there is.
//!
//! Nothing is counted for it: whoever asks reads the metrics and books that a plan keeps anyway.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use serde::{Deserialize, Serialize};

use crate::region::PipelineExec;

/// Progress of a running query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueryProgress {
    /// Its number, as in [`super::QueryReport::id`].
    pub id: u64,
    /// Seconds since its first stream began.
    pub seconds: f64,
    /// Rows that its scans have read, on whatever side.
    pub rows_read: u64,
    /// Those of them that devices read.
    pub device_rows: u64,
    /// Rows to read in total; `None` if a scan does not know. Rows that filters skip unread count,
    /// so a query may end before it has read all.
    pub rows_total: Option<u64>,
    /// Bytes that the host has read of files, and that were copied to devices.
    pub bytes_read: u64,
    /// Morsels that the host took.
    pub host_morsels: u64,
    /// Morsels that devices took.
    pub device_morsels: u64,
}

impl QueryProgress {
    /// Reads it from a plan that runs.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut progress = Self {
            rows_total: Some(0),
            ..Self::default()
        };
        progress.add(plan);
        progress
    }

    /// Returns the share that is done, from 0 to 1; `None` if that cannot be told.
    pub fn share(&self) -> Option<f64> {
        let total = self.rows_total.filter(|total| *total > 0)?;
        Some((self.rows_read as f64 / total as f64).min(1.0))
    }

    /// Estimates the seconds that are left; `None` if that cannot be told yet.
    pub fn seconds_left(&self) -> Option<f64> {
        let share = self.share().filter(|share| *share > 0.02)?;
        Some(self.seconds * (1.0 - share) / share)
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(region) = plan.downcast_ref::<PipelineExec>() {
            return self.add_region(region, plan);
        }
        let children = plan.children();
        if children.is_empty() {
            return self.add_leaf(plan);
        }
        for child in children {
            self.add(child);
        }
    }

    fn add_region(&mut self, region: &PipelineExec, plan: &Arc<dyn ExecutionPlan>) {
        let before = self.rows_read;
        for child in plan.children() {
            self.add(child);
        }
        let metered = self.rows_read - before;
        let mut booked = 0;
        for place in region.report().places {
            if place.place == "host" {
                self.host_morsels += place.morsels;
                booked += place.rows;
                continue;
            }
            self.device_morsels += place.morsels;
            self.device_rows += place.rows;
            self.rows_read += place.rows;
            self.bytes_read += place.bytes;
        }
        // Some leaves keep no metrics; the books have what the host took.
        self.rows_read += booked.saturating_sub(metered);
    }

    fn add_leaf(&mut self, leaf: &Arc<dyn ExecutionPlan>) {
        let metrics = leaf.metrics().unwrap_or_default();
        self.rows_read += metrics.output_rows().unwrap_or(0) as u64;
        let bytes = metrics.sum_by_name("bytes_scanned");
        self.bytes_read += bytes.map_or(0, |bytes| bytes.as_usize() as u64);
        let known = StatisticsContext::new().compute(leaf.as_ref(), &StatisticsArgs::new());
        let statistics = known.ok();
        let total = statistics.and_then(|known| known.num_rows.get_value().copied());
        self.rows_total = self
            .rows_total
            .zip(total)
            .map(|(sum, total)| sum + total as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::QueryProgress;

    #[test]
    fn shares_and_times_are_told_where_they_are_known() {
        let progress = |rows_read, rows_total, seconds| QueryProgress {
            rows_read,
            rows_total,
            seconds,
            ..QueryProgress::default()
        };
        assert_eq!(progress(5, None, 1.0).share(), None);
        assert_eq!(progress(0, Some(0), 1.0).share(), None);
        assert_eq!(progress(5, Some(20), 1.0).share(), Some(0.25));
        assert_eq!(progress(5, Some(20), 1.0).seconds_left(), Some(3.0));
        assert_eq!(progress(0, Some(20), 1.0).seconds_left(), None);
        assert_eq!(progress(30, Some(20), 1.0).seconds_left(), Some(0.0));
    }
}
