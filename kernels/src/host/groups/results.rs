//! What accumulators give for groups, as chunks that a finish reads.

use arrow_array::StringViewArray;

use super::super::block::{BLOCK, Chunk, Values};
use super::super::vector::Lane;
use super::layout::{Kind, Place, Presence};
use super::words::wide;

/// One result of an accumulator for each of some groups.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) values: ResultValues,
    /// A byte of 1 for each group that has one, of 0 for NULL; `None` if all have one.
    pub(crate) validity: Option<Vec<u8>>,
}

/// The results themselves; where there is none anything may lie.
#[derive(Debug)]
pub(crate) enum ResultValues {
    Bool(Vec<u8>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(StringViewArray),
}

impl Results {
    /// Reads the results of an accumulator out of groups' words, totals and strings.
    pub(super) fn of(
        place: Place,
        width: usize,
        words: &[u64],
        totals: &[i128],
        texts: &[Option<Box<str>>],
    ) -> Vec<Self> {
        let rows = || words.chunks_exact(width.max(1));
        let ints = || rows().map(|words| words[place.at] as i64).collect();
        let floats = |at: usize| rows().map(move |words| f64::from_bits(words[at]));
        let wides = || rows().map(|words| wide(&words[place.at..])).collect();
        let values = match place.kind {
            Kind::Count | Kind::Sum64 | Kind::Combined(_) => ResultValues::I64(ints()),
            Kind::Partial { .. } => ResultValues::I128(totals.to_vec()),
            Kind::Sum128 | Kind::Extreme128 { .. } => ResultValues::I128(wides()),
            Kind::Extreme64 { .. } if place.lane == Some(Lane::Bool) => {
                ResultValues::Bool(rows().map(|words| (words[place.at] == 1).into()).collect())
            }
            Kind::Extreme64 { .. } => ResultValues::I64(ints()),
            Kind::ExtremeFloat { .. } if place.lane == Some(Lane::F32) => {
                ResultValues::F32(floats(place.at).map(|value| value as f32).collect())
            }
            Kind::Float | Kind::ExtremeFloat { .. } => {
                ResultValues::F64(floats(place.at).collect())
            }
            Kind::ExtremeText { .. } => {
                let array = texts.iter().map(Option::as_deref);
                ResultValues::Text(StringViewArray::from_iter(array))
            }
            Kind::Moments => {
                let of = |at: usize| Self {
                    values: ResultValues::F64(floats(at).collect()),
                    validity: None,
                };
                return vec![of(place.at + 1), of(place.at + 2)];
            }
        };
        let validity: Option<Vec<u8>> = match (place.kind, place.presence) {
            (Kind::ExtremeText { .. }, _) => {
                Some(texts.iter().map(|text| text.is_some().into()).collect())
            }
            (_, Presence::Always) => None,
            (_, Presence::Count(at)) => Some(rows().map(|words| (words[at] != 0).into()).collect()),
            (_, Presence::Bit { at, bit }) => {
                Some(rows().map(|words| (words[at] >> bit & 1) as u8).collect())
            }
        };
        vec![Self { values, validity }]
    }

    /// Returns the chunk of a block of groups from one on.
    pub(in super::super) fn chunk(&self, at: usize) -> Chunk<'_> {
        fn part<T>(values: &[T], at: usize) -> &[T] {
            &values[at..values.len().min(at + BLOCK)]
        }
        let values = match &self.values {
            ResultValues::Bool(values) => Values::Bool(part(values, at)),
            ResultValues::I64(values) => Values::I64(part(values, at)),
            ResultValues::I128(values) => Values::I128(part(values, at)),
            ResultValues::F32(values) => Values::F32(part(values, at)),
            ResultValues::F64(values) => Values::F64(part(values, at)),
            ResultValues::Text(array) => Values::Text { array, at },
        };
        Chunk {
            values,
            validity: self.validity.as_deref().map(|validity| part(validity, at)),
        }
    }
}
