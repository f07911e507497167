//! `FROM t, json_each(t.j)`, and `json_tree`: tables of the values in a document.
//!
//! Each becomes a subquery of the list that the function of that name gives, beside the rows before it in the FROM.

use sqlparser::ast::{FunctionArg, Ident, ObjectName, ObjectNamePart, TableAlias, TableFactor};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

const TABLES: [&str; 2] = ["json_each", "json_tree"];

const COLUMNS: [&str; 8] = [
    "key", "value", "type", "atom", "id", "parent", "fullkey", "path",
];

/// Writes such a table as a subquery; leaves any other one as it is.
pub(super) fn bind(table: &mut TableFactor) {
    let (name, args, alias): (&ObjectName, &[FunctionArg], &mut Option<TableAlias>) = match table {
        TableFactor::Table {
            name,
            args: Some(args),
            alias,
            sample: None,
            with_ordinality: false,
            ..
        } => (&*name, args.args.as_slice(), alias),
        TableFactor::Function {
            name,
            args,
            alias,
            with_ordinality: false,
            ..
        } => (&*name, args.as_slice(), alias),
        _ => return,
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return;
    };
    let known = TABLES
        .iter()
        .find(|known| name.value.eq_ignore_ascii_case(known));
    let Some(known) = known else {
        return;
    };
    let columns = COLUMNS.map(|column| format!("get_field(r, '{column}') AS \"{column}\""));
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let sql = format!(
        "SELECT {} FROM unnest({known}({})) AS u(r)",
        columns.join(", "),
        args.join(", ")
    );
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
    let Ok(subquery) = parser.and_then(|mut parser| parser.parse_query()) else {
        return;
    };
    let alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(*known),
        columns: Vec::new(),
        at: None,
    });
    *table = TableFactor::Derived {
        lateral: true,
        subquery,
        alias: Some(alias),
        sample: None,
    };
}
