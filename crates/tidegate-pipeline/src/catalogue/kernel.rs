//! What cannot be said in operations: functions with a body of their own.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::program::Type;

/// A function with a body in Rust. It is known by its name: two kernels of one name are one.
pub struct Kernel {
    /// What backends and people call it.
    pub name: &'static str,
    /// What it computes; total, as every operation is.
    pub body: Body,
    /// Returns what is known of the result.
    pub gives: fn(&[Type]) -> Type,
    /// How CUDA C++ spells a call, `{0}`, `{1}`, … being the arguments, each in the class of its type; `None`
    /// for functions of texts, which the host evaluates for each entry of a dictionary.
    pub cuda: Option<&'static str>,
}

/// A body, by what it takes and gives.
pub enum Body {
    /// Float to float.
    Float(fn(f64) -> f64),
    /// Integer to integer, of 64 bits.
    Int(fn(i64) -> i64),
    /// Two integers of 64 bits to one.
    Int2(fn(i64, i64) -> i64),
    /// Part of an integer of 128 bits.
    Unpack(fn(i128) -> i64),
    /// An integer of 128 bits from its parts.
    Pack(fn(i64, i64, i64) -> i128),
    /// Text and pattern to boolean.
    Matches(fn(&str, &str) -> bool),
    /// A part of a text.
    Slice(for<'a> fn(&'a str, i64, i64) -> &'a str),
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
