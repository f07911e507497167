//! Names of SQL types that DataFusion's planner does not know, and values that it cannot read.

pub(super) mod literals;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast;
use sqlparser::ast::TimezoneInfo;

/// Plans binary types of any length, and times and timestamps of any precision.
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
        Binary, Blob, Bytes, LongBlob, MediumBlob, Time, Timestamp, TinyBlob, Varbinary,
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
        _ => None,
    }
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
