//! What there is to select from, for doors that list it.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::TableType;

use super::Session;
use crate::clients::TEMP_SCHEMA;
use crate::error::Error;

/// A table's place, kind and columns.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The catalog's name.
    pub catalog: String,
    /// The schema's name.
    pub schema: String,
    /// The table's name.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// Its columns.
    pub columns: SchemaRef,
}

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// It holds rows.
    Table,
    /// It is computed when it is read.
    View,
    /// It tells about the process.
    System,
    /// It holds rows of the session's own.
    Temporary,
}

impl TableKind {
    /// Every kind, with the name that JDBC gives it.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Table, "TABLE"),
        (Self::View, "VIEW"),
        (Self::System, "SYSTEM TABLE"),
        (Self::Temporary, "LOCAL TEMPORARY"),
    ];

    /// Returns the name that JDBC gives it.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("TABLE", |(_, name)| name)
    }
}

impl Session {
    /// Lists the catalogs.
    pub fn catalogs(&self) -> Vec<String> {
        let mut names = self.ctx.catalog_names();
        names.sort();
        names
    }

    /// Lists the schemas of every catalog: catalog, then schema.
    pub fn schemas(&self) -> Vec<(String, String)> {
        let mut schemas = Vec::new();
        for catalog in self.catalogs() {
            let Some(found) = self.ctx.catalog(&catalog) else {
                continue;
            };
            let mut names = found.schema_names();
            names.sort();
            schemas.extend(names.into_iter().map(|name| (catalog.clone(), name)));
        }
        schemas
    }

    /// Lists the tables of every schema, in the order of their names.
    ///
    /// # Errors
    /// Fails if a table's columns cannot be found out.
    pub async fn tables(&self) -> Result<Vec<TableInfo>, Error> {
        let mut tables = Vec::new();
        for (catalog, schema) in self.schemas() {
            let found = self.ctx.catalog(&catalog);
            let Some(provider) = found.and_then(|catalog| catalog.schema(&schema)) else {
                continue;
            };
            let mut names = provider.table_names();
            names.sort();
            for name in names {
                // Another session may have dropped it by now.
                let Some(table) = provider.table(&name).await? else {
                    continue;
                };
                let kind = match (schema.as_str(), table.table_type()) {
                    ("system", _) => TableKind::System,
                    (TEMP_SCHEMA, _) | (_, TableType::Temporary) => TableKind::Temporary,
                    (_, TableType::View) => TableKind::View,
                    (_, TableType::Base) => TableKind::Table,
                };
                tables.push(TableInfo {
                    catalog: catalog.clone(),
                    schema: schema.clone(),
                    name,
                    kind,
                    columns: table.schema(),
                });
            }
        }
        Ok(tables)
    }
}
