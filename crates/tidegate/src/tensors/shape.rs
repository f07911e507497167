//! The shape of a tensor column, as its type and its field's metadata tell it.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::plan_err;
use datafusion::error::Result;
use serde::Deserialize;

use crate::generate::INDEX_NAMES;

/// The keys of an extension type in a field's metadata.
const NAME_KEY: &str = "ARROW:extension:name";
const METADATA_KEY: &str = "ARROW:extension:metadata";
/// <https://arrow.apache.org/docs/format/CanonicalExtensions.html#fixed-shape-tensor>
const FIXED_SHAPE_TENSOR: &str = "arrow.fixed_shape_tensor";

/// What the canonical extension writes of a tensor.
#[derive(Deserialize)]
struct Description {
    shape: Vec<usize>,
    #[serde(default)]
    permutation: Option<Vec<usize>>,
}

/// The lengths of the dimensions, the slowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape(pub(super) Vec<usize>);

impl Shape {
    /// Makes a shape.
    ///
    /// # Errors
    /// No dimension, too many, or more elements than a fixed-size list counts.
    pub(super) fn try_new(lens: Vec<usize>) -> Result<Self> {
        if !(1..=INDEX_NAMES.len()).contains(&lens.len()) {
            return plan_err!(
                "a tensor has from 1 to {} dimensions, got {}",
                INDEX_NAMES.len(),
                lens.len()
            );
        }
        let size = lens
            .iter()
            .try_fold(1_usize, |size, len| size.checked_mul(*len));
        if size.is_none_or(|size| i32::try_from(size).is_err()) {
            return plan_err!("a tensor of shape {lens:?} has more than 2^31 - 1 elements");
        }
        Ok(Self(lens))
    }

    /// Returns how many elements there are.
    pub(super) fn size(&self) -> usize {
        self.0.iter().product()
    }

    /// Returns the index in each dimension of an element.
    pub(super) fn indices(&self, mut element: usize) -> Vec<i64> {
        let mut indices = vec![0; self.0.len()];
        for (index, len) in indices.iter_mut().zip(&self.0).rev() {
            *index = (element % len.max(&1)) as i64;
            element /= len.max(&1);
        }
        indices
    }

    /// Returns the metadata of a field of such tensors.
    pub(super) fn metadata(&self) -> HashMap<String, String> {
        let shape = serde_json::json!({ "shape": self.0 });
        HashMap::from([
            (NAME_KEY.into(), FIXED_SHAPE_TENSOR.into()),
            (METADATA_KEY.into(), shape.to_string()),
        ])
    }
}

/// What the rows of a column are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Elements {
    /// The shape of each; `None` if they are lists of their own lengths.
    pub(super) shape: Option<Shape>,
    /// The type of an element.
    pub(super) data_type: DataType,
}

impl Elements {
    /// Reads what a column's rows are.
    ///
    /// # Errors
    /// A column of no lists; a tensor's description that is not its type's, or that permutes
    /// dimensions.
    pub(super) fn of(field: &Field) -> Result<Self> {
        let (mut lens, mut data_type) = (Vec::new(), field.data_type());
        if let DataType::List(item) | DataType::LargeList(item) = data_type {
            return Ok(Self {
                shape: None,
                data_type: item.data_type().clone(),
            });
        }
        while let DataType::FixedSizeList(item, len) = data_type {
            lens.push(usize::try_from(*len).unwrap_or(0));
            data_type = item.data_type();
        }
        if lens.is_empty() {
            return plan_err!("elements(column): {data_type} is no list and no tensor");
        }
        if field.metadata().get(NAME_KEY).map(String::as_str) == Some(FIXED_SHAPE_TENSOR) {
            lens = described(field, &lens)?;
        }
        Ok(Self {
            shape: Some(Shape::try_new(lens)?),
            data_type: data_type.clone(),
        })
    }

    /// Returns how many indices an element has.
    pub(super) fn num_dimensions(&self) -> usize {
        self.shape.as_ref().map_or(1, |shape| shape.0.len())
    }
}

/// Reads the shape of a tensor whose type has these lengths.
fn described(field: &Field, lens: &[usize]) -> Result<Vec<usize>> {
    let text = field.metadata().get(METADATA_KEY);
    let text = text.map(String::as_str).unwrap_or_default();
    let description: Description = match serde_json::from_str(text) {
        Ok(description) => description,
        Err(error) => {
            return plan_err!("the tensor's metadata '{text}' cannot be read: {error}");
        }
    };
    let size = |lens: &[usize]| lens.iter().product::<usize>();
    if size(&description.shape) != size(lens) {
        return plan_err!(
            "a tensor of shape {:?} is kept in lists of {} elements",
            description.shape,
            size(lens)
        );
    }
    let in_order = |permutation: &Vec<usize>| permutation.iter().copied().eq(0..permutation.len());
    if !description.permutation.as_ref().is_none_or(in_order) {
        return plan_err!(
            "a tensor whose dimensions are permuted is not supported; write it in row-major order"
        );
    }
    Ok(description.shape)
}
