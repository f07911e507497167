//! Times of day of different units, bytes of different widths, and truths beside numbers, in comparisons.
//!
//! DataFusion knows no type that two of them have in common. Times become those of the finer unit, bytes such of any width.
//! Beside a number `true` is 1, as in DuckDB, where it is compared by `=` or `<>`.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use sqlparser::ast::BinaryOperator;

use super::operators::Planned;

/// Tells whether a type is a time of day or of bytes of one width.
pub(crate) fn is_such(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Time32(_) | DataType::Time64(_) | DataType::FixedSizeBinary(_)
    )
}

/// Returns the type that values of different types have in common; `None` where DataFusion knows it, or there is none.
pub(crate) fn common_type<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    let types: Vec<&DataType> = types.into_iter().filter(|given| !given.is_null()).collect();
    let (first, others) = types.split_first()?;
    if others.iter().all(|other| other == first) {
        return None;
    }
    let common = others
        .iter()
        .try_fold(DataType::clone(first), |common, other| {
            in_common(&common, other)
        })?;
    // DataFusion compares bytes of one width with those of any.
    let mut fixed = types
        .iter()
        .filter(|given| matches!(given, DataType::FixedSizeBinary(_)));
    let width = fixed.next();
    let is_unknown = common != DataType::Binary || fixed.any(|other| Some(other) != width);
    is_unknown.then_some(common)
}

fn in_common(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Binary, FixedSizeBinary, Time32, Time64};
    Some(match (one, other) {
        (one, other) if one == other => one.clone(),
        (Time32(one) | Time64(one), Time32(other) | Time64(other)) => {
            let unit = match fineness(*one) > fineness(*other) {
                true => *one,
                false => *other,
            };
            match unit {
                TimeUnit::Second | TimeUnit::Millisecond => Time32(unit),
                TimeUnit::Microsecond | TimeUnit::Nanosecond => Time64(unit),
            }
        }
        (FixedSizeBinary(_), FixedSizeBinary(_) | Binary) | (Binary, FixedSizeBinary(_)) => Binary,
        _ => return None,
    })
}

fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// Plans comparisons of such values.
pub(crate) fn plan(mut expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
    if !is_comparison(&expr.op) {
        return Ok(PlannerResult::Original(expr));
    }
    // What has no type yet is none of these.
    let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
        return Ok(PlannerResult::Original(expr));
    };
    if let Some(common) = common_type([&left, &right]) {
        expr.left = as_type(expr.left, &left, &common);
        expr.right = as_type(expr.right, &right, &common);
    }
    if matches!(expr.op, BinaryOperator::Eq | BinaryOperator::NotEq) {
        match (&left, &right) {
            (DataType::Boolean, other) if other.is_numeric() => {
                expr.left = cast(expr.left, DataType::Int8);
            }
            (other, DataType::Boolean) if other.is_numeric() => {
                expr.right = cast(expr.right, DataType::Int8);
            }
            _ => {}
        }
    }
    Ok(PlannerResult::Original(expr))
}

fn as_type(expr: Expr, given: &DataType, wanted: &DataType) -> Expr {
    match given == wanted {
        true => expr,
        false => cast(expr, wanted.clone()),
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

#[cfg(test)]
mod tests {
    use super::{DataType, TimeUnit, common_type};

    #[test]
    fn times_take_the_finer_unit_and_bytes_any_width() {
        use DataType::{Binary, FixedSizeBinary, Int64, Null, Time32, Time64};
        let micros = Time64(TimeUnit::Microsecond);
        let nanos = Time64(TimeUnit::Nanosecond);
        let seconds = Time32(TimeUnit::Second);
        let millis = Time32(TimeUnit::Millisecond);
        assert_eq!(common_type([&micros, &nanos]), Some(nanos.clone()));
        assert_eq!(
            common_type([&millis, &Null, &seconds]),
            Some(millis.clone())
        );
        assert_eq!(
            common_type([&micros, &seconds, &millis]),
            Some(micros.clone())
        );
        let (two, three) = (FixedSizeBinary(2), FixedSizeBinary(3));
        assert_eq!(common_type([&two, &three]), Some(Binary));
        assert_eq!(common_type([&two, &two, &three, &Binary]), Some(Binary));
        for known in [[&micros, &micros], [&micros, &Null], [&Int64, &micros]] {
            assert_eq!(common_type(known), None, "{known:?}");
        }
        assert_eq!(common_type([&two, &Binary]), None);
        assert_eq!(common_type(std::iter::empty::<&DataType>()), None);
    }
}
