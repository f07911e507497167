//! Values of types that the planner cannot cast to: `ROW(1, 'a')::STRUCT(x INT, y VARCHAR)`, whose fields are those of the
//! type in their order, and `'…'::UUID`, which is a call that checks the text.

use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    StructField, Value,
};

use super::calls::{call, cast, string, take};
use super::using::folded;

/// Writes such a cast as the planner takes it.
pub(super) fn bind(expr: &mut Expr) {
    if let Expr::TypedString(typed) = expr
        && typed.data_type == DataType::Uuid
        && let Value::SingleQuotedString(text) = &typed.value.value
    {
        *expr = call("to_uuid", vec![string(text.clone())]);
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
    match data_type {
        DataType::Uuid => {
            let name = match kind {
                CastKind::TryCast | CastKind::SafeCast => "try_to_uuid",
                CastKind::Cast | CastKind::DoubleColon => "to_uuid",
            };
            *expr = call(name, vec![take(value)]);
        }
        DataType::Struct(fields, _) => by_position(value, fields),
        _ => {}
    }
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
            ("x::INT", "x::INT"),
        ] {
            let mut expr = expr(sql);
            bind(&mut expr);
            assert_eq!(expr.to_string(), expect, "{sql}");
        }
    }
}
