//! `-a`: integers wrap, everything else but floats raises where its width does not hold the result.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::catalogue::arithmetic::add_spans;
use crate::catalogue::span::Span;
use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::program::{Builder, IntegerOp, Nullable, Raised};
use crate::types::{Decimal, integer_bits, is_float};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "negate",
    datafusion: &[],
    constants: &[],
    arity: (1, 1),
    types,
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

fn types(signature: &Signature) -> Result<(), Unsupported> {
    let data_type = &signature.arguments[0];
    let negatable = data_type.is_signed_integer()
        || is_float(data_type)
        || Decimal::of(data_type).is_some()
        || matches!(data_type, DataType::Duration(_) | DataType::Interval(_));
    if !negatable {
        return Err(Unsupported::new(format!("negation of {data_type}")));
    }
    signature.gives("a negation", data_type)
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([value], valid) = arguments.strict(builder)?;
    let data_type = &arguments.signature.arguments[0];
    let overflow = Raised::Overflow {
        operation: format!("- {data_type}"),
    };
    let zero = builder.int(0);
    let value = match (data_type, integer_bits(data_type)) {
        (_, Some(bits)) => builder.wrapping(IntegerOp::Subtract, bits, zero, value),
        (DataType::Interval(unit), _) => {
            let nothing = builder.int(Span::new(0, 0, 0).packed());
            let op = IntegerOp::Subtract;
            add_spans(builder, op, *unit, (nothing, value), valid, &overflow)
        }
        (float, _) if is_float(float) => builder.negate_float(value),
        (other, _) => {
            let limit = Interval::of_type(other)
                .ok_or_else(|| Unsupported::new(format!("negation of {other}")))?;
            builder.checked(IntegerOp::Subtract, limit, (zero, value), valid, &overflow)
        }
    };
    Ok(Nullable { value, valid })
}

fn signatures() -> Vec<Signature> {
    let of = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(7, 2),
        DataType::Decimal64(12, 3),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(38, 6),
        DataType::Duration(TimeUnit::Second),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
    ];
    let signature = |data_type: DataType| Signature::new(vec![data_type.clone()], data_type);
    of.map(signature).into()
}
