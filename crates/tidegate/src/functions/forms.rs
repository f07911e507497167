//! Functions of other systems that are here by another name or in another form: a call of one becomes what
//! stands beside it, before it is planned.
//!
//! What systems have by one name and in several meanings is here as DuckDB has it (`dayofweek` begins with 0), or it is in
//! the table of `crate::mistakes::rewrites`, and an error says what to write. A function that is registered by such a name
//! is called as usual.
//!
//! `date_diff('month', a, b)` has a row for each unit, `date_diff month`, and a function with fewer or more arguments
//! one for each number of them; `date_part('century', d)` and `EXTRACT(century FROM d)` are `date_part century`, and
//! `date_trunc('century', d)` is `date_trunc century`. An aggregate of a
//! list of shares, `quantile_cont(x, [0.1, 0.9])`, is a list of aggregates. What is an expression of aggregates has them
//! over its window, and a row, `max over`, if those of its own cannot be. `any_value(x ORDER BY y)`, whose order would be
//! ignored, is the first value that is not NULL. `struct_pack(a := 1)` and `json_object('a', 1)` have names among their arguments, and no row.

mod patterns;
mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, NullTreatment, ObjectName, ObjectNamePart,
    Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::letters::by_letters;
use super::times::chrono_format;
use crate::statements;
use crate::statements::visits::{change_expressions, read_expressions};
use table::{FORMS, NAMES};

/// Other names of DataFusion's functions that take more types here: the name, its function there, and ours. A
/// function of that name which a user registers is called as usual.
const WIDER: [(&str, &str, &str); 3] = [
    ("concat", "concat", "concat_values"),
    ("length", "character_length", "len"),
    ("octet_length", "octet_length", "byte_count"),
];

/// Functions that take a unit of time first, and that have a row for each.
const DIFFERENCES: [&str; 2] = ["date_diff", "datediff"];

/// Functions that take a part of a time first, what their rows are called, and the parts that have a row.
const PARTS: [(&str, &str); 4] = [
    ("date_part", "date_part"),
    ("datepart", "date_part"),
    ("date_trunc", "date_trunc"),
    ("datetrunc", "date_trunc"),
];
const LONG_PARTS: [&str; 4] = ["century", "decade", "millennium", "yearweek"];

/// Units and parts of times, and the other names that PostgreSQL and DuckDB have for them.
const UNITS: [(&str, &str); 15] = [
    ("century", "centuries c cent"),
    ("day", "days d dayofmonth"),
    ("decade", "decades dec decs"),
    ("dow", "dayofweek weekday"),
    ("doy", "dayofyear"),
    ("hour", "hours h hr hrs"),
    ("microsecond", "microseconds us usec usecs usecond useconds"),
    ("millennium", "millennia millenniums millenium mil mils"),
    ("millisecond", "milliseconds ms msec msecs msecond mseconds"),
    ("minute", "minutes m min mins"),
    ("month", "months mon mons"),
    ("quarter", "quarters"),
    ("second", "seconds s sec secs"),
    ("week", "weeks w weekofyear"),
    ("year", "years y yr yrs"),
];

/// Functions that are registered, and whose form has one argument.
const ONE_ARGUMENT: [&str; 5] = ["age", "array_first", "decode", "encode", "list_first"];

/// Aggregates that take a list of shares last, and give a list: of one share for each.
const SHARED: [&str; 6] = [
    "approx_percentile_cont",
    "approx_quantile",
    "percentile_cont",
    "quantile",
    "quantile_cont",
    "quantile_disc",
];

/// The aggregate of any value that is not NULL, by its names.
const ANY_VALUE: [&str; 2] = ["any_value", "arbitrary"];

/// The function that makes a struct of named arguments.
const STRUCT: &str = "struct_pack";

/// Functions that make a JSON object of names and values.
const OBJECTS: [&str; 3] = ["json_object", "json_build_object", "jsonb_build_object"];

