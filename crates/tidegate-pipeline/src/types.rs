//! Families of Arrow types, as the rules of this crate tell them apart.

use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DataType, TimeUnit,
};

/// The integer that holds a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalWidth {
    /// `Decimal32`.
    W32,
    /// `Decimal64`.
    W64,
    /// `Decimal128`.
    W128,
}

impl DecimalWidth {
    /// Returns the most digits that the width is declared to hold.
    pub fn max_precision(self) -> u8 {
        match self {
            Self::W32 => DECIMAL32_MAX_PRECISION,
            Self::W64 => DECIMAL64_MAX_PRECISION,
            Self::W128 => DECIMAL128_MAX_PRECISION,
        }
    }

    /// Returns `value` if the width holds it.
    pub fn fit(self, value: i128) -> Option<i128> {
        (self.wrap(value) == value).then_some(value)
    }

    /// Returns `value` modulo the width, as two's complement wraps.
    pub fn wrap(self, value: i128) -> i128 {
        match self {
            Self::W32 => i128::from(value as i32),
            Self::W64 => i128::from(value as i64),
            Self::W128 => value,
        }
    }

    /// Returns 10 to the `exponent` if the width holds it.
    pub fn power_of_ten(self, exponent: u32) -> Option<i128> {
        10_i128
            .checked_pow(exponent)
            .and_then(|power| self.fit(power))
    }
}

/// A decimal type of up to 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The integer beneath.
    pub width: DecimalWidth,
    /// Digits in all.
    pub precision: u8,
    /// Digits after the point.
    pub scale: i8,
}

impl Decimal {
    /// Returns the family of `data_type`, if it is a decimal of up to 128 bits.
    pub fn of(data_type: &DataType) -> Option<Self> {
        let (width, precision, scale) = match data_type {
            DataType::Decimal32(precision, scale) => (DecimalWidth::W32, precision, scale),
            DataType::Decimal64(precision, scale) => (DecimalWidth::W64, precision, scale),
            DataType::Decimal128(precision, scale) => (DecimalWidth::W128, precision, scale),
            _ => return None,
        };
        Some(Self {
            width,
            precision: *precision,
            scale: *scale,
        })
    }

    /// Returns the Arrow type.
    pub fn data_type(self) -> DataType {
        match self.width {
            DecimalWidth::W32 => DataType::Decimal32(self.precision, self.scale),
            DecimalWidth::W64 => DataType::Decimal64(self.precision, self.scale),
            DecimalWidth::W128 => DataType::Decimal128(self.precision, self.scale),
        }
    }

    /// Returns whether `value` has no more digits than the precision, and fits the width.
    pub fn holds(self, value: i128) -> bool {
        let limit = 10_u128.pow(u32::from(self.precision.min(DECIMAL128_MAX_PRECISION)));
        self.width.fit(value).is_some() && value.unsigned_abs() < limit
    }
}

/// Returns whether values of the type are strings, in whatever layout.
pub fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    }
}

/// Returns whether values of both types are of one kind: the types are equal, or both are strings.
pub fn same_values(left: &DataType, right: &DataType) -> bool {
    left == right || (is_string(left) && is_string(right))
}

/// Returns whether the type is `Float32` or `Float64`.
pub fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Returns how many of the unit make a second.
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Seconds in a day.
pub const SECONDS_PER_DAY: i64 = 86_400;

/// Milliseconds in a day, the unit of a `Date64` day.
pub const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// Returns the bits of an integer type, and whether it is signed.
pub fn integer_bits(data_type: &DataType) -> Option<(u32, bool)> {
    match data_type {
        DataType::Int8 => Some((8, true)),
        DataType::Int16 => Some((16, true)),
        DataType::Int32 => Some((32, true)),
        DataType::Int64 => Some((64, true)),
        DataType::UInt8 => Some((8, false)),
        DataType::UInt16 => Some((16, false)),
        DataType::UInt32 => Some((32, false)),
        DataType::UInt64 => Some((64, false)),
        _ => None,
    }
}
