//! `ALTER TABLE` of tables in memory: columns that are added, dropped and renamed, and types that change; and
//! `ALTER TABLE … RENAME TO` of any.
//!
//! The statement is planned as `CREATE OR REPLACE TABLE` of the table's own rows, so that the table stays what it
//! was until all of them are there, and what does not fit its new type fails without a change. A table that gets
//! another name is planned as `CREATE TABLE` of its rows, and its rows are moved ([`rename`]).

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Constraints, DFSchema, TableReference, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    Cast, CreateMemoryTable, DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, Ident, ObjectName,
    RenameTableNameKind,
};

use crate::accounted::AccountedTable;
use crate::error::{Error, ErrorKind};

/// What there is to change in a table.
const CHANGES: &str = "ADD COLUMN, DROP COLUMN, RENAME COLUMN a TO b, ALTER COLUMN a TYPE t, SET DEFAULT \
                       and SET NOT NULL change a table in memory, and RENAME TO, alone in its statement, any";

/// Plans `ALTER TABLE`; returns `None` for any other statement.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for tables that are not in memory and changes that are not known,
/// [`ErrorKind::Sql`] for columns that are not there, or are there already.
pub(super) async fn plan(
    state: &SessionState,
    statement: &Statement,
) -> Result<Option<LogicalPlan>> {
    let Statement::Statement(inner) = statement else {
        return Ok(None);
    };
    let ast::Statement::AlterTable(alter) = inner.as_ref() else {
        return Ok(None);
    };
    let normalizes = state.config_options().sql_parser.enable_ident_normalization;
    let name = object_name_to_table_reference(alter.name.clone(), normalizes)?;
    let schema = state.schema_for_ref(name.clone())?;
    let Some(provider) = schema.table(name.table()).await? else {
        if alter.if_exists {
            return Ok(Some(LogicalPlanBuilder::empty(false).build()?));
        }
        return plan_err!("table '{name}' not found");
    };
    if let Some(new) = new_name(statement) {
        let new = in_schema_of(&name, new, normalizes)?;
        let source = provider_as_source(provider);
        let rows = LogicalPlanBuilder::scan(name, source, None)?.build()?;
        return Ok(Some(creation(new, rows, Vec::new(), false)));
    }
    let mut altered = Altered::new(state, name, provider)?;
    for operation in &alter.operations {
        altered.apply(operation)?;
    }
    altered.plan().map(Some)
}

/// Returns the name that `ALTER TABLE … RENAME TO` gives a table; `None` of another statement.
fn new_name(statement: &Statement) -> Option<&ObjectName> {
    let Statement::Statement(inner) = statement else {
        return None;
    };
    let ast::Statement::AlterTable(alter) = inner.as_ref() else {
        return None;
    };
    match alter.operations.as_slice() {
        [
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            },
        ] => Some(name),
        _ => None,
    }
}

/// Returns the table to which a statement gives another name.
pub(super) fn renamed(state: &SessionState, statement: &Statement) -> Option<TableReference> {
    new_name(statement)?;
    let Statement::Statement(inner) = statement else {
        return None;
    };
    let ast::Statement::AlterTable(alter) = inner.as_ref() else {
        return None;
    };
    let normalizes = state.config_options().sql_parser.enable_ident_normalization;
    object_name_to_table_reference(alter.name.clone(), normalizes).ok()
}

/// Returns the reference to a table of another name in the schema of one.
fn in_schema_of(
    old: &TableReference,
    new: &ObjectName,
    normalizes: bool,
) -> Result<TableReference> {
    let given = object_name_to_table_reference(new.clone(), normalizes)?;
    if given.schema().is_some() {
        let message = format!(
            "ALTER TABLE {old}: a table keeps its schema: RENAME TO {}",
            given.table()
        );
        return Err(Error::new(ErrorKind::NotSupported, message).into());
    }
    let name = given.table().to_string();
    Ok(match old {
        TableReference::Bare { .. } => TableReference::bare(name),
        TableReference::Partial { schema, .. } => TableReference::partial(schema.as_ref(), name),
        TableReference::Full {
            catalog, schema, ..
        } => TableReference::full(catalog.as_ref(), schema.as_ref(), name),
    })
}