/// The functions that add named arguments to a struct, and ours that take their names as strings.
const EDITS: [(&str, &str); 2] = [
    ("struct_insert", "struct_with"),
    ("struct_update", "struct_changed"),
];

/// The function that makes a JSON array of any values.
const JSON_ARRAY: &str = "json_array";

/// Functions whose text is JSON, and no string in it.
const JSON: [&str; 8] = [
    "json_array",
    "json_build_object",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_merge_patch",
    "json_object",
    "to_json",
];

/// Aggregates of an order that stands behind them.
const ORDERED: [&str; 2] = ["mode", "percentile_disc"];

/// The aggregates of forms.
const AGGREGATES: [&str; 11] = [
    "approx_percentile_cont",
    "arg_greatest",
    "arg_least",
    "array_agg",
    "avg",
    "count",
    "first_value",
    "percentile_cont",
    "stddev_pop",
    "string_agg",
    "sum",
];

/// The aggregate that separates by commas if it is not told otherwise.
const JOINED: &str = "string_agg";

/// Aggregates that take a number of values as well, of which they make a list.
const EXTREMES: [&str; 2] = ["max", "min"];

/// The function that writes by a format of Python and DuckDB.
const WRITTEN: &str = "strftime";

/// Functions whose formats may be of letters.
const LETTERED: [&str; 8] = [
    "to_char",
    "date_format",
    "to_date",
    "to_timestamp",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_timestamp_nanos",
];

/// What a call stands for. Its arguments are identifiers `$0`, `$1`, …, which nobody can write without
/// quotes.
struct Form(Expr);

/// Returns the name of a call's function, if it is written without a schema and quotes.
pub(crate) fn name_of(call: &Function) -> Option<String> {
    match call.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if name.quote_style.is_none() => {
            Some(name.value.to_lowercase())
        }
        _ => None,
    }
}

/// Returns the names of all functions that are here in another form.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let forms = FORMS.iter().map(|(call, _)| called(call));
    let names = NAMES.iter().map(|(name, _)| *name).chain(forms);
    let names = names
        .chain([STRUCT, JSON_ARRAY])
        .chain(EDITS.map(|(name, _)| name))
        .chain(OBJECTS);
    names.filter(|name| !name.contains(' '))
}

/// Returns how a call of this table is written.
pub(crate) fn call_of(name: &str) -> Option<&'static str> {
    if name == STRUCT {
        return Some("struct_pack(a := 1, b := 2)");
    }
    match name {
        "struct_insert" => return Some("struct_insert(s, a := 1)"),
        "struct_update" => return Some("struct_update(s, a := 1)"),
        _ => {}
    }
    if name == JSON_ARRAY {
        return Some("json_array(1, 'a')");
    }
    if OBJECTS.contains(&name) {
        return Some("json_object('a', 1, 'b', 2)");
    }
    let row = FORMS.iter().find(|(call, _)| called(call) == name);
    row.map(|(call, _)| *call)
}

fn called(call: &str) -> &str {
    call.split('(').next().unwrap_or(call)
}

/// Tells whether a function takes a unit of time first.
pub(crate) fn takes_unit(name: &str) -> bool {
    DIFFERENCES.contains(&name)
}

/// Tells whether differences of times are counted in a unit, as a statement has it.
pub(crate) fn is_unit(written: &str) -> bool {
    let unit = of_one(written.trim_matches('\''));
    forms().contains_key(&(format!("date_diff {unit}"), 2))
}

/// Returns the function that a name stands for.
pub(crate) fn renamed(name: &str) -> Option<&'static str> {
    let wider = WIDER.iter().map(|(known, _, other)| (*known, *other));
    let mut rows = NAMES.iter().copied().chain(wider);
    let (_, other) = rows.find(|(known, _)| *known == name)?;
    Some(other)
}

/// Tells whether a function of DataFusion's that is registered by a name makes way for ours.
pub(crate) fn is_wider(name: &str, registered: &str) -> bool {
    let mut rows = WIDER.iter();
    rows.any(|(known, function, _)| *known == name && *function == registered)
}

