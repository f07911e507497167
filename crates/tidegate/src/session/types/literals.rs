//! Text in statements that DataFusion does not read: timestamps beyond the years of nanoseconds, without seconds, and with
//! dates such as `2024/1/5`, clocks of intervals, and numbers that are rounded where they are cast to an integer.
//!
//! DataFusion reads each `TIMESTAMP '…'` as nanoseconds, which hold the years 1677 to 2262, and then
//! casts it to the type of the column that it is for. Where rows are changed, [`timestamps_of_columns`] reads
//! such a literal in the column's unit at once. [`texts_as_read`] has whatever is cast to a date, a timestamp, an interval
//! or an integer be written as Arrow reads it ([`cast_texts`]): a literal is written so, and the values of any other text
//! go through a function. What `to_timestamp` reads without a format is as if it were cast.

use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};

use crate::accounted::returned::returns_rows;
use crate::functions::cast_texts::{self, Form};
use crate::functions::times;
use crate::rewrite::walk::{any_expression, change_named};

/// Reads timestamps in the unit of the column that they are for.
pub(in crate::session) fn timestamps_of_columns(
    plan: LogicalPlan,
    _: &ConfigOptions,
) -> Result<LogicalPlan> {
    if !matches!(plan, LogicalPlan::Dml(_)) && !returns_rows(&plan) {
        return Ok(plan);
    }
    let rewritten = plan.transform_up(|plan| {
        plan.map_expressions(|expr| expr.transform_up(|expr| Ok(read_at_once(expr))))
    });
    Ok(rewritten?.data)
}

/// Drops the inner of two casts if it cannot succeed.
fn read_at_once(expr: Expr) -> Transformed<Expr> {
    let Expr::Cast(outer) = expr else {
        return Transformed::no(expr);
    };
    let is_coarse = matches!(
        outer.field.data_type(),
        DataType::Timestamp(unit, None) if *unit != TimeUnit::Nanosecond
    );
    match *outer.expr {
        Expr::Cast(inner) if is_coarse && is_beyond_nanoseconds(&inner) => {
            Transformed::yes(Expr::Cast(Cast {
                expr: inner.expr,
                field: outer.field,
            }))
        }
        other => Transformed::no(Expr::Cast(Cast {
            expr: Box::new(other),
            field: outer.field,
        })),
    }
}

fn is_beyond_nanoseconds(cast: &Cast) -> bool {
    let to_nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let Expr::Literal(text, _) = cast.expr.as_ref() else {
        return false;
    };
    let text = text.try_as_str().flatten();
    *cast.field.data_type() == to_nanoseconds
        && text.is_some_and(|text| string_to_timestamp_nanos(text).is_err())
}

/// Writes text that is cast as Arrow reads it; comes after types are coerced.
pub(in crate::session) fn texts_as_read(
    plan: LogicalPlan,
    _: &ConfigOptions,
) -> Result<LogicalPlan> {
    // Most plans have no text that is cast to such a type.
    if !any_expression(&plan, |part| text_of(part).is_some())? {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let schema = schema_below(&node);
        change_named(node, |expr| {
            expr.transform_up(|part| Ok(with_text(part, &schema)))
        })
    });
    rewritten.data()
}

/// Returns the columns that a node's expressions are of.
fn schema_below(node: &LogicalPlan) -> DFSchema {
    match node {
        // Its filters are of the table's columns, not only of those that it hands on.
        LogicalPlan::TableScan(scan) => {
            let schema = scan.source.schema();
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &schema)
                .unwrap_or_else(|_| DFSchema::empty())
        }
        node => merge_schema(&node.inputs()),
    }
}

fn with_text(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Some(text) = text_of(&expr).and_then(|(text, form)| written(text, form, schema)) else {
        return Transformed::no(expr);
    };
    let text = Box::new(text);
    Transformed::yes(match expr {
        Expr::ScalarFunction(call) => Expr::ScalarFunction(ScalarFunction {
            args: vec![*text],
            ..call
        }),
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr: text, field }),
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr: text, field }),
        other => other,
    })
}

/// Returns what an expression reads, which may be text, and the form that the text has to have.
fn text_of(expr: &Expr) -> Option<(&Expr, Form)> {
    let (inner, field) = match expr {
        Expr::ScalarFunction(call) => {
            return match call.args.as_slice() {
                [text] if times::PARSERS.contains(&call.func.name()) => Some((text, Form::Time)),
                _ => None,
            };
        }
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        _ => return None,
    };
    let is_number =
        matches!(**inner, Expr::Literal(ref value, _) if !value.data_type().is_string());
    let form = Form::of(field.data_type())?;
    (!is_number).then_some((inner.as_ref(), form))
}

/// Returns a text in a form, if it may have another one.
fn written(text: &Expr, form: Form, schema: &DFSchema) -> Option<Expr> {
    if let Expr::Literal(text, _) = text {
        let written = form.written(text.try_as_str().flatten()?)?;
        return Some(Expr::Literal(ScalarValue::from(written), None));
    }
    if cast_texts::is_call(text) {
        return None;
    }
    match text.get_type(schema).ok()? {
        DataType::Utf8View => Some(form.call(text.clone())),
        DataType::Utf8 | DataType::LargeUtf8 => {
            let view = Cast::new(Box::new(text.clone()), DataType::Utf8View);
            Some(form.call(Expr::Cast(view)))
        }
        _ => None,
    }
}
