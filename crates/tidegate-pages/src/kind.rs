//! What the values of a column are in its file, and what they become.

use arrow_schema::{DataType, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as StoredUnit, Type};
use parquet::schema::types::ColumnDescriptor;

use crate::error::{PageError, Result};

/// How stored values become those of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bits.
    Bool,
    /// 32 bits, of which the narrow type's are kept.
    Int32(Narrow),
    /// 32 bits without a sign, as 64 bits.
    Unsigned32,
    /// 32 bits with a sign, as 64 bits.
    Widened32,
    /// 64 bits.
    Int64,
    /// 64 bits without a sign, as 128 bits.
    Unsigned64,
    /// A day and nanoseconds in it, as a time of 64 bits.
    Int96(TimeUnit),
    /// 32-bit floats.
    Float,
    /// 64-bit floats.
    Double,
    /// Integers of so many bytes, highest first, with a sign.
    FixedDecimal { width: usize, is_wide: bool },
    /// Integers of up to 16 bytes, highest first, with a sign.
    BytesDecimal { is_wide: bool },
    /// Strings.
    Text,
}

/// An integer type within 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrow {
    None,
    I8,
    I16,
    U8,
    U16,
}

impl Kind {
    /// Returns how a column of a file becomes one of an Arrow type.
    ///
    /// # Errors
    /// [`PageError::Unsupported`] where the file's type is another, or none that is read here.
    pub(crate) fn new(column: &ColumnDescriptor, data_type: &DataType) -> Result<Self> {
        let is_flat = column.max_rep_level() == 0
            && column.max_def_level() <= 1
            && column.path().parts().len() == 1;
        if !is_flat {
            return Err(PageError::unsupported("it is nested"));
        }
        let kind = match column.physical_type() {
            Type::BOOLEAN => (*data_type == DataType::Boolean).then_some(Self::Bool),
            Type::INT32 => of_int32(column, data_type),
            Type::INT64 => of_int64(column, data_type),
            Type::INT96 => match data_type {
                DataType::Timestamp(unit, None) => Some(Self::Int96(*unit)),
                _ => None,
            },
            Type::FLOAT => (*data_type == DataType::Float32).then_some(Self::Float),
            Type::DOUBLE => (*data_type == DataType::Float64).then_some(Self::Double),
            Type::BYTE_ARRAY => of_byte_array(column, data_type),
            Type::FIXED_LEN_BYTE_ARRAY => of_fixed(column, data_type),
        };
        kind.ok_or_else(|| {
            PageError::unsupported(format!(
                "{} that is {} is not read as {data_type}",
                column.physical_type(),
                annotation(column)
            ))
        })
    }

    /// Returns the bytes of a value in `PLAIN`; `None` if they differ.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Self::Int32(_) | Self::Unsigned32 | Self::Widened32 | Self::Float => Some(4),
            Self::Int64 | Self::Unsigned64 | Self::Double => Some(8),
            Self::Int96(_) => Some(12),
            Self::FixedDecimal { width, .. } => Some(width),
            Self::Bool | Self::BytesDecimal { .. } | Self::Text => None,
        }
    }

    /// Returns the bits of the integers that differences are stored of.
    pub(crate) fn delta_bits(self) -> Option<u32> {
        match self {
            Self::Int32(_) | Self::Unsigned32 | Self::Widened32 => Some(32),
            Self::Int64 | Self::Unsigned64 => Some(64),
            _ => None,
        }
    }
}

fn annotation(column: &ColumnDescriptor) -> String {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(logical), _) => format!("{logical:?}"),
        (None, ConvertedType::NONE) => "not annotated".into(),
        (None, converted) => converted.to_string(),
    }
}

/// Returns bits and sign, if the column is annotated as an integer.
fn integer(column: &ColumnDescriptor) -> Option<(i8, bool)> {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => Some((integer.bit_width, integer.is_signed)),
        (Some(_), _) => None,
        (None, ConvertedType::INT_8) => Some((8, true)),
        (None, ConvertedType::INT_16) => Some((16, true)),
        (None, ConvertedType::INT_32) => Some((32, true)),
        (None, ConvertedType::INT_64) => Some((64, true)),
        (None, ConvertedType::UINT_8) => Some((8, false)),
        (None, ConvertedType::UINT_16) => Some((16, false)),
        (None, ConvertedType::UINT_32) => Some((32, false)),
        (None, ConvertedType::UINT_64) => Some((64, false)),
        (None, _) => None,
    }
}

fn is_bare(column: &ColumnDescriptor) -> bool {
    column.logical_type_ref().is_none() && column.converted_type() == ConvertedType::NONE
}

/// Returns whether the column is annotated as a decimal of just this precision and scale.
fn is_decimal(column: &ColumnDescriptor, precision: u8, scale: i8) -> bool {
    let stored = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Decimal(decimal)), _) => (decimal.precision, decimal.scale),
        (None, ConvertedType::DECIMAL) => (column.type_precision(), column.type_scale()),
        _ => return false,
    };
    stored == (i32::from(precision), i32::from(scale))
}

