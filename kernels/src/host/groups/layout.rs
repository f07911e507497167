//! Where a group's state lies: the words of all accumulators side by side.

use tidegate_pipeline::RowProgram;
use tidegate_pipeline::catalogue::Monoid;
use tidegate_pipeline::program::{Groups, Reduce};

use super::super::vector::Lane;
use super::lines::COLUMNS_MAX;

/// The fewest rows between two flushes of partial sums that make partial sums worth it.
const ROWS_LEAST: u128 = 1 << 16;

/// What an accumulator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A count.
    Count,
    /// A sum modulo 2^64.
    Sum64,
    /// A sum in 64 bits that is flushed to a total of 128 before it can overflow.
    Partial { total: usize },
    /// A sum modulo 2^128 in two words, the lower first.
    Sum128,
    /// A sum of doubles.
    Float,
    /// The least or greatest integer of 64 bits.
    Extreme64 { greatest: bool },
    /// The least or greatest integer of 128 bits, the lower word first.
    Extreme128 { greatest: bool },
    /// The least or greatest double, of which NaN is the greatest.
    ExtremeFloat { greatest: bool },
    /// The least or greatest string, which lies apart.
    ExtremeText { greatest: bool, texts: usize },
    /// Integers combined into one.
    Combined(&'static Monoid),
    /// A count, a mean and the sum of squared distances from it.
    Moments,
}

/// The rank of sums of doubles, behind those of integers.
const FLOAT_RANK: usize = 1;

/// The rank of the least or greatest integers.
const EXTREME_RANK: usize = 2;

impl Kind {
    /// Returns the place of the kind in the order of words.
    fn rank(self) -> usize {
        match self {
            Self::Count | Self::Sum64 | Self::Partial { .. } => 0,
            Self::Float => FLOAT_RANK,
            Self::Extreme64 { .. } => EXTREME_RANK,
            _ => EXTREME_RANK + 1,
        }
    }

    /// Returns the words over no rows.
    fn start(self) -> &'static [u64] {
        const LEAST: u64 = i64::MAX as u64;
        const GREATEST: u64 = i64::MIN as u64;
        match self {
            Self::ExtremeText { .. } => &[],
            Self::Sum128 => &[0, 0],
            Self::Moments => &[0, 0, 0],
            Self::Extreme64 { greatest: false } => &[LEAST],
            Self::Extreme64 { greatest: true } => &[GREATEST],
            Self::Extreme128 { greatest: false } => &[u64::MAX, LEAST],
            Self::Extreme128 { greatest: true } => &[0, GREATEST],
            Self::ExtremeFloat { greatest: false } => &[0x7ff8_0000_0000_0000],
            Self::ExtremeFloat { greatest: true } => &[0xfff0_0000_0000_0000],
            Self::Count | Self::Sum64 | Self::Partial { .. } | Self::Float | Self::Combined(_) => {
                &[0]
            }
        }
    }
}

/// What tells whether an accumulator has met a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Every group has.
    Always,
    /// A count of the same rows, at a word.
    Count(usize),
    /// A bit of a word of flags.
    Bit { at: usize, bit: u32 },
}

/// Where an accumulator is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) presence: Presence,
    /// The lane of its values in the program.
    pub(super) lane: Option<Lane>,
}

/// Accumulators whose words lie one after the other and are taken in together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) kind: PassKind,
    /// The first accumulator's word.
    pub(super) at: usize,
    /// In the order of their words.
    pub(super) accumulators: Vec<usize>,
}

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassKind {
    /// Adds integers, then doubles.
    Sum {
        /// How many of the accumulators add integers.
        integers: usize,
    },
    /// Keeps the least or greatest integers.
    Extreme,
    /// Whatever one accumulator does.
    Single,
}

/// How a word of one copy of a group goes into that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordMerge {
    Add,
    AddFloat,
    Least,
    Greatest,
    Or,
}

/// The words of a group.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) places: Vec<Place>,
    /// What takes a block's rows in, if there are keys.
    pub(super) passes: Vec<Pass>,
    /// How copies of a group become one, word by word; nothing if groups may not have copies.
    pub(super) merges: Option<Vec<WordMerge>>,
    /// How many words there are; those behind them are empty.
    pub(super) num_words: usize,
    /// A group's words over no rows.
    pub(super) start: Vec<u64>,
    pub(super) num_totals: usize,
    pub(super) num_texts: usize,
    /// After so many rows partial sums have to be flushed.
    pub(super) rows_most: usize,
}

impl Layout {
    pub(super) fn new(program: &RowProgram, groups: &Groups) -> Self {
        let mut layout = Self {
            places: Vec::new(),
            passes: Vec::new(),
            merges: None,
            num_words: 0,
            start: Vec::new(),
            num_totals: 0,
            num_texts: 0,
            rows_most: usize::MAX,
        };
        for accumulator in &groups.accumulators {
            let lane = accumulator.value.map(|value| Lane::of(program.data(value)));
            let magnitude = accumulator
                .value
                .map(|value| program.data(value).interval().magnitude());
            let kind = layout.kind(accumulator.reduce, lane, magnitude.unwrap_or(1).max(1));
            layout.places.push(Place {
                kind,
                at: 0,
                presence: Presence::Always,
                lane,
            });
        }
        layout.place();
        layout.tell_presence(program, groups);
        layout.num_words = layout.start.len();
        // Lines that are whole fractions of a line of cache do not lie across two.
        let width = layout.start.len().next_power_of_two();
        if width - layout.start.len() < COLUMNS_MAX {
            layout.start.resize(width, 0);
        }
        layout.merges = layout.merges();
        layout
    }

