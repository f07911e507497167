//! What functions of texts have in common.

use arrow_schema::DataType;

use super::kernel::{Body, Kernel, TextArgument};
use super::{Accuracy, Arguments, Lowered, ScalarEntry, Signature};
use crate::check::Unsupported;
use crate::interval::Interval;
use crate::program::{Builder, Type};
use crate::types::is_string;

/// Makes the entry of a function of texts, whose values are the same wherever they are computed.
pub(super) const fn entry(
    datafusion: &'static [&'static str],
    arity: (usize, usize),
    types: fn(&Signature) -> Result<(), Unsupported>,
    lower: fn(&mut Builder, &mut Arguments<'_>) -> Lowered,
    signatures: fn() -> Vec<Signature>,
) -> ScalarEntry {
    ScalarEntry {
        name: datafusion[0],
        datafusion,
        constants: &[],
        arity,
        types,
        lower,
        accuracy: Accuracy::Exact,
        signatures,
    }
}

/// Makes a kernel that gives a text.
pub(super) const fn kernel(
    name: &'static str,
    body: for<'a> fn(&[TextArgument<'a>]) -> std::borrow::Cow<'a, str>,
) -> Kernel {
    Kernel {
        name,
        accuracy: Accuracy::Exact,
        body: Body::Text(body),
        gives: |_| Type::Text,
        cuda: None,
    }
}

/// Makes a kernel that gives a length or a place, which 32 bits hold.
pub(super) const fn measure(name: &'static str, body: Body) -> Kernel {
    Kernel {
        name,
        accuracy: Accuracy::Exact,
        body,
        gives: |_| Type::Int(Interval::new(0, i32::MAX as i128)),
        cuda: None,
    }
}

/// Makes a kernel that gives a boolean.
pub(super) const fn matches(name: &'static str, body: fn(&str, &str) -> bool) -> Kernel {
    Kernel {
        name,
        accuracy: Accuracy::Exact,
        body: Body::Matches(body),
        gives: |_| Type::Bool,
        cuda: None,
    }
}

/// Checks that the arguments are texts from the first on, followed by integers of 64 bits.
pub(super) fn takes(name: &str, signature: &Signature, texts: usize) -> Result<(), Unsupported> {
    for (index, data_type) in signature.arguments.iter().enumerate() {
        let fits = match index < texts {
            true => is_string(data_type),
            false => *data_type == DataType::Int64,
        };
        if !fits {
            return Err(Unsupported::new(format!("{name} of {data_type}")));
        }
    }
    Ok(())
}

/// Checks that so many texts are taken, and that the result is of the first argument's type.
pub(super) fn gives_first(
    name: &str,
    signature: &Signature,
    texts: usize,
) -> Result<(), Unsupported> {
    takes(name, signature, texts)?;
    signature.gives(name, &signature.arguments[0])
}

/// Checks that so many texts are taken, and that the result is a text without a dictionary.
pub(super) fn gives_text(
    name: &str,
    signature: &Signature,
    texts: usize,
) -> Result<(), Unsupported> {
    takes(name, signature, texts)?;
    match signature.result.is_string() {
        true => Ok(()),
        false => Err(Unsupported::new(format!("{name} as {}", signature.result))),
    }
}

/// Checks that so many texts are taken, and that the result is an integer as wide as the offsets of the first one.
pub(super) fn gives_offset(
    name: &str,
    signature: &Signature,
    texts: usize,
) -> Result<(), Unsupported> {
    takes(name, signature, texts)?;
    match &signature.arguments[0] {
        DataType::Utf8 | DataType::Utf8View => signature.gives(name, &DataType::Int32),
        DataType::LargeUtf8 => signature.gives(name, &DataType::Int64),
        other => Err(Unsupported::new(format!("{name} of {other}"))),
    }
}

/// What a strict function of texts gives: how a call's types are checked, and what it gives of a type of texts.
pub(super) struct Gives {
    pub(super) check: fn(&str, &Signature, usize) -> Result<(), Unsupported>,
    pub(super) of: fn(&DataType) -> DataType,
}

pub(super) static FIRST: Gives = Gives {
    check: gives_first,
    of: Clone::clone,
};

pub(super) static OFFSET: Gives = Gives {
    check: gives_offset,
    of: offset,
};

pub(super) static BOOLEAN: Gives = Gives {
    check: |name, signature, texts| {
        takes(name, signature, texts)?;
        signature.gives_boolean(name)
    },
    of: |_| DataType::Boolean,
};

/// Makes the entry of a function of so many texts and integers that is NULL where one of them is, and its kernel.
macro_rules! strict {
    ($name:literal, ($texts:literal, $integers:literal), $gives:ident, $kernel:ident, $body:expr $(,)?) => {
        pub(super) static ENTRIES: &[$crate::catalogue::ScalarEntry] =
            &[$crate::catalogue::texts::entry(
                &[$name],
                ($texts + $integers, $texts + $integers),
                |signature| ($crate::catalogue::texts::$gives.check)($name, signature, $texts),
                |builder, arguments| arguments.call(builder, &KERNEL),
                || {
                    let of = $crate::catalogue::texts::$gives.of;
                    $crate::catalogue::texts::signatures($texts, $integers, of)
                },
            )];

        static KERNEL: $crate::catalogue::Kernel = $crate::catalogue::texts::$kernel($name, $body);
    };
}
pub(super) use strict;

/// Makes the entry of a function that trims a text of the characters of another one, or of spaces, and its kernel.
macro_rules! trimmed {
    ($name:literal, $trim:ident) => {
        pub(super) static ENTRIES: &[$crate::catalogue::ScalarEntry] =
            &[$crate::catalogue::texts::entry(
                &[$name],
                (1, 2),
                |signature| $crate::catalogue::texts::gives_first($name, signature, 2),
                |builder, arguments| arguments.call(builder, &KERNEL),
                || {
                    let of = |texts| $crate::catalogue::texts::signatures(texts, 0, Clone::clone);
                    [1, 2].map(of).concat()
                },
            )];

        static KERNEL: $crate::catalogue::Kernel =
            $crate::catalogue::texts::kernel($name, |arguments| {
                let characters = arguments.get(1).map_or(" ", |of| of.text());
                let of = |c: char| characters.contains(c);
                arguments[0].text().$trim(of).into()
            });
    };
}
pub(super) use trimmed;

/// Returns signatures of so many texts and so many integers, with what they give.
pub(super) fn signatures(
    texts: usize,
    integers: usize,
    gives: fn(&DataType) -> DataType,
) -> Vec<Signature> {
    let signature = |of: DataType| {
        let texts = vec![of.clone(); texts];
        let integers = vec![DataType::Int64; integers];
        Signature::new([texts, integers].concat(), gives(&of))
    };
    [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]
        .map(signature)
        .into()
}

/// Returns the integer that is as wide as a text's offsets.
pub(super) fn offset(of: &DataType) -> DataType {
    match of {
        DataType::LargeUtf8 => DataType::Int64,
        _ => DataType::Int32,
    }
}
