//! Leaves of plans that can be read by several executors: what they are, and their shares.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use super::files::{self, FilesDescription};
use super::readers::{Reader, UNITS_MAX, Unit, assigned, runs_of};
use crate::files::file_scan;
use crate::generate::source_of;
use crate::sources::{MorselScan, MorselSize, Share, SourceDescription};

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

/// Names the table that a leaf reads; two tables may have one name.
pub fn leaf_table(plan: &Arc<dyn ExecutionPlan>) -> String {
    match (morsel_scan(plan), file_scan(plan)) {
        (Some(scan), _) => scan.source.name(),
        (None, Some(scan)) => files::folder(scan),
        (None, None) => plan.name().into(),
    }
}

/// Names the table that a leaf reads in a word, as EXPLAIN shows it.
pub(super) fn leaf_name(plan: &Arc<dyn ExecutionPlan>) -> String {
    match file_scan(plan) {
        Some(scan) => files::name(scan),
        None => leaf_table(plan),
    }
}

/// What one executor reads of a leaf.
#[derive(Clone, Debug)]
pub struct LeafShare {
    /// The leaf, with this share of its rows.
    pub plan: Arc<dyn ExecutionPlan>,
    /// How much it is, next to the others: rows of a generated table, bytes of files.
    pub size: u64,
}

/// Cuts a leaf into shares, one for each reader, which together have each of its rows once. Row groups of
/// Parquet files whose footers `environment` knows, files, and morsels of generated tables go to the readers
/// that had them before ([`Reader::name`]); files that are cut anywhere, in runs of bytes. A row that is cut
/// belongs to the run that it begins in, as do row groups of Parquet and batches of Arrow. A share may be
/// empty. All have as many partitions: those of the leaf, or `partitions` if that is more and the leaf has as
/// many parts whose order does not matter.
///
/// `None` for a leaf that cannot be shared.
///
/// # Errors
/// None for leaves that the planner made.
pub fn leaf_shares(
    plan: &Arc<dyn ExecutionPlan>,
    readers: &[Reader],
    partitions: usize,
    environment: &RuntimeEnv,
) -> Result<Option<Vec<LeafShare>>> {
    if leaf_bytes(plan).is_none() {
        return Ok(None);
    }
    match (morsel_scan(plan), file_scan(plan)) {
        (Some(scan), _) => morsel_shares(scan, readers, partitions).map(Some),
        (None, Some(scan)) => Ok(files::shares(scan, readers, partitions, environment)),
        (None, None) => Ok(None),
    }
}

fn morsel_shares(
    scan: &MorselScan,
    readers: &[Reader],
    partitions: usize,
) -> Result<Vec<LeafShare>> {
    let source = &scan.source;
    let name = source.identity().unwrap_or_else(|| source.name());
    let morsels = source.morsels();
    let partitions = partitions.min(morsels.len()).max(scan.partitions());
    let joined = morsels.len().div_ceil(UNITS_MAX).max(1);
    let unit = |(number, morsels): (usize, &[MorselSize])| {
        let mut hasher = DefaultHasher::new();
        (&name, number).hash(&mut hasher);
        let rows = morsels.iter().map(|size| size.num_rows.max(1));
        Unit {
            key: hasher.finish(),
            size: rows.sum(),
        }
    };
    let units: Vec<Unit> = morsels.chunks(joined).enumerate().map(unit).collect();
    let taken = assigned(&units, readers);
    let share = |reader| {
        let runs = runs_of(&taken, reader).into_iter();
        let size = runs.clone().flatten().map(|unit| units[unit].size).sum();
        let of_morsels = |run: Range<usize>| {
            let end = (run.end * joined).min(morsels.len());
            run.start * joined..end
        };
        let source = Share::try_new(Arc::clone(source), runs.map(of_morsels).collect())?;
        let plan = scan.of_source(Arc::new(source), partitions);
        let plan = DataSourceExec::from_data_source(plan);
        Ok(LeafShare { plan, size })
    };
    (0..readers.len()).map(share).collect()
}

/// Cuts a row of sizes into one run of neighbours for each weight, in order, each as near to its part of
/// the sum as whole elements allow.
pub(super) fn runs(sizes: &[u64], weights: &[u64]) -> Vec<Range<usize>> {
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
