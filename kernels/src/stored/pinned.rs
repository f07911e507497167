//! Columns that left a device, as they were encoded, in pinned memory of the host.
//!
//! Nothing is decoded on the way down nor encoded on the way up: the bytes are the device's, so coming
//! back takes as long as its link does.

use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use tidegate_device::cuda::Block;
use tidegate_device::{DeviceId, Reservation};

use super::{ColumnDictionary, Payload, StoredColumn};
use crate::engine::ResidentColumn;
use crate::program::SlotFacts;

/// One column of one morsel in pinned memory, to be copied to any device of the kind that it came from.
pub struct PinnedColumn {
    num_rows: u64,
    /// Bytes here, and on a device.
    pub(crate) bytes: u64,
    plain_bytes: u64,
    encoding: String,
    /// The dictionary of its codes, if it holds strings.
    dictionary: Option<Arc<ColumnDictionary>>,
    pub(crate) payload: PinnedPayload,
}

/// What is kept of a column.
pub(crate) enum PinnedPayload {
    /// The bytes of a GPU's memory.
    Cuda {
        /// `None` if there are none: a constant without NULLs.
        block: Option<Arc<Block>>,
        /// As if the bytes began at address 0; the validity counts only if `nullable`.
        column: ResidentColumn,
        nullable: bool,
        facts: SlotFacts,
    },
    /// A simulated device's memory is the host's.
    Arrays(Vec<ArrayRef>),
}

impl PinnedColumn {
    /// Describes a copy of a stored column.
    pub(crate) fn of(stored: &StoredColumn, payload: PinnedPayload) -> Self {
        Self {
            num_rows: stored.num_rows,
            bytes: stored.device_bytes,
            plain_bytes: stored.plain_bytes,
            encoding: stored.encoding.clone(),
            dictionary: stored.dictionary.clone(),
            payload,
        }
    }

    /// Describes the column that it becomes on a device.
    pub(crate) fn stored(
        &self,
        device: DeviceId,
        payload: Payload,
        memory: Reservation,
    ) -> StoredColumn {
        StoredColumn {
            device,
            num_rows: self.num_rows,
            device_bytes: self.bytes,
            plain_bytes: self.plain_bytes,
            encoding: self.encoding.clone(),
            dictionary: self.dictionary.clone(),
            encode_seconds: 0.0,
            payload,
            memory,
        }
    }

    /// Returns how many rows the column has.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns the bytes that it takes here, and on a device.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of the arrays that the column was made from.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Returns the dictionary of its codes, if it has some.
    pub fn dictionary(&self) -> Option<&Arc<ColumnDictionary>> {
        self.dictionary.as_ref()
    }

    /// Returns how the column is encoded, as [`StoredColumn::encoding`] does.
    pub fn encoding(&self) -> &str {
        &self.encoding
    }
}

impl fmt::Debug for PinnedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedColumn")
            .field("num_rows", &self.num_rows)
            .field("bytes", &self.bytes)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}
