//! JSON in strings: functions that read it and make it, and the operators `->` and `->>`.
//!
//! As in PostgreSQL and DuckDB, `->` gives what lies under a key or an index as JSON, and `->>` as text; what is
//! not there is NULL. A key that begins with `$` is a path, `doc ->> '$.items[0].name'`, and one that begins with `/` a
//! pointer of RFC 6901, `doc ->> '/items/0/name'`, as in DuckDB. A string that is no JSON is an error.

mod all;
mod checked;
mod made;
mod nodes;
mod trees;
mod walk;

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int64Builder, ListBuilder, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{DFSchema, exec_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, lit};
use sqlparser::ast::BinaryOperator;

use super::operators::{Operators, Planned};
use super::plain::{self, Parts};
pub(crate) use trees::{elements, members};
pub(crate) use walk::has_wildcard;
use walk::{Step, each_element, each_key, is_json, length, steps, text, walk};

/// Adds the functions and the operators.
pub(crate) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let reading = Kind::ALL.map(function);
    let others = trees::functions().into_iter().chain([made::function()]);
    let others = others.chain(checked::functions()).chain(nodes::functions());
    let others = others.chain([all::of_json(), all::of_text()]);
    for function in reading.into_iter().chain(others) {
        registry.register_udf(Arc::new(function))?;
    }
    registry.register_expr_planner(Arc::new(Operators(plan)))
}

/// Returns the call that gives what lies at a path, as JSON.
pub(crate) fn extract(args: Vec<Expr>) -> Expr {
    function(Kind::Extract).call(args)
}

/// Functions that give JSON.
const GIVING_JSON: [&str; 7] = [
    "as_json",
    "try_as_json",
    "json",
    "json_extract",
    "json_merge_patch",
    "json_structure",
    "to_json",
];

/// Tells whether an expression is a call that gives JSON.
pub(crate) fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_call(&alias.expr),
        Expr::ScalarFunction(call) => GIVING_JSON.contains(&call.func.name()),
        _ => false,
    }
}

/// Returns what a call gives that gives JSON, as text: a string without its quotes, NULL of null; `None` of any other
/// expression.
pub(crate) fn text_of_call(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Alias(alias) => text_of_call(&alias.expr),
        Expr::ScalarFunction(call) if call.func.name() == Kind::Extract.name() => {
            Some(function(Kind::Text).call(call.args.clone()))
        }
        expr if is_call(expr) => Some(function(Kind::Text).call(vec![expr.clone(), lit("$")])),
        _ => None,
    }
}

/// What a function reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What lies at a path, as JSON.
    Extract,
    /// What lies at a path, as text.
    Text,
    /// The number of values of an array.
    Length,
    /// The names in an object.
    Keys,
    /// The values of an array.
    Elements,
    /// Whether it is JSON.
    Valid,
    /// What lies at a path, as DuckDB calls its type.
    Type,
    /// Whether anything lies at a path.
    Exists,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Extract,
        Self::Text,
        Self::Length,
        Self::Keys,
        Self::Elements,
        Self::Valid,
        Self::Type,
        Self::Exists,
    ];

    /// Returns the function's names, the first being its own.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Extract => &["json_extract", "json_extract_path", "json_query"],
            Self::Text => &[
                "json_extract_string",
                "json_extract_path_text",
                "json_extract_scalar",
                "json_value",
                "get_json_object",
            ],
            Self::Length => &["json_array_length", "json_length"],
            Self::Keys => &["json_keys", "json_object_keys"],
            Self::Elements => &["json_list"],
            Self::Valid => &["json_valid"],
            Self::Type => &["json_type"],
            Self::Exists => &["json_exists"],
        }
    }

    fn name(self) -> &'static str {
        self.names().first().copied().unwrap_or_default()
    }

    fn returns(self) -> DataType {
        let string = || Arc::new(Field::new_list_field(DataType::Utf8View, true));
        match self {
            Self::Extract | Self::Text | Self::Type => DataType::Utf8View,
            Self::Length => DataType::Int64,
            Self::Keys | Self::Elements => DataType::List(string()),
            Self::Valid | Self::Exists => DataType::Boolean,
        }
    }

    fn takes(self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let Some((json, path)) = types.split_first() else {
            return plan_err!("{name} takes a string of JSON");
        };
        if !(json.is_string() || json.is_null()) {
            return plan_err!("{name} takes a string of JSON, and was given {json}");
        }
        if matches!(self, Self::Extract | Self::Text | Self::Exists) && path.is_empty() {
            return plan_err!("{name} takes a string of JSON and a key, an index or a path");
        }
        if self == Self::Valid && !path.is_empty() {
            return plan_err!("{name} takes a string alone");
        }
        let mut coerced = vec![DataType::Utf8View];
        for step in path {
            match step {
                step if step.is_string() || step.is_null() => coerced.push(DataType::Utf8View),
                step if step.is_integer() => coerced.push(DataType::Int64),
                other => {
                    return plan_err!(
                        "{name}: a key is a string and an index an integer, not {other}"
                    );
                }
            }
        }
        Ok(coerced)
    }
}

