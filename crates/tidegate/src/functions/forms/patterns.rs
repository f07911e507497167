//! Calls with patterns, as DuckDB has them: `regexp_extract(s, p, ['y', 'm'])` is a struct of groups, and the option `l` says
//! that a pattern stands for itself.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use super::{called_as, text_of, unnamed};
use crate::statements::{call as call_of, string};

/// The function that gives one group.
const EXTRACT: &str = "regexp_extract";

/// Functions that take options, and the first place where they stand.
const OPTIONS: [(&str, usize); 8] = [
    (EXTRACT, 2),
    ("regexp_extract_all", 2),
    ("regexp_like", 2),
    ("regexp_matches", 2),
    ("regexp_replace", 3),
    ("regexp_split_to_array", 2),
    ("str_split_regex", 2),
    ("string_split_regex", 2),
];

/// The letters of options.
const LETTERS: &str = "cgilmnps";

/// Returns what such a call stands for; `None` of any other.
pub(super) fn rewritten(name: &str, call: &Function) -> Option<Expr> {
    literal(name, call).or_else(|| groups(name, call))
}

/// Escapes the pattern of a call with the option `l`, which is left out.
fn literal(name: &str, call: &Function) -> Option<Expr> {
    let (_, first) = OPTIONS.iter().find(|(known, _)| *known == name)?;
    let mut call = call.clone();
    let FunctionArguments::List(list) = &mut call.args else {
        return None;
    };
    let last = list
        .args
        .len()
        .checked_sub(1)
        .filter(|last| last >= first)?;
    let options = text_of(list.args.get(last)?)?;
    if !options.contains('l') || options.contains(|letter: char| !LETTERS.contains(letter)) {
        return None;
    }
    let others = options.replace('l', "");
    list.args.truncate(last);
    if !others.is_empty() {
        list.args.push(unnamed(string(others)));
    }
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern)) = list.args.get_mut(1)? else {
        return None;
    };
    *pattern = call_of("regexp_escape", vec![pattern.clone()]);
    Some(Expr::Nested(Box::new(Expr::Function(call))))
}

/// Makes a struct of the groups that a list of names is given for; NULL of NULL.
fn groups(name: &str, call: &Function) -> Option<Expr> {
    if name != EXTRACT {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let [
        text,
        pattern,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(names))),
        options @ ..,
    ] = list.args.as_slice()
    else {
        return None;
    };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) = text else {
        return None;
    };
    let mut fields = Vec::with_capacity(2 * names.elem.len());
    for (place, name) in names.elem.iter().enumerate() {
        let name = text_of(&unnamed(name.clone()))?.to_string();
        let number = Value::Number((place + 1).to_string(), false).with_empty_span();
        let mut group = called_as(EXTRACT, call);
        if let FunctionArguments::List(list) = &mut group.args {
            list.args = vec![text.clone(), pattern.clone(), unnamed(Expr::Value(number))];
            list.args.extend(options.iter().cloned());
        }
        fields.extend([string(name), Expr::Function(group)]);
    }
    if fields.is_empty() {
        return None;
    }
    Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: Expr::IsNotNull(Box::new(of.clone())),
            result: call_of("named_struct", fields),
        }],
        else_result: None,
    })
}
