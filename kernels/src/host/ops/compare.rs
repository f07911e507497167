//! Comparisons.

use tidegate_pipeline::program::Comparison;

use super::super::declined::Declined;
use super::super::vector::{Lane, Native, Vector, read, write};
use super::map2;
use crate::strings::Texts;

/// Compares as SQL does.
trait Ordered: Native {
    fn is_equal(self, other: Self) -> bool;
    fn is_less(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn is_equal(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn is_less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}
ordered!(u8, i32, i64, i128);

/// Floats with one zero and one NaN, the greatest.
macro_rules! ordered_floats {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn is_equal(self, other: Self) -> bool {
                (self == other) | (self.is_nan() & other.is_nan())
            }
            #[inline(always)]
            fn is_less(self, other: Self) -> bool {
                (self < other) | (!self.is_nan() & other.is_nan())
            }
        }
    )*};
}
ordered_floats!(f32, f64);

/// Compares the values of two registers of one lane.
pub(in super::super) fn compare(
    op: Comparison,
    (left, right): (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let to = write::<u8>(to, count)?;
    match left.lane() {
        Lane::Bool => compared::<u8>(op, read(left, count)?, read(right, count)?, to),
        Lane::I32 => compared::<i32>(op, read(left, count)?, read(right, count)?, to),
        Lane::I64 => compared::<i64>(op, read(left, count)?, read(right, count)?, to),
        Lane::I128 => compared::<i128>(op, read(left, count)?, read(right, count)?, to),
        Lane::F32 => compared::<f32>(op, read(left, count)?, read(right, count)?, to),
        Lane::F64 => compared::<f64>(op, read(left, count)?, read(right, count)?, to),
        other @ Lane::Text => return Err(super::super::vector::mismatch(other)),
    }
    Ok(())
}

fn compared<T: Ordered>(op: Comparison, left: &[T], right: &[T], to: &mut [u8]) {
    match op {
        Comparison::Equal => map2(left, right, to, |a, b| a.is_equal(b).into()),
        Comparison::NotEqual => map2(left, right, to, |a, b| (!a.is_equal(b)).into()),
        Comparison::Less => map2(left, right, to, |a, b| a.is_less(b).into()),
        Comparison::LessOrEqual => map2(left, right, to, |a, b| (!b.is_less(a)).into()),
        Comparison::Greater => map2(left, right, to, |a, b| b.is_less(a).into()),
        Comparison::GreaterOrEqual => map2(left, right, to, |a, b| (!a.is_less(b)).into()),
    }
}

/// Compares strings by bytes.
pub(in super::super) fn texts(
    op: Comparison,
    (left, right): (&Texts<'_>, &Texts<'_>),
    to: &mut [u8],
) {
    for (row, to) in to.iter_mut().enumerate() {
        let order = || left.get(row).as_bytes().cmp(right.get(row).as_bytes());
        *to = match op {
            Comparison::Equal => left.get(row) == right.get(row),
            Comparison::NotEqual => left.get(row) != right.get(row),
            op => op.holds(order()),
        }
        .into();
    }
}
