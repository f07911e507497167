//! `from_json(j, '{"a": ["INTEGER"]}')`: a document as a value of the type that a structure names.
//!
//! The structure becomes a NULL of the type, since a type depends on types alone: `value_of_json(j, CAST(NULL AS …))`.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use crate::functions::json::{elements, members};

const FUNCTIONS: [&str; 2] = ["from_json", "json_transform"];

/// The most levels of a structure.
const LEVELS_MAX: usize = 50;

/// Has such a call be given the type.
pub(super) fn bind(call: &mut Function) {
    let is_such = match call.name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| {
            let mut names = FUNCTIONS.iter();
            names.any(|known| name.value.eq_ignore_ascii_case(known))
        }),
        _ => false,
    };
    let FunctionArguments::List(list) = &mut call.args else {
        return;
    };
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(structure))] = list.args.as_mut_slice()
    else {
        return;
    };
    let null = match structure {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) if is_such => null_of(text),
            _ => None,
        },
        _ => None,
    };
    if let Some(null) = null {
        *structure = null;
        call.name = ObjectName::from(vec![Ident::new("value_of_json")]);
    }
}

/// Returns a NULL of the type that a structure names; `None` of what is no structure.
fn null_of(structure: &str) -> Option<Expr> {
    let sql = format!("CAST(NULL AS {})", type_of(structure.trim(), 0)?);
    let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
    parser.and_then(|mut parser| parser.parse_expr()).ok()
}

fn type_of(structure: &str, level: usize) -> Option<String> {
    if level > LEVELS_MAX {
        return None;
    }
    if let Some(fields) = members(structure).ok()? {
        let fields = fields.into_iter().map(|(name, of)| {
            let name = name.replace('"', "\"\"");
            Some(format!("\"{name}\" {}", type_of(of, level + 1)?))
        });
        let fields = fields.collect::<Option<Vec<_>>>()?;
        return Some(format!("STRUCT<{}>", fields.join(", ")));
    }
    if let Some(values) = elements(structure).ok()? {
        return match values.as_slice() {
            [of] => Some(format!("{}[]", type_of(of, level + 1)?)),
            _ => None,
        };
    }
    let name: String = serde_json::from_str(structure).ok()?;
    match name.eq_ignore_ascii_case("json") {
        true => Some("VARCHAR".to_string()),
        false => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::null_of;

    #[test]
    fn structures_name_types() {
        for (structure, expect) in [
            (
                r#"{"b": "INTEGER", "a": ["JSON"]}"#,
                Some(r#"CAST(NULL AS STRUCT<"b" INTEGER, "a" VARCHAR[]>)"#),
            ),
            (r#"["VARCHAR"]"#, Some("CAST(NULL AS VARCHAR[])")),
            (r#""BIGINT""#, Some("CAST(NULL AS BIGINT)")),
            ("[]", None),
            ("1", None),
            ("{", None),
        ] {
            let null = null_of(structure).map(|null| null.to_string());
            assert_eq!(null.as_deref(), expect, "{structure}");
        }
    }
}
