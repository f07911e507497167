//! A scan of text in words that another process makes the same scan of.
//!
//! What a user said of the files travels; what was found of them is found again where they are read, since
//! it depends on their bytes alone.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use serde::{Deserialize, Serialize};

use super::found::Files;
use super::source::TextSource;
use super::{Kind, Union};

/// What was said of the files of a scan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextDescription {
    kind: Kind,
    /// How all of the files are compressed, if that was said.
    compression: Option<String>,
    union: Union,
}

impl TextDescription {
    /// Describes a source, if it is one of text. One that leaves rows out is not described: how many they
    /// were is told by the process that runs the statement.
    pub(crate) fn of(source: &dyn FileSource) -> Option<Self> {
        let source = source.downcast_ref::<TextSource>()?;
        let leaves_out = match &source.files.kind {
            Kind::Delimited(given) => given.ignore_errors,
            Kind::Json(given) => given.ignore_errors,
        };
        if leaves_out {
            return None;
        }
        let compression = source.files.compression;
        Some(Self {
            kind: source.files.kind.clone(),
            compression: compression.map(|compression| compression.get_variant().to_string()),
            union: source.union,
        })
    }

    /// Makes the source.
    ///
    /// # Errors
    /// For a compression that there is not.
    pub(crate) fn source(self, table_schema: TableSchema) -> Result<Arc<dyn FileSource>> {
        let compression = self.compression.as_deref().map(str::parse).transpose()?;
        let files = Arc::new(Files::new(self.kind, compression));
        Ok(Arc::new(TextSource::new(table_schema, files, self.union)))
    }
}

/// Tells whether the files of a scan of text can be cut, each of which was looked at.
pub(crate) fn is_cuttable(source: &dyn FileSource, scan: &FileScanConfig) -> bool {
    source
        .downcast_ref::<TextSource>()
        .is_some_and(|source| source.is_cuttable(scan))
}
