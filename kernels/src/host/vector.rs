//! Registers: one value for each row of a block, in lanes of one width.

use arrow_array::{Array, StringViewArray};
use tidegate_pipeline::program::{Class, Type};

use super::declined::Declined;

/// What a register's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// A byte of 0 or 1.
    Bool,
    I32,
    I64,
    I128,
    F32,
    F64,
    Text,
}

impl Lane {
    pub(super) fn of(data: Type) -> Self {
        match data.class() {
            Class::Bool => Self::Bool,
            Class::I32 => Self::I32,
            Class::I64 => Self::I64,
            Class::I128 => Self::I128,
            Class::F32 => Self::F32,
            Class::F64 => Self::F64,
            Class::Text => Self::Text,
        }
    }

    /// Returns the narrowest lane of integers with so many bits.
    pub(super) fn of_bits(bits: u32) -> Self {
        match bits {
            ..=32 => Self::I32,
            33..=64 => Self::I64,
            _ => Self::I128,
        }
    }

    /// Returns the wider of two lanes of integers; booleans count as integers of 32 bits.
    pub(super) fn wider(self, other: Self) -> Self {
        let rank = |lane: Self| match lane {
            Self::I64 => 1,
            Self::I128 => 2,
            _ => 0,
        };
        match rank(self).max(rank(other)) {
            0 => Self::I32,
            1 => Self::I64,
            _ => Self::I128,
        }
    }
}

/// Values of one lane. Text lies in [`Texts`], since it borrows from blocks.
#[derive(Clone, Debug)]
pub(super) enum Vector {
    Bool(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text,
}

impl Vector {
    pub(super) fn new(lane: Lane, len: usize) -> Self {
        match lane {
            Lane::Bool => Self::Bool(vec![0; len]),
            Lane::I32 => Self::I32(vec![0; len]),
            Lane::I64 => Self::I64(vec![0; len]),
            Lane::I128 => Self::I128(vec![0; len]),
            Lane::F32 => Self::F32(vec![0.0; len]),
            Lane::F64 => Self::F64(vec![0.0; len]),
            Lane::Text => Self::Text,
        }
    }

    pub(super) fn lane(&self) -> Lane {
        match self {
            Self::Bool(_) => Lane::Bool,
            Self::I32(_) => Lane::I32,
            Self::I64(_) => Lane::I64,
            Self::I128(_) => Lane::I128,
            Self::F32(_) => Lane::F32,
            Self::F64(_) => Lane::F64,
            Self::Text => Lane::Text,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::I128(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Text => 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Bool(values) => values.capacity(),
            Self::I32(values) => values.capacity() * 4,
            Self::I64(values) => values.capacity() * 8,
            Self::I128(values) => values.capacity() * 16,
            Self::F32(values) => values.capacity() * 4,
            Self::F64(values) => values.capacity() * 8,
            Self::Text => 0,
        }
    }
}

/// What a lane's values are in Rust.
pub(super) trait Native: Copy + Default + PartialOrd + Send + Sync + 'static {
    fn of(vector: &Vector) -> Option<&[Self]>;
    fn of_mut(vector: &mut Vector) -> Option<&mut Vec<Self>>;
}

macro_rules! native {
    ($($type:ty, $lane:ident;)*) => {$(
        impl Native for $type {
            fn of(vector: &Vector) -> Option<&[Self]> {
                match vector {
                    Vector::$lane(values) => Some(values),
                    _ => None,
                }
            }

            fn of_mut(vector: &mut Vector) -> Option<&mut Vec<Self>> {
                match vector {
                    Vector::$lane(values) => Some(values),
                    _ => None,
                }
            }
        }
    )*};
}
native! { u8, Bool; i32, I32; i64, I64; i128, I128; f32, F32; f64, F64; }

/// Returns the first `count` values of a register, whose lane the compiler has chosen.
pub(super) fn read<T: Native>(vector: &Vector, count: usize) -> Result<&[T], Declined> {
    let values = T::of(vector).and_then(|values| values.get(..count));
    values.ok_or_else(|| mismatch(vector.lane()))
}

/// Returns the first `count` values of a register, to be written.
pub(super) fn write<T: Native>(vector: &mut Vector, count: usize) -> Result<&mut [T], Declined> {
    let lane = vector.lane();
    let values = T::of_mut(vector).and_then(|values| values.get_mut(..count));
    values.ok_or_else(|| mismatch(lane))
}

/// Says that an instruction met a lane that it is not for: a defect, which must not give wrong rows.
pub(super) fn mismatch(lane: Lane) -> Declined {
    Declined::Unsupported(format!("an instruction over {lane:?}"))
}

/// The dictionary of an input, as a run keeps it for a group of rows.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// Values in the input's lane.
    Vector(Vector),
    Text(StringViewArray),
}

impl Held {
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Vector(vector) => vector.memory_bytes(),
            Self::Text(array) => array.get_array_memory_size(),
        }
    }
}
