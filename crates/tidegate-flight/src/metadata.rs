//! What there is: catalogs, schemas, tables, keys, and facts about the server.
//!
//! These answers are small, come from memory and wait for no permit. A ticket is the command
//! itself.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Command, CommandGetTables};
use tidegate::{Session, TableKind};
use tonic::Status;

use crate::options::Limits;
use crate::status::{invalid, status};
use crate::wire::table_schema;
use crate::{sql_info, type_info};

/// Returns the columns of the answer to a command; `None` if it is not one about what there is.
pub(crate) fn columns(command: &Command, limits: &Limits) -> Result<Option<SchemaRef>, Status> {
    Ok(Some(match command.clone() {
        Command::CommandGetCatalogs(asked) => asked.into_builder().schema(),
        Command::CommandGetDbSchemas(asked) => asked.into_builder().schema(),
        Command::CommandGetTables(asked) => asked.into_builder().schema(),
        Command::CommandGetTableTypes(asked) => asked.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => sql_info::facts(limits)?.schema(),
        Command::CommandGetXdbcTypeInfo(_) => type_info::types()?.schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        _ => return Ok(None),
    }))
}

/// Answers a command; `None` if it is not one about what there is.
pub(crate) async fn rows(
    command: Command,
    session: &Session,
    limits: &Limits,
) -> Result<Option<RecordBatch>, Status> {
    let built = match command {
        Command::CommandGetCatalogs(asked) => {
            let mut builder = asked.into_builder();
            for catalog in session.catalogs() {
                builder.append(catalog);
            }
            builder.build()
        }
        Command::CommandGetDbSchemas(asked) => {
            let mut builder = asked.into_builder();
            for (catalog, schema) in session.schemas() {
                builder.append(catalog, schema);
            }
            builder.build()
        }
        Command::CommandGetTables(asked) => tables(asked, session).await?,
        Command::CommandGetTableTypes(asked) => {
            let mut builder = asked.into_builder();
            for (_, name) in TableKind::ALL {
                builder.append(name);
            }
            builder.build()
        }
        Command::CommandGetSqlInfo(asked) => asked.into_builder(&sql_info::facts(limits)?).build(),
        Command::CommandGetXdbcTypeInfo(asked) => asked.into_builder(&type_info::types()?).build(),
        // Tables have no keys here.
        Command::CommandGetPrimaryKeys(_) => Ok(RecordBatch::new_empty(primary_keys())),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => Ok(RecordBatch::new_empty(foreign_keys())),
        _ => return Ok(None),
    };
    built
        .map(Some)
        .map_err(|error| invalid("the command cannot be answered", &error))
}

async fn tables(
    asked: CommandGetTables,
    session: &Session,
) -> Result<Result<RecordBatch, FlightError>, Status> {
    let mut builder = asked.into_builder();
    for table in session.tables().await.map_err(status)? {
        let appended = builder.append(
            &table.catalog,
            &table.schema,
            &table.name,
            table.kind.name(),
            &table_schema(&table.columns),
        );
        if let Err(error) = appended {
            return Ok(Err(error));
        }
    }
    Ok(builder.build())
}

fn text(name: &str, is_nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, is_nullable)
}

/// The columns of CommandGetPrimaryKeys in Arrow's `FlightSql.proto`.
fn primary_keys() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("key_name", true),
    ]))
}

/// The columns of CommandGetExportedKeys and its like in Arrow's `FlightSql.proto`.
fn foreign_keys() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}