/// Gives a table another name in its schema.
///
/// # Errors
/// [`ErrorKind::Sql`] if there is a table of that name, and what the schema says if its tables cannot be renamed.
pub(super) fn rename(
    state: &SessionState,
    table: TableReference,
    new: &TableReference,
) -> std::result::Result<(), Error> {
    let (old, new) = (table.table().to_string(), new.table());
    let schema = state.schema_for_ref(table)?;
    if schema.table_exist(new) {
        let message = format!("ALTER TABLE {old}: there is a table {new} already: drop it first");
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let Some(table) = schema.deregister_table(&old)? else {
        let message = format!("table '{old}' not found");
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let moved = schema.register_table(new.to_string(), Arc::clone(&table));
    if moved.is_err() {
        schema.register_table(old, table)?;
    }
    Ok(moved.map(drop)?)
}

/// Plans a table of rows.
fn creation(
    name: TableReference,
    rows: LogicalPlan,
    column_defaults: Vec<(String, Expr)>,
    or_replace: bool,
) -> LogicalPlan {
    LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(CreateMemoryTable {
        name,
        constraints: Constraints::default(),
        input: Arc::new(rows),
        if_not_exists: false,
        or_replace,
        column_defaults,
        temporary: false,
    }))
}

/// A table that is being altered.
struct Altered<'a> {
    state: &'a SessionState,
    name: TableReference,
    provider: Arc<dyn TableProvider>,
    /// The columns that it has.
    old: DFSchema,
    /// The columns that it will have.
    columns: Vec<NewColumn>,
}

/// A column that a table will have.
struct NewColumn {
    name: String,
    /// What it is made of.
    value: Expr,
    default: Option<Expr>,
}

impl<'a> Altered<'a> {
    fn new(
        state: &'a SessionState,
        name: TableReference,
        provider: Arc<dyn TableProvider>,
    ) -> Result<Self> {
        if AccountedTable::memory_of(provider.as_ref()).is_none() {
            let message = format!(
                "ALTER TABLE {name}: only tables in memory are changed; a view or a table of files is dropped and \
                 created again"
            );
            return Err(Error::new(ErrorKind::NotSupported, message).into());
        }
        let schema = provider.schema();
        let columns = schema.fields().iter().map(|field| NewColumn {
            name: field.name().clone(),
            value: Expr::Column(Column::from_name(field.name())),
            default: provider.get_column_default(field.name()).cloned(),
        });
        Ok(Self {
            state,
            columns: columns.collect(),
            old: DFSchema::try_from(schema)?,
            name,
            provider,
        })
    }

