//! Names of SQL types that DataFusion's planner does not know, and values that it cannot read.
//!
//! Types of other systems that are the same under another name are here; of those that are not, the table
//! of `crate::mistakes::rewrites` says what to write.

pub(super) mod literals;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast;
use sqlparser::ast::{ArrayElemTypeDef, ExactNumberInfo, TimezoneInfo};

use crate::statements::using::folded;

/// Plans binary types of any length, times and timestamps of any precision, and types by the names that
/// other systems have for them.
#[derive(Debug)]
pub(super) struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        Ok(planned(sql_type).map(|planned| Field::new("", planned, true).into()))
    }
}

fn planned(sql_type: &ast::DataType) -> Option<DataType> {
    use TimezoneInfo::{None as NoZone, WithoutTimeZone};
    use ast::DataType::{
        Binary, Blob, Bytes, Custom, Datetime, Float32, Float64, HugeInt, Int16, Int32, Int64,
        JSON, JSONB, LongBlob, LongText, Map, MediumBlob, MediumText, Nvarchar, Signed, Time,
        Timestamp, TimestampNtz, TinyBlob, TinyText, UBigInt, UHugeInt, USmallInt, UTinyInt,
        Unsigned, Uuid, Varbinary,
    };
    match sql_type {
        // A length is not enforced, as that of VARCHAR is not.
        Binary(_) | Varbinary(_) | Blob(_) | Bytes(_) | TinyBlob | MediumBlob | LongBlob => {
            Some(DataType::Binary)
        }
        Time(Some(digits), NoZone | WithoutTimeZone) => match unit(*digits)? {
            // Functions know times of 64 bits.
            TimeUnit::Nanosecond => Some(DataType::Time64(TimeUnit::Nanosecond)),
            _ => Some(DataType::Time64(TimeUnit::Microsecond)),
        },
        Timestamp(Some(digits), NoZone | WithoutTimeZone) => {
            Some(DataType::Timestamp(unit(*digits)?, None))
        }
        Datetime(digits) => Some(DataType::Timestamp(unit(digits.unwrap_or(9))?, None)),
        // JSON is text, which its functions read.
        JSON | JSONB | LongText | MediumText | TinyText | Nvarchar(_) => Some(DataType::Utf8View),
        // A UUID is text, which a cast checks.
        Uuid => Some(DataType::Utf8View),
        Map(keys, values) => map(keys, values),
        TimestampNtz(digits) => Some(DataType::Timestamp(unit(digits.unwrap_or(9))?, None)),
        Float32 => Some(DataType::Float32),
        Float64 => Some(DataType::Float64),
        Int16 => Some(DataType::Int16),
        Int32 => Some(DataType::Int32),
        Int64 | Signed => Some(DataType::Int64),
        UTinyInt => Some(DataType::UInt8),
        USmallInt => Some(DataType::UInt16),
        UBigInt | Unsigned => Some(DataType::UInt64),
        // The most digits that there are.
        HugeInt | UHugeInt => Some(DataType::Decimal128(38, 0)),
        Custom(name, modifiers) => named(&name.to_string(), modifiers),
        _ => None,
    }
}

fn map(keys: &ast::DataType, values: &ast::DataType) -> Option<DataType> {
    let keys = Field::new("key", within(keys)?, false);
    let values = Field::new("value", within(values)?, true);
    let entries = DataType::Struct(vec![keys, values].into());
    let entries = Field::new("entries", entries, false);
    Some(DataType::Map(entries.into(), false))
}

/// Returns the type of the keys or the values of a map, which DataFusion's planner is not asked for.
fn within(sql_type: &ast::DataType) -> Option<DataType> {
    use TimezoneInfo::{None as NoZone, WithoutTimeZone};
    use ast::DataType::{
        Array, BigInt, Bool, Boolean, Bytea, Char, Date, Decimal, Double, DoublePrecision, Float,
        Float4, Float8, Int, Int2, Int4, Int8, Integer, Interval, Numeric, Real, SmallInt, String,
        Struct, Text, Time, Timestamp, TinyInt, Varchar,
    };
    if let Some(planned) = planned(sql_type) {
        return Some(planned);
    }
    Some(match sql_type {
        Boolean | Bool => DataType::Boolean,
        TinyInt(_) => DataType::Int8,
        SmallInt(_) | Int2(_) => DataType::Int16,
        Int(_) | Integer(_) | Int4(_) => DataType::Int32,
        BigInt(_) | Int8(_) => DataType::Int64,
        Real | Float4 | Float(_) => DataType::Float32,
        Double(ExactNumberInfo::None) | DoublePrecision | Float8 => DataType::Float64,
        Decimal(digits) | Numeric(digits) => {
            let (precision, scale) = match digits {
                ExactNumberInfo::None => (38, 10),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
            };
            let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
            match (1..=38).contains(&precision) && scale.unsigned_abs() <= precision {
                true => DataType::Decimal128(precision, scale),
                false => return None,
            }
        }
        Varchar(_) | Char(_) | Text | String(_) => DataType::Utf8View,
        Bytea => DataType::Binary,
        Date => DataType::Date32,
        Time(None, NoZone | WithoutTimeZone) => DataType::Time64(TimeUnit::Nanosecond),
        Timestamp(None, NoZone | WithoutTimeZone) => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        Interval {
            fields: None,
            precision: None,
        } => DataType::Interval(IntervalUnit::MonthDayNano),
        Array(ArrayElemTypeDef::AngleBracket(of) | ArrayElemTypeDef::SquareBracket(of, None)) => {
            DataType::new_list(within(of)?, true)
        }
        Struct(fields, _) => {
            let fields = fields.iter().enumerate().map(|(place, field)| {
                let name = match &field.field_name {
                    Some(name) => folded(name),
                    None => format!("c{place}"),
                };
                Some(Field::new(name, within(&field.field_type)?, true))
            });
            DataType::Struct(fields.collect::<Option<Vec<_>>>()?.into())
        }
        _ => return None,
    })
}

/// Returns the type of a name that the parser does not know either.
fn named(name: &str, modifiers: &[String]) -> Option<DataType> {
    let number = |place: usize| modifiers.get(place).map(|digits| digits.parse().ok());
    Some(match name.to_ascii_uppercase().as_str() {
        "LONG" => DataType::Int64,
        "UINTEGER" => DataType::UInt32,
        "INT128" => DataType::Decimal128(38, 0),
        "DATETIME2" | "TIMESTAMP_NTZ" | "TIMESTAMP_NS" => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        "TIMESTAMP_S" => DataType::Timestamp(TimeUnit::Second, None),
        "TIMESTAMP_MS" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "TIMESTAMP_US" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "NVARCHAR" | "NVARCHAR2" | "VARCHAR2" | "LONGTEXT" | "MEDIUMTEXT" | "TINYTEXT" => {
            DataType::Utf8View
        }
        "NUMBER" => match (number(0)?, number(1)) {
            (Some(precision @ 1..=38), None) => DataType::Decimal128(precision, 0),
            (Some(precision @ 1..=38), Some(Some(scale))) if scale <= precision => {
                DataType::Decimal128(precision, i8::try_from(scale).ok()?)
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the coarsest unit that holds so many digits of a second; `None` if there is none.
fn unit(digits: u64) -> Option<TimeUnit> {
    match digits {
        0 => Some(TimeUnit::Second),
        1..=3 => Some(TimeUnit::Millisecond),
        4..=6 => Some(TimeUnit::Microsecond),
        7..=9 => Some(TimeUnit::Nanosecond),
        _ => None,
    }
}