/// Returns the function of a string of JSON and, perhaps, of the steps to what is wanted in it.
fn function(kind: Kind) -> ScalarUDF {
    macro_rules! parts {
        ($kind:ident, $syntax:literal, $description:literal) => {
            Parts {
                names: Kind::$kind.names(),
                section: DOC_SECTION_STRING,
                description: $description,
                syntax: $syntax,
                takes: |given| Kind::$kind.takes(given),
                returns: |_| Kind::$kind.returns(),
                computes: |given| evaluate(Kind::$kind, given),
            }
        };
    }
    plain::function(match kind {
        Kind::Extract => parts!(
            Extract,
            "json_extract(json, path)",
            "Returns what lies at a path, as JSON."
        ),
        Kind::Text => parts!(
            Text,
            "json_extract_string(json, path)",
            "Returns what lies at a path, as text."
        ),
        Kind::Length => parts!(
            Length,
            "json_array_length(json[, path])",
            "Counts the values of an array."
        ),
        Kind::Keys => parts!(
            Keys,
            "json_keys(json[, path])",
            "Returns the names in an object."
        ),
        Kind::Elements => parts!(
            Elements,
            "json_list(json[, path])",
            "Returns the values of an array."
        ),
        Kind::Valid => parts!(Valid, "json_valid(s)", "Tells whether a string is JSON."),
        Kind::Type => parts!(
            Type,
            "json_type(json[, path])",
            "Returns the type of a value: OBJECT, ARRAY, VARCHAR, UBIGINT, BIGINT, DOUBLE, BOOLEAN or NULL."
        ),
        Kind::Exists => parts!(
            Exists,
            "json_exists(json, path)",
            "Tells whether anything lies at a path."
        ),
    })
}

