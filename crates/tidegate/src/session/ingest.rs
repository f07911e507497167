//! Batches from outside become a table, or more rows of one.
//!
//! What comes in is held, and counted against the memory limit, until all of it is there; then the
//! table changes at once. A sender that breaks off leaves nothing. The memory stays counted as long
//! as the table.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::catalog::MemTable;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{cast, ident, lit};

use super::Session;
use crate::accounted::{AccountedTable, Charge};
use crate::clients::TEMP_SCHEMA;
use crate::error::{Error, ErrorKind};

/// The table that batches go into; what is not named is the session's default.
#[derive(Clone, Debug, Default)]
pub struct IngestTarget {
    /// The catalog's name.
    pub catalog: Option<String>,
    /// The schema's name.
    pub schema: Option<String>,
    /// The table's name, as it is: nothing is folded to lower case.
    pub table: String,
    /// Whether the table is the session's own: it is then in the schema `temp`.
    pub is_temporary: bool,
}

/// What to do about a table that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Fail.
    Fail,
    /// Add rows to it.
    Append,
    /// Put the new table in its place.
    Replace,
}

/// What to do about a table that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// Make it.
    Create,
    /// Fail.
    Fail,
}

/// Batches on their way into a table.
#[derive(Debug)]
pub struct Ingest {
    session: Session,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    charge: Charge,
    num_rows: u64,
}

impl Session {
    /// Begins to take batches with these columns.
    pub fn ingest(&self, schema: SchemaRef) -> Ingest {
        Ingest {
            session: self.clone(),
            schema,
            batches: Vec::new(),
            charge: Charge::new(&self.ctx.runtime_env().memory_pool),
            num_rows: 0,
        }
    }
}

impl Ingest {
    /// Takes a batch.
    ///
    /// # Errors
    /// [`ErrorKind::ResourcesExhausted`] if the memory limit is reached; [`ErrorKind::Sql`] if its
    /// columns are not those of the others.
    pub fn push(&mut self, batch: RecordBatch) -> Result<(), Error> {
        if batch.schema().fields() != self.schema.fields() {
            let message = "the batch's columns are not those of the schema that was sent first";
            return Err(Error::new(ErrorKind::Sql, message));
        }
        self.charge.add(&batch)?;
        self.num_rows += batch.num_rows() as u64;
        self.batches.push(batch);
        Ok(())
    }

    /// Adds the batches to the table, and returns the number of rows.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if the table is there and must not be, [`ErrorKind::NotFound`] if it
    /// or its schema is missing and must not be, [`ErrorKind::Sql`] if it has other columns.
    pub async fn finish(
        self,
        target: &IngestTarget,
        if_exists: IfExists,
        if_missing: IfMissing,
    ) -> Result<u64, Error> {
        let ctx = self.session.ctx.clone();
        let name = self.reference(target)?;
        let refused = |kind, what: &str| Err(Error::new(kind, format!("table '{name}' {what}")));
        let exists = ctx.table_exist(name.clone())?;
        let num_rows = self.num_rows;
        match (exists, if_exists, if_missing) {
            (true, IfExists::Fail, _) => {
                return refused(ErrorKind::AlreadyExists, "already exists");
            }
            (false, _, IfMissing::Fail) => {
                return refused(ErrorKind::NotFound, "does not exist");
            }
            (true, IfExists::Append, _) => self.append(name).await?,
            (true, IfExists::Replace, _) => {
                let table = self.into_table()?;
                ctx.deregister_table(name.clone())?;
                ctx.register_table(name, Arc::new(table))?;
            }
            (false, _, IfMissing::Create) => {
                ctx.register_table(name.clone(), Arc::new(self.into_table()?))?;
            }
        }
        Ok(num_rows)
    }

    fn reference(&self, target: &IngestTarget) -> Result<TableReference, Error> {
        let config = self.session.ctx.copied_config();
        let defaults = &config.options().catalog;
        let of = |named: &Option<String>, default: &str| match named.as_deref() {
            None | Some("") => default.to_string(),
            Some(named) => named.to_string(),
        };
        let catalog = of(&target.catalog, &defaults.default_catalog);
        let schema = match (target.is_temporary, target.schema.as_deref()) {
            (false, _) => of(&target.schema, &defaults.default_schema),
            (true, None | Some("" | TEMP_SCHEMA)) => TEMP_SCHEMA.to_string(),
            (true, Some(other)) => {
                let message =
                    format!("a temporary table is in the schema {TEMP_SCHEMA}, not in {other}");
                return Err(Error::new(ErrorKind::Sql, message));
            }
        };
        let found = self.session.ctx.catalog(&catalog);
        if found.and_then(|catalog| catalog.schema(&schema)).is_none() {
            let message = format!("there is no schema '{catalog}.{schema}'");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        if target.table.is_empty() {
            return Err(Error::new(ErrorKind::Sql, "the table has no name"));
        }
        Ok(TableReference::full(catalog, schema, target.table.as_str()))
    }

    fn into_table(self) -> Result<AccountedTable, Error> {
        let inner = MemTable::try_new(self.schema, vec![self.batches])?;
        Ok(AccountedTable::new(inner, self.charge))
    }

    async fn append(self, name: TableReference) -> Result<(), Error> {
        let ctx = &self.session.ctx;
        let table = ctx.table_provider(name.clone()).await?;
        let mut columns = Vec::new();
        for field in table.schema().fields() {
            let given = self.schema.column_with_name(field.name());
            let value = match given {
                Some(_) => cast(ident(field.name().as_str()), field.data_type().clone()),
                None if field.is_nullable() => lit(ScalarValue::try_from(field.data_type())?),
                None => {
                    let message = format!("column '{}' of '{name}' is missing", field.name());
                    return Err(Error::new(ErrorKind::Sql, message));
                }
            };
            columns.push(value.alias(field.name()));
        }
        let schema = table.schema();
        let unknown = |field: &&FieldRef| schema.column_with_name(field.name()).is_none();
        if let Some(field) = self.schema.fields().iter().find(unknown) {
            let message = format!("'{name}' has no column '{}'", field.name());
            return Err(Error::new(ErrorKind::Sql, message));
        }
        // A table in memory counts the rows as it takes them.
        drop(self.charge);
        let source = MemTable::try_new(Arc::clone(&self.schema), vec![self.batches])?;
        let frame = ctx.read_table(Arc::new(source))?.select(columns)?;
        let options = DataFrameWriteOptions::new().with_insert_operation(InsertOp::Append);
        let quoted = name.to_quoted_string();
        frame.write_table(&quoted, options).await?;
        Ok(())
    }
}
