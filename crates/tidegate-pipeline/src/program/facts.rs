//! What holds of every value of an input, however its chunks are encoded.

use arrow_array::Array;
use arrow_schema::DataType;

use super::cell::Cell;
use crate::interpret::EvalError;
use crate::interpret::column::Column;
use crate::interval::{FloatRange, Interval};

/// What is known of a column's values. Whoever reads the column holds its values against this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Where integers lie.
    pub interval: Interval,
    /// Where floats lie.
    pub floats: FloatRange,
    /// Whether a value may be NULL.
    pub nullable: bool,
    /// What divides the distances between integers, the least of the interval among them; 0 if there is but
    /// one, 1 if nothing is known.
    pub step: u64,
}

impl Facts {
    /// Returns what holds of a type of which no value has been seen.
    pub fn declared(data_type: &DataType) -> Self {
        Self {
            interval: Interval::of_type(data_type).unwrap_or(Interval::ALL),
            floats: FloatRange::ALL,
            nullable: true,
            step: 1,
        }
    }

    /// Returns what holds of the values of arrays, which are of one type.
    ///
    /// # Errors
    /// [`EvalError::Internal`] for a type that the IR does not have.
    pub fn seen<'a>(
        data_type: &DataType,
        arrays: impl IntoIterator<Item = &'a dyn Array>,
    ) -> Result<Self, EvalError> {
        let mut integers: Option<Interval> = None;
        let mut floats: Option<FloatRange> = None;
        let mut nullable = false;
        for array in arrays {
            let column = Column::new(array)?;
            for row in 0..array.len() {
                match column.get(row) {
                    None => nullable = true,
                    Some(Cell::Int(value)) => {
                        let one = Interval::of(value);
                        integers = Some(integers.map_or(one, |known| known.hull(one)));
                    }
                    Some(Cell::Float(value)) => {
                        let one = FloatRange::of(value);
                        floats = Some(floats.map_or(one, |known| known.hull(one)));
                    }
                    Some(Cell::Text(_)) => {}
                }
            }
        }
        Ok(Self {
            interval: integers.unwrap_or(match Interval::of_type(data_type) {
                Some(_) => Interval::of(0),
                None => Interval::ALL,
            }),
            floats: floats.unwrap_or(FloatRange::ALL),
            nullable,
            step: 1,
        })
    }
}
