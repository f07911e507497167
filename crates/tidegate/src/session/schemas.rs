//! `DROP SCHEMA`, and `USE`, after which names without a schema are of another one.

use datafusion::common::SchemaReference;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{
    DropCatalogSchema, LogicalPlan, SetVariable, Statement as PlanStatement,
};
use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, Use};

use super::Session;
use crate::error::{Error, ErrorKind};
use crate::mistakes::listed;
use crate::statements::using::folded;

/// The setting that names the schema of names without one.
const OWN_SCHEMA: &str = "datafusion.catalog.default_schema";

/// Runs `DROP SCHEMA`. The wrapper that makes tables of paths cannot drop any.
pub(super) fn drop(session: &Session, drop: &DropCatalogSchema) -> Result<DataFrame, Error> {
    let config = session.ctx.copied_config();
    let own = &config.options().catalog;
    let (catalog, name) = match &drop.name {
        SchemaReference::Bare { schema } => (own.default_catalog.as_str(), schema.as_ref()),
        SchemaReference::Full { schema, catalog } => (catalog.as_ref(), schema.as_ref()),
    };
    let found = session.catalogs.catalog(catalog);
    let schema = found.as_ref().and_then(|found| found.schema(name));
    let (Some(found), Some(schema)) = (found, schema) else {
        return match drop.if_exists {
            true => empty(session),
            false => Err(not_found(session, catalog, name)),
        };
    };
    let refuse = |message: String| Err(Error::new(ErrorKind::Sql, message));
    if name == "system" {
        return refuse("schema 'system' is built in, and cannot be dropped".into());
    }
    if name == own.default_schema {
        return refuse(format!(
            "schema '{name}' is that of names without a schema, and cannot be dropped: USE another one before"
        ));
    }
    let mut tables = schema.table_names();
    if !tables.is_empty() && !drop.cascade {
        tables.sort_unstable();
        return refuse(format!(
            "schema '{name}' has {}: DROP SCHEMA {name} CASCADE drops its tables, too",
            listed(tables.iter().map(String::as_str), name)
        ));
    }
    found.deregister_schema(name, drop.cascade)?;
    // Memory tables may have gone.
    session.runtime.cache().note_read();
    empty(session)
}

/// Plans `USE name`, which sets the schema of names without one; `None` of any other statement.
pub(super) fn used(session: &Session, statement: &Statement) -> Result<Option<LogicalPlan>, Error> {
    let Statement::Statement(inner) = statement else {
        return Ok(None);
    };
    let ast::Statement::Use(Use::Object(name) | Use::Schema(name)) = inner.as_ref() else {
        return Ok(None);
    };
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    let parts: Vec<String> = parts.map(folded).collect();
    let config = session.ctx.copied_config();
    let catalog = config.options().catalog.default_catalog.as_str();
    let name = match parts.as_slice() {
        [name] => name,
        [of, name] if of == catalog => name,
        _ => {
            let message =
                format!("USE {name}: only a schema can be used, and its name has one part");
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
    };
    let known = session.catalogs.catalog(catalog);
    if known.and_then(|known| known.schema(name)).is_none() {
        return Err(not_found(session, catalog, name));
    }
    let set = SetVariable {
        variable: OWN_SCHEMA.into(),
        value: name.clone(),
    };
    Ok(Some(LogicalPlan::Statement(PlanStatement::SetVariable(
        set,
    ))))
}

fn not_found(session: &Session, catalog: &str, name: &str) -> Error {
    let known = session.catalogs.catalog(catalog);
    let mut names = known.map_or_else(Vec::new, |known| known.schema_names());
    names.sort_unstable();
    let message = format!("schema '{name}' not found");
    let help = match names.as_slice() {
        [] => None,
        names => Some(format!(
            "there are {}",
            listed(names.iter().map(String::as_str), name)
        )),
    };
    Error::new(ErrorKind::NotFound, message).with_help(help)
}

fn empty(session: &Session) -> Result<DataFrame, Error> {
    Ok(session.ctx.read_empty()?.limit(0, Some(0))?)
}
