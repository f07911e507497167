//! `TRUNCATE t`, which deletes all rows.

use sqlparser::ast::{Statement, Truncate};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// Returns the `DELETE` of all rows that `TRUNCATE` of one table is.
pub(super) fn deletion(truncate: &Truncate) -> Option<Statement> {
    let [table] = truncate.table_names.as_slice() else {
        return None;
    };
    let is_plain = truncate.partitions.is_none()
        && !truncate.if_exists
        && truncate.identity.is_none()
        && truncate.cascade.is_none()
        && truncate.on_cluster.is_none();
    let sql = format!("DELETE FROM {}", table.name);
    let parsed = is_plain.then(|| Parser::parse_sql(&GenericDialect {}, &sql));
    parsed?.ok()?.pop()
}
