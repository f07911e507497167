//! `= <> < <= > >=`, and `IS [NOT] DISTINCT FROM`, for which NULL is a value.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::expr::CompareOp;
use crate::program::{Builder, Comparison, Nullable};
use crate::types::same_values;

const fn comparison(
    name: &'static str,
    types: fn(&Signature) -> Result<(), Unsupported>,
    lower: fn(&mut Builder, &mut Arguments<'_>) -> Lowered,
) -> ScalarEntry {
    ScalarEntry {
        name,
        datafusion: &[],
        constants: &[],
        arity: (2, 2),
        types,
        lower,
        accuracy: Accuracy::Exact,
        signatures,
    }
}

pub(super) static ENTRIES: &[ScalarEntry] = &[
    comparison(
        "equal",
        |s| types(CompareOp::Eq, s),
        |b, a| compare(Comparison::Equal, b, a),
    ),
    comparison(
        "not_equal",
        |s| types(CompareOp::NotEq, s),
        |b, a| compare(Comparison::NotEqual, b, a),
    ),
    comparison(
        "less",
        |s| types(CompareOp::Lt, s),
        |b, a| compare(Comparison::Less, b, a),
    ),
    comparison(
        "less_or_equal",
        |s| types(CompareOp::LtEq, s),
        |b, a| compare(Comparison::LessOrEqual, b, a),
    ),
    comparison(
        "greater",
        |s| types(CompareOp::Gt, s),
        |b, a| compare(Comparison::Greater, b, a),
    ),
    comparison(
        "greater_or_equal",
        |s| types(CompareOp::GtEq, s),
        |b, a| compare(Comparison::GreaterOrEqual, b, a),
    ),
    comparison(
        "is_distinct_from",
        |s| types(CompareOp::IsDistinctFrom, s),
        |b, a| distinct(Comparison::NotEqual, b, a),
    ),
    comparison(
        "is_not_distinct_from",
        |s| types(CompareOp::IsNotDistinctFrom, s),
        |b, a| distinct(Comparison::Equal, b, a),
    ),
];

fn types(op: CompareOp, signature: &Signature) -> Result<(), Unsupported> {
    let [left, right] = signature.arguments.as_slice() else {
        return Err(Unsupported::new(format!("{op} of other than two operands")));
    };
    if !same_values(left, right) {
        return Err(Unsupported::new(format!("{left} {op} {right}")));
    }
    signature.gives_boolean("a comparison")
}

fn compare(op: Comparison, builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([left, right], valid) = arguments.strict(builder)?;
    let value = builder.compare(op, left, right);
    Ok(Nullable { value, valid })
}

fn distinct(op: Comparison, builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let (left, right) = (arguments.lower(builder, 0)?, arguments.lower(builder, 1)?);
    let of_values = builder.compare(op, left.value, right.value);
    let of_nulls = match left.valid == right.valid {
        true => builder.bool(op == Comparison::Equal),
        false => builder.compare(op, left.valid, right.valid),
    };
    let both = builder.and(left.valid, right.valid);
    Ok(Nullable {
        value: builder.select(both, of_values, of_nulls),
        valid: builder.bool(true),
    })
}

fn signatures() -> Vec<Signature> {
    let of = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(7, 2),
        DataType::Decimal128(38, 6),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Utf8,
    ];
    let signature = |data_type: DataType| Signature::new(vec![data_type; 2], DataType::Boolean);
    of.map(signature).into()
}
