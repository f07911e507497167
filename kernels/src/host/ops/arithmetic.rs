//! Arithmetic of integers and floats.

use tidegate_pipeline::program::{FloatOp, IntegerOp, Rounding};

use super::super::declined::Declined;
use super::super::vector::{Lane, Native, Vector, mismatch, read, write};
use super::{map1, map2};

/// Integers of a lane.
pub(in super::super) trait Integer: Native + Eq + Ord {
    const BITS: u32;

    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn divide(self, divisor: Self) -> Option<Self>;
    fn remainder(self, divisor: Self) -> Option<Self>;
    /// Computes `+ - *`, and whether a signed integer of so many bits holds the result.
    fn exact(op: IntegerOp, left: Self, right: Self, bits: u32) -> (Self, bool);
    /// Reduces modulo 2^bits.
    fn wrapped(self, bits: u32, signed: bool) -> Self;
    fn wide(self) -> i128;
    fn narrow(wide: i128) -> Self;
    fn to_64(self) -> i64;
    fn of_64(value: i64) -> Self;
}

macro_rules! integer {
    ($type:ty, $unsigned:ty) => {
        impl Integer for $type {
            const BITS: u32 = <$type>::BITS;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn divide(self, divisor: Self) -> Option<Self> {
                self.checked_div(divisor)
            }
            #[inline(always)]
            fn remainder(self, divisor: Self) -> Option<Self> {
                self.checked_rem(divisor)
            }
            #[inline(always)]
            fn exact(op: IntegerOp, left: Self, right: Self, bits: u32) -> (Self, bool) {
                let (result, overflows) = match op {
                    IntegerOp::Add => left.overflowing_add(right),
                    IntegerOp::Subtract => left.overflowing_sub(right),
                    IntegerOp::Multiply => left.overflowing_mul(right),
                };
                (result, !overflows & (result.wrapped(bits, true) == result))
            }
            #[inline(always)]
            fn wrapped(self, bits: u32, signed: bool) -> Self {
                let shift = Self::BITS.saturating_sub(bits);
                match signed {
                    true => self << shift >> shift,
                    false => ((self << shift) as $unsigned >> shift) as Self,
                }
            }
            #[inline(always)]
            fn wide(self) -> i128 {
                self.into()
            }
            #[inline(always)]
            fn narrow(wide: i128) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn to_64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn of_64(value: i64) -> Self {
                value as Self
            }
        }
    };
}
integer!(i32, u32);
integer!(i64, u64);
integer!(i128, u128);

/// Calls a function for the integers of a lane.
macro_rules! by_integers {
    ($lane:expr, $type:ident => $call:expr) => {
        match $lane {
            $crate::host::vector::Lane::I32 => {
                type $type = i32;
                $call
            }
            $crate::host::vector::Lane::I64 => {
                type $type = i64;
                $call
            }
            $crate::host::vector::Lane::I128 => {
                type $type = i128;
                $call
            }
            other => Err($crate::host::vector::mismatch(other)),
        }
    };
}
pub(in super::super) use by_integers;

/// The operands of an instruction, and where its results go.
type Operands<'a, T, R> = (&'a [T], &'a [T], &'a mut [R]);

/// Returns the operands of an instruction, and where its results go.
fn operands<'a, T: Native, R: Native>(
    (left, right): (&'a Vector, &'a Vector),
    to: &'a mut Vector,
    count: usize,
) -> Result<Operands<'a, T, R>, Declined> {
    Ok((read(left, count)?, read(right, count)?, write(to, count)?))
}

