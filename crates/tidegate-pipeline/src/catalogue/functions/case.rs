//! `CASE WHEN a THEN b … [ELSE c] END`: the value of the first branch whose condition is TRUE. Only what is
//! taken is wanted.

use arrow_schema::DataType;

use crate::catalogue::{Accuracy, Arguments, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::program::{Builder, Nullable, ValueId};
use crate::types::same_values;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "case",
    datafusion: &[],
    constants: &[],
    arity: (0, usize::MAX),
    types,
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

fn types(signature: &Signature) -> Result<(), Unsupported> {
    let num = signature.arguments.len();
    if num < 2 {
        return Err(Unsupported::new("case without a branch"));
    }
    for branch in 0..num / 2 {
        signature.takes_boolean("a condition of CASE", 2 * branch)?;
    }
    let result = &signature.result;
    for (index, value) in signature.arguments.iter().enumerate() {
        let is_value = index % 2 == 1 || index + 1 == num;
        if is_value && !same_values(value, result) {
            return Err(Unsupported::new(format!(
                "case of {result} with a value of {value}"
            )));
        }
    }
    Ok(())
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let mut open = builder.bool(true);
    let mut taken: Vec<(ValueId, Nullable)> = Vec::new();
    for branch in 0..arguments.num() / 2 {
        let at = 2 * branch;
        let when = builder.guarded(open, |builder| arguments.lower(builder, at))?;
        let holds = builder.truth(when);
        let wanted = builder.and(open, holds);
        let then = builder.guarded(wanted, |builder| arguments.lower(builder, at + 1))?;
        let is_not = builder.not(holds);
        open = builder.and(open, is_not);
        taken.push((holds, then));
    }
    let last = match arguments.num() % 2 {
        1 => {
            let at = arguments.num() - 1;
            Some(builder.guarded(open, |builder| arguments.lower(builder, at))?)
        }
        _ => None,
    };
    // Without ELSE the rest is NULL, whatever it is.
    let rest = match (last, taken.last()) {
        (Some(last), _) => last,
        (None, Some((_, then))) => Nullable {
            value: then.value,
            valid: builder.bool(false),
        },
        (None, None) => return Err(Unsupported::new("case without a branch")),
    };
    let choose = |rest: Nullable, (holds, then): (ValueId, Nullable)| Nullable {
        value: builder.select(holds, then.value, rest.value),
        valid: builder.select(holds, then.valid, rest.valid),
    };
    Ok(taken.into_iter().rev().fold(rest, choose))
}

fn signatures() -> Vec<Signature> {
    use DataType::{Boolean, Decimal128, Float64, Int64, Utf8};

    let mut signatures = Vec::new();
    for data_type in [Boolean, Int64, Float64, Decimal128(38, 6), Utf8] {
        let one = vec![Boolean, data_type.clone()];
        let two = [one.clone(), one.clone()].concat();
        let with_else = [two.clone(), vec![data_type.clone()]].concat();
        for arguments in [one, two, with_else] {
            signatures.push(Signature::new(arguments, data_type.clone()));
        }
    }
    signatures
}
