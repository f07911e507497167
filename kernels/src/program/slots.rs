//! What a program reads on the device.
//!
//! A device sees no strings. A column of strings becomes one of codes into a dictionary, and every
//! expression over strings that gives something else (a comparison, LIKE, IN, IS NULL) is evaluated
//! on the host as the chunk is made, by the reference interpreter, once per distinct string where
//! there is one column; its value is then an input like any other. Such an input is a [`Slot`].

use arrow_schema::DataType;
use tidegate_pipeline::program::Facts;
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{Expr, FloatRange, Interval, Unsupported};

/// One input of a device program, as an expression over the pipeline's input columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// A column, or what the host makes of string columns.
    pub expr: Expr,
    /// How the device holds its values.
    pub kind: SlotKind,
}

/// How the device holds the values of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Integers, decimals, dates, times and booleans.
    Integer,
    /// `Float32`.
    Float32,
    /// `Float64`.
    Float64,
    /// Codes into a dictionary of strings.
    Code,
}

/// What is known of a slot's values over all chunks that a kernel will read.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotFacts {
    /// Where integers and codes lie.
    pub range: Interval,
    /// No float is farther from zero; infinite if one may be infinite or NaN.
    pub float_bound: f64,
    /// No float is nearer to zero: 0 if one may be.
    pub float_least: f64,
    /// Whether some value may be NULL.
    pub nullable: bool,
    /// The widths in bytes of the chunks' raw values, ascending, 0 for constants.
    pub widths: Vec<u32>,
    /// Whether some chunk's factor is not 1.
    pub scaled: bool,
    /// What divides the distances between integers, the least of the range among them; 0 if there is
    /// but one.
    pub step: u64,
    /// The chunks hold codes, and the slot's value is looked up by them.
    pub lookup: Option<Lookup>,
}

/// What is known of the values that an expression has for each string of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup {
    /// Where integers and codes lie.
    pub range: Interval,
    /// Whether some value is NULL.
    pub nullable: bool,
}

impl SlotFacts {
    /// Returns what holds for a slot of this type of which no value has been seen.
    pub fn declared(data_type: &DataType, nullable: bool) -> Self {
        let range = match data_type {
            string if is_string(string) => Interval::new(0, i128::from(u32::MAX - 1)),
            // A value may be beyond its precision; then the chunk's own range says so.
            DataType::Decimal128(precision, _) => {
                let most = 10_i128.pow(u32::from(*precision).min(38)) - 1;
                Interval::new(-most, most)
            }
            other => Interval::of_type(other).unwrap_or(Interval::ALL),
        };
        let is_float = data_type.is_floating();
        // Only a chunk with a value beyond 64 bits is 16 bytes wide.
        let wide = matches!(data_type, DataType::Decimal128(_, _))
            && !range.is_within(Interval::signed(64));
        let widths = match (is_float, wide) {
            (true, _) if *data_type == DataType::Float32 => vec![4],
            (true, _) => vec![8],
            (false, true) => vec![0, 1, 2, 4, 8, 16],
            (false, false) => vec![0, 1, 2, 4, 8],
        };
        Self {
            range,
            float_bound: f64::INFINITY,
            float_least: 0.0,
            nullable,
            widths,
            scaled: !is_float,
            step: 1,
            lookup: None,
        }
    }

    /// Returns what holds for the chunks of both.
    pub fn join(&self, other: &Self) -> Self {
        let mut widths = self.widths.clone();
        widths.extend(&other.widths);
        widths.sort_unstable();
        widths.dedup();
        Self {
            range: self.range.hull(other.range),
            float_bound: self.float_bound.max(other.float_bound),
            float_least: self.float_least.min(other.float_least),
            nullable: self.nullable || other.nullable,
            widths,
            scaled: self.scaled || other.scaled,
            step: joint_step(self, other),
            lookup: self.lookup,
        }
    }

    /// Returns what holds of the values themselves, however chunks are encoded.
    pub(crate) fn of_values(&self) -> Facts {
        if let Some(Lookup { range, nullable }) = self.lookup {
            return Facts {
                interval: range,
                floats: FloatRange::ALL,
                nullable,
                step: 1,
            };
        }
        Facts {
            interval: self.range,
            floats: FloatRange {
                bound: self.float_bound,
                least: self.float_least,
                are_singles: false,
            },
            nullable: self.nullable,
            step: self.step,
        }
    }

    /// Widens the range, so that it has to grow less often; what divides distances is then unknown.
    pub fn round(&mut self, limit: Interval) {
        self.range = self.range.rounded(limit);
        self.step = 1;
    }
}

/// Returns what divides the distances between the values of both.
fn joint_step(one: &SlotFacts, other: &SlotFacts) -> u64 {
    let between = one.range.low.abs_diff(other.range.low);
    let (mut a, mut b) = (between, u128::from(one.step));
    for next in [u128::from(other.step), 0] {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        b = next;
    }
    // More than 64 bits only where both have one value.
    u64::try_from(a).unwrap_or(1)
}

/// Returns how the device holds values of a type.
///
/// # Errors
/// Why it does not.
pub fn slot_kind(data_type: &DataType) -> Result<SlotKind, Unsupported> {
    match data_type {
        DataType::Float32 => Ok(SlotKind::Float32),
        DataType::Float64 => Ok(SlotKind::Float64),
        string if is_string(string) => Ok(SlotKind::Code),
        other if Interval::of_type(other).is_some() => Ok(SlotKind::Integer),
        other => Err(Unsupported::new(format!(
            "a column of {other} has no device form"
        ))),
    }
}
