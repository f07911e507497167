//! Scans of files: what of them travels, and their shares.
//!
//! Of Parquet files a share has row groups, of files that can be cut anywhere a run of bytes, of others whole
//! files ([`super::cells`]). In each case the shares together have each row once.

use std::sync::Arc;

use datafusion::datasource::physical_plan::{
    CsvSource, FileGroup, FileScanConfig, JsonSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::{FileRange, PartitionedFile, TableSchema};
use serde::{Deserialize, Serialize};

use super::cells::{Read, by_cells, row_groups};
use super::leaves::{LeafShare, ends};
use super::readers::Reader;
use crate::files::ipc::IpcSource;
use crate::files::text::{TextDescription, is_cuttable};

/// A source of ours, which DataFusion cannot write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FilesDescription {
    Text(Box<TextDescription>),
    Ipc,
}

impl FilesDescription {
    /// Describes the source of a scan, if it is ours.
    pub(super) fn of(scan: &FileScanConfig) -> Option<Self> {
        let source = scan.file_source();
        if source.is::<IpcSource>() {
            return Some(Self::Ipc);
        }
        let text = TextDescription::of(source.as_ref())?;
        // Nothing that was said may be lost.
        let json = serde_json::to_vec(&text).ok()?;
        let read: TextDescription = serde_json::from_slice(&json).ok()?;
        (read == text).then(|| Self::Text(Box::new(text)))
    }

    fn source(self, table_schema: TableSchema) -> Result<Arc<dyn FileSource>> {
        match self {
            Self::Text(text) => text.source(table_schema),
            Self::Ipc => Ok(Arc::new(IpcSource::new(table_schema))),
        }
    }

    /// Makes the scan of a stand-in.
    pub(super) fn scan(self, stand_in: &FileScanConfig) -> Result<FileScanConfig> {
        let source = self.source(stand_in.file_source().table_schema().clone())?;
        with_source(stand_in, source)
    }
}

/// Makes a scan of the same files by a source that DataFusion can write.
pub(super) fn stand_in(scan: &FileScanConfig) -> Result<FileScanConfig> {
    let source = JsonSource::new(scan.file_source().table_schema().clone());
    with_source(scan, Arc::new(source))
}

/// Replaces the source of a scan by one of all columns, of which the same are read.
fn with_source(scan: &FileScanConfig, source: Arc<dyn FileSource>) -> Result<FileScanConfig> {
    let source = match scan.file_source().projection() {
        None => source,
        Some(projection) => source.try_pushdown_projection(projection)?.ok_or_else(|| {
            DataFusionError::Internal("a source of files reads all columns".into())
        })?,
    };
    let mut scan = scan.clone();
    scan.file_source = source;
    Ok(scan)
}

/// Returns what of a scan would be lost on the way without a word.
pub(super) fn lost(scan: &FileScanConfig) -> Option<&'static str> {
    let source = scan.file_source();
    if source.is::<JsonSource>() {
        return Some("a table of JSON whose columns were declared");
    }
    let csv = source.downcast_ref::<CsvSource>()?;
    let declared = "a table of CSV whose columns and compression, or end of lines, were declared";
    let is_plain = csv.terminator().is_none() && !scan.file_compression_type.is_compressed();
    (!is_plain).then_some(declared)
}

/// What a scan is shared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    File,
}

/// Returns what a scan is shared by; `None` if it cannot be.
fn unit(scan: &FileScanConfig) -> Option<Unit> {
    // Shares would not keep rows partitioned by their values, and would each give the rows of the limit.
    if scan.output_partitioning.is_some() || scan.limit.is_some() || lost(scan).is_some() {
        return None;
    }
    let source = scan.file_source();
    let by = |is_cuttable: bool| match is_cuttable {
        true => Unit::Bytes,
        false => Unit::File,
    };
    let unit = if source.is::<ParquetSource>() || source.is::<IpcSource>() {
        Unit::Bytes
    } else if let Some(csv) = source.downcast_ref::<CsvSource>() {
        by(!csv.newlines_in_values())
    } else {
        TextDescription::of(source.as_ref())?;
        by(is_cuttable(source.as_ref(), scan))
    };
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    (unit == Unit::Bytes || files.count() > 1).then_some(unit)
}

/// Returns where the first file of a scan lies, without its name.
pub(super) fn folder(scan: &FileScanConfig) -> String {
    let first = scan
        .file_groups
        .iter()
        .flat_map(|group| group.iter())
        .next();
    let first = first.map_or("", |file| file.path().as_ref());
    let folder = first.rsplit_once('/').map_or(first, |(folder, _)| folder);
    format!("{}{folder}", scan.object_store_url)
}