/// Returns what a call stands for; `None` if it is not of this table, or has other arguments.
pub(crate) fn form(call: &Function) -> Option<Expr> {
    let name = name_of(call)?;
    let call = &in_our_words(&name, call);
    if let Some(list) = of_shares(&name, call) {
        return Some(list);
    }
    if let Some(first) = first_of_order(&name, call) {
        return Some(first);
    }
    if let Some(other) = patterns::rewritten(&name, call) {
        return Some(other);
    }
    if let Some(other) = renamed(&name) {
        // What clauses they have is refused by their names.
        let is_wider = WIDER.iter().any(|(known, ..)| *known == name);
        let is_other = !is_wider || plain_arguments(call).is_some();
        return is_other.then(|| Expr::Function(called_as(other, call)));
    }
    if LETTERED.contains(&name.as_str()) {
        return with_letters(call).map(Expr::Function);
    }
    if name == JOINED {
        return matches!(call, Cow::Owned(_)).then(|| Expr::Function(Function::clone(call)));
    }
    if OBJECTS.contains(&name.as_str()) {
        let object = Expr::Function(called_as("named_struct", call));
        return Some(statements::call("to_json", vec![object]));
    }
    if name == STRUCT {
        return structure(call, "named_struct", 0);
    }
    if let Some((_, other)) = EDITS.iter().find(|(known, _)| *known == name) {
        return structure(call, other, 1);
    }
    if name == JSON_ARRAY {
        return json_array(call);
    }
    if ORDERED.contains(&name.as_str()) && !call.within_group.is_empty() {
        return of_order_behind(&name, call);
    }
    if call.over.is_some() || call.filter.is_some() {
        return of_aggregates(&name, call);
    }
    let mut given = plain_arguments(call)?;
    if let (Some(rows), [Some(part), Some(time)]) = (of_parts(&name), given.as_slice()) {
        return part_of_time(rows, &written_unit(part)?, time);
    }
    let name = if DIFFERENCES.contains(&name.as_str()) && given.len() == 3 {
        format!("date_diff {}", unit(given.remove(0)?)?)
    } else {
        name
    };
    written_out(name, &given)
}

/// Returns what a part of a time stands for: its row, or the function with our name of the part; `None` if the function
/// knows it by the name that is written.
fn part_of_time(rows: &str, written: &str, time: &Expr) -> Option<Expr> {
    let unit = of_one(written);
    let row = written_out(format!("{rows} {unit}"), &[Some(time.clone())]);
    row.or_else(|| {
        let arguments = vec![statements::string(unit.clone()), time.clone()];
        let call = || Expr::Nested(Box::new(statements::call(rows, arguments)));
        (unit != written.to_lowercase()).then(call)
    })
}

/// Returns what the rows of a function are called that takes a part of a time first.
fn of_parts(name: &str) -> Option<&'static str> {
    let (_, rows) = PARTS.iter().find(|(known, _)| *known == name)?;
    Some(*rows)
}

/// Returns what `EXTRACT(part FROM time)` stands for, if that part has a row.
pub(crate) fn extraction(expr: &Expr) -> Option<Expr> {
    let Expr::Extract { field, expr, .. } = expr else {
        return None;
    };
    part_of_time("date_part", &field.to_string(), expr)
}

