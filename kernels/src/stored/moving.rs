//! How long a column takes to come from pinned memory to a device.

use std::fmt;

use tidegate_device::cuda::Mark;

use super::StoredColumn;

/// A column that was brought from pinned memory, and what tells how long that takes.
#[derive(Debug)]
pub struct Promoted {
    /// The column.
    pub column: StoredColumn,
    /// The copy; whoever folds the column is told what it took.
    pub moving: Moving,
}

/// A copy to a device, maybe still under way: its own time, without what the device did before.
pub struct Moving(pub(crate) Told);

/// Who tells how long a copy takes.
pub(crate) enum Told {
    /// Nobody.
    Never,
    /// So many seconds.
    Seconds(f64),
    /// The device, by the moments before and after.
    Between(Mark, Mark),
}

impl fmt::Debug for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a copy to a device")
    }
}
