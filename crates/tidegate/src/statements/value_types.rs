//! `VALUES (DATE '2024-01-01'), ('2024-01-02')`: strings beside dates and times of one column are read as those, as in
//! PostgreSQL and DuckDB; the planner refuses them.

use sqlparser::ast::{DataType, Expr, Query, SetExpr, TypedString, Value};

use super::calls::{cast, take};

/// Casts the strings of a list of rows whose column has the type of a date or a time elsewhere.
pub(super) fn cast_strings(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return;
    };
    let num_columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..num_columns {
        let mut cells = values.rows.iter().filter_map(|row| row.content.get(column));
        let Some(data_type) = cells.find_map(temporal).cloned() else {
            continue;
        };
        for row in &mut values.rows {
            if let Some(value) = row.content.get_mut(column)
                && is_string(value)
            {
                *value = cast(take(value), data_type.clone());
            }
        }
    }
}

/// Returns the type that is written at a value, if it is one of dates or times.
fn temporal(value: &Expr) -> Option<&DataType> {
    let (Expr::TypedString(TypedString { data_type, .. }) | Expr::Cast { data_type, .. }) = value
    else {
        return None;
    };
    matches!(
        data_type,
        DataType::Date | DataType::Time(..) | DataType::Timestamp(..) | DataType::Datetime(_)
    )
    .then_some(data_type)
}

fn is_string(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

#[cfg(test)]
mod tests {
    use super::cast_strings;
    use crate::statements::tests::query;

    #[test]
    fn strings_beside_dates_are_dates() {
        for (sql, expect) in [
            (
                "VALUES (DATE '2024-01-01', 1), ('2024-01-02', 2)",
                "VALUES (DATE '2024-01-01', 1), (CAST('2024-01-02' AS DATE), 2)",
            ),
            (
                "VALUES ('x', NULL), ('y', CAST('2024-01-02' AS TIMESTAMP)), ('z', '2024-01-02')",
                "VALUES ('x', NULL), ('y', CAST('2024-01-02' AS TIMESTAMP)), ('z', CAST('2024-01-02' AS TIMESTAMP))",
            ),
            ("VALUES ('x'), ('1')", "VALUES ('x'), ('1')"),
        ] {
            let mut values = query(sql);
            cast_strings(&mut values);
            assert_eq!(values.to_string(), expect);
        }
    }
}
