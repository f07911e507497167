//! Which expressions may raise an error for some row.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr as PhysicalBinary, CastExpr, Literal, NegativeExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::functions::cast_texts;
use crate::functions::custom::RustFunction;

/// Returns whether computing `expr` may raise for a row of `schema`. What is not known here may.
pub(super) fn may_raise(expr: &Expr, schema: &DFSchema) -> bool {
    let inner_may = |inner: &Expr| may_raise(inner, schema);
    match expr {
        Expr::Column(_)
        | Expr::Literal(..)
        | Expr::OuterReferenceColumn(..)
        | Expr::Placeholder(_)
        | Expr::ScalarVariable(..) => false,
        Expr::Alias(alias) => inner_may(&alias.expr),
        Expr::Not(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsNotUnknown(inner) => inner_may(inner),
        Expr::Negative(inner) => !wraps(expr, schema) || inner_may(inner),
        Expr::TryCast(cast) => inner_may(&cast.expr),
        Expr::ScalarFunction(call) if cast_texts::is_call(expr) => call.args.iter().any(inner_may),
        Expr::Cast(cast) => {
            let to = cast.field.data_type();
            let from = cast.expr.get_type(schema);
            !from.is_ok_and(|from| always_casts(&from, to)) || inner_may(&cast.expr)
        }
        Expr::BinaryExpr(binary) => binary_may_raise(binary, expr, schema),
        Expr::Between(between) => {
            inner_may(&between.expr) || inner_may(&between.low) || inner_may(&between.high)
        }
        Expr::Like(like) => inner_may(&like.expr) || inner_may(&like.pattern),
        Expr::InList(in_list) => inner_may(&in_list.expr) || in_list.list.iter().any(inner_may),
        Expr::Case(case) => {
            let mut branches = case.when_then_expr.iter();
            case.expr.as_deref().is_some_and(inner_may)
                || branches.any(|(when, then)| inner_may(when) || inner_may(then))
                || case.else_expr.as_deref().is_some_and(inner_may)
        }
        _ => true,
    }
}

fn binary_may_raise(binary: &BinaryExpr, expr: &Expr, schema: &DFSchema) -> bool {
    let raises = match binary.op {
        Operator::Plus | Operator::Minus | Operator::Multiply => !wraps(expr, schema),
        Operator::Divide | Operator::Modulo => {
            let data_type = expr.get_type(schema);
            !data_type.is_ok_and(|data_type| data_type.is_floating())
        }
        Operator::And
        | Operator::Or
        | Operator::Eq
        | Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::IsDistinctFrom
        | Operator::IsNotDistinctFrom
        | Operator::StringConcat => false,
        _ => true,
    };
    raises || may_raise(&binary.left, schema) || may_raise(&binary.right, schema)
}

/// Returns whether values of this expression are integers, which wrap, or floats.
fn wraps(expr: &Expr, schema: &DFSchema) -> bool {
    let data_type = expr.get_type(schema);
    data_type.is_ok_and(|data_type| data_type.is_integer() || data_type.is_floating())
}

/// Returns whether every value of a type has an image in the other.
fn always_casts(from: &DataType, to: &DataType) -> bool {
    let is_text = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    let width = |data_type: &DataType| data_type.primitive_width();
    from == to
        || (is_text(from) && is_text(to))
        || widens_decimal(from, to)
        || (to.is_floating() && from.is_numeric())
        || (from.is_signed_integer() && to.is_signed_integer() && width(from) <= width(to))
        || (from.is_unsigned_integer() && to.is_unsigned_integer() && width(from) <= width(to))
        || (from.is_unsigned_integer() && to.is_signed_integer() && width(from) < width(to))
}

fn widens_decimal(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision), i16::from(*scale)))
        }
        _ => None,
    };
    let (Some((precision, scale)), Some((to_precision, to_scale))) = (digits(from), digits(to))
    else {
        return false;
    };
    to_scale >= scale && to_precision - to_scale >= precision - scale
}

/// Functions of DataFusion's that raise for values of their arguments. Devices have none of them.
const RAISING_FUNCTIONS: [&str; 6] = [
    "arrow_cast",
    "make_date",
    "chr",
    "factorial",
    "value_of_text",
    "as_json",
];

/// Returns whether computing a physical expression may raise for a row of `schema`. Most functions are
/// taken not to: the host alone runs them.
pub(super) fn may_raise_at_run_time(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let raises = |part: &Arc<dyn PhysicalExpr>| Ok(part_raises(part, schema));
    expr.exists(raises).unwrap_or(true)
}

fn part_raises(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let wraps = |expr: &Arc<dyn PhysicalExpr>| {
        let data_type = expr.data_type(schema);
        data_type.is_ok_and(|data_type| data_type.is_integer() || data_type.is_floating())
    };
    if let Some(binary) = expr.downcast_ref::<PhysicalBinary>() {
        return match binary.op() {
            Operator::Plus | Operator::Minus | Operator::Multiply => !wraps(expr),
            Operator::Divide | Operator::Modulo => {
                let data_type = expr.data_type(schema);
                let is_float = data_type.is_ok_and(|data_type| data_type.is_floating());
                let is_safe = wraps(expr) && divides_safely(binary.right());
                !is_float && !is_safe
            }
            _ => false,
        };
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        let always = from.is_ok_and(|from| always_casts(&from, cast.cast_type()));
        return !always && !cast.cast_options().safe;
    }
    if expr.is::<NegativeExpr>() {
        return !wraps(expr);
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let name = call.name();
        return RustFunction::of(call.fun()).is_some()
            || name.starts_with("to_")
            || RAISING_FUNCTIONS.contains(&name);
    }
    false
}

/// Returns whether an integer can be divided by this: a constant other than 0 and −1.
fn divides_safely(divisor: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(literal) = divisor.downcast_ref::<Literal>() else {
        return false;
    };
    let value = literal.value().cast_to(&DataType::Int64);
    matches!(value, Ok(datafusion::common::ScalarValue::Int64(Some(value))) if value != 0 && value != -1)
}
