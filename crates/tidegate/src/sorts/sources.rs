//! Gathers rows of many batches, column by column.
//!
//! Arrow's `interleave` inspects all of its source arrays on each call, and there are as many as a sort has batches.
//! Numbers and string views, which most columns are, are gathered without it.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericByteViewArray, GenericByteViewBuilder,
    PrimitiveArray, downcast_primitive,
};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
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
            Box::new(Primitives::<$type>::new(data_type, &$arrays))
        };
    }
    downcast_primitive! {
        data_type => (of_primitives, arrays),
        DataType::Utf8View => Box::new(Views::<StringViewType>::new(&arrays)),
        DataType::BinaryView => Box::new(Views::<BinaryViewType>::new(&arrays)),
        _ => Box::new(Others(arrays))
    }
}

/// The buffers are held without their arrays: they are looked up for each row, and that many fit a cache.
struct Primitives<T: ArrowPrimitiveType> {
    data_type: DataType,
    values: Vec<ScalarBuffer<T::Native>>,
    /// The validity of each array; none at all if no array has NULLs.
    nulls: Vec<Option<NullBuffer>>,
}

impl<T: ArrowPrimitiveType> Primitives<T> {
    fn new(data_type: &DataType, arrays: &[ArrayRef]) -> Self {
        let values = arrays
            .iter()
            .map(|array| array.as_primitive::<T>().values());
        let nulls: Vec<_> = arrays.iter().map(|array| array.nulls().cloned()).collect();
        let has_nulls = nulls.iter().any(Option::is_some);
        Self {
            data_type: data_type.clone(),
            values: values.cloned().collect(),
            nulls: if has_nulls { nulls } else { Vec::new() },
        }
    }
}

impl<T: ArrowPrimitiveType> Source for Primitives<T> {
    fn at(&self, positions: &[(usize, usize)]) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(positions.len());
        values.extend(
            positions
                .iter()
                .map(|(batch, row)| self.values[*batch][*row]),
        );
        let nulls = (!self.nulls.is_empty()).then(|| {
            let is_valid = |(batch, row): &(usize, usize)| {
                let nulls = self.nulls[*batch].as_ref();
                nulls.is_none_or(|nulls| nulls.is_valid(*row))
            };
            positions.iter().map(is_valid).collect::<NullBuffer>()
        });
        let gathered = PrimitiveArray::<T>::new(values.into(), nulls);
        Ok(Arc::new(gathered.with_data_type(self.data_type.clone())))
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
