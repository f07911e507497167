//! From lane to lane.

use super::super::declined::Declined;
use super::super::vector::{Lane, Vector, mismatch, read, write};
use super::map1;

/// 2^127 is exact in a double, and the greatest double below it is in range.
const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// Returns whether 128 bits hold a float, truncated.
fn holds(value: f64) -> bool {
    (-LIMIT..LIMIT).contains(&value)
}

fn truncated(value: f64) -> i128 {
    if holds(value) { value as i128 } else { 0 }
}

/// Brings integers to another width modulo it, and numbers to floats, rounded to nearest; truncates floats
/// to 128 bits, and gives 0 where they do not hold them.
pub(in super::super) fn cast(from: &Vector, to: &mut Vector, count: usize) -> Result<(), Declined> {
    macro_rules! cast {
        ($from:ty => $($lane:ident $type:ty),*) => {
            match to.lane() {
                $(Lane::$lane => {
                    map1(read::<$from>(from, count)?, write::<$type>(to, count)?, |a| a as $type);
                })*
                other => return Err(mismatch(other)),
            }
        };
    }
    match from.lane() {
        Lane::Bool => cast!(u8 => I32 i32, I64 i64, I128 i128, F32 f32, F64 f64),
        Lane::I32 => cast!(i32 => I32 i32, I64 i64, I128 i128, F32 f32, F64 f64),
        Lane::I64 => cast!(i64 => I32 i32, I64 i64, I128 i128, F32 f32, F64 f64),
        Lane::I128 => cast!(i128 => I32 i32, I64 i64, I128 i128, F32 f32, F64 f64),
        Lane::F32 if to.lane() == Lane::I128 => {
            let from = read::<f32>(from, count)?;
            map1(from, write::<i128>(to, count)?, |a| truncated(a.into()));
        }
        Lane::F64 if to.lane() == Lane::I128 => {
            map1(
                read::<f64>(from, count)?,
                write::<i128>(to, count)?,
                truncated,
            );
        }
        Lane::F32 => cast!(f32 => F32 f32, F64 f64),
        Lane::F64 => cast!(f64 => F32 f32, F64 f64),
        other @ Lane::Text => return Err(mismatch(other)),
    }
    Ok(())
}

/// Computes whether 128 bits do not hold floats.
pub(in super::super) fn cast_fails(
    from: &Vector,
    to: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    let from = read::<f64>(from, count)?;
    map1(from, write::<u8>(to, count)?, |a| (!holds(a)).into());
    Ok(())
}
