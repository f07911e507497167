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
//! list of shares, `quantile_cont(x, [0.1, 0.9])`, is a list of aggregates. `any_value(x ORDER BY y)`, whose order would be
//! ignored, is the first value that is not NULL. `struct_pack(a := 1)` and `json_object('a', 1)` have names among their arguments, and no row.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use sqlparser::ast::{
    DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, NullTreatment, ObjectName, ObjectNamePart,
    Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::letters::by_letters;
use super::times::chrono_format;
use crate::statements;
use crate::statements::visits::{change_expressions, read_expressions};

/// Names, and the function that each stands for with all its clauses.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("approx_count_distinct", "approx_distinct"),
    ("arbitrary", "any_value"),
    ("array_cosine_distance", "cosine_distance"),
    ("array_inner_product", "inner_product"),
    ("array_size", "array_length"),
    ("ceiling", "ceil"),
    ("explode", "unnest"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("group_concat", "string_agg"),
    ("grouping_id", "grouping"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("levenshtein_distance", "levenshtein"),
    ("list", "array_agg"),
    ("array_value", "make_array"),
    ("list_cosine_distance", "cosine_distance"),
    ("list_distance", "array_distance"),
    ("list_dot_product", "inner_product"),
    ("list_inner_product", "inner_product"),
    ("list_min", "array_min"),
    ("list_pack", "make_array"),
    ("list_value", "make_array"),
    ("listagg", "string_agg"),
    ("mid", "substr"),
    ("newid", "uuid"),
    ("ord", "ascii"),
    ("prefix", "starts_with"),
    ("proper", "initcap"),
    ("quantile_cont", "percentile_cont"),
    ("regexp_matches", "regexp_like"),
    ("replicate", "repeat"),
    ("sign", "signum"),
    ("split", "string_to_array"),
    ("strlen", "octet_length"),
    ("str_split", "string_to_array"),
    ("string_split", "string_to_array"),
    ("suffix", "ends_with"),
    ("truncate", "trunc"),
    ("ucase", "upper"),
    ("unicode", "ascii"),
    ("variance", "var_samp"),
];

/// Other names of DataFusion's functions that take more types here: the name, its function there, and ours. A
/// function of that name which a user registers is called as usual.
const WIDER: [(&str, &str, &str); 1] = [("length", "character_length", "len")];

/// Calls, and the expression that each stands for; each argument is there once, but for what is mostly a constant.
#[rustfmt::skip]
const FORMS: &[(&str, &str)] = &[
    ("age(a)", "age(CAST(current_date() AS TIMESTAMP), a)"),
    ("arg_max(x, y)", "first_value(x ORDER BY y DESC NULLS LAST) IGNORE NULLS"),
    ("arg_max(x, y, n)", "array_slice(array_agg(x ORDER BY y DESC) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), 1, n)"),
    ("arg_min(x, y)", "first_value(x ORDER BY y NULLS LAST) IGNORE NULLS"),
    ("arg_min(x, y, n)", "array_slice(array_agg(x ORDER BY y) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), 1, n)"),
    ("array_cosine_similarity(a, b)", "1 - cosine_distance(a, b)"),
    ("array_first(l)", "array_element(l, 1)"),
    ("array_last(l)", "array_element(l, -1)"),
    ("argmax(x, y)", "first_value(x ORDER BY y DESC NULLS LAST) IGNORE NULLS"),
    ("argmin(x, y)", "first_value(x ORDER BY y NULLS LAST) IGNORE NULLS"),
    ("approx_quantile(x, q)", "approx_percentile_cont(x, q)"),
    ("base64(b)", "encode(b, 'base64')"),
    ("charindex(part, s)", "strpos(s, part)"),
    ("count_if(c)", "count(CASE WHEN c THEN 1 END)"),
    ("countif(c)", "count(CASE WHEN c THEN 1 END)"),
    ("curdate()", "current_date()"),
    ("date(t)", "CAST(t AS DATE)"),
    ("date_add(d, i)", "d + i"),
    ("century(d)", "CAST(ceil(date_part('year', d) / 100.0) AS BIGINT)"),
    ("decade(d)", "CAST(floor(date_part('year', d) / 10.0) AS BIGINT)"),
    ("even(x)", "CASE WHEN x >= 0 THEN ceil(x / 2.0) * 2 ELSE floor(x / 2.0) * 2 END"),
    ("date_diff century(a, b)", "CAST(floor(date_part('year', b) / 100.0) - floor(date_part('year', a) / 100.0) AS BIGINT)"),
    ("date_diff day(a, b)", "CAST(round((date_part('epoch', date_trunc('day', b)) - date_part('epoch', date_trunc('day', a))) / 86400) AS BIGINT)"),
    ("date_diff decade(a, b)", "CAST(floor(date_part('year', b) / 10.0) - floor(date_part('year', a) / 10.0) AS BIGINT)"),
    ("date_diff hour(a, b)", "CAST((date_part('epoch', date_trunc('hour', b)) - date_part('epoch', date_trunc('hour', a))) / 3600 AS BIGINT)"),
    ("date_diff microsecond(a, b)", "CAST(round(date_part('epoch', b) * 1000000) - round(date_part('epoch', a) * 1000000) AS BIGINT)"),
    ("date_diff millennium(a, b)", "CAST(floor(date_part('year', b) / 1000.0) - floor(date_part('year', a) / 1000.0) AS BIGINT)"),
    ("date_diff millisecond(a, b)", "CAST(floor(round(date_part('epoch', b) * 1000000) / 1000) - floor(round(date_part('epoch', a) * 1000000) / 1000) AS BIGINT)"),
    ("date_diff minute(a, b)", "CAST((date_part('epoch', date_trunc('minute', b)) - date_part('epoch', date_trunc('minute', a))) / 60 AS BIGINT)"),
    // A month has 2,629,746 seconds on average, and begins within days of where it would if all had so many.
    ("date_diff month(a, b)", "CAST(round(date_part('epoch', date_trunc('month', b)) / 2629746) - round(date_part('epoch', date_trunc('month', a)) / 2629746) AS BIGINT)"),
    ("date_diff quarter(a, b)", "CAST(round(date_part('epoch', date_trunc('quarter', b)) / 7889238) - round(date_part('epoch', date_trunc('quarter', a)) / 7889238) AS BIGINT)"),
    ("date_diff second(a, b)", "CAST(date_part('epoch', date_trunc('second', b)) - date_part('epoch', date_trunc('second', a)) AS BIGINT)"),
    ("date_diff week(a, b)", "CAST(round((date_part('epoch', date_trunc('week', b)) - date_part('epoch', date_trunc('week', a))) / 604800) AS BIGINT)"),
    ("date_diff year(a, b)", "CAST(date_part('year', b) - date_part('year', a) AS BIGINT)"),
    ("date_part century(d)", "CAST(ceil(date_part('year', d) / 100.0) AS BIGINT)"),
    ("date_part decade(d)", "CAST(floor(date_part('year', d) / 10.0) AS BIGINT)"),
    ("date_part millennium(d)", "CAST(ceil(date_part('year', d) / 1000.0) AS BIGINT)"),
    ("date_sub(d, i)", "d - i"),
    // As in DuckDB, a century begins with the year 2000; to PostgreSQL it is 2001.
    ("date_trunc century(t)", "date_trunc('year', t) - date_part('year', t) % 100 * INTERVAL '12 months'"),
    ("date_trunc decade(t)", "date_trunc('year', t) - date_part('year', t) % 10 * INTERVAL '12 months'"),
    ("date_trunc millennium(t)", "date_trunc('year', t) - date_part('year', t) % 1000 * INTERVAL '12 months'"),
    ("day(d)", "date_part('day', d)"),
    ("dayname(d)", "to_char(d, '%A')"),
    ("dayofmonth(d)", "date_part('day', d)"),
    ("dayofweek(d)", "date_part('dow', d)"),
    ("dayofyear(d)", "date_part('doy', d)"),
    ("decode(b)", "CAST(b AS VARCHAR)"),
    ("encode(s)", "CAST(s AS BYTEA)"),
    ("epoch(t)", "date_part('epoch', t)"),
    ("epoch_ns(t)", "CAST(arrow_cast(t, 'Timestamp(Nanosecond, Some(\"+00:00\"))') AS BIGINT)"),
    ("epoch_us(t)", "CAST(round(date_part('epoch', t) * 1000000) AS BIGINT)"),
    ("fmod(a, b)", "a % b"),
    ("from_base64(s)", "decode(s, 'base64')"),
    ("from_hex(s)", "decode(s, 'hex')"),
    ("get_current_timestamp()", "now()"),
    ("getdate()", "now()"),
    ("geomean(x)", "exp(avg(ln(x)))"),
    ("geometric_mean(x)", "exp(avg(ln(x)))"),
    ("hour(t)", "date_part('hour', t)"),
    ("if(c, a, b)", "CASE WHEN c THEN a ELSE b END"),
    ("iif(c, a, b)", "CASE WHEN c THEN a ELSE b END"),
    ("isfinite(x)", "abs(CAST(x AS DOUBLE)) < CAST('inf' AS DOUBLE)"),
    ("isinf(x)", "abs(CAST(x AS DOUBLE)) = CAST('inf' AS DOUBLE)"),
    ("isnull(a, b)", "coalesce(a, b)"),
    ("isodow(d)", "date_part('isodow', d)"),
    ("last_day(d)", "CAST(date_trunc('month', d) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("list_bit_and(l)", "list_aggregate(l, 'bit_and')"),
    ("list_bit_or(l)", "list_aggregate(l, 'bit_or')"),
    ("list_bit_xor(l)", "list_aggregate(l, 'bit_xor')"),
    ("list_bool_and(l)", "list_aggregate(l, 'bool_and')"),
    ("list_bool_or(l)", "list_aggregate(l, 'bool_or')"),
    ("list_cosine_similarity(a, b)", "1 - cosine_distance(a, b)"),
    ("list_count(l)", "list_aggregate(l, 'count')"),
    ("list_first(l)", "array_element(l, 1)"),
    ("list_last(l)", "array_element(l, -1)"),
    ("list_median(l)", "list_aggregate(l, 'median')"),
    ("list_mode(l)", "list_aggregate(l, 'mode')"),
    ("list_reverse_sort(l)", "array_sort(l, 'DESC', 'NULLS LAST')"),
    ("list_stddev_pop(l)", "list_aggregate(l, 'stddev_pop')"),
    ("list_stddev_samp(l)", "list_aggregate(l, 'stddev_samp')"),
    ("list_string_agg(l)", "list_aggregate(l, 'string_agg', ',')"),
    ("list_string_agg(l, sep)", "list_aggregate(l, 'string_agg', sep)"),
    ("list_unique(l)", "list_aggregate(array_distinct(l), 'count')"),
    ("list_var_pop(l)", "list_aggregate(l, 'var_pop')"),
    ("list_var_samp(l)", "list_aggregate(l, 'var_samp')"),
    ("localtime()", "CAST(CAST(now() AS TIMESTAMP) AS TIME)"),
    ("localtimestamp()", "CAST(now() AS TIMESTAMP)"),
    ("locate(part, s)", "strpos(s, part)"),
    ("make_timestamp(us)", "CAST(to_timestamp_micros(us) AS TIMESTAMP)"),
    ("make_timestamp(y, mo, d, h, mi, s)", "CAST(make_date(y, mo, d) AS TIMESTAMP) + h * INTERVAL '1 hour' + mi * INTERVAL '1 minute' + s * INTERVAL '1 second'"),
    ("millennium(d)", "CAST(ceil(date_part('year', d) / 1000.0) AS BIGINT)"),
    ("minute(t)", "date_part('minute', t)"),
    ("mod(a, b)", "a % b"),
    ("month(d)", "date_part('month', d)"),
    ("max(x, n)", "array_slice(array_agg(x ORDER BY x DESC) FILTER (WHERE x IS NOT NULL), 1, n)"),
    ("max_by(x, y)", "first_value(x ORDER BY y DESC NULLS LAST) IGNORE NULLS"),
    ("max_by(x, y, n)", "array_slice(array_agg(x ORDER BY y DESC) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), 1, n)"),
    ("min(x, n)", "array_slice(array_agg(x ORDER BY x) FILTER (WHERE x IS NOT NULL), 1, n)"),
    ("min_by(x, y)", "first_value(x ORDER BY y NULLS LAST) IGNORE NULLS"),
    ("min_by(x, y, n)", "array_slice(array_agg(x ORDER BY y) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), 1, n)"),
    ("monthname(d)", "to_char(d, '%B')"),
    ("nullifzero(x)", "nullif(x, 0)"),
    ("parse_dirpath(p)", "regexp_replace(p, '/?[^/]*$', '')"),
    ("parse_filename(p)", "regexp_replace(p, '^.*/', '')"),
    ("percentile(x, q)", "percentile_cont(x, q)"),
    ("quantile_disc(x, q)", "array_element(array_agg(x ORDER BY x) FILTER (WHERE x IS NOT NULL), CAST(greatest(1, ceil(q * count(x))) AS BIGINT))"),
    ("quarter(d)", "date_part('quarter', d)"),
    ("regexp_full_match(s, p)", "regexp_like(s, '^(?:' || p || ')$')"),
    ("second(t)", "date_part('second', t)"),
    ("sem(x)", "stddev_pop(x) / sqrt(count(x))"),
    ("space(n)", "repeat(' ', n)"),
    ("strftime(t, f)", "to_char(t, f)"),
    ("struct_extract(s, field)", "get_field(s, field)"),
    ("stuff(s, start, n, other)", "overlay(s PLACING other FROM start FOR n)"),
    ("sysdate()", "now()"),
    // Weeks begin on Mondays; months and years are counted from the beginning of one.
    ("time_bucket(i, t)", "date_bin(i, t, CASE WHEN date_part('month', i) = 0 AND date_part('year', i) = 0 THEN TIMESTAMP '2000-01-03' ELSE TIMESTAMP '2000-01-01' END)"),
    ("time_bucket(i, t, origin)", "date_bin(i, t, origin)"),
    ("to_base64(b)", "encode(b, 'base64')"),
    ("to_days(n)", "n * INTERVAL '1 day'"),
    ("to_hours(n)", "n * INTERVAL '1 hour'"),
    ("to_microseconds(n)", "n * INTERVAL '1 microsecond'"),
    ("to_milliseconds(n)", "n * INTERVAL '1 millisecond'"),
    ("to_minutes(n)", "n * INTERVAL '1 minute'"),
    ("to_months(n)", "n * INTERVAL '1 month'"),
    ("to_seconds(n)", "n * INTERVAL '1 second'"),
    ("to_weeks(n)", "n * INTERVAL '7 days'"),
    ("to_years(n)", "n * INTERVAL '12 months'"),
    ("to_varchar(x)", "CAST(x AS VARCHAR)"),
    ("unbase64(s)", "decode(s, 'base64')"),
    ("unhex(s)", "decode(s, 'hex')"),
    ("weekday(d)", "date_part('dow', d)"),
    ("weekofyear(d)", "date_part('week', d)"),
    ("week(d)", "date_part('week', d)"),
    ("year(d)", "date_part('year', d)"),
    ("yearweek(d)", "date_part('isoyear', d) * 100 + date_part('week', d)"),
    ("zeroifnull(x)", "coalesce(x, 0)"),
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
const LONG_PARTS: [&str; 3] = ["century", "decade", "millennium"];

/// Functions that are registered, and whose form has one argument.
const ONE_ARGUMENT: [&str; 5] = ["age", "array_first", "decode", "encode", "list_first"];

/// Aggregates that take a list of shares last, and give a list: of one share for each.
const SHARED: [&str; 5] = [
    "approx_percentile_cont",
    "approx_quantile",
    "percentile_cont",
    "quantile_cont",
    "quantile_disc",
];

/// The aggregate of any value that is not NULL, by its names.
const ANY_VALUE: [&str; 2] = ["any_value", "arbitrary"];

/// The function that makes a struct of named arguments.
const STRUCT: &str = "struct_pack";

/// Functions that make a JSON object of names and values.
const OBJECTS: [&str; 3] = ["json_object", "json_build_object", "jsonb_build_object"];

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
    let names = names.chain([STRUCT]).chain(OBJECTS);
    names.filter(|name| !name.contains(' '))
}

/// Returns how a call of this table is written.
pub(crate) fn call_of(name: &str) -> Option<&'static str> {
    if name == STRUCT {
        return Some("struct_pack(a := 1, b := 2)");
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
    if let Some(other) = renamed(&name) {
        return Some(Expr::Function(called_as(other, call)));
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
        return structure(call);
    }
    let mut given = plain_arguments(call)?;
    let name = if DIFFERENCES.contains(&name.as_str()) && given.len() == 3 {
        format!("date_diff {}", unit(given.remove(0)?)?)
    } else if let Some(rows) = of_parts(&name)
        && given.len() == 2
    {
        format!("{rows} {}", unit(given.remove(0)?)?)
    } else {
        name
    };
    written_out(name, &given)
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
    let part = match field {
        DateTimeField::Century => "century",
        DateTimeField::Decade => "decade",
        DateTimeField::Millenium | DateTimeField::Millennium => "millennium",
        _ => return None,
    };
    written_out(format!("date_part {part}"), &[Some(expr.as_ref().clone())])
}

/// Returns the form of a row, with the arguments in their places.
fn written_out(name: String, given: &[Option<Expr>]) -> Option<Expr> {
    let Form(expr) = forms().get(&(name, given.len()))?;
    let mut expr = expr.clone();
    let _ = change_expressions(&mut expr, |expr| {
        let argument = place_of(expr).and_then(|place| given.get(place)?.clone());
        if let Some(argument) = argument {
            *expr = Expr::Nested(Box::new(argument));
        }
        ControlFlow::<()>::Continue(())
    });
    Some(Expr::Nested(Box::new(expr)))
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
    let is_long_part = || {
        let part = match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(part)), _] => unit(part.clone()),
            _ => None,
        };
        part.is_some_and(|part| LONG_PARTS.contains(&part.as_str()))
    };
    is_short(name, call)
        || (of_parts(name).is_some() && is_long_part())
        || (ONE_ARGUMENT.contains(&name) && list.args.len() == 1)
        || of_shares(name, call).is_some()
        || first_of_order(name, call).is_some()
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

