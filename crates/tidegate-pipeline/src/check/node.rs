//! One rule for each kind of node, given that its children are right.

use arrow_schema::DataType;

use super::cast::cast_rule;
use super::decimal::decimal_arithmetic;
use super::{Unsupported, supported_type};
use crate::custom::CustomFunction;
use crate::expr::{ArithmeticOp, CompareOp, DatePart, Expr, ExprKind};
use crate::types::{Decimal, is_float, is_string, same_values};

/// Checks one node against the types of its children.
pub(super) fn check_node(expr: &Expr) -> Result<(), Unsupported> {
    let data_type = &expr.data_type;
    supported_type(data_type)?;
    match &expr.kind {
        ExprKind::Column(_) | ExprKind::Parameter(_) => Ok(()),
        ExprKind::Arithmetic { op, left, right } => {
            let (left, right) = (&left.data_type, &right.data_type);
            let given = arithmetic_type(*op, left, right)?;
            declared(&format!("{left} {op} {right}"), &given, data_type)
        }
        ExprKind::Compare { op, left, right } => {
            check_compare(*op, &left.data_type, &right.data_type)?;
            boolean("a comparison", data_type)
        }
        ExprKind::And(left, right) | ExprKind::Or(left, right) => {
            boolean(
                "an operand of a conjunction or disjunction",
                &left.data_type,
            )?;
            boolean(
                "an operand of a conjunction or disjunction",
                &right.data_type,
            )?;
            boolean("a conjunction or disjunction", data_type)
        }
        ExprKind::Not(inner) => {
            boolean("the operand of NOT", &inner.data_type)?;
            boolean("NOT", data_type)
        }
        ExprKind::Negate(inner) => {
            check_negate(&inner.data_type)?;
            declared("a negation", &inner.data_type, data_type)
        }
        ExprKind::IsNull(_) | ExprKind::IsNotNull(_) => boolean("IS NULL", data_type),
        ExprKind::Case {
            branches,
            otherwise,
        } => check_case(branches, otherwise.as_deref(), data_type),
        ExprKind::InList { expr, list, .. } => {
            check_in_list(&expr.data_type, list)?;
            boolean("IN", data_type)
        }
        ExprKind::Cast { expr, on_failure } => {
            cast_rule(&expr.data_type, data_type, *on_failure).map(|_| ())
        }
        ExprKind::DatePart { part, expr } => check_date_part(*part, &expr.data_type, data_type),
        ExprKind::Like { expr, pattern, .. } => {
            string("LIKE", &expr.data_type)?;
            string("the pattern of LIKE", &pattern.data_type)?;
            boolean("LIKE", data_type)
        }
        ExprKind::Substring {
            expr,
            start,
            length,
        } => check_substring(&expr.data_type, *start, *length, data_type),
        ExprKind::Custom { function, args } => check_custom(function, args, data_type),
    }
}

fn check_custom(
    function: &CustomFunction,
    args: &[Expr],
    data_type: &DataType,
) -> Result<(), Unsupported> {
    function.check()?;
    let name = &function.name;
    if args.len() != function.arguments.len() {
        return Err(Unsupported::new(format!(
            "{name} of {} arguments",
            args.len()
        )));
    }
    for (arg, (argument, wanted)) in args.iter().zip(&function.arguments) {
        declared(
            &format!("argument {argument} of {name}"),
            &arg.data_type,
            wanted,
        )?;
    }
    declared(name, &function.returns, data_type)
}

/// Returns the type that Arrow's kernels, as DataFusion calls them, give for `left op right`.
fn arithmetic_type(
    op: ArithmeticOp,
    left: &DataType,
    right: &DataType,
) -> Result<DataType, Unsupported> {
    use arrow_schema::DataType::{Date32, Date64, Duration, Int64, Interval, Timestamp};

    if left == right && (left.is_integer() || is_float(left)) {
        return Ok(left.clone());
    }
    if let (Some(left), Some(right)) = (Decimal::of(left), Decimal::of(right)) {
        return decimal_arithmetic(op, left, right);
    }
    let add = op == ArithmeticOp::Add;
    let subtract = op == ArithmeticOp::Subtract;
    let zoned = |data_type: &DataType| matches!(data_type, Timestamp(_, Some(_)));
    match (left, right) {
        (Interval(_), zone) | (zone, Interval(_)) if zoned(zone) => Err(Unsupported::new(format!(
            "{left} {op} {right}: interval arithmetic in a time zone"
        ))),
        (Date32, Date32) | (Date64, Date64) if subtract => Ok(Int64),
        (Date32 | Date64 | Timestamp(_, None), Interval(_)) if add || subtract => Ok(left.clone()),
        (Interval(_), Date32 | Date64 | Timestamp(_, None)) if add => Ok(right.clone()),
        (Timestamp(unit, _), Timestamp(_, _)) if subtract && left == right => Ok(Duration(*unit)),
        (Timestamp(unit, _), Duration(by)) if (add || subtract) && unit == by => Ok(left.clone()),
        (Duration(by), Timestamp(unit, _)) if add && unit == by => Ok(right.clone()),
        (Duration(_), Duration(_)) | (Interval(_), Interval(_))
            if (add || subtract) && left == right =>
        {
            Ok(left.clone())
        }
        _ => Err(Unsupported::new(format!("{left} {op} {right}"))),
    }
}