/// Returns the form of an aggregate with a window or a filter, which each aggregate of the form has: that of the row for
/// windows, if there is one. `None` if the form has no aggregate, or one with an order of its own over a window.
fn of_aggregates(name: &str, call: &Function) -> Option<Expr> {
    let plain = Function {
        over: None,
        filter: None,
        ..call.clone()
    };
    let given = plain_arguments(&plain)?;
    let has_window = call.over.is_some();
    let of_windows = forms().get(&(format!("{name} over"), given.len()));
    let of_windows = of_windows.filter(|_| has_window);
    let Form(expr) = of_windows.or_else(|| forms().get(&(name.to_string(), given.len())))?;
    let mut expr = expr.clone();
    let mut num_aggregates = 0;
    let written = change_expressions(&mut expr, |expr| {
        let Expr::Function(part) = expr else {
            return ControlFlow::Continue(());
        };
        if !name_of(part).is_some_and(|name| AGGREGATES.contains(&name.as_str())) {
            return ControlFlow::Continue(());
        }
        let has_order =
            matches!(&part.args, FunctionArguments::List(list) if !list.clauses.is_empty());
        if has_order && has_window {
            return ControlFlow::Break(());
        }
        part.over.clone_from(&call.over);
        let own = part.filter.take();
        part.filter = match (own, call.filter.clone()) {
            (Some(own), Some(given)) => Some(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(own)),
                op: BinaryOperator::And,
                right: Box::new(Expr::Nested(given)),
            })),
            (own, given) => own.or(given),
        };
        num_aggregates += 1;
        ControlFlow::Continue(())
    });
    (written.is_continue() && num_aggregates > 0).then(|| with_arguments(expr, &given))
}

/// Returns the form of a row, with the arguments in their places.
fn written_out(name: String, given: &[Option<Expr>]) -> Option<Expr> {
    let Form(expr) = forms().get(&(name, given.len()))?;
    Some(with_arguments(expr.clone(), given))
}

/// Puts arguments into their places in a form.
fn with_arguments(mut expr: Expr, given: &[Option<Expr>]) -> Expr {
    let _ = change_expressions(&mut expr, |expr| {
        let argument = place_of(expr).and_then(|place| given.get(place)?.clone());
        if let Some(argument) = argument {
            *expr = Expr::Nested(Box::new(argument));
        }
        ControlFlow::<()>::Continue(())
    });
    Expr::Nested(Box::new(expr))
}

/// Returns `[f(x, a), f(x, b)]` for `f(x, [a, b])`.
fn of_shares(name: &str, call: &Function) -> Option<Expr> {
    if !SHARED.contains(&name) {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(shares))) = list.args.last()? else {
        return None;
    };
    // Copies of what is copied itself would be many.
    let nests = read_expressions(call, |expr| match expr {
        Expr::Function(inner)
            if name_of(inner).is_some_and(|name| SHARED.contains(&name.as_str())) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if shares.elem.is_empty() || nests.is_break() {
        return None;
    }
    let of_one = |share: &Expr| {
        let mut call = call.clone();
        if let FunctionArguments::List(list) = &mut call.args
            && let Some(last) = list.args.last_mut()
        {
            *last = unnamed(share.clone());
        }
        Expr::Function(call)
    };
    let each = shares.elem.iter().map(of_one).collect();
    Some(statements::call("make_array", each))
}

/// Returns `first_value(x ORDER BY y) IGNORE NULLS` for `any_value(x ORDER BY y)`.
fn first_of_order(name: &str, call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let mut clauses = list.clauses.iter();
    let is_ordered = clauses.any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    if !ANY_VALUE.contains(&name) || !is_ordered {
        return None;
    }
    // That each value is there once changes nothing.
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        ..list.clone()
    };
    Some(Expr::Function(Function {
        args: FunctionArguments::List(list),
        null_treatment: call.null_treatment.or(Some(NullTreatment::IgnoreNulls)),
        ..called_as("first_value", call)
    }))
}

/// Tells whether a call of a registered function has a form of its own, for it has other arguments.
pub(crate) fn takes_other(name: &str, call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else {
        return false;
    };
    let is_other_part = || {
        let part = match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(part)), _] => written_unit(part),
            _ => None,
        };
        part.is_some_and(|written| {
            let unit = of_one(&written);
            unit != written.to_lowercase() || LONG_PARTS.contains(&unit.as_str())
        })
    };
    is_short(name, call)
        || (ORDERED.contains(&name) && list.args.is_empty() && !call.within_group.is_empty())
        || (of_parts(name).is_some() && is_other_part())
        || (ONE_ARGUMENT.contains(&name) && list.args.len() == 1)
        || of_shares(name, call).is_some()
        || first_of_order(name, call).is_some()
        || patterns::rewritten(name, call).is_some()
        || (EXTREMES.contains(&name) && list.args.len() == 2)
        || LETTERED.contains(&name) && with_letters(call).is_some()
}