fn evaluate(kind: Kind, given: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((json, path)) = given.split_first() else {
        return exec_err!("{} was given no arguments", kind.name());
    };
    let json = json.as_string_view();
    let found = |row: usize| -> Result<Option<&str>> {
        if json.is_null(row) {
            return Ok(None);
        }
        match steps_of(path, row)? {
            Some(steps) => walk(json.value(row), &steps).map_err(DataFusionError::from),
            None => Ok(None),
        }
    };
    let rows = 0..json.len();
    Ok(match kind {
        Kind::Extract | Kind::Text => {
            let mut values = StringViewBuilder::with_capacity(json.len());
            for row in rows {
                match (found(row)?, kind) {
                    (Some(value), Kind::Text) => values.append_option(text(value)?),
                    (value, _) => values.append_option(value),
                }
            }
            Arc::new(values.finish())
        }
        Kind::Length => {
            let mut lengths = Int64Builder::with_capacity(json.len());
            for row in rows {
                let number = found(row)?.map(length).transpose()?.flatten();
                lengths.append_option(number.and_then(|number| i64::try_from(number).ok()));
            }
            Arc::new(lengths.finish())
        }
        Kind::Keys | Kind::Elements => {
            let mut lists = ListBuilder::new(StringViewBuilder::new());
            for row in rows {
                let Some(value) = found(row)? else {
                    lists.append_null();
                    continue;
                };
                let take = |item: &str| lists.values().append_value(item);
                let is_list = match kind {
                    Kind::Keys => each_key(value, take)?.is_some(),
                    _ => each_element(value, take)?.is_some(),
                };
                lists.append(is_list);
            }
            Arc::new(lists.finish())
        }
        Kind::Type => {
            let mut types = StringViewBuilder::with_capacity(json.len());
            for row in rows {
                types.append_option(found(row)?.map(trees::type_of));
            }
            Arc::new(types.finish())
        }
        Kind::Exists => {
            let mut exists = BooleanBuilder::with_capacity(json.len());
            for row in rows {
                let is_null = json.is_null(row) || path.iter().any(|step| step.is_null(row));
                let is_there = found(row)?.is_some();
                exists.append_option((!is_null).then_some(is_there));
            }
            Arc::new(exists.finish())
        }
        Kind::Valid => {
            let mut valid = BooleanBuilder::with_capacity(json.len());
            for row in rows {
                valid.append_option(json.is_valid(row).then(|| is_json(json.value(row))));
            }
            Arc::new(valid.finish())
        }
    })
}

/// Reads the steps of a row; `None` if one of them is NULL.
fn steps_of(path: &[ArrayRef], row: usize) -> Result<Option<Vec<Step<'_>>>> {
    let mut all = Vec::with_capacity(path.len());
    for step in path {
        if step.is_null(row) {
            return Ok(None);
        }
        match step.data_type() {
            DataType::Int64 => all.push(Step::Index(step.as_primitive::<Int64Type>().value(row))),
            _ => steps(step.as_string_view().value(row), &mut all)?,
        }
    }
    Ok(Some(all))
}

/// Plans `->` and `->>`.
fn plan(expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
    let (kind, sign) = match expr.op {
        BinaryOperator::Arrow => (Kind::Extract, "->"),
        BinaryOperator::LongArrow => (Kind::Text, "->>"),
        _ => return Ok(PlannerResult::Original(expr)),
    };
    let name = format!("{} {sign} {}", name_of(&expr.left), name_of(&expr.right));
    let call = if is_several(&expr.right, schema) {
        let function = match kind {
            Kind::Extract => all::of_json(),
            _ => all::of_text(),
        };
        function.call(vec![expr.left, expr.right])
    } else {
        let mut args = path(expr.left);
        args.push(expr.right);
        function(kind).call(args)
    };
    Ok(PlannerResult::Planned(call.alias(name)))
}

/// Tells whether a path leads to several values, or is a list of paths.
fn is_several(path: &Expr, schema: &DFSchema) -> bool {
    match path {
        Expr::Literal(value, _) if value.data_type().is_string() => {
            value.try_as_str().flatten().is_some_and(has_wildcard)
        }
        path => matches!(path.get_type(schema), Ok(DataType::List(_))),
    }
}

/// Returns the arguments of a `->` inside, so that a path is walked at once and not key by key.
fn path(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::Alias(alias) => match *alias.expr {
            Expr::ScalarFunction(call) if call.func.name() == Kind::Extract.name() => call.args,
            inner => vec![inner],
        },
        other => vec![other],
    }
}

/// Writes an operand as the statement has it.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => column.name.clone(),
        Expr::Alias(alias) => alias.name.clone(),
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => format!("'{text}'"),
            _ => value.to_string(),
        },
        other => other.schema_name().to_string(),
    }
}
