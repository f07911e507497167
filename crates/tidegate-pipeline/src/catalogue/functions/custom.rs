//! A call of a user's function: NULL if an argument is. It is called for rows alone in which it is wanted.

use crate::catalogue::{Accuracy, Lowered, Options, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::program::Nullable;

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "custom",
    datafusion: &[],
    constants: &[],
    arity: (0, usize::MAX),
    types,
    lower: |builder, arguments| -> Lowered {
        let values = (0..arguments.num()).map(|index| arguments.lower(builder, index));
        let values: Vec<Nullable> = values.collect::<Result<_, _>>()?;
        let Options::Custom(function) = &arguments.signature.options else {
            return Err(Unsupported::new("a call of no function"));
        };
        let valid = builder.all_valid(&values);
        let ids = values.iter().map(|value| value.value).collect();
        Ok(builder.call_custom(function, ids, valid))
    },
    accuracy: Accuracy::Exact,
    // Whoever registers a function tests it.
    signatures: Vec::new,
}];

fn types(signature: &Signature) -> Result<(), Unsupported> {
    let Options::Custom(function) = &signature.options else {
        return Err(Unsupported::new("a call of no function"));
    };
    function.check()?;
    let (name, num) = (&function.name, signature.arguments.len());
    if num != function.arguments.len() {
        return Err(Unsupported::new(format!("{name} of {num} arguments")));
    }
    for (given, (argument, wanted)) in signature.arguments.iter().zip(&function.arguments) {
        if given != wanted {
            return Err(Unsupported::new(format!(
                "argument {argument} of {name} as {wanted}: it gives {given}"
            )));
        }
    }
    signature.gives(name, &function.returns)
}
