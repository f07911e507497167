//! The types of the SQL dialect, as JDBC and ODBC describe types.

use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Nullable, Searchable, XdbcDataType, XdbcDatetimeSubcode};
use tonic::Status;

use crate::status::defect;

/// Returns all types.
pub(crate) fn types() -> Result<XdbcTypeInfoData, Status> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for number in NUMBERS {
        types.append(number.info());
    }
    for text in ["CHAR", "VARCHAR", "TEXT", "STRING"] {
        types.append(XdbcTypeInfo {
            literal_prefix: Some("'".into()),
            literal_suffix: Some("'".into()),
            case_sensitive: true,
            searchable: Searchable::Full,
            ..plain(text, XdbcDataType::XdbcVarchar)
        });
    }
    types.append(XdbcTypeInfo {
        literal_prefix: Some("X'".into()),
        literal_suffix: Some("'".into()),
        ..plain("BYTEA", XdbcDataType::XdbcVarbinary)
    });
    types.append(plain("BOOLEAN", XdbcDataType::XdbcBit));
    // The protocol gives years and dates the same number.
    for (name, kind, subcode) in [
        (
            "DATE",
            XdbcDataType::XdbcDate,
            XdbcDatetimeSubcode::XdbcSubcodeYear,
        ),
        (
            "TIME",
            XdbcDataType::XdbcTime,
            XdbcDatetimeSubcode::XdbcSubcodeTime,
        ),
        (
            "TIMESTAMP",
            XdbcDataType::XdbcTimestamp,
            XdbcDatetimeSubcode::XdbcSubcodeTimestamp,
        ),
    ] {
        types.append(XdbcTypeInfo {
            literal_prefix: Some(format!("{name} '")),
            literal_suffix: Some("'".into()),
            sql_data_type: XdbcDataType::XdbcDatetime,
            datetime_subcode: Some(subcode),
            ..plain(name, kind)
        });
    }
    types.append(XdbcTypeInfo {
        literal_prefix: Some("INTERVAL '".into()),
        literal_suffix: Some("'".into()),
        ..plain("INTERVAL", XdbcDataType::XdbcInterval)
    });
    types
        .build()
        .map_err(|error| defect("the types cannot be listed", &error))
}

fn plain(name: &str, kind: XdbcDataType) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.into(),
        data_type: kind,
        sql_data_type: kind,
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Basic,
        local_type_name: Some(name.into()),
        ..XdbcTypeInfo::default()
    }
}

struct Number {
    name: &'static str,
    kind: XdbcDataType,
    /// Digits, in the base `radix`.
    digits: i32,
    radix: i32,
    is_unsigned: bool,
    scale: Option<(i32, i32)>,
}

impl Number {
    const fn integer(name: &'static str, kind: XdbcDataType, bits: i32) -> Self {
        Self {
            name,
            kind,
            digits: bits,
            radix: 2,
            is_unsigned: false,
            scale: Some((0, 0)),
        }
    }

    const fn unsigned(name: &'static str, kind: XdbcDataType, bits: i32) -> Self {
        Self {
            is_unsigned: true,
            ..Self::integer(name, kind, bits)
        }
    }

    fn info(&self) -> XdbcTypeInfo {
        let is_decimal = self.kind == XdbcDataType::XdbcDecimal;
        XdbcTypeInfo {
            column_size: Some(self.digits),
            create_params: is_decimal.then(|| vec!["precision".into(), "scale".into()]),
            unsigned_attribute: Some(self.is_unsigned),
            fixed_prec_scale: is_decimal,
            auto_increment: Some(false),
            minimum_scale: self.scale.map(|(least, _)| least),
            maximum_scale: self.scale.map(|(_, most)| most),
            num_prec_radix: Some(self.radix),
            ..plain(self.name, self.kind)
        }
    }
}

const NUMBERS: [Number; 11] = [
    Number::integer("TINYINT", XdbcDataType::XdbcTinyint, 8),
    Number::integer("SMALLINT", XdbcDataType::XdbcSmallint, 16),
    Number::integer("INTEGER", XdbcDataType::XdbcInteger, 32),
    Number::integer("BIGINT", XdbcDataType::XdbcBigint, 64),
    Number::unsigned("TINYINT UNSIGNED", XdbcDataType::XdbcTinyint, 8),
    Number::unsigned("SMALLINT UNSIGNED", XdbcDataType::XdbcSmallint, 16),
    Number::unsigned("INTEGER UNSIGNED", XdbcDataType::XdbcInteger, 32),
    Number::unsigned("BIGINT UNSIGNED", XdbcDataType::XdbcBigint, 64),
    Number {
        name: "DECIMAL",
        kind: XdbcDataType::XdbcDecimal,
        digits: 76,
        radix: 10,
        is_unsigned: false,
        scale: Some((0, 76)),
    },
    Number {
        name: "REAL",
        kind: XdbcDataType::XdbcReal,
        digits: 24,
        radix: 2,
        is_unsigned: false,
        scale: None,
    },
    Number {
        name: "DOUBLE",
        kind: XdbcDataType::XdbcDouble,
        digits: 53,
        radix: 2,
        is_unsigned: false,
        scale: None,
    },
];
