//! What DESCRIBE and SHOW TABLES tell, in the names that SQL has for types.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::format::ExplainFormat;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{DFParser, Statement};
use sqlparser::ast;

/// What SHOW TABLES lists.
const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_schema NOT IN ('information_schema', 'system') \
                      ORDER BY table_schema, table_name";

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

/// Tells of a table's columns in the types of SQL; any other plan stays as it is.
pub(super) fn plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::DescribeTable(described) = plan else {
        return Ok(plan);
    };
    let fields = described.schema.fields();
    let text = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let columns = vec![
        text(fields.iter().map(|field| field.name().clone()).collect()),
        text(
            fields
                .iter()
                .map(|field| sql_type(field.data_type()))
                .collect(),
        ),
        text(
            fields
                .iter()
                .map(|field| if field.is_nullable() { "YES" } else { "NO" }.into())
                .collect(),
        ),
    ];
    let schema: SchemaRef = Arc::clone(described.output_schema.inner());
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let table = MemTable::try_new(schema, vec![vec![rows]])?;
    LogicalPlanBuilder::scan("described", provider_as_source(Arc::new(table)), None)?.build()
}

/// Makes SHOW TABLES a query for the tables and views that somebody made. Those of the system are in
/// `information_schema.tables` too.
pub(super) fn show_tables(statement: &mut Statement) -> Result<()> {
    let is_plain = matches!(statement, Statement::Statement(inner)
        if matches!(inner.as_ref(), ast::Statement::ShowTables { .. })
            && inner.to_string() == "SHOW TABLES");
    if is_plain {
        let mut parsed = DFParser::parse_sql(TABLES)?;
        if let Some(query) = parsed.pop_front() {
            *statement = query;
        }
    }
    Ok(())
}

/// Takes the format of an `EXPLAIN ANALYZE` out of it: DataFusion's planner knows two, and its plan takes
/// any.
pub(super) fn take_profile(statement: &mut Statement) -> Option<ExplainFormat> {
    match statement {
        Statement::Explain(explain) if explain.options.analyze && !explain.options.verbose => {
            explain.options.format.take()
        }
        _ => None,
    }
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
