//! Values of types that the planner cannot cast to: `ROW(1, 'a')::STRUCT(x INT, y VARCHAR)`, whose fields are those of the
//! type in their order, and `'…'::UUID` and `'…'::JSON`, which are calls that check the text.

use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    StructField, Value,
};

use super::calls::{call, cast, string, take};
use super::using::folded;

/// Writes such a cast as the planner takes it.
pub(super) fn bind(expr: &mut Expr) {
    if let Expr::TypedString(typed) = expr
        && let Some((strict, _)) = checks(&typed.data_type)
        && let Value::SingleQuotedString(text) = &typed.value.value
    {
        *expr = call(strict, vec![string(text.clone())]);
        return;
    }
    let Expr::Cast {
        kind,
        expr: value,
        data_type,
        ..
    } = expr
    else {
        return;
    };
    if let Some((strict, lenient)) = checks(data_type) {
        // A placeholder has the type that it is cast to.
        if *data_type == DataType::Uuid || !is_placeholder(value) {
            let name = match kind {
                CastKind::TryCast | CastKind::SafeCast => lenient,
                CastKind::Cast | CastKind::DoubleColon => strict,
            };
            *expr = call(name, vec![take(value)]);
        }
    } else if let DataType::Struct(fields, _) = data_type {
        by_position(value, fields);
    }
}

/// Returns the functions that check a text, and have an error or NULL of any other.
fn checks(data_type: &DataType) -> Option<(&'static str, &'static str)> {
    match data_type {
        DataType::Uuid => Some(("to_uuid", "try_to_uuid")),
        DataType::JSON | DataType::JSONB => Some(("as_json", "try_as_json")),
        _ => None,
    }
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// Gives the values of a row the names and types of fields.
fn by_position(value: &mut Expr, fields: &[StructField]) {
    let Some(values) = row_values(value).filter(|values| values.len() == fields.len()) else {
        return;
    };
    let name = |(place, field): (usize, &StructField)| match &field.field_name {
        Some(name) => folded(name),
        None => format!("c{place}"),
    };
    let names = fields.iter().enumerate().map(name);
    let values = values.into_iter().zip(fields);
    let values = values.map(|(value, field)| cast(value, field.field_type.clone()));
    *value = named_row(names.zip(values));
}

/// Makes a struct of names and values.
pub(crate) fn named_row(fields: impl Iterator<Item = (String, Expr)>) -> Expr {
    let arguments = fields.flat_map(|(name, value)| [string(name), value]);
    call("named_struct", arguments.collect())
}

/// Returns the values of `ROW(…)` or `STRUCT(…)` without names.
pub(crate) fn row_values(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => row_values(inner),
        Expr::Struct { values, fields } if fields.is_empty() => {
            let has_names = values
                .iter()
                .any(|value| matches!(value, Expr::Named { .. }));
            (!has_names).then(|| values.clone())
        }
        Expr::Function(call) if is_row(call) => {
            let FunctionArguments::List(list) = &call.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

fn is_row(call: &Function) -> bool {
    let name = match call.name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    };
    let is_called =
        |name: &Ident| ["row", "struct"].contains(&name.value.to_ascii_lowercase().as_str());
    name.is_some_and(|name| name.quote_style.is_none() && is_called(name))
}

#[cfg(test)]
mod tests {
    use super::bind;
    use crate::statements::tests::expr;

    #[test]
    fn rows_get_the_names_of_fields() {
        for (sql, expect) in [
            (
                "row(1, 'a')::STRUCT<x INT, \"Y\" VARCHAR>",
                "named_struct('x', CAST(1 AS INT), 'Y', CAST('a' AS VARCHAR))::STRUCT<x INT, \"Y\" VARCHAR>",
            ),
            (
                "row(1)::STRUCT<x INT, y INT>",
                "row(1)::STRUCT<x INT, y INT>",
            ),
            ("x::STRUCT<x INT>", "x::STRUCT<x INT>"),
            ("CAST(x AS UUID)", "to_uuid(x)"),
            ("TRY_CAST(x AS UUID)", "try_to_uuid(x)"),
            ("UUID 'a'", "to_uuid('a')"),
            ("x::JSON", "as_json(x)"),
            ("TRY_CAST(x AS JSON)", "try_as_json(x)"),
            ("JSON '{}'", "as_json('{}')"),
            ("$1::JSON", "$1::JSON"),
            ("x::INT", "x::INT"),
        ] {
            let mut expr = expr(sql);
            bind(&mut expr);
            assert_eq!(expr.to_string(), expect, "{sql}");
        }
    }
}
