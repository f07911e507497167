//! The name of all rows of a scan's files, by which a table that a device holds is found as a whole.
//!
//! It names the files as they were when the scan was planned, and what decides how their rows are read.
//! Whether they are still that is asked of the store when the rows are wanted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use object_store::ObjectMeta;
use object_store::path::Path;
use tidegate_scheduler::{ScanKey, ScanRows};

use super::identity::how_read;
use super::loader::RowGroups;

/// What a scan reads, if it reads all rows of its files.
#[derive(Debug)]
pub(super) struct AllRows {
    how: String,
    /// The numbers of the table's columns that are read.
    columns: Vec<usize>,
    row_groups: Arc<RowGroups>,
    name: OnceLock<Option<Arc<str>>>,
}

impl AllRows {
    pub(super) fn new(
        config: &FileScanConfig,
        source: &ParquetSource,
        columns: &[usize],
        row_groups: &Arc<RowGroups>,
    ) -> Self {
        let schema = source.table_schema();
        let fields = schema.table_schema().fields().iter();
        let fields: Vec<String> = fields
            .map(|field| format!("{:?}: {:?}", field.name(), field.data_type()))
            .collect();
        let how = format!(
            "{} {} of [{}] in files, {}",
            config.object_store_url,
            schema.file_schema().fields().len(),
            fields.join(", "),
            how_read(source)
        );
        Self {
            how,
            columns: columns.to_vec(),
            row_groups: Arc::clone(row_groups),
            name: OnceLock::new(),
        }
    }

    fn name(&self) -> Option<&Arc<str>> {
        let name = || {
            let files = self.row_groups.files();
            if files.is_empty() || !are_whole(files) {
                return None;
            }
            let files = text_of(files.iter().map(|file| &file.object_meta));
            Some(format!("{}{files}", self.how).into())
        };
        self.name.get_or_init(name).as_ref()
    }

    pub(super) fn scan_key(&self) -> Option<ScanKey> {
        let rows = ScanRows::Named(Arc::clone(self.name()?));
        Some(ScanKey::new(rows, self.columns.clone()))
    }

    pub(super) fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        match scan.rows() {
            ScanRows::Named(name) if Some(name) == self.name() => scan.positions(&self.columns),
            _ => None,
        }
    }
}

/// Returns whether a scan's rows are those of just these files, in the state in which they are.
pub(crate) fn are_of<'a>(scan: &ScanKey, files: impl Iterator<Item = &'a ObjectMeta>) -> bool {
    let ScanRows::Named(name) = scan.rows() else {
        return false;
    };
    // What comes before the files has no end of line.
    let begin = name.find('\n').unwrap_or(name.len());
    name[begin..] == text_of(files)
}

/// Writes files down in the order of their names, each once.
fn text_of<'a>(files: impl Iterator<Item = &'a ObjectMeta>) -> String {
    let sorted: BTreeMap<&Path, &ObjectMeta> = files.map(|file| (&file.location, file)).collect();
    let mut text = String::new();
    for file in sorted.into_values() {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n{:?} size={} time={} tag={:?} version={:?}",
            file.location.as_ref(),
            file.size,
            file.last_modified.timestamp_nanos_opt().unwrap_or_default(),
            file.e_tag,
            file.version,
        );
    }
    text
}

/// Returns whether each file is read from its beginning to its end, and once.
fn are_whole(files: &[PartitionedFile]) -> bool {
    let mut pieces: BTreeMap<&Path, Vec<(i64, i64)>> = BTreeMap::new();
    for file in files {
        let size = i64::try_from(file.object_meta.size).unwrap_or(i64::MAX);
        let range = file.range.as_ref();
        let piece = range.map_or((0, size), |range| (range.start, range.end));
        let pieces = pieces.entry(&file.object_meta.location).or_default();
        // A piece of nothing has no rows.
        if piece.0 < piece.1 || size == 0 {
            pieces.push(piece);
        }
    }
    let sizes: BTreeMap<&Path, u64> = files
        .iter()
        .map(|file| (&file.object_meta.location, file.object_meta.size))
        .collect();
    pieces.into_iter().all(|(file, mut pieces)| {
        pieces.sort_unstable();
        let follow = pieces.windows(2).all(|pair| pair[0].1 == pair[1].0);
        let begins = pieces.first().is_some_and(|(start, _)| *start == 0);
        let size = sizes.get(file).copied().unwrap_or(u64::MAX);
        let ends = pieces.last().and_then(|(_, end)| u64::try_from(*end).ok());
        follow && begins && ends.is_some_and(|end| end >= size)
    })
}

#[cfg(test)]
mod tests;