fn check_compare(op: CompareOp, left: &DataType, right: &DataType) -> Result<(), Unsupported> {
    if same_values(left, right) {
        return Ok(());
    }
    Err(Unsupported::new(format!("{left} {op} {right}")))
}

fn check_negate(data_type: &DataType) -> Result<(), Unsupported> {
    let negatable = data_type.is_signed_integer()
        || is_float(data_type)
        || Decimal::of(data_type).is_some()
        || matches!(data_type, DataType::Duration(_) | DataType::Interval(_));
    if negatable {
        return Ok(());
    }
    Err(Unsupported::new(format!("negation of {data_type}")))
}

fn check_case(
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    data_type: &DataType,
) -> Result<(), Unsupported> {
    if branches.is_empty() {
        return Err(Unsupported::new("case without a branch"));
    }
    for (condition, _) in branches {
        boolean("a condition of CASE", &condition.data_type)?;
    }
    for value in branches.iter().map(|(_, value)| value).chain(otherwise) {
        if !same_values(&value.data_type, data_type) {
            return Err(Unsupported::new(format!(
                "case of {data_type} with a value of {}",
                value.data_type
            )));
        }
    }
    Ok(())
}

fn check_in_list(needle: &DataType, list: &[Expr]) -> Result<(), Unsupported> {
    if list.is_empty() {
        return Err(Unsupported::new("an empty IN list"));
    }
    for item in list {
        if !same_values(needle, &item.data_type) {
            return Err(Unsupported::new(format!(
                "{needle} IN a list with {}",
                item.data_type
            )));
        }
    }
    Ok(())
}

fn check_date_part(
    part: DatePart,
    from: &DataType,
    data_type: &DataType,
) -> Result<(), Unsupported> {
    if !matches!(
        from,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None)
    ) {
        return Err(Unsupported::new(format!("date_part of {from}")));
    }
    let given = match part {
        DatePart::Epoch => DataType::Float64,
        _ => DataType::Int32,
    };
    declared("date_part", &given, data_type)
}

fn check_substring(
    from: &DataType,
    start: i64,
    length: Option<i64>,
    data_type: &DataType,
) -> Result<(), Unsupported> {
    string("substr", from)?;
    if !data_type.is_string() {
        return Err(Unsupported::new(format!("substr as {data_type}")));
    }
    // DataFusion raises for both on the first row that is not NULL.
    if start == i64::MIN {
        return Err(Unsupported::new(format!("substr from {start}")));
    }
    match length {
        Some(length) if length < 0 => Err(Unsupported::new(format!("substr of length {length}"))),
        _ => Ok(()),
    }
}

/// Refuses a node whose declared type is not what its operator gives.
fn declared(what: &str, given: &DataType, declared: &DataType) -> Result<(), Unsupported> {
    if given == declared {
        return Ok(());
    }
    Err(Unsupported::new(format!(
        "{what} as {declared}: it gives {given}"
    )))
}

/// Refuses a type that is not `Boolean`.
pub(super) fn boolean(what: &str, data_type: &DataType) -> Result<(), Unsupported> {
    if *data_type == DataType::Boolean {
        return Ok(());
    }
    Err(Unsupported::new(format!(
        "{what} of type {data_type}, not Boolean"
    )))
}

fn string(what: &str, data_type: &DataType) -> Result<(), Unsupported> {
    if is_string(data_type) {
        return Ok(());
    }
    Err(Unsupported::new(format!("{what} of type {data_type}")))
}
