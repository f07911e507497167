//! Types of numbers that DataFusion would bring together with a loss, and keys of windows that it refuses; comes before
//! types are coerced.
//!
//! - Decimals of 32 and 64 bits become those of 128 beside an integer: DataFusion makes them integers.
//! - A decimal and a double are compared as doubles. DataFusion makes a decimal with 15 digits behind the point of the
//!   double, which fails above 1e15 and takes 1e-20 for zero. A literal that such a decimal holds stays one: `0.05` is
//!   compared as it is written.
//! - Windows that are ordered by a time, bytes, an interval, a struct or a map have frames of peers ([`is_of_peers`]).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, WindowFrameBound, WindowFrameUnits,
    cast,
};

use super::walk::{any_node, change_parts, holds_any};

/// The digits behind the point with which DataFusion compares a double and a decimal, and those before it.
const DIGITS: usize = 15;

/// Functions that give one of their arguments.
const CHOICES: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Gives such numbers and windows the types that they need.
pub(super) fn type_numbers(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    let concerns = |node: &LogicalPlan| {
        let mut fields = node.schema().fields().iter();
        Ok(fields.any(|field| is_decimal(field.data_type()))
            || holds_any(node, |expr| match expr {
                Expr::Cast(cast) => is_decimal(cast.field.data_type()),
                Expr::WindowFunction(window) => has_peers(window),
                _ => false,
            })?)
    };
    match any_node(&plan, concerns)? {
        true => change_parts(plan, change),
        false => Ok(plan),
    }
}

fn change(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Transformed {
        data: expr,
        transformed: is_wider,
        ..
    } = widen(expr, schema);
    match expr {
        Expr::BinaryExpr(mut binary) if is_comparison(binary.op) => {
            let changed = compare(&mut binary, schema);
            Ok(with(changed || is_wider, Expr::BinaryExpr(binary)))
        }
        Expr::InList(mut list) => {
            let mut others = list.list.iter();
            let changed = is_decimal_of(&list.expr, schema)
                && others.any(|other| is_double(other, schema))
                || is_double(&list.expr, schema)
                    && others.any(|other| is_decimal_of(other, schema));
            if changed {
                to_double(&mut list.expr);
                list.list.iter_mut().for_each(to_double);
            }
            Ok(with(changed || is_wider, Expr::InList(list)))
        }
        Expr::Between(mut between) => {
            let parts = [&between.expr, &between.low, &between.high];
            let changed = parts.iter().any(|part| is_decimal_of(part, schema))
                && parts.iter().any(|part| is_double(part, schema));
            if changed {
                to_double(&mut between.expr);
                to_double(&mut between.low);
                to_double(&mut between.high);
            }
            Ok(with(changed || is_wider, Expr::Between(between)))
        }
        Expr::WindowFunction(mut window) => {
            let changed = has_peers(&window) && is_of_peers(&window, schema);
            if changed {
                window.params.window_frame.units = WindowFrameUnits::Groups;
            }
            Ok(with(changed || is_wider, Expr::WindowFunction(window)))
        }
        expr => Ok(with(is_wider, expr)),
    }
}

/// Makes wide decimals of those of 32 and 64 bits that are brought together with integers.
fn widen(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut parts: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) => vec![&mut binary.left, &mut binary.right],
        Expr::InList(list) => std::iter::once(&mut *list.expr)
            .chain(&mut list.list)
            .collect(),
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::ScalarFunction(call) if CHOICES.contains(&call.func.name()) => {
            call.args.iter_mut().collect()
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
            results.chain(case.else_expr.as_deref_mut()).collect()
        }
        _ => return Transformed::no(expr),
    };
    let types: Vec<_> = parts
        .iter()
        .map(|part| part.get_type(schema).ok())
        .collect();
    let mut known = types.iter().flatten();
    if !known.any(DataType::is_integer) {
        return Transformed::no(expr);
    }
    let mut is_wider = false;
    for (part, kind) in parts.iter_mut().zip(types) {
        if let Some(DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale)) =
            kind
        {
            let wide = DataType::Decimal128(precision, scale);
            **part = cast(std::mem::take(*part), wide);
            is_wider = true;
        }
    }
    with(is_wider, expr)
}

fn with(changed: bool, expr: Expr) -> Transformed<Expr> {
    match changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    }
}

/// Tells whether an operator compares two values.
pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// Makes doubles of a decimal and a double that are compared; returns whether they are.
fn compare(binary: &mut BinaryExpr, schema: &DFSchema) -> bool {
    let (left, right) = (&binary.left, &binary.right);
    let are_such = is_decimal_of(left, schema) && is_double(right, schema)
        || is_double(left, schema) && is_decimal_of(right, schema);
    if are_such {
        to_double(&mut binary.left);
        to_double(&mut binary.right);
    }
    are_such
}

fn to_double(expr: &mut Expr) {
    *expr = cast(std::mem::take(expr), DataType::Float64);
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
    )
}

fn is_decimal_of(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|kind| is_decimal(&kind))
}

/// Tells whether an expression is a double that a decimal need not hold: one of a column, or a literal with more digits.
/// What is computed of decimals and literals is compared with a decimal as one.
fn is_double(expr: &Expr, schema: &DFSchema) -> bool {
    let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|kind| kind.is_floating());
    if !is_float(expr) {
        return false;
    }
    let holds = |part: &Expr| match part {
        Expr::Column(_) => is_float(part),
        Expr::Cast(cast) => cast.field.data_type().is_floating(),
        Expr::Literal(value, _) => !is_decimal_number(value),
        _ => false,
    };
    expr.exists(|part| Ok(holds(part))).unwrap_or(false)
}

/// Tells whether a literal is no double, or one that a decimal with [`DIGITS`] behind the point holds.
fn is_decimal_number(value: &ScalarValue) -> bool {
    let ScalarValue::Float64(Some(number)) = value else {
        return true;
    };
    let text = format!("{number:.DIGITS$}");
    number.abs() < 1e15 && text.parse() == Ok(*number)
}

/// Tells whether a window's frame is bounded by peers alone.
fn has_peers(window: &WindowFunction) -> bool {
    let frame = &window.params.window_frame;
    let is_of_peers = |bound: &WindowFrameBound| {
        bound.is_unbounded() || matches!(bound, WindowFrameBound::CurrentRow)
    };
    frame.units == WindowFrameUnits::Range
        && is_of_peers(&frame.start_bound)
        && is_of_peers(&frame.end_bound)
}

/// Tells whether a window is ordered by a key for whose type DataFusion has no RANGE, though none is computed: GROUPS
/// has the same peers.
fn is_of_peers(window: &WindowFunction, schema: &DFSchema) -> bool {
    let key = window.params.order_by.first();
    let kind = key.and_then(|key| key.expr.get_type(schema).ok());
    matches!(
        kind,
        Some(
            DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Interval(_)
                | DataType::Duration(_)
                | DataType::Struct(_)
                | DataType::Map(..)
        )
    )
}
