//! `json_extract(j, '$[*].a')` and `json_extract(j, ['$.a', '$.b'])`: paths that give a list, for which there is another
//! function.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

use crate::functions::json::has_wildcard;

/// Functions of a path, and those of several values.
const FUNCTIONS: [(&str, &str); 4] = [
    ("json_extract", "json_extract_all"),
    ("json_extract_path", "json_extract_all"),
    ("json_extract_string", "json_extract_string_all"),
    ("json_extract_path_text", "json_extract_string_all"),
];

/// Has such a call be one of the function that gives a list.
pub(super) fn bind(call: &mut Function) {
    let FunctionArguments::List(list) = &call.args else {
        return;
    };
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(path))] = list.args.as_slice() else {
        return;
    };
    let is_several = match path {
        Expr::Array(_) => true,
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(path) => has_wildcard(path),
            _ => false,
        },
        _ => false,
    };
    let [part] = call.name.0.as_slice() else {
        return;
    };
    let Some(name) = part.as_ident().filter(|_| is_several) else {
        return;
    };
    let mut rows = FUNCTIONS.iter();
    if let Some((_, several)) = rows.find(|(known, _)| name.value.eq_ignore_ascii_case(known)) {
        call.name = ObjectName::from(vec![Ident::new(*several)]);
    }
}
