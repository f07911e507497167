//! Why a run does not take a block.

use std::fmt;

use crate::strings::TooManyStrings;

/// Why a run does not take a block. It has not changed for the block, and goes on with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declined {
    /// A row raises an error, or a group's result does.
    Raises,
    /// A value, or a NULL, contradicts what was known of an input.
    OutsideFacts {
        /// Which input.
        input: usize,
    },
    /// State would have more groups or strings than it can count.
    TooLarge,
    /// A key or an extreme is NaN or −0.0, which DataFusion tells apart from other NaNs and from 0.0.
    Special,
    /// What the run has no way for, and why.
    Unsupported(String),
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raises => f.write_str("a row raises an error"),
            Self::OutsideFacts { input } => {
                write!(
                    f,
                    "input {input} has values outside of what was known of it"
                )
            }
            Self::TooLarge => f.write_str("more groups or strings than state can count"),
            Self::Special => f.write_str("a key or an extreme is NaN or -0.0"),
            Self::Unsupported(what) => write!(f, "no way for {what}"),
        }
    }
}

impl std::error::Error for Declined {}

impl From<TooManyStrings> for Declined {
    fn from(_: TooManyStrings) -> Self {
        Self::TooLarge
    }
}
