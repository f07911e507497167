//! The names that SQL has for Arrow types.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// Returns the name that SQL has for a type, such as `BIGINT` or `DECIMAL(10, 2)`.
pub fn sql_type(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BYTEA",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(unit, zone) => return timestamp(*unit, zone.is_some()),
        DataType::Duration(_) | DataType::Interval(_) => "INTERVAL",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return format!("DECIMAL({precision}, {scale})");
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => return format!("{}[]", sql_type(item.data_type())),
        DataType::FixedSizeList(item, len) => {
            return format!("{}[{len}]", sql_type(item.data_type()));
        }
        DataType::Struct(fields) => {
            let field =
                |(name, data_type): (&String, &DataType)| format!("{name} {}", sql_type(data_type));
            let fields = fields.iter().map(|f| field((f.name(), f.data_type())));
            return format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "));
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let [key, value] = [0, 1].map(|place| sql_type(fields[place].data_type()));
                return format!("MAP({key}, {value})");
            }
            _ => "MAP",
        },
        DataType::Dictionary(_, value) => return sql_type(value),
        DataType::RunEndEncoded(_, values) => return sql_type(values.data_type()),
        DataType::Union(..) => "UNION",
    };
    name.into()
}

/// SQL's timestamps count nanoseconds unless they say how many digits a second has.
fn timestamp(unit: TimeUnit, has_zone: bool) -> String {
    let digits = match unit {
        TimeUnit::Second => "(0)",
        TimeUnit::Millisecond => "(3)",
        TimeUnit::Microsecond => "(6)",
        TimeUnit::Nanosecond => "",
    };
    let zone = if has_zone { " WITH TIME ZONE" } else { "" };
    format!("TIMESTAMP{digits}{zone}")
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};

    use super::sql_type;

    #[test]
    fn types_have_the_names_that_sql_reads() {
        for (data_type, name) in [
            (DataType::Utf8View, "VARCHAR"),
            (DataType::Decimal128(10, 2), "DECIMAL(10, 2)"),
            (DataType::new_list(DataType::Int64, true), "BIGINT[]"),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), "TIMESTAMP"),
            (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                "TIMESTAMP(6) WITH TIME ZONE",
            ),
            (DataType::Time64(TimeUnit::Nanosecond), "TIME"),
        ] {
            assert_eq!(sql_type(&data_type), name);
        }
    }
}
