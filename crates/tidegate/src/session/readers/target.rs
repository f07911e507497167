//! The types that a table has for the values of a file that go into it.
//!
//! `COPY t FROM 'file'` is an INSERT of all columns of a file. A text that is cast behind the reader
//! fails without its place; what the reader makes of it names file, line, column and value.

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use sqlparser::ast::{
    self, ObjectName, Query, SelectItem, SetExpr, TableFactor, TableObject,
    WildcardAdditionalOptions,
};

/// Returns the types of the columns that all columns of a file go into, by place; `None` of a type stands for one that
/// the file's text is cast to, and `None` of all for any other statement. `is_reader` tells which functions read files.
pub(super) async fn types_of_target(
    state: &SessionState,
    statement: &Statement,
    is_reader: fn(&ObjectName) -> bool,
) -> Option<Vec<Option<DataType>>> {
    let mut statement = statement;
    while let Statement::Explain(explain) = statement {
        statement = &explain.statement;
    }
    let Statement::Statement(inner) = statement else {
        return None;
    };
    let ast::Statement::Insert(insert) = inner.as_ref() else {
        return None;
    };
    let TableObject::TableName(name) = &insert.table else {
        return None;
    };
    if !is_whole_file(insert.source.as_deref()?, is_reader) {
        return None;
    }
    let normalizes = state.config_options().sql_parser.enable_ident_normalization;
    let table = object_name_to_table_reference(name.clone(), normalizes).ok()?;
    let schema = state.schema_for_ref(table.clone()).ok()?;
    let schema = schema.table(table.table()).await.ok()??.schema();
    let type_of = |field: &Field| readable(field.data_type()).then(|| field.data_type().clone());
    if insert.columns.is_empty() {
        return Some(schema.fields().iter().map(|field| type_of(field)).collect());
    }
    let named = insert.columns.iter().map(|column| {
        let name = last_name(column)?;
        let mut fields = schema.fields().iter();
        let field = schema
            .field_with_name(name)
            .ok()
            .or_else(|| fields.find_map(|field| is_called(field, name)));
        type_of(field?)
    });
    Some(named.collect())
}

fn is_called<'a>(field: &'a Field, name: &str) -> Option<&'a Field> {
    field.name().eq_ignore_ascii_case(name).then_some(field)
}

fn last_name(name: &ObjectName) -> Option<&str> {
    let part = name.0.last()?.as_ident()?;
    Some(part.value.as_str())
}

/// Tells whether a query is `SELECT * FROM read_csv(…)`.
fn is_whole_file(query: &Query, is_reader: fn(&ObjectName) -> bool) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let is_all = match select.projection.as_slice() {
        [SelectItem::Wildcard(options)] => *options == WildcardAdditionalOptions::default(),
        _ => false,
    };
    let is_file = match select.from.as_slice() {
        [table] if table.joins.is_empty() => match &table.relation {
            TableFactor::Table {
                name,
                args: Some(_),
                ..
            } => is_reader(name),
            _ => false,
        },
        _ => false,
    };
    is_all && is_file && select.selection.is_none() && query.order_by.is_none()
}

/// Tells whether the reader makes of a text what a cast makes of it, or an error. It does not know the session's zone.
fn readable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Time64(TimeUnit::Nanosecond)
        | DataType::Timestamp(_, None)
        | DataType::Decimal128(..) => true,
        other => other.is_integer(),
    }
}
