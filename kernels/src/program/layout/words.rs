//! The words of a group's state, each with what it takes of a row.

use tidegate_pipeline::Interval;
use tidegate_pipeline::catalogue::Monoid;
use tidegate_pipeline::program::ValueId;

use super::Image;

/// How a word takes in a row; one that is 0 has taken in nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOp {
    /// Not 0 once a row was there.
    Seen,
    /// One more row; a block sees fewer than 2^32.
    Count,
    /// The sum, modulo 2^64.
    Add,
    /// The greatest, unsigned; 0 for none.
    Max,
    /// The sum of doubles that are multiples of a unit; in global memory, of their counts of it.
    Part,
    /// What a monoid makes of all, of which CUDA has an atomic function.
    Combine(&'static Monoid),
}

impl WordOp {
    /// Returns the C++ of two words in one.
    pub(in crate::program) fn joined(self, one: &str, other: &str) -> String {
        match self {
            Self::Max => format!("greater({one}, {other})"),
            Self::Combine(monoid) => {
                let code = monoid.cuda.replace("{0}", one).replace("{1}", other);
                format!("({code})")
            }
            Self::Seen | Self::Count | Self::Add | Self::Part => format!("{one} + {other}"),
        }
    }

    /// Returns the C++ function that takes a word into one in memory.
    pub(in crate::program) fn taking(self) -> &'static str {
        match self {
            Self::Max | Self::Seen => "max_word",
            Self::Combine(monoid) => monoid.atomic.unwrap_or_default(),
            Self::Count | Self::Add | Self::Part => "add_word",
        }
    }
}

/// What a word takes of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::program) enum Term {
    /// One.
    One,
    /// An integer of at most 64 bits; of a wider one its lowest.
    Integer(ValueId),
    /// 32 bits of an integer from this one on, the last of them with the sign.
    Limb {
        value: ValueId,
        shift: u32,
        is_last: bool,
    },
    /// The image of a value in unsigned integers of the same order, or its complement.
    Image {
        value: ValueId,
        image: Image,
        complement: bool,
    },
    /// A string's place in the order of its dictionary: of the layout's places the one at this index.
    Place { place: usize, complement: bool },
    /// A digit of a float sum, by the first literal of its scale.
    Digit { literal: usize, level: usize },
    /// A digit of a float sum as a double.
    Part(Part),
    /// A digit of a value, or of its square, by the literal of the scale.
    Power {
        literal: usize,
        level: usize,
        is_square: bool,
    },
    /// A digit of the product of two values, by the literals of their scales.
    Product { literals: [usize; 2], level: usize },
    /// A word of the group's key, or its complement.
    KeyWord { index: usize, complement: bool },
    /// The same as a field of a record that was made of the row: of the word at this place.
    Field { word: usize, is_signed: bool },
    /// The complement of such a field.
    FieldComplement { word: usize },
}

/// A digit of a float sum that is summed as a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::program) struct Part {
    /// The first literal of the scale.
    pub(in crate::program) literal: usize,
    /// How many digits there are, and which this is.
    pub(in crate::program) levels: usize,
    pub(in crate::program) level: usize,
}

impl Part {
    /// Returns the literal that the sum begins with.
    pub(in crate::program) fn zero(self) -> usize {
        self.literal + 2 + self.level
    }

    /// Returns the literal that turns a sum into units.
    pub(in crate::program) fn inverse(self) -> usize {
        self.literal + 2 + self.levels + self.level
    }

    /// Returns the next digit, which takes what this one leaves over.
    pub(in crate::program) fn next(self) -> Option<Self> {
        let level = self.level + 1;
        (level < self.levels).then_some(Self { level, ..self })
    }
}

/// The rows that a word takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::program) enum Rows {
    /// All that are selected.
    Selected,
    /// Those for which the value is TRUE.
    Where(ValueId),
    /// Those for which the bit of their record's conditions is set.
    Recorded(usize),
}

/// One 64-bit word of a group's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::program) struct Word {
    pub(in crate::program) op: WordOp,
    pub(in crate::program) term: Term,
    pub(in crate::program) rows: Rows,
    /// Where the value lies, as a signed integer.
    pub(in crate::program) range: Interval,
    /// In global memory the word is two: its low 32 bits are summed apart from the rest.
    pub(in crate::program) split: bool,
    /// Where the word is in global memory.
    pub(in crate::program) index: usize,
}

impl Word {
    /// Returns whether the word is the complement of the key word before it, so that one tells the other.
    pub(in crate::program) fn is_complement(&self) -> bool {
        let term = self.term;
        matches!(
            term,
            Term::KeyWord {
                complement: true,
                ..
            }
        )
    }

    /// Returns what more there is to a part of a float sum.
    pub(in crate::program) fn part(&self) -> Option<Part> {
        match self.term {
            Term::Part(part) => Some(part),
            _ => None,
        }
    }
}