fn of_int32(column: &ColumnDescriptor, data_type: &DataType) -> Option<Kind> {
    let is_date = matches!(
        (column.logical_type_ref(), column.converted_type()),
        (Some(LogicalType::Date), _) | (None, ConvertedType::DATE)
    );
    let is_time = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Time(time)), _) => time.unit == StoredUnit::MILLIS,
        (None, ConvertedType::TIME_MILLIS) => true,
        _ => false,
    };
    let integer = integer(column);
    match data_type {
        DataType::Int32 if is_bare(column) => Some(Kind::Int32(Narrow::None)),
        // Times in seconds have no annotation.
        DataType::Time32(TimeUnit::Second) if is_bare(column) => Some(Kind::Int32(Narrow::None)),
        DataType::Int8 if integer == Some((8, true)) => Some(Kind::Int32(Narrow::I8)),
        DataType::Int16 if integer == Some((16, true)) => Some(Kind::Int32(Narrow::I16)),
        DataType::Int32 if integer == Some((32, true)) => Some(Kind::Int32(Narrow::None)),
        DataType::UInt8 if integer == Some((8, false)) => Some(Kind::Int32(Narrow::U8)),
        DataType::UInt16 if integer == Some((16, false)) => Some(Kind::Int32(Narrow::U16)),
        DataType::UInt32 if integer == Some((32, false)) => Some(Kind::Unsigned32),
        DataType::Date32 if is_date => Some(Kind::Int32(Narrow::None)),
        DataType::Time32(TimeUnit::Millisecond) if is_time => Some(Kind::Int32(Narrow::None)),
        DataType::Decimal32(precision, scale) if is_decimal(column, *precision, *scale) => {
            Some(Kind::Int32(Narrow::None))
        }
        DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale)
            if is_decimal(column, *precision, *scale) =>
        {
            Some(Kind::Widened32)
        }
        _ => None,
    }
}

fn of_int64(column: &ColumnDescriptor, data_type: &DataType) -> Option<Kind> {
    let time = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Time(time)), _) => unit_of(&time.unit),
        (None, ConvertedType::TIME_MICROS) => Some(TimeUnit::Microsecond),
        _ => None,
    };
    let timestamp = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(stamp)), _) => {
            unit_of(&stamp.unit).map(|unit| (unit, stamp.is_adjusted_to_u_t_c))
        }
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some((TimeUnit::Millisecond, true)),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some((TimeUnit::Microsecond, true)),
        _ => None,
    };
    let is_kept = match data_type {
        DataType::Int64 => is_bare(column) || integer(column) == Some((64, true)),
        // Arrow's writers do not annotate these.
        DataType::Date64 | DataType::Duration(_) => is_bare(column),
        DataType::Timestamp(TimeUnit::Second, None) => is_bare(column),
        DataType::Timestamp(unit, zone) => timestamp == Some((*unit, zone.is_some())),
        DataType::Time64(unit) => time == Some(*unit),
        DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale) => {
            is_decimal(column, *precision, *scale)
        }
        DataType::UInt64 => {
            return (integer(column) == Some((64, false))).then_some(Kind::Unsigned64);
        }
        _ => false,
    };
    is_kept.then_some(Kind::Int64)
}

fn unit_of(unit: &StoredUnit) -> Option<TimeUnit> {
    Some(match unit {
        StoredUnit::MILLIS => TimeUnit::Millisecond,
        StoredUnit::MICROS => TimeUnit::Microsecond,
        StoredUnit::NANOS => TimeUnit::Nanosecond,
    })
}

fn of_byte_array(column: &ColumnDescriptor, data_type: &DataType) -> Option<Kind> {
    match data_type {
        // Whether bytes are text is looked at in any case.
        data_type if is_text(data_type) => {
            let may_be_text = match (column.logical_type_ref(), column.converted_type()) {
                (Some(logical), _) => matches!(
                    logical,
                    LogicalType::String | LogicalType::Json | LogicalType::Enum
                ),
                (None, converted) => matches!(
                    converted,
                    ConvertedType::UTF8
                        | ConvertedType::JSON
                        | ConvertedType::ENUM
                        | ConvertedType::NONE
                ),
            };
            may_be_text.then_some(Kind::Text)
        }
        DataType::Decimal128(precision, scale) if is_decimal(column, *precision, *scale) => {
            Some(Kind::BytesDecimal {
                is_wide: is_wide(*precision),
            })
        }
        _ => None,
    }
}

fn of_fixed(column: &ColumnDescriptor, data_type: &DataType) -> Option<Kind> {
    let width = usize::try_from(column.type_length()).ok()?;
    match data_type {
        DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale)
            if is_decimal(column, *precision, *scale) && (1..=16).contains(&width) =>
        {
            Some(Kind::FixedDecimal {
                width,
                is_wide: is_wide(*precision),
            })
        }
        _ => None,
    }
}

/// Returns whether decimals of so many digits need more than 64 bits.
fn is_wide(precision: u8) -> bool {
    precision > 18
}

/// Returns whether values of an Arrow type are strings, however they are laid out.
fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}
