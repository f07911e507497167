//! `a [NOT] LIKE pattern`, and ILIKE. The pattern is not wanted where the text is NULL.

use arrow_schema::DataType;

use crate::catalogue::{
    Accuracy, Arguments, Body, Kernel, Lowered, Matcher, Options, ScalarEntry, Signature,
};
use crate::interpret::like::{LikePattern, LikePieces};
use crate::program::{Builder, Nullable, Type};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "like",
    datafusion: &[],
    constants: &[],
    arity: (2, 2),
    types: |signature| {
        signature.takes_string("LIKE", 0)?;
        signature.takes_string("the pattern of LIKE", 1)?;
        signature.gives_boolean("LIKE")
    },
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

static LIKE: Kernel = Kernel {
    name: "like",
    accuracy: Accuracy::Exact,
    body: Body::Pattern(|pattern| matcher(pattern, false)),
    gives: |_| Type::Bool,
    cuda: None,
};

static ILIKE: Kernel = Kernel {
    name: "ilike",
    accuracy: Accuracy::Exact,
    body: Body::Pattern(|pattern| matcher(pattern, true)),
    gives: |_| Type::Bool,
    cuda: None,
};

fn matcher(pattern: &str, case_insensitive: bool) -> Box<Matcher> {
    let pattern = LikePattern::new(pattern, case_insensitive);
    match LikePieces::of(&pattern) {
        Some(pieces) => Box::new(move |text| pieces.matches(text)),
        None => Box::new(move |text| pattern.matches(text)),
    }
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let text = arguments.lower(builder, 0)?;
    let pattern = builder.guarded(text.valid, |builder| arguments.lower(builder, 1))?;
    let (kernel, negated) = match arguments.signature.options {
        Options::Like {
            case_insensitive: true,
            negated,
        } => (&ILIKE, negated),
        Options::Like { negated, .. } => (&LIKE, negated),
        _ => (&LIKE, false),
    };
    let matches = builder.call(kernel, vec![text.value, pattern.value]);
    Ok(Nullable {
        value: if negated {
            builder.not(matches)
        } else {
            matches
        },
        valid: builder.all_valid(&[text, pattern]),
    })
}

fn signatures() -> Vec<Signature> {
    let signature = |(negated, case_insensitive)| {
        let options = Options::Like {
            negated,
            case_insensitive,
        };
        Signature::with(vec![DataType::Utf8; 2], DataType::Boolean, options)
    };
    [(false, false), (true, false), (false, true), (true, true)]
        .map(signature)
        .into()
}