/// Writes the formats of a call that are of letters as our functions take them; `None` if none is.
fn with_letters(call: &Function) -> Option<Function> {
    let mut call = call.clone();
    let FunctionArguments::List(list) = &mut call.args else {
        return None;
    };
    let mut has_letters = false;
    for argument in list.args.iter_mut().skip(1) {
        if let Some(format) = text_of(argument).and_then(by_letters) {
            *argument = unnamed(statements::string(format));
            has_letters = true;
        }
    }
    has_letters.then_some(call)
}

/// Tells whether a call leaves out what a function of ours wants.
fn is_short(name: &str, call: &Function) -> bool {
    name == JOINED && matches!(&call.args, FunctionArguments::List(list) if list.args.len() == 1)
}

/// Writes what is left out of a call, and the formats of timestamps in it, as our functions take them.
fn in_our_words<'a>(name: &str, call: &'a Function) -> Cow<'a, Function> {
    let is_joined = is_short(renamed(name).unwrap_or(name), call);
    let mut call = Cow::Borrowed(call);
    if name != WRITTEN && !is_joined {
        return call;
    }
    let FunctionArguments::List(list) = &mut call.to_mut().args else {
        return call;
    };
    if is_joined {
        list.args.push(unnamed(statements::string(",")));
        return call;
    }
    let has_format =
        |argument: &FunctionArg| text_of(argument).is_some_and(|text| text.contains('%'));
    // SQLite has the format first.
    if list.args.len() == 2 && has_format(&list.args[0]) && !has_format(&list.args[1]) {
        list.args.swap(0, 1);
    }
    for argument in list.args.iter_mut().skip(1) {
        if let Some(format) = text_of(argument) {
            *argument = unnamed(statements::string(chrono_format(format, false)));
        }
    }
    call
}

fn text_of(argument: &FunctionArg) -> Option<&str> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn unnamed(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

/// Returns a call by another name, which stands where the call's own does.
fn called_as(name: &str, call: &Function) -> Function {
    let own = call.name.0.first().and_then(ObjectNamePart::as_ident);
    let name = Ident {
        value: name.to_string(),
        ..own.cloned().unwrap_or_else(|| Ident::new(name))
    };
    Function {
        name: ObjectName::from(vec![name]),
        ..call.clone()
    }
}

/// Returns `'[' || concat_ws(',', …) || ']'` of the values of an array as JSON.
fn json_array(call: &Function) -> Option<Expr> {
    let is_json = |value: &Expr| match value {
        Expr::Function(call) => name_of(call).is_some_and(|name| JSON.contains(&name.as_str())),
        _ => false,
    };
    let values = plain_arguments(call)?.into_iter().map(|value| {
        let value = value?;
        let written = match is_json(&value) {
            true => value,
            false => statements::call("to_json", vec![value]),
        };
        let null = statements::string("null");
        Some(statements::call("coalesce", vec![written, null]))
    });
    let values = values.collect::<Option<Vec<_>>>()?;
    let mut parts = vec![statements::string("[")];
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            parts.push(statements::string(","));
        }
        parts.push(value);
    }
    parts.push(statements::string("]"));
    Some(statements::call("concat", parts))
}

/// Returns `mode(x)` for `mode() WITHIN GROUP (ORDER BY x)`, and what `percentile_disc` of such an order stands for.
fn of_order_behind(name: &str, call: &Function) -> Option<Expr> {
    let [key] = call.within_group.as_slice() else {
        return None;
    };
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let call = Function {
        within_group: Vec::new(),
        ..call.clone()
    };
    let given = match list.args.as_slice() {
        [] if name == "mode" => {
            let list = FunctionArgumentList {
                args: vec![unnamed(key.expr.clone())],
                ..list.clone()
            };
            let args = FunctionArguments::List(list);
            return Some(Expr::Function(Function { args, ..call }));
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(share))] if name != "mode" => {
            plain_arguments(&call)?;
            [Some(key.expr.clone()), Some(share.clone())]
        }
        _ => return None,
    };
    let row = match key.options.asc {
        Some(false) => format!("{name} desc"),
        _ => name.to_string(),
    };
    written_out(row, &given)
}

