//! `UPDATE t SET (a, b) = (1, 'x')`, which is `SET a = 1, b = 'x'`.

use sqlparser::ast::{Assignment, AssignmentTarget, Expr, ObjectName, Update};

use crate::error::{Error, ErrorKind};

/// Writes assignments to several columns as one for each.
///
/// # Errors
/// [`ErrorKind::Sql`] if there are not as many values as columns, [`ErrorKind::NotSupported`] if they are not written out.
pub(super) fn split(update: &mut Update) -> Result<(), Error> {
    let mut assignments = Vec::with_capacity(update.assignments.len());
    for Assignment { target, value } in std::mem::take(&mut update.assignments) {
        match target {
            AssignmentTarget::Tuple(columns) => assignments.extend(each(columns, value)?),
            AssignmentTarget::ColumnName(_) => assignments.push(Assignment { target, value }),
        }
    }
    update.assignments = assignments;
    Ok(())
}

fn each(columns: Vec<ObjectName>, value: Expr) -> Result<Vec<Assignment>, Error> {
    let values = match value {
        Expr::Tuple(values) => values,
        Expr::Subquery(_) => {
            let message = "UPDATE … SET (a, b) = (SELECT …) is not supported: set each column by itself, as in \
                           SET a = (SELECT x …), b = (SELECT y …), or UPDATE … FROM";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        value => vec![value],
    };
    let (num_columns, num_values) = (columns.len(), values.len());
    if num_columns != num_values {
        let message = format!(
            "UPDATE … SET (…) = (…) has columns and values in other numbers, {num_columns} and {num_values}: give each \
             column a value"
        );
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let pairs = columns.into_iter().zip(values);
    Ok(pairs
        .map(|(column, value)| Assignment {
            target: AssignmentTarget::ColumnName(column),
            value,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Statement;

    use super::split;
    use crate::statements::tests::statement;

    fn written(sql: &str) -> Result<String, String> {
        let Statement::Update(mut update) = statement(sql) else {
            panic!("{sql} updates nothing");
        };
        split(&mut update).map_err(|error| error.to_string())?;
        Ok(update.to_string())
    }

    #[test]
    fn each_column_gets_its_value() {
        let expect = "UPDATE t SET a = 1, b = 'x', c = d";
        let sql = "UPDATE t SET (a, b) = (1, 'x'), c = d";
        assert_eq!(written(sql).as_deref(), Ok(expect));
        let sql = "UPDATE t SET (a, b) = (1, 2, 3)";
        assert!(written(sql).is_err());
    }
}