/// Returns the name of the file that a scan reads, or of the folder of several.
pub(super) fn name(scan: &FileScanConfig) -> String {
    let paths = scan.file_groups.iter().flat_map(|group| group.iter());
    let mut paths = paths.map(PartitionedFile::path);
    let first = paths.next().map_or("", |path| path.as_ref());
    let path = match paths.all(|path| path.as_ref() == first) {
        true => first,
        false => first.rsplit_once('/').map_or(first, |(folder, _)| folder),
    };
    path.rsplit('/').next().unwrap_or(path).into()
}

/// Returns how many bytes a scan reads, if it can be shared.
pub(super) fn bytes(scan: &FileScanConfig) -> Option<u64> {
    unit(scan)?;
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    Some(files.map(PartitionedFile::effective_size).sum())
}

/// Cuts a scan into a share for each reader, of as many partitions as it has or, where it has as many parts,
/// as are asked for; `None` if it cannot be shared.
pub(super) fn shares(
    scan: &FileScanConfig,
    readers: &[Reader],
    partitions: usize,
    environment: &RuntimeEnv,
) -> Option<Vec<LeafShare>> {
    let unit = unit(scan)?;
    let groups: Vec<Vec<PartitionedFile>> = scan
        .file_groups
        .iter()
        .map(|group| group.iter().cloned().collect())
        .collect();
    let in_order = !scan.output_ordering.is_empty();
    let partitions = (!in_order).then_some(partitions);
    let by_part = match unit {
        Unit::File => by_cells(&groups, partitions, readers, |_| Some(Vec::new())),
        Unit::Bytes if scan.file_source().is::<ParquetSource>() => {
            by_cells(&groups, partitions, readers, |file| {
                row_groups(file, environment)
            })
        }
        Unit::Bytes => None,
    };
    let reads = by_part.unwrap_or_else(|| {
        let weights: Vec<u64> = readers.iter().map(|reader| reader.weight).collect();
        let shares = match in_order {
            false => together(groups, &weights),
            true => group_by_group(&groups, &weights),
        };
        shares.into_iter().map(sized).collect()
    });
    let share = |(mut groups, size): Read| {
        if !in_order {
            groups.iter_mut().flatten().for_each(without_statistics);
        }
        let groups = groups.into_iter().map(FileGroup::new).collect();
        let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups);
        let plan = DataSourceExec::from_data_source(scan.build());
        LeafShare { plan, size }
    };
    Some(reads.into_iter().map(share).collect())
}

/// Takes the statistics of the whole file off a part of it: each part would send them, and whoever reads it asks the
/// file's footer for those of its row groups. (The order of rows, where it is kept, is known by them.)
fn without_statistics(file: &mut PartitionedFile) {
    if file.range.is_some() {
        file.statistics = None;
    }
}

fn sized(groups: Vec<Vec<PartitionedFile>>) -> Read {
    let files = groups.iter().flatten();
    let bytes = files.map(PartitionedFile::effective_size).sum();
    (groups, bytes)
}

/// Gives each share neighbouring bytes, evenly over its partitions.
fn together(groups: Vec<Vec<PartitionedFile>>, weights: &[u64]) -> Vec<Vec<Vec<PartitionedFile>>> {
    let partitions = vec![1; groups.len()];
    let mut files: Vec<PartitionedFile> = groups.into_iter().flatten().collect();
    // Pieces of a file, which went to partitions in turn, are neighbours again.
    files.sort_by(|a, b| (a.path(), a.range().0).cmp(&(b.path(), b.range().0)));
    let shares = cut_bytes(&files, weights).into_iter();
    shares.map(|files| cut_bytes(&files, &partitions)).collect()
}

/// Gives each share a part of each partition, in whose order its rows stay.
fn group_by_group(
    groups: &[Vec<PartitionedFile>],
    weights: &[u64],
) -> Vec<Vec<Vec<PartitionedFile>>> {
    let mut shares = vec![Vec::new(); weights.len()];
    for group in groups {
        for (share, files) in shares.iter_mut().zip(cut_bytes(group, weights)) {
            share.push(files);
        }
    }
    shares
}

/// Cuts files, one after the other, into a part for each weight.
fn cut_bytes(files: &[PartitionedFile], weights: &[u64]) -> Vec<Vec<PartitionedFile>> {
    let bytes = files.iter().map(PartitionedFile::effective_size).sum();
    let ends = ends(bytes, weights);
    let mut parts = vec![Vec::new(); weights.len()];
    let (mut part, mut at) = (0, 0_u64);
    for file in files {
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
            // What is not cut is read as a whole.
            let is_whole = start == whole.start && upto == whole.end;
            piece.range = (!is_whole).then_some(FileRange { start, end: upto });
            parts[part].push(piece);
            start = upto;
        }
    }
    parts
}

#[cfg(test)]
mod tests;
