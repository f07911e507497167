//! What cannot be said in operations: functions with a body of their own, and ways to combine words.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::Accuracy;
use crate::interval::Interval;
use crate::program::Type;

/// A function with a body in Rust. It is known by its name: two kernels of one name are one.
pub struct Kernel {
    /// What backends and people call it.
    pub name: &'static str,
    /// What it computes; total, as every operation is.
    pub body: Body,
    /// How far two backends' results may be apart.
    pub accuracy: Accuracy,
    /// Returns what is known of the result.
    pub gives: fn(&[Type]) -> Type,
    /// How CUDA C++ spells a call, `{0}`, `{1}`, … being the arguments, each in the class of its type; `None`
    /// for functions of texts, which the host evaluates for each entry of a dictionary.
    pub cuda: Option<&'static str>,
}

/// A body, by what it takes and gives.
pub enum Body {
    /// Double to double.
    Float(fn(f64) -> f64),
    /// Two doubles to one.
    Float2(fn(f64, f64) -> f64),
    /// Single to single.
    Single(fn(f32) -> f32),
    /// Two singles to one.
    Single2(fn(f32, f32) -> f32),
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
    /// Text and pattern to boolean, prepared once for each pattern.
    Pattern(fn(&str) -> Box<Matcher>),
    /// A part of a text.
    Slice(for<'a> fn(&'a str, i64, i64) -> &'a str),
    /// Text to an integer of 64 bits.
    TextInt(fn(&str) -> i64),
    /// Two texts to an integer of 64 bits.
    Text2Int(fn(&str, &str) -> i64),
    /// Texts and integers to a text.
    Text(for<'a> fn(&[TextArgument<'a>]) -> Cow<'a, str>),
}

/// Tells whether a text matches a prepared pattern.
pub type Matcher = dyn Fn(&str) -> bool + Send + Sync;

/// An argument of a [`Body::Text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextArgument<'a> {
    /// An integer of 64 bits.
    Int(i64),
    /// A text.
    Text(&'a str),
}

impl<'a> TextArgument<'a> {
    /// Returns the text; the empty one for an integer.
    pub fn text(self) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Int(_) => "",
        }
    }

    /// Returns the integer; 0 for a text.
    pub fn int(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Text(_) => 0,
        }
    }
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

/// A way to combine integers of 64 bits into one: associative and commutative, with 0 as neutral element.
/// It is known by its name.
pub struct Monoid {
    /// What backends and people call it.
    pub name: &'static str,
    /// Combines two values.
    pub combine: fn(i64, i64) -> i64,
    /// Returns where results lie, of values within this interval.
    pub gives: fn(Interval) -> Interval,
    /// How CUDA C++ spells it, on two words of 64 bits.
    pub cuda: &'static str,
    /// CUDA's atomic function that does the same to a word of 64 bits in memory.
    pub atomic: Option<&'static str>,
}

impl PartialEq for Monoid {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Monoid {}

impl Hash for Monoid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Monoid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