/// Returns `named_struct('a', 1)` for a call with the argument `a := 1`, with so many arguments without names before it.
fn structure(call: &Function, other: &str, num_unnamed: usize) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let mut arguments = Vec::with_capacity(2 * list.args.len());
    arguments.extend(list.args.iter().take(num_unnamed).cloned());
    for argument in list.args.iter().skip(num_unnamed) {
        let (name, value) = match argument {
            FunctionArg::Named { name, arg, .. } => (name, arg),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg,
                ..
            } => (name, arg),
            _ => return None,
        };
        arguments.push(unnamed(statements::string(&name.value)));
        arguments.push(FunctionArg::Unnamed(value.clone()));
    }
    let list = FunctionArgumentList {
        args: arguments,
        ..list.clone()
    };
    Some(Expr::Function(Function {
        args: FunctionArguments::List(list),
        ..called_as(other, call)
    }))
}

/// Reads a unit of time, `'day'`, `'days'` or `day`.
fn unit(argument: Expr) -> Option<String> {
    written_unit(&argument).map(|written| of_one(&written))
}

/// Reads a unit of time as it is written.
fn written_unit(argument: &Expr) -> Option<String> {
    match argument {
        Expr::Value(value) => value.value.clone().into_string(),
        Expr::Identifier(name) => Some(name.value.clone()),
        _ => None,
    }
}

/// Returns `day` of `Days` and `d`.
fn of_one(unit: &str) -> String {
    let unit = unit.to_lowercase();
    let row = UNITS
        .iter()
        .find(|(_, others)| others.split(' ').any(|other| other == unit));
    match row {
        Some((one, _)) => (*one).to_string(),
        None => unit,
    }
}

/// Returns which argument of a form an expression is.
pub(super) fn place_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Identifier(name) if name.quote_style.is_none() => {
            name.value.strip_prefix('$')?.parse().ok()
        }
        _ => None,
    }
}

/// Returns the arguments of a call without clauses.
fn plain_arguments(call: &Function) -> Option<Vec<Option<Expr>>> {
    let is_plain = call.filter.is_none()
        && call.over.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && call.parameters == FunctionArguments::None;
    let list = match &call.args {
        FunctionArguments::List(list) => list,
        // A word that the parser takes for a call.
        FunctionArguments::None if is_plain => return Some(Vec::new()),
        _ => return None,
    };
    if !is_plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let mut arguments = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                arguments.push(Some(expr.clone()));
            }
            _ => return None,
        }
    }
    Some(arguments)
}

/// Returns the table, read.
fn forms() -> &'static HashMap<(String, usize), Form> {
    static READ: OnceLock<HashMap<(String, usize), Form>> = OnceLock::new();
    READ.get_or_init(|| {
        FORMS
            .iter()
            .filter_map(|(call, expr)| read(call, expr))
            .collect()
    })
}

fn read(call: &str, expr: &str) -> Option<((String, usize), Form)> {
    let parse = |text: &str| {
        let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
        parser.and_then(|mut parser| parser.parse_expr()).ok()
    };
    let (name, arguments) = call.split_once('(')?;
    let arguments = arguments.trim_end_matches(')').split(", ");
    let arguments: Vec<&str> = arguments.filter(|name| !name.is_empty()).collect();
    let mut expr = parse(expr)?;
    let _ = change_expressions(&mut expr, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(place) = arguments.iter().position(|known| *known == name.value)
        {
            name.value = format!("${place}");
        }
        ControlFlow::<()>::Continue(())
    });
    Some(((name.to_string(), arguments.len()), Form(expr)))
}

#[cfg(test)]
mod tests;