    /// Gives accumulators their words, those of one pass side by side.
    fn place(&mut self) {
        let ranks: Vec<usize> = self.places.iter().map(|place| place.kind.rank()).collect();
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_by_key(|index| ranks[*index]);
        let is_sum = |index: &usize| ranks[*index] <= FLOAT_RANK;
        let (sums, others): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_sum);
        for accumulators in sums.chunks(COLUMNS_MAX) {
            let integers = accumulators
                .iter()
                .filter(|index| ranks[**index] < FLOAT_RANK);
            let integers = integers.count();
            self.add_pass(PassKind::Sum { integers }, accumulators);
        }
        let is_extreme = |index: &usize| ranks[*index] == EXTREME_RANK;
        let (extremes, others): (Vec<usize>, Vec<usize>) = others.into_iter().partition(is_extreme);
        for accumulators in extremes.chunks(COLUMNS_MAX) {
            self.add_pass(PassKind::Extreme, accumulators);
        }
        for index in others {
            self.add_pass(PassKind::Single, &[index]);
        }
    }

    fn add_pass(&mut self, kind: PassKind, accumulators: &[usize]) {
        self.passes.push(Pass {
            kind,
            at: self.start.len(),
            accumulators: accumulators.to_vec(),
        });
        for index in accumulators {
            let place = &mut self.places[*index];
            place.at = self.start.len();
            self.start.extend_from_slice(place.kind.start());
        }
    }

    /// Returns the words that tell by bits which accumulators have met a row.
    pub(super) fn flags(&self) -> impl Iterator<Item = usize> {
        let mut flags: Vec<usize> = Vec::new();
        for place in &self.places {
            if let Presence::Bit { at, .. } = place.presence
                && !flags.contains(&at)
            {
                flags.push(at);
            }
        }
        flags.into_iter()
    }

    /// Returns how copies of a group become one, if that gives what one copy would have, but for the order
    /// in which floats are added.
    fn merges(&self) -> Option<Vec<WordMerge>> {
        let mut merges = vec![WordMerge::Or; self.start.len()];
        for place in &self.places {
            merges[place.at] = match place.kind {
                Kind::Count | Kind::Sum64 | Kind::Partial { .. } => WordMerge::Add,
                Kind::Float => WordMerge::AddFloat,
                Kind::Extreme64 { greatest: false } => WordMerge::Least,
                Kind::Extreme64 { greatest: true } => WordMerge::Greatest,
                _ => return None,
            };
        }
        Some(merges)
    }

    fn kind(&mut self, reduce: Reduce, lane: Option<Lane>, magnitude: u128) -> Kind {
        let greatest = reduce == Reduce::Greatest;
        match reduce {
            Reduce::Count => Kind::Count,
            Reduce::SumInteger { bits: 64 } => Kind::Sum64,
            Reduce::SumInteger { .. } => {
                let rows = i64::MAX as u128 / magnitude;
                if rows < ROWS_LEAST {
                    return Kind::Sum128;
                }
                self.rows_most = self
                    .rows_most
                    .min(usize::try_from(rows).unwrap_or(usize::MAX));
                self.num_totals += 1;
                Kind::Partial {
                    total: self.num_totals - 1,
                }
            }
            Reduce::SumFloat => Kind::Float,
            // A program with other reductions is refused before it has a layout.
            Reduce::Moments | Reduce::CoMoment { .. } => Kind::Moments,
            Reduce::Combine(monoid) => Kind::Combined(monoid),
            Reduce::Least | Reduce::Greatest => match lane {
                Some(Lane::F32 | Lane::F64) => Kind::ExtremeFloat { greatest },
                Some(Lane::I128) => Kind::Extreme128 { greatest },
                Some(Lane::Text) => {
                    self.num_texts += 1;
                    let texts = self.num_texts - 1;
                    Kind::ExtremeText { greatest, texts }
                }
                _ => Kind::Extreme64 { greatest },
            },
        }
    }

    /// Decides what tells that an accumulator has met a row: often a count of the same rows does.
    fn tell_presence(&mut self, program: &RowProgram, groups: &Groups) {
        let mut num_bits = 0;
        for index in 0..self.places.len() {
            let Some(accumulator) = groups.accumulators.get(index) else {
                continue;
            };
            let of_every_row = !groups.keys.is_empty() && accumulator.rows == program.selected;
            let needs = !matches!(
                self.places[index].kind,
                Kind::Count | Kind::Moments | Kind::ExtremeText { .. }
            );
            if of_every_row || !needs {
                continue;
            }
            let counts = |(other, place): &(usize, &Place)| {
                let rows = groups.accumulators.get(*other).map(|other| other.rows);
                place.kind == Kind::Count && rows == Some(accumulator.rows)
            };
            let count = self.places.iter().enumerate().find(counts);
            self.places[index].presence = match count {
                Some((_, place)) => Presence::Count(place.at),
                None => {
                    if num_bits % 64 == 0 {
                        self.start.push(0);
                    }
                    num_bits += 1;
                    let (at, bit) = (self.start.len() - 1, (num_bits - 1) % 64);
                    Presence::Bit { at, bit }
                }
            };
        }
    }
}