/// Returns `named_struct('a', 1)` for a call with the argument `a := 1`.
fn structure(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let mut arguments = Vec::with_capacity(2 * list.args.len());
    for argument in &list.args {
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
        ..called_as("named_struct", call)
    }))
}

/// Reads a unit of time, `'day'`, `'days'` or `day`.
fn unit(argument: Expr) -> Option<String> {
    let unit = match argument {
        Expr::Value(value) => value.value.into_string()?,
        Expr::Identifier(name) => name.value,
        _ => return None,
    };
    Some(of_one(&unit))
}

/// Returns `day` of `Days`.
fn of_one(unit: &str) -> String {
    let unit = unit.to_lowercase();
    unit.strip_suffix('s').unwrap_or(&unit).to_string()
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
mod tests {
    use std::collections::HashSet;

    use sqlparser::ast::Expr;
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::{FORMS, NAMES, form, forms, names};

    fn check(call: &str, expect: Option<&str>) {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(call).unwrap();
        let Expr::Function(call) = parser.parse_expr().unwrap() else {
            panic!("{call} is no call");
        };
        let written = form(&call).map(|expr| expr.to_string());
        assert_eq!(written.as_deref(), expect);
    }

    #[test]
    fn calls_become_what_they_stand_for() {
        check("year(a.b)", Some("(date_part('year', (a.b)))"));
        check("MOD(x + 1, b)", Some("((x + 1) % (b))"));
        check("date_add(i, d)", Some("((i) + (d))"));
        check(
            "listagg(a, ',') FILTER (WHERE b)",
            Some("string_agg(a, ',') FILTER (WHERE b)"),
        );
        check(
            "any_value(DISTINCT a ORDER BY b DESC) FILTER (WHERE c)",
            Some("first_value(a ORDER BY b DESC) FILTER (WHERE c) IGNORE NULLS"),
        );
        check("any_value(a)", None);
        check("arbitrary(a)", Some("any_value(a)"));
        check("list_first(l)", Some("(array_element((l), 1))"));
        check("year()", None);
        check("year(a) OVER ()", None);
        check("\"year\"(a)", None);
        check("s.year(a)", None);
        check("upper(a)", None);
        check(
            "datediff(YEAR, a, b)",
            Some("(CAST(date_part('year', (b)) - date_part('year', (a)) AS BIGINT))"),
        );
        check(
            "struct_pack(a := x, B := y + 1)",
            Some("named_struct('a', x, 'B', y + 1)"),
        );
        check("struct_pack(x)", None);
        check(
            "list_string_agg(l, s)",
            Some("(list_aggregate((l), 'string_agg', (s)))"),
        );
        check("list_string_agg(l, s, 1)", None);
        check(
            "date_diff('decade', a, b)",
            Some(
                "(CAST(FLOOR(date_part('year', (b)) / 10.0) - FLOOR(date_part('year', (a)) / 10.0) AS BIGINT))",
            ),
        );
        check(
            "date_trunc('century', t)",
            Some("(date_trunc('year', (t)) - date_part('year', (t)) % 100 * INTERVAL '12 months')"),
        );
        check("date_trunc('year', t)", None);
        check("date_diff('fortnight', a, b)", None);
        check("date_diff(a, b)", None);
        check(
            "date_part('Decade', d)",
            Some("(CAST(FLOOR(date_part('year', (d)) / 10.0) AS BIGINT))"),
        );
        check("date_part('year', d)", None);
        check(
            "quantile_cont(x, [0.1, 0.9]) FILTER (WHERE b)",
            Some(
                "make_array(quantile_cont(x, 0.1) FILTER (WHERE b), quantile_cont(x, 0.9) FILTER (WHERE b))",
            ),
        );
        check("quantile_cont(x, 0.1)", Some("percentile_cont(x, 0.1)"));
        check("localtimestamp", Some("(CAST(now() AS TIMESTAMP))"));
        check("encode(s)", Some("(CAST((s) AS BYTEA))"));
        check("listagg(a)", Some("string_agg(a, ',')"));
        check(
            "string_agg(a ORDER BY b)",
            Some("string_agg(a, ',' ORDER BY b)"),
        );
        check("json_object('a', x)", Some("to_json(named_struct('a', x))"));
        check("strftime('%Y.%f', d)", Some("(to_char((d), ('%Y.%6f')))"));
    }

    #[test]
    fn every_row_can_be_read_and_has_a_name_of_its_own() {
        assert_eq!(forms().len(), FORMS.len());
        let forms = FORMS.iter().map(|(call, _)| super::called(call));
        let forms: HashSet<&str> = forms.collect();
        let all: HashSet<&str> = names().collect();
        let renamed = NAMES.iter().map(|(name, _)| *name);
        assert!(renamed.clone().all(|name| !forms.contains(name)));
        assert_eq!(renamed.collect::<HashSet<_>>().len(), NAMES.len());
        assert!(all.contains("date_add") && all.contains("struct_pack"));
    }
}
