//! Parts of an array that a device makes itself instead of being given them, and the same rows as the
//! host makes them.

mod fold;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
};
use arrow_schema::SchemaRef;
use tidegate_pipeline::EvalError;

use crate::program::{Generated, GeneratedColumn};
use crate::random::{Array, Part, Simd, ValueKind};

pub use fold::{ArrayFold, ArrayStates};

/// Parts of an array that are folded together.
#[derive(Clone, Debug)]
pub struct GeneratedRun {
    /// The array, and what of it the pipeline's input columns are.
    pub source: Arc<Generated>,
    /// The parts; their last spans have the source's step, or one index.
    pub parts: Vec<Part>,
}

impl GeneratedRun {
    /// Returns how many rows there are.
    pub fn num_rows(&self) -> u64 {
        self.parts.iter().map(Part::num_values).sum()
    }

    /// Makes the rows of a part on the host, in batches of at most `batch_rows` rows.
    pub(crate) fn batches<'a>(
        &'a self,
        part: &'a Part,
        schema: &'a SchemaRef,
        batch_rows: u64,
    ) -> impl Iterator<Item = Result<RecordBatch, EvalError>> + 'a {
        let num_rows = part.num_values();
        let starts = (0..num_rows.div_ceil(batch_rows)).map(move |batch| batch * batch_rows);
        starts.map(move |from| {
            let len = batch_rows.min(num_rows - from) as usize;
            let Generated { array, columns, .. } = self.source.as_ref();
            let columns = columns.iter();
            let columns = columns.map(|column| column_of(array, part, *column, from, len));
            let options = RecordBatchOptions::new().with_row_count(Some(len));
            let batch =
                RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options);
            Ok(batch?)
        })
    }
}

/// Makes a column of `len` rows of a part on the host, from row `from` on.
pub fn column_of(
    array: &Array,
    part: &Part,
    column: GeneratedColumn,
    from: u64,
    len: usize,
) -> ArrayRef {
    if let GeneratedColumn::Index(dimension) = column {
        let mut indices = vec![0; len];
        array.read_indices(part, dimension, from, &mut indices);
        return Arc::new(Int64Array::from(indices));
    }
    let simd = Simd::widest();
    match array.kind() {
        ValueKind::Integer => {
            let mut integers = vec![0; len];
            array.read_integers(simd, part, from, &mut integers);
            Arc::new(Int64Array::from(integers))
        }
        ValueKind::Double => {
            let mut doubles = vec![0.0; len];
            array.read(simd, part, from, &mut doubles);
            Arc::new(Float64Array::from(doubles))
        }
        ValueKind::Single => {
            let mut singles = vec![0.0; len];
            array.read_singles(simd, part, from, &mut singles);
            Arc::new(Float32Array::from(singles))
        }
    }
}
