//! Decimal arithmetic: the result's type, and what the operands are scaled by.
//!
//! The rules are those of Hive, as `decimal_op` in Arrow's `numeric.rs` has them: `+ - %` bring both
//! operands to the greater scale, `*` adds the scales, `/` gives four more digits than the dividend.

use super::Unsupported;
use crate::expr::ArithmeticOp;
use crate::types::Decimal;

/// What one decimal operation does: both operands are multiplied by their factor, then combined.
#[derive(Clone, Copy, Debug)]
pub struct DecimalRule {
    /// The result's type.
    pub result: Decimal,
    /// What the left operand is multiplied by.
    pub left_factor: i128,
    /// What the right operand is multiplied by.
    pub right_factor: i128,
}

/// Returns the rule for `left op right`; both have to be of one width.
pub fn decimal_rule(
    op: ArithmeticOp,
    left: Decimal,
    right: Decimal,
) -> Result<DecimalRule, Unsupported> {
    let refuse = |why: &str| {
        Unsupported::new(format!(
            "{} {op} {}: {why}",
            left.data_type(),
            right.data_type()
        ))
    };
    if left.width != right.width {
        return Err(refuse("different widths"));
    }
    let width = left.width;
    let most = i16::from(width.max_precision());
    let (p1, s1) = (i16::from(left.precision), i16::from(left.scale));
    let (p2, s2) = (i16::from(right.precision), i16::from(right.scale));
    let common = s1.max(s2);
    let (precision, scale, left_power, right_power) = match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract => (
            common + (p1 - s1).max(p2 - s2) + 1,
            common,
            common - s1,
            common - s2,
        ),
        ArithmeticOp::Multiply => (p1 + p2 + 1, s1 + s2, 0, 0),
        ArithmeticOp::Divide => {
            let scale = (s1 + 4).min(most);
            (p1 + scale - s1 + s2, scale, scale - s1 + s2, 0)
        }
        ArithmeticOp::Modulo => (
            common + (p1 - s1).min(p2 - s2),
            common,
            common - s1,
            common - s2,
        ),
    };
    if scale > most {
        return Err(refuse("the scale of the result is too great"));
    }
    let factor = |power: i16| {
        u32::try_from(power)
            .ok()
            .and_then(|power| width.power_of_ten(power))
            .ok_or_else(|| refuse("the scales are too far apart"))
    };
    let narrow = |digits: i16| u8::try_from(digits).map_err(|_| refuse("no digits are left"));
    let scale_of_result =
        i8::try_from(scale).map_err(|_| refuse("the scale of the result is too great"))?;
    Ok(DecimalRule {
        result: Decimal {
            width,
            precision: narrow(precision.min(most))?,
            scale: scale_of_result,
        },
        left_factor: factor(left_power)?,
        right_factor: factor(right_power)?,
    })
}