    fn apply(&mut self, operation: &AlterTableOperation) -> Result<()> {
        match operation {
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => match self.place_of(&column_def.name) {
                Some(_) if *if_not_exists => Ok(()),
                Some(_) => {
                    Err(self.wrong(&format!("there is a column {} already", column_def.name)))
                }
                None => self.add(column_def),
            },
            AlterTableOperation::DropColumn {
                column_names,
                if_exists,
                ..
            } => {
                for name in column_names {
                    match self.place_of(name) {
                        None if *if_exists => {}
                        None => return Err(self.missing(name)),
                        Some(_) if self.columns.len() == 1 => {
                            return Err(self.wrong("a table has a column: DROP TABLE drops it"));
                        }
                        Some(place) => drop(self.columns.remove(place)),
                    }
                }
                Ok(())
            }
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                if self.place_of(new_column_name).is_some() {
                    return Err(self.wrong(&format!("there is a column {new_column_name} already")));
                }
                let name = self.folded(new_column_name);
                self.column(old_column_name)?.name = name;
                Ok(())
            }
            AlterTableOperation::AlterColumn { column_name, op } => self.change(column_name, op),
            other => Err(not_supported(&other.to_string()).into()),
        }
    }

    fn add(&mut self, column: &ColumnDef) -> Result<()> {
        let mut default = None;
        for option in &column.options {
            match &option.option {
                ColumnOption::Null | ColumnOption::Comment(_) => {}
                ColumnOption::Default(value) => default = Some(value),
                other => return Err(not_supported(&format!("a new column with {other}")).into()),
            }
        }
        let none = DFSchema::empty();
        let text = default.map_or_else(|| "NULL".to_string(), ToString::to_string);
        let value = format!("CAST({text} AS {})", column.data_type);
        let value = self.state.create_logical_expr(&value, &none)?;
        let default = default.map(|_| self.state.create_logical_expr(&text, &none));
        self.columns.push(NewColumn {
            name: self.folded(&column.name),
            value,
            default: default.transpose()?,
        });
        Ok(())
    }

    fn change(&mut self, name: &Ident, operation: &AlterColumnOperation) -> Result<()> {
        match operation {
            AlterColumnOperation::SetDataType {
                data_type, using, ..
            } => {
                let old = self.column(name)?.value.clone();
                let Expr::Column(old) = old else {
                    return Err(self.wrong(&format!("{name} is added by the same statement")));
                };
                let old = Ident::with_quote('"', old.name).to_string();
                let value = using.as_ref().map_or(old, ToString::to_string);
                let value = format!("CAST({value} AS {data_type})");
                self.column(name)?.value = self.state.create_logical_expr(&value, &self.old)?;
            }
            AlterColumnOperation::SetDefault { value } => {
                let none = DFSchema::empty();
                let value = self.state.create_logical_expr(&value.to_string(), &none)?;
                self.column(name)?.default = Some(value);
            }
            AlterColumnOperation::DropDefault => self.column(name)?.default = None,
            // The table is made so, if no row is NULL.
            AlterColumnOperation::SetNotNull => {
                self.column(name)?;
            }
            AlterColumnOperation::DropNotNull => {
                let value = self.column(name)?.value.clone();
                if let Expr::Column(old) = &value {
                    let field = self.old.field_with_unqualified_name(&old.name)?;
                    let data_type = field.data_type().clone();
                    // What is computed may be NULL.
                    self.column(name)?.value = Expr::Cast(Cast::new(Box::new(value), data_type));
                }
            }
            other => return Err(not_supported(&format!("ALTER COLUMN … {other}")).into()),
        }
        Ok(())
    }

    fn folded(&self, name: &Ident) -> String {
        match name.quote_style {
            None if self
                .state
                .config_options()
                .sql_parser
                .enable_ident_normalization =>
            {
                name.value.to_lowercase()
            }
            _ => name.value.clone(),
        }
    }

    fn place_of(&self, name: &Ident) -> Option<usize> {
        let name = self.folded(name);
        self.columns.iter().position(|column| column.name == name)
    }

    fn column(&mut self, name: &Ident) -> Result<&mut NewColumn> {
        match self.place_of(name) {
            Some(place) => Ok(&mut self.columns[place]),
            None => Err(self.missing(name)),
        }
    }

    fn missing(&self, name: &Ident) -> datafusion::error::DataFusionError {
        let columns: Vec<&str> = self
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        self.wrong(&format!(
            "there is no column {name}; it has {}",
            columns.join(", ")
        ))
    }

    fn wrong(&self, what: &str) -> datafusion::error::DataFusionError {
        let message = format!("ALTER TABLE {}: {what}", self.name);
        Error::new(ErrorKind::Sql, message).into()
    }

    /// Plans the table with its new columns.
    fn plan(self) -> Result<LogicalPlan> {
        let source = provider_as_source(self.provider);
        let defaults = self.columns.iter().filter_map(|column| {
            let default = column.default.clone()?;
            Some((column.name.clone(), default))
        });
        let column_defaults = defaults.collect();
        let values = self
            .columns
            .into_iter()
            .map(|column| column.value.alias(column.name));
        let rows = LogicalPlanBuilder::scan(self.name.clone(), source, None)?
            .project(values)?
            .build()?;
        Ok(creation(self.name, rows, column_defaults, true))
    }
}

fn not_supported(what: &str) -> Error {
    Error::new(
        ErrorKind::NotSupported,
        format!("ALTER TABLE: {what} is not supported: {CHANGES}"),
    )
}
