//! One column of one chunk on its way to a device, written piece by piece.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;
use parking_lot::RwLock;
use tidegate_pipeline::EvalError;

use super::column::{Column, Floats, Integers};
use super::layout::Layout;
use super::lines::settle;
use super::native::{Native, Values};
use super::strings::ChunkStrings;
use super::validity::Validity;
use super::write::{Reader, Seen};
use super::{Narrowing, unsupported};
use crate::program::{Interval, SlotFacts, SlotKind};
use crate::strings::Dictionary;

/// Writes the values of a chunk's column.
///
/// Base, factor and width are guessed from some of the values, unless there are few. All rows are written
/// in pieces, in any order and by any threads, and what was seen of them is added up; then
/// [`fits`](Self::fits) says whether the guess was right. If it was not, [`refitted`](Self::refitted)
/// chooses again, from all values, and everything is written once more. Clones share the values.
#[derive(Clone)]
pub(crate) struct Encoder {
    column: Arc<dyn Column>,
    validity: Arc<Validity>,
    layout: Layout,
}

impl Encoder {
    /// Takes the arrays of a chunk, all of one type. The dictionary, which only strings use, is
    /// locked for as long as it takes to ask for each string of the chunk once.
    ///
    /// # Errors
    /// A type that a device cannot hold.
    pub(crate) fn new(
        kind: SlotKind,
        arrays: &[ArrayRef],
        dictionary: &RwLock<Dictionary>,
        narrowing: Narrowing,
    ) -> Result<Self, EvalError> {
        let validity = Validity::of(arrays);
        let column = match kind {
            SlotKind::Float32 => floats::<f32, 4, 16>(arrays),
            SlotKind::Float64 => floats::<f64, 8, 8>(arrays),
            SlotKind::Integer => integers(arrays, &validity, narrowing)?,
            SlotKind::Code => codes(arrays, &validity, dictionary)?,
        };
        let likely = column.likely_layout(&validity);
        let layout = likely.unwrap_or_else(|| column.exact_layout(&validity));
        Ok(Self {
            column,
            validity: Arc::new(validity),
            layout,
        })
    }

    /// Returns the chunk's rows.
    pub(crate) fn num_rows(&self) -> usize {
        self.validity.num_rows()
    }

    /// Returns the bytes of a written value; 0 if there is nothing to write, but still to look at.
    pub(crate) fn width(&self) -> usize {
        self.layout.width() as usize
    }

    /// Returns Arrow's validity as words of 32 rows, if some value is NULL.
    pub(crate) fn validity(&self) -> Option<&[u32]> {
        self.validity.words()
    }

    /// Writes the values of some rows, for this reader, and returns what was seen of them. The memory may
    /// be handed to any thread then.
    ///
    /// # Panics
    /// If `into` has not room for exactly those.
    pub(crate) fn write(&self, rows: Range<usize>, into: &mut [u8], reader: Reader) -> Seen {
        assert_eq!(into.len(), rows.len() * self.width(), "room for the rows");
        let mut seen = Seen::NOTHING;
        self.column
            .write(self.layout, &self.validity, rows, (into, reader), &mut seen);
        if reader == Reader::Device {
            settle();
        }
        seen
    }

    /// Returns whether all values of which this was seen are what they were taken for.
    pub(crate) fn fits(&self, seen: &Seen) -> bool {
        self.column.fits(self.layout, seen)
    }

    /// Looks at all values; what it returns they fit.
    pub(crate) fn refitted(&self) -> Self {
        let layout = self.column.exact_layout(&self.validity);
        Self {
            layout,
            ..self.clone()
        }
    }

    /// Returns what is added to a scaled raw value, and what a raw value is multiplied by.
    pub(crate) fn scale(&self) -> (i64, i64) {
        match self.layout {
            Layout::Narrowed { base, factor, .. } => (base, factor as i64),
            Layout::Plain(_) | Layout::Wide(_) => (0, 1),
        }
    }

    /// Returns what is known of the values, of all of which this was seen, and which fit.
    pub(crate) fn facts(&self, seen: &Seen) -> SlotFacts {
        let (base, factor) = self.scale();
        let range = match self.layout {
            Layout::Plain(_) => Interval::ALL,
            Layout::Wide(range) => range,
            Layout::Narrowed { .. } if seen.least > seen.greatest => Interval::of(i128::from(base)),
            Layout::Narrowed { factor, .. } => {
                let value = |raw: u64| i128::from(base) + i128::from(factor) * i128::from(raw);
                Interval::new(value(seen.least), value(seen.greatest))
            }
        };
        SlotFacts {
            range,
            float_bound: self.column.float_bound(seen),
            float_least: 0.0,
            nullable: self.validity.has_nulls(),
            widths: vec![self.layout.width()],
            scaled: factor != 1,
            step: match self.layout {
                Layout::Narrowed { factor, .. } if range.low < range.high => factor,
                Layout::Narrowed { .. } => 0,
                Layout::Plain(_) | Layout::Wide(_) => 1,
            },
            lookup: None,
        }
    }
}

fn floats<T, const WIDTH: usize, const LANES: usize>(arrays: &[ArrayRef]) -> Arc<dyn Column>
where
    T: super::write::FloatBits<WIDTH>,
{
    let values = Values::<T>::of(arrays);
    Arc::new(Floats::<T, WIDTH, LANES> { values })
}

/// Takes arrays of one type of integers, dates, times, decimals or booleans.
fn integers(
    arrays: &[ArrayRef],
    validity: &Validity,
    narrowing: Narrowing,
) -> Result<Arc<dyn Column>, EvalError> {
    use DataType as T;

    fn of<N: Native + ArrowNativeType>(
        arrays: &[ArrayRef],
        validity: &Validity,
        narrowing: Narrowing,
    ) -> Arc<dyn Column> {
        Arc::new(Integers::<N>::new(Values::of(arrays), validity, narrowing))
    }

    let Some(first) = arrays.first() else {
        return Ok(of::<i64>(arrays, validity, narrowing));
    };
    let of = match first.data_type() {
        T::Boolean => {
            let bytes = |array: &ArrayRef| -> ScalarBuffer<u8> {
                array.as_boolean().values().iter().map(u8::from).collect()
            };
            let values = Values::from_parts(arrays.iter().map(bytes).collect());
            return Ok(Arc::new(Integers::new(values, validity, narrowing)));
        }
        T::Int8 => of::<i8>,
        T::Int16 => of::<i16>,
        T::Int32 | T::Date32 | T::Time32(_) | T::Decimal32(_, _) => of::<i32>,
        T::Int64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(_, _)
        | T::Duration(_)
        | T::Decimal64(_, _) => of::<i64>,
        T::Decimal128(_, _) => of::<i128>,
        T::UInt8 => of::<u8>,
        T::UInt16 => of::<u16>,
        T::UInt32 => of::<u32>,
        T::UInt64 => of::<u64>,
        other => return Err(unsupported(other)),
    };
    Ok(of(arrays, validity, narrowing))
}

fn codes(
    arrays: &[ArrayRef],
    validity: &Validity,
    dictionary: &RwLock<Dictionary>,
) -> Result<Arc<dyn Column>, EvalError> {
    let (rows, codes) = ChunkStrings::of(arrays)?.into_codes(dictionary)?;
    let range = Interval::new(i128::from(*codes.start()), i128::from(*codes.end()));
    let values = Values::from_parts(vec![rows.into()]);
    Ok(Arc::new(Integers::within(values, validity, range)))
}
