//! The names that statements of a session can use, for a prompt that proposes them.

use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;

use super::Session;
use crate::statements::TOLD;

/// Tables whose columns are looked up; of further ones only the names are told.
const DESCRIBED_MAX: usize = 500;

/// A table's name and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// Its schema; empty for the session's own.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
}

/// What statements of a session can name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Tables and views of the session's catalog, by schema and name.
    pub tables: Vec<TableNames>,
    /// Scalar, aggregate, window and table functions, in order.
    pub functions: Vec<String>,
    /// What `SET` sets, in order.
    pub settings: Vec<String>,
}

impl Session {
    /// Lists the names that statements can use now. What cannot be looked up is left out.
    pub async fn names(&self) -> Names {
        let state = self.ctx.state();
        let options: &ConfigOptions = state.config_options();
        let own = options.catalog.default_schema.clone();
        let mut names = Names {
            settings: options
                .entries()
                .into_iter()
                .map(|entry| entry.key)
                .collect(),
            ..Names::default()
        };
        names.settings.sort();
        names.functions.extend(state.udfs());
        names.functions.extend(state.udafs());
        names.functions.extend(state.udwfs());
        let of_tables = state.table_functions().keys();
        names
            .functions
            .extend(of_tables.filter(|name| *name != TOLD).cloned());
        names.functions.sort();
        names.functions.dedup();
        let catalogs = state.catalog_list();
        let Some(catalog) = catalogs.catalog(&options.catalog.default_catalog) else {
            return names;
        };
        for schema_name in catalog.schema_names() {
            let Some(schema) = catalog.schema(&schema_name) else {
                continue;
            };
            let mut tables = schema.table_names();
            tables.sort();
            for table in tables {
                let described = if names.tables.len() < DESCRIBED_MAX {
                    schema.table(&table).await.ok().flatten()
                } else {
                    None
                };
                let schema = described.map(|provider| provider.schema());
                let fields = schema.iter().flat_map(|schema| schema.fields().iter());
                names.tables.push(TableNames {
                    schema: if schema_name == own {
                        String::new()
                    } else {
                        schema_name.clone()
                    },
                    columns: fields.map(|field| field.name().clone()).collect(),
                    table,
                });
            }
        }
        names
    }
}