/// Computes `+ - *` modulo the width of a lane.
pub(in super::super) fn integer<T: Integer>(
    op: IntegerOp,
    wrap: Option<(u32, bool)>,
    from: (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let (a, b, to) = operands::<T, T>(from, to, count)?;
    match op {
        IntegerOp::Add => map2(a, b, to, T::add),
        IntegerOp::Subtract => map2(a, b, to, T::subtract),
        IntegerOp::Multiply => map2(a, b, to, T::multiply),
    }
    if let Some((bits, signed)) = wrap.filter(|(bits, signed)| *bits < T::BITS || !signed) {
        to.iter_mut()
            .for_each(|value| *value = value.wrapped(bits, signed));
    }
    Ok(())
}

/// Computes `+ - *`, and 0 where a signed integer of so many bits does not hold the result.
pub(in super::super) fn checked<T: Integer>(
    op: IntegerOp,
    bits: u32,
    from: (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let (a, b, to) = operands::<T, T>(from, to, count)?;
    let held = |(result, holds): (T, bool)| if holds { result } else { T::default() };
    match op {
        IntegerOp::Add => map2(a, b, to, |a, b| held(T::exact(IntegerOp::Add, a, b, bits))),
        IntegerOp::Subtract => {
            map2(a, b, to, |a, b| {
                held(T::exact(IntegerOp::Subtract, a, b, bits))
            });
        }
        IntegerOp::Multiply => {
            map2(a, b, to, |a, b| {
                held(T::exact(IntegerOp::Multiply, a, b, bits))
            });
        }
    }
    Ok(())
}

/// Computes whether a signed integer of so many bits does not hold the result.
pub(in super::super) fn overflows<T: Integer>(
    op: IntegerOp,
    bits: u32,
    from: (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let (a, b, to) = operands::<T, u8>(from, to, count)?;
    let fails = |op: IntegerOp, a: T, b: T| u8::from(!T::exact(op, a, b, bits).1);
    match op {
        IntegerOp::Add => map2(a, b, to, |a, b| fails(IntegerOp::Add, a, b)),
        IntegerOp::Subtract => map2(a, b, to, |a, b| fails(IntegerOp::Subtract, a, b)),
        IntegerOp::Multiply => map2(a, b, to, |a, b| fails(IntegerOp::Multiply, a, b)),
    }
    Ok(())
}

/// Divides; of a divisor 0, and where a signed integer of so many bits does not hold the quotient, the
/// result is the dividend.
pub(in super::super) fn divide<T: Integer>(
    rounding: Rounding,
    bits: u32,
    from: (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let (a, b, to) = operands::<T, T>(from, to, count)?;
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        let quotient = quotient(rounding, *a, *b);
        *to = if quotient.wrapped(bits, true) == quotient {
            quotient
        } else {
            *a
        };
    }
    Ok(())
}

#[inline(always)]
fn quotient<T: Integer>(rounding: Rounding, left: T, right: T) -> T {
    if T::BITS == 128
        && let (Ok(short), Ok(divisor)) = (i64::try_from(left.wide()), i64::try_from(right.wide()))
        && divisor != -1
    {
        return T::narrow(i64_quotient(rounding, short, divisor).into());
    }
    let Some(quotient) = left.divide(right) else {
        return left;
    };
    let rest = left.subtract(quotient.multiply(right));
    let (zero, one) = (T::default(), T::narrow(1));
    match rounding {
        Rounding::Zero => quotient,
        Rounding::Down if rest < zero => quotient.subtract(one),
        Rounding::Down => quotient,
        Rounding::Nearest => {
            let half = T::narrow(right.wide() / 2);
            let size = if rest < zero {
                zero.subtract(rest)
            } else {
                rest
            };
            match right > one && size >= half {
                true if left < zero => quotient.subtract(one),
                true => quotient.add(one),
                false => quotient,
            }
        }
    }
}

/// Divides numbers that 64 bits hold, which is ten times as fast as 128.
fn i64_quotient(rounding: Rounding, left: i64, right: i64) -> i64 {
    quotient(rounding, left, right)
}

/// Computes the remainder; of divisors 0 and −1 it is 0.
pub(in super::super) fn remainder<T: Integer>(
    from: (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let (a, b, to) = operands::<T, T>(from, to, count)?;
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = a.remainder(*b).unwrap_or_default();
    }
    Ok(())
}

/// Computes on floats of either width.
pub(in super::super) fn float(
    op: FloatOp,
    (left, right): (&Vector, &Vector),
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    match to.lane() {
        Lane::F64 => {
            let to = write::<f64>(to, count)?;
            computed(op, read(left, count)?, read(right, count)?, to);
        }
        Lane::F32 => {
            let to = write::<f32>(to, count)?;
            computed(op, read(left, count)?, read(right, count)?, to);
        }
        other => return Err(mismatch(other)),
    }
    Ok(())
}

fn computed<T>(op: FloatOp, left: &[T], right: &[T], to: &mut [T])
where
    T: Copy
        + std::ops::Add<Output = T>
        + std::ops::Sub<Output = T>
        + std::ops::Mul<Output = T>
        + std::ops::Div<Output = T>
        + std::ops::Rem<Output = T>,
{
    match op {
        FloatOp::Add => map2(left, right, to, |a, b| a + b),
        FloatOp::Subtract => map2(left, right, to, |a, b| a - b),
        FloatOp::Multiply => map2(left, right, to, |a, b| a * b),
        FloatOp::Divide => map2(left, right, to, |a, b| a / b),
        FloatOp::Remainder => map2(left, right, to, |a, b| a % b),
    }
}

/// Turns the signs of floats.
pub(in super::super) fn negate(
    from: &Vector,
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    match to.lane() {
        Lane::F64 => map1(read::<f64>(from, count)?, write::<f64>(to, count)?, |a| -a),
        Lane::F32 => map1(read::<f32>(from, count)?, write::<f32>(to, count)?, |a| -a),
        other => return Err(mismatch(other)),
    }
    Ok(())
}

/// Makes equal floats equal bits.
pub(in super::super) fn canonical(
    from: &Vector,
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    // Adding 0.0 turns −0.0, and nothing else, into it.
    match to.lane() {
        Lane::F64 => map1(read::<f64>(from, count)?, write::<f64>(to, count)?, |a| {
            if a.is_nan() { f64::NAN } else { a + 0.0 }
        }),
        Lane::F32 => map1(read::<f32>(from, count)?, write::<f32>(to, count)?, |a| {
            if a.is_nan() { f32::NAN } else { a + 0.0 }
        }),
        other => return Err(mismatch(other)),
    }
    Ok(())
}
