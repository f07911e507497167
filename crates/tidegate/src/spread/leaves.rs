//! Leaves of plans that can be read by several executors: what they are, and their shares.

use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::{FileRange, PartitionedFile};
use serde::{Deserialize, Serialize};

use crate::generate::source_of;
use crate::sources::{MorselScan, Share, SourceDescription};

/// A scan of a generated table, in words that another process makes the same scan of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeafDescription {
    source: SourceDescription,
    columns: Vec<usize>,
    partitions: usize,
    limit: Option<usize>,
}

impl LeafDescription {
    /// Describes a leaf, if it is a scan of a generated table.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let scan = morsel_scan(plan)?;
        Some(Self {
            source: scan.source.description()?,
            columns: scan.columns.to_vec(),
            partitions: scan.partitions(),
            limit: scan.limit,
        })
    }

    /// Makes the leaf.
    ///
    /// # Errors
    /// For a description that no table has.
    pub fn plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let source = source_of(&self.source)?;
        let scan = MorselScan::try_new(source, &self.columns, self.partitions, self.limit)?;
        Ok(DataSourceExec::from_data_source(scan))
    }

    /// Writes the description as JSON.
    ///
    /// # Errors
    /// Never for one that was made here.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| DataFusionError::External(error.into()))
    }

    /// Reads a description.
    ///
    /// # Errors
    /// For what is none.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| DataFusionError::External(error.into()))
    }
}

fn morsel_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&MorselScan> {
    let leaf = plan.downcast_ref::<DataSourceExec>()?;
    leaf.data_source().downcast_ref::<MorselScan>()
}

/// Returns the scan of Parquet files that a leaf is, unless its rows are promised to be partitioned by
/// their values, which shares would not keep.
fn parquet_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let leaf = plan.downcast_ref::<DataSourceExec>()?;
    let scan = leaf.data_source().downcast_ref::<FileScanConfig>()?;
    let is_parquet = scan.file_source().downcast_ref::<ParquetSource>().is_some();
    (is_parquet && scan.output_partitioning.is_none()).then_some(scan)
}

/// Returns about how many bytes a leaf reads, if it can be shared.
pub fn leaf_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if let Some(scan) = morsel_scan(plan) {
        scan.source.description()?;
        return Some(
            scan.source
                .morsels()
                .iter()
                .map(|size| size.num_bytes)
                .sum(),
        );
    }
    let scan = parquet_scan(plan)?;
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    Some(files.map(PartitionedFile::effective_size).sum())
}

/// Cuts a leaf into shares, one for each weight, which together have each of its rows once: runs of
/// morsels of a generated table, byte ranges of Parquet files, each of whose row groups belongs to the
/// range that it begins in. A share may be empty; all have as many partitions.
///
/// `None` for a leaf that cannot be shared.
///
/// # Errors
/// None for leaves that the planner made.
pub fn leaf_shares(
    plan: &Arc<dyn ExecutionPlan>,
    weights: &[u64],
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    leaf_bytes(plan).map_or(Ok(None), |_| {
        match (morsel_scan(plan), parquet_scan(plan)) {
            (Some(scan), _) => morsel_shares(scan, weights).map(Some),
            (None, Some(scan)) => Ok(Some(file_shares(scan, weights))),
            (None, None) => Ok(None),
        }
    })
}

fn morsel_shares(scan: &MorselScan, weights: &[u64]) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let sizes = scan
        .source
        .morsels()
        .iter()
        .map(|size| size.num_rows.max(1));
    let runs = runs(&sizes.collect::<Vec<_>>(), weights);
    let share = |run| {
        let source = Share::try_new(Arc::clone(&scan.source), run)?;
        let scan = scan.of_source(Arc::new(source));
        Ok(DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>)
    };
    runs.into_iter().map(share).collect()
}

/// Cuts a row of sizes into one run of neighbours for each weight, in order, each as near to its part of
/// the sum as whole elements allow.
fn runs(sizes: &[u64], weights: &[u64]) -> Vec<std::ops::Range<usize>> {
    let ends = ends(sizes.iter().sum(), weights);
    let (mut first, mut before) = (0, 0_u64);
    let mut runs = Vec::with_capacity(weights.len());
    for end in ends {
        let mut last = first;
        // An element belongs to the part that its middle is in.
        while last < sizes.len() && before + sizes[last] / 2 < end {
            before += sizes[last];
            last += 1;
        }
        runs.push(first..last);
        first = last;
    }
    if let Some(run) = runs.last_mut() {
        run.end = sizes.len();
    }
    runs
}

