//! Gathers rows of many batches, column by column.
//!
//! Arrow's `interleave` inspects all of its source arrays on each call, and there are as many as a sort has batches.
//! Numbers and string views, which most columns are, are gathered without it.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericByteViewArray, GenericByteViewBuilder,
    PrimitiveArray, downcast_primitive,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use datafusion::error::Result;

use crate::spilling::compacted_column;

/// The size of the buffers that gathered strings are copied to, in bytes.
const STRINGS_BYTES: u32 = 1 << 16;

/// The arrays of one column, batch by batch.
pub(super) trait Source: Send + Sync {
    /// Returns the values at some positions (batch, row), without the buffers that they came from.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    fn at(&self, positions: &[(usize, usize)]) -> Result<ArrayRef>;
}

/// Makes the source of arrays of one type.
pub(super) fn source_of(data_type: &DataType, arrays: Vec<ArrayRef>) -> Box<dyn Source> {
    macro_rules! of_primitives {
        ($type:ty, $arrays:expr) => {
            Box::new(Primitives::<$type>(
                $arrays
                    .iter()
                    .map(|array| array.as_primitive().clone())
                    .collect(),
            ))
        };
    }
    downcast_primitive! {
        data_type => (of_primitives, arrays),
        DataType::Utf8View => Box::new(Views::<StringViewType>::new(&arrays)),
        DataType::BinaryView => Box::new(Views::<BinaryViewType>::new(&arrays)),
        _ => Box::new(Others(arrays))
    }
}

struct Primitives<T: ArrowPrimitiveType>(Vec<PrimitiveArray<T>>);

impl<T: ArrowPrimitiveType> Source for Primitives<T> {
    fn at(&self, positions: &[(usize, usize)]) -> Result<ArrayRef> {
        let values = positions
            .iter()
            .map(|(batch, row)| self.0[*batch].values()[*row]);
        let values = values.collect::<Vec<_>>().into();
        let has_nulls = self.0.iter().any(|array| array.nulls().is_some());
        let nulls = has_nulls.then(|| {
            let valid = positions
                .iter()
                .map(|(batch, row)| self.0[*batch].is_valid(*row));
            valid.collect::<NullBuffer>()
        });
        let gathered = PrimitiveArray::<T>::new(values, nulls);
        Ok(Arc::new(match self.0.first() {
            Some(first) => gathered.with_data_type(first.data_type().clone()),
            None => gathered,
        }))
    }
}

struct Views<T: ByteViewType>(Vec<GenericByteViewArray<T>>);

impl<T: ByteViewType> Views<T> {
    fn new(arrays: &[ArrayRef]) -> Self {
        Self(
            arrays
                .iter()
                .map(|array| array.as_byte_view().clone())
                .collect(),
        )
    }
}

impl<T: ByteViewType> Source for Views<T> {
    fn at(&self, positions: &[(usize, usize)]) -> Result<ArrayRef> {
        let gathered = GenericByteViewBuilder::<T>::with_capacity(positions.len());
        let mut gathered = gathered.with_fixed_block_size(STRINGS_BYTES);
        for (batch, row) in positions {
            let array = &self.0[*batch];
            match array.is_valid(*row) {
                true => gathered.append_value(array.value(*row)),
                false => gathered.append_null(),
            }
        }
        Ok(Arc::new(gathered.finish()))
    }
}

struct Others(Vec<ArrayRef>);

impl Source for Others {
    fn at(&self, positions: &[(usize, usize)]) -> Result<ArrayRef> {
        let arrays: Vec<&dyn Array> = self.0.iter().map(AsRef::as_ref).collect();
        compacted_column(&interleave(&arrays, positions)?)
    }
}
