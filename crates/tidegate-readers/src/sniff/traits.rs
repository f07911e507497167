//! What a value could be.

use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign};

use crate::temporal::DATE_FORMATS;

/// A set of types and ways to write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits(u64);

/// Where the formats of dates begin, and those of timestamps.
const DATES: u32 = 16;
const TIMESTAMPS: u32 = 40;

impl Traits {
    /// True or false.
    pub(crate) const BOOLEAN: Self = Self(1);
    /// A whole number of 64 bits, without groups.
    pub(crate) const INTEGER: Self = Self(1 << 1);
    /// A whole number of up to 38 digits, without groups.
    pub(crate) const WIDE: Self = Self(1 << 2);
    /// A whole number, perhaps with commas between groups.
    pub(crate) const POINT_INTEGER: Self = Self(1 << 3);
    /// A number with a decimal point, perhaps with commas between groups.
    pub(crate) const POINT_NUMBER: Self = Self(1 << 4);
    /// A whole number, perhaps with points between groups.
    pub(crate) const COMMA_INTEGER: Self = Self(1 << 5);
    /// A number with a decimal comma, perhaps with points between groups.
    pub(crate) const COMMA_NUMBER: Self = Self(1 << 6);
    /// A timestamp without a zone.
    pub(crate) const LOCAL: Self = Self(1 << 7);
    /// A timestamp with a zone.
    pub(crate) const ZONED: Self = Self(1 << 8);
    /// A timestamp of whole microseconds.
    pub(crate) const MICROS: Self = Self(1 << 9);
    /// A date as the user says dates are written.
    pub(crate) const GIVEN_DATE: Self = Self(1 << 10);
    /// A timestamp as the user says timestamps are written.
    pub(crate) const GIVEN_TIMESTAMP: Self = Self(1 << 11);
    /// A time of day with its seconds.
    pub(crate) const TIME: Self = Self(1 << 12);

    /// The numbers with a decimal point.
    pub(crate) const POINT: Self = Self(Self::POINT_INTEGER.0 | Self::POINT_NUMBER.0);
    /// The numbers with a decimal comma.
    pub(crate) const COMMA: Self = Self(Self::COMMA_INTEGER.0 | Self::COMMA_NUMBER.0);

    /// A date in one of the formats.
    pub(crate) const fn date(format: usize) -> Self {
        Self(1 << (DATES + format as u32))
    }

    /// A timestamp whose date is in one of the formats.
    pub(crate) const fn timestamp(format: usize) -> Self {
        Self(1 << (TIMESTAMPS + format as u32))
    }

    pub(crate) const fn empty() -> Self {
        Self(0)
    }

    pub(crate) const fn all() -> Self {
        Self(u64::MAX)
    }

    /// Tells whether all of `others` are here.
    pub(crate) fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Tells whether some of `others` are here.
    pub(crate) fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Tells whether it says nothing of what type a value has.
    pub(crate) fn is_text(self) -> bool {
        self.0 & !(Self::LOCAL.0 | Self::ZONED.0 | Self::MICROS.0) == 0
    }

    /// Returns the formats of dates, the likelier first.
    pub(crate) fn dates(self) -> impl Iterator<Item = usize> {
        (0..DATE_FORMATS.len()).filter(move |format| self.contains(Self::date(*format)))
    }

    /// Returns the formats of the dates of timestamps, the likelier first.
    pub(crate) fn timestamps(self) -> impl Iterator<Item = usize> {
        (0..DATE_FORMATS.len()).filter(move |format| self.contains(Self::timestamp(*format)))
    }
}

impl BitOr for Traits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Traits {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Traits {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitAndAssign for Traits {
    fn bitand_assign(&mut self, other: Self) {
        self.0 &= other.0;
    }
}
