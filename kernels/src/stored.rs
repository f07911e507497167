//! Columns that stay on a device from one query to the next.

mod moving;
mod pinned;
mod run;

use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use parking_lot::RwLock;
use tidegate_device::cuda::DeviceBuffer;
use tidegate_device::{DeviceId, Reservation};

use crate::engine::ResidentColumn;
use crate::program::SlotFacts;
use crate::strings::Dictionary;

pub(crate) use moving::Told;
pub use moving::{Moving, Promoted};
pub use pinned::PinnedColumn;
pub(crate) use pinned::PinnedPayload;
pub(crate) use run::NotOneColumn;
pub use run::StoredRun;

/// The growing dictionary that all stored chunks of one table column share.
#[derive(Debug, Default)]
pub struct ColumnDictionary {
    pub(crate) strings: RwLock<Dictionary>,
}

impl ColumnDictionary {
    /// Makes an empty dictionary.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns how many strings there are.
    pub fn num_values(&self) -> usize {
        self.strings.read().len()
    }
}

/// One column of one morsel on a device; its memory goes back when the last handle is dropped.
pub struct StoredColumn {
    /// Where it is.
    pub(crate) device: DeviceId,
    /// Rows.
    pub(crate) num_rows: u64,
    /// Bytes on the device.
    pub(crate) device_bytes: u64,
    /// Bytes of the arrays that it was made from.
    pub(crate) plain_bytes: u64,
    /// How it is encoded, as tables print it.
    pub(crate) encoding: String,
    /// The dictionary of its codes, if it holds strings.
    pub(crate) dictionary: Option<Arc<ColumnDictionary>>,
    /// Seconds that the host took to encode it.
    pub(crate) encode_seconds: f64,
    pub(crate) payload: Payload,
    #[expect(dead_code, reason = "it is given back when the column is dropped")]
    pub(crate) memory: Reservation,
}

/// What a device keeps of a column.
pub(crate) enum Payload {
    /// Encoded, in the memory of a GPU.
    Cuda {
        column: ResidentColumn,
        facts: SlotFacts,
        /// What the addresses point into; the column is at its beginning.
        buffer: Arc<DeviceBuffer>,
    },
    /// As it came: a simulated device's memory is the host's.
    Arrays(Vec<ArrayRef>),
}

impl StoredColumn {
    /// Returns the device that holds the column.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns how many rows the column has.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns the bytes that the column takes on the device.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Returns the bytes of the arrays that the column was made from.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Returns the seconds that a thread of the host took to encode the column.
    pub fn encode_seconds(&self) -> f64 {
        self.encode_seconds
    }

    /// Returns how the column is encoded: `plain`, `narrowed to 2 bytes`, `constant`, `codes of 1
    /// byte`.
    pub fn encoding(&self) -> &str {
        &self.encoding
    }
}

impl fmt::Debug for StoredColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredColumn")
            .field("device", &self.device)
            .field("num_rows", &self.num_rows)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

/// A morsel whose columns are all on one device.
#[derive(Clone, Debug)]
pub struct StoredMorsel {
    /// Rows.
    pub num_rows: u64,
    /// The pipeline's input columns, in order.
    pub columns: Vec<Arc<StoredColumn>>,
}
