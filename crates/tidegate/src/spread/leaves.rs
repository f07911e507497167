//! Leaves of plans that can be read by several executors: what they are, and their shares.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use super::files::{self, FilesDescription, file_scan};
use crate::generate::source_of;
use crate::sources::{MorselScan, Share, SourceDescription};

/// A leaf of ours, in words that another process makes the same leaf of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeafDescription(Words);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Words {
    Generated(Box<GeneratedScan>),
    Files(FilesDescription),
}

/// A scan of a generated table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct GeneratedScan {
    source: SourceDescription,
    columns: Vec<usize>,
    partitions: usize,
    limit: Option<usize>,
}

/// A scan that DataFusion can write, in the place of one of ours.
type StandIn = Option<Arc<dyn ExecutionPlan>>;

impl LeafDescription {
    /// Describes a leaf, if it is ours. With a scan of files comes its stand-in: a scan of the same files
    /// that DataFusion can write.
    ///
    /// # Errors
    /// None for leaves that the planner made.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<(Self, StandIn)>> {
        if let Some(scan) = morsel_scan(plan) {
            let generated = scan.source.description().map(|source| GeneratedScan {
                source,
                columns: scan.columns.to_vec(),
                partitions: scan.partitions(),
                limit: scan.limit,
            });
            return Ok(generated.map(|scan| (Self(Words::Generated(Box::new(scan))), None)));
        }
        let scan = file_scan(plan);
        let described = scan.and_then(|scan| Some((FilesDescription::of(scan)?, scan)));
        described
            .map(|(description, scan)| {
                let stand_in = DataSourceExec::from_data_source(files::stand_in(scan)?);
                Ok((Self(Words::Files(description)), Some(stand_in as _)))
            })
            .transpose()
    }

    /// Makes the leaf, of its stand-in if it had one.
    ///
    /// # Errors
    /// For a description that no leaf has.
    pub fn plan(self, stand_in: Option<&Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (self.0, stand_in) {
            (Words::Generated(scan), None) => {
                let GeneratedScan {
                    source,
                    columns,
                    partitions,
                    limit,
                } = *scan;
                let source = source_of(&source)?;
                let scan = MorselScan::try_new(source, &columns, partitions, limit)?;
                Ok(DataSourceExec::from_data_source(scan))
            }
            (Words::Files(description), Some(stand_in)) => {
                let scan = file_scan(stand_in);
                let scan = scan.ok_or_else(|| DataFusionError::Internal(NO_STAND_IN.into()))?;
                Ok(DataSourceExec::from_data_source(description.scan(scan)?))
            }
            _ => Err(DataFusionError::Internal(NO_STAND_IN.into())),
        }
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

const NO_STAND_IN: &str = "a leaf came with another leaf's stand-in";

fn morsel_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&MorselScan> {
    let leaf = plan.downcast_ref::<DataSourceExec>()?;
    leaf.data_source().downcast_ref::<MorselScan>()
}

/// Returns what of a leaf another process would not get, though its plan could be sent.
pub fn leaf_lost(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    file_scan(plan).and_then(files::lost)
}

/// Returns about how many bytes a leaf reads, if it can be shared.
pub fn leaf_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if let Some(scan) = morsel_scan(plan) {
        scan.source.description()?;
        // Each share would give so many rows.
        if scan.limit.is_some() {
            return None;
        }
        return Some(
            scan.source
                .morsels()
                .iter()
                .map(|size| size.num_bytes)
                .sum(),
        );
    }
    files::bytes(file_scan(plan)?)
}

/// Cuts a leaf into shares, one for each weight, which together have each of its rows once: runs of
/// morsels of a generated table, of the bytes of files, or of files. A row that is cut belongs to the run
/// that it begins in, as do row groups of Parquet and batches of Arrow. A share may be empty; all have as
/// many partitions.
///
/// `None` for a leaf that cannot be shared.
///
/// # Errors
/// None for leaves that the planner made.
pub fn leaf_shares(
    plan: &Arc<dyn ExecutionPlan>,
    weights: &[u64],
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    if leaf_bytes(plan).is_none() {
        return Ok(None);
    }
    match (morsel_scan(plan), file_scan(plan)) {
        (Some(scan), _) => morsel_shares(scan, weights).map(Some),
        (None, Some(scan)) => Ok(files::shares(scan, weights)),
        (None, None) => Ok(None),
    }
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
pub(super) fn runs(sizes: &[u64], weights: &[u64]) -> Vec<std::ops::Range<usize>> {
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
pub(super) fn ends(sum: u64, weights: &[u64]) -> Vec<u64> {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let mut upto = 0_u128;
    let end = |weight: &u64| {
        upto += u128::from(*weight);
        (u128::from(sum) * upto / all.max(1)) as u64
    };
    weights.iter().map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::runs;

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
}