/// Returns where each weight's part of a sum ends.
fn ends(sum: u64, weights: &[u64]) -> Vec<u64> {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let mut upto = 0_u128;
    let end = |weight: &u64| {
        upto += u128::from(*weight);
        (u128::from(sum) * upto / all.max(1)) as u64
    };
    weights.iter().map(end).collect()
}

fn file_shares(scan: &FileScanConfig, weights: &[u64]) -> Vec<Arc<dyn ExecutionPlan>> {
    let mut shares = vec![Vec::new(); weights.len()];
    for group in &scan.file_groups {
        for (share, files) in shares.iter_mut().zip(cut(group, weights)) {
            share.push(FileGroup::new(files));
        }
    }
    let share = |groups| {
        let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups);
        DataSourceExec::from_data_source(scan.build()) as Arc<dyn ExecutionPlan>
    };
    shares.into_iter().map(share).collect()
}

/// Cuts the bytes of a group's files, one after the other, into a part for each weight.
fn cut(group: &FileGroup, weights: &[u64]) -> Vec<Vec<PartitionedFile>> {
    let bytes = group.iter().map(PartitionedFile::effective_size).sum();
    let ends = ends(bytes, weights);
    let mut parts = vec![Vec::new(); weights.len()];
    let (mut part, mut at) = (0, 0_u64);
    for file in group.iter() {
        let whole = FileRange {
            start: 0,
            end: file.object_meta.size as i64,
        };
        let range = file.range.as_ref().unwrap_or(&whole);
        let (mut start, end) = (range.start, range.end);
        while start < end {
            while part + 1 < parts.len() && at >= ends[part] {
                part += 1;
            }
            let left = match part + 1 < parts.len() {
                true => (ends[part] - at) as i64,
                false => i64::MAX,
            };
            let upto = end.min(start.saturating_add(left));
            at += (upto - start) as u64;
            let mut piece = file.clone();
            piece.range = Some(FileRange { start, end: upto });
            parts[part].push(piece);
            start = upto;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use datafusion_datasource::PartitionedFile;
    use datafusion_datasource::file_groups::FileGroup;

    use super::{cut, runs};

    #[test]
    fn each_morsel_is_in_one_run() {
        for (sizes, weights, expected) in [
            (vec![1; 10], vec![1, 1], vec![0..5, 5..10]),
            (vec![1; 10], vec![1, 4], vec![0..2, 2..10]),
            (vec![7], vec![1, 1], vec![0..0, 0..1]),
            (vec![], vec![1, 1], vec![0..0, 0..0]),
            (vec![1, 100, 1], vec![1, 1, 1], vec![0..1, 1..2, 2..3]),
        ] {
            assert_eq!(runs(&sizes, &weights), expected, "{sizes:?} {weights:?}");
        }
    }

    #[test]
    fn each_byte_is_in_one_range() {
        let file = |name: &str, size| PartitionedFile::new(name, size);
        let group = FileGroup::new(vec![
            file("a", 100),
            file("b", 1),
            file("c", 50).with_range(10, 40),
        ]);
        for weights in [vec![1], vec![1, 1], vec![3, 1, 2], vec![1; 200]] {
            let parts = cut(&group, &weights);
            assert_eq!(parts.len(), weights.len());
            let mut bytes = 0;
            let mut at = ("a".to_string(), 0);
            for piece in parts.iter().flatten() {
                let range = piece.range.as_ref().unwrap();
                let name = piece.path().to_string();
                if name != at.0 {
                    at = (name.clone(), if name == "c" { 10 } else { 0 });
                }
                assert_eq!((name, range.start), at, "{weights:?}");
                assert!(range.start < range.end);
                at.1 = range.end;
                bytes += range.end - range.start;
            }
            assert_eq!(bytes, 131, "{weights:?}");
        }
    }
}
