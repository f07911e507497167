//! Rows that can be read again in described pieces: the seam behind which memory tables and
//! generated tables look alike to the scheduler.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use tidegate_kernels::random::{Array, Part};
use tidegate_scheduler::MorselSize;

use super::SourceDescription;

/// The batches of a morsel, made one by one.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A source's rows as parts of an array: a column for the index in each dimension, and behind them the
/// values.
#[derive(Clone, Debug)]
pub struct ArrayParts {
    /// The array.
    pub array: Array,
    /// How far neighbours of the last dimension are apart in every part that has several.
    pub step: u64,
    /// The part that each morsel is.
    pub parts: Arc<[Part]>,
}

/// A source whose rows are cut into morsels.
///
/// # Contract
/// - `morsels` always gives the same list, in the order of the rows.
/// - `batches` gives the same rows each time it is called for a morsel, on any thread, in batches of
///   the columns `projection` of `schema`, in that order. It is plain CPU work: it never waits.
/// - Reading one morsel needs no other to be read first.
pub trait MorselSource: Debug + Send + Sync {
    /// Returns the source's name as EXPLAIN prints it, such as `tpch(lineitem, 1)`.
    fn name(&self) -> String;

    /// Returns a text that no source of other rows has, so that the column cache knows the rows
    /// again; `None` if there is none, and then the source cannot be cached.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Returns the source that the morsels belong to, and their numbers there, so that the column cache
    /// knows a morsel again in another selection; `None` if they are the source's own.
    fn origin(&self) -> Option<(&dyn MorselSource, &[usize])> {
        None
    }

    /// Describes the source for another process, which makes the same one of it; `None` for one that only
    /// this process has.
    fn description(&self) -> Option<SourceDescription> {
        None
    }

    /// Returns the columns.
    fn schema(&self) -> SchemaRef;

    /// Returns the size of each morsel, with the bytes of all columns.
    fn morsels(&self) -> &[MorselSize];

    /// Returns whether the sizes' `num_rows` are exact.
    fn exact_rows(&self) -> bool;

    /// Returns the source of exactly the rows for which the filter holds, if that needs no rows to be
    /// read; `None` if the filter has to be applied to rows.
    fn narrowed(&self, _filter: &Expr) -> Option<Arc<dyn MorselSource>> {
        None
    }

    /// Returns the array whose parts the morsels are; `None` if they are no parts of an array.
    fn array(&self) -> Option<ArrayParts> {
        None
    }

    /// Reads morsel `index`, in batches of at most `batch_size` rows, one by one where the source can.
    fn batches(&self, index: usize, projection: &[usize], batch_size: usize) -> Result<Batches>;

    /// Reads all batches of a morsel.
    fn read(
        &self,
        index: usize,
        projection: &[usize],
        batch_size: usize,
    ) -> Result<Vec<RecordBatch>> {
        self.batches(index, projection, batch_size)?.collect()
    }
}
