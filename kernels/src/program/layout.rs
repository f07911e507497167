//! In which 64-bit words a device keeps the accumulators of a group.
//!
//! A function of the program, of what is known of its values, and of the kind of store; no text is written
//! to find out. Words are sums modulo 2^64 and greatest unsigned integers, or what a monoid makes of values: all commute, so a state does not
//! depend on the order of its rows. A sum that 64 bits may not hold is kept in limbs of 32 bits, each summed
//! in a word of its own; a float sum is the sum of the digits of its fixed point; an extreme is the
//! greatest of the values' images in unsigned integers of the same order. A call without a value is
//! known by a count.

mod floats;
mod lines;
mod words;

use arrow_schema::DataType;
use tidegate_pipeline::catalogue::Monoid;
use tidegate_pipeline::program::{Accumulator, Class, Groups, Reduce, RowProgram, ValueId};
use tidegate_pipeline::{Interval, Unsupported};

use super::slots::{Slot, SlotFacts, SlotKind};

pub(super) use floats::FloatForm;
pub use floats::{FloatScaleAt, MomentScale};
use floats::{FloatSum, MomentSum};
pub use words::WordOp;
pub(super) use words::{Part, Rows, Term, Word};

/// Where an accumulator is among the words in global memory.
#[derive(Clone, Debug, PartialEq)]
pub struct AccumulatorPlan {
    /// The word that counts the rows that it has taken in; `None` if every row of a group is among them,
    /// and nobody asks for their number.
    pub count: Option<usize>,
    /// The rest of it.
    pub sums: Sums,
}

/// The part of an accumulator beside the count of its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Sums {
    /// None: it is a count.
    None,
    /// A sum of integers.
    Integer {
        /// The words, each shifted left by so many bits, whose sum it is.
        limbs: Vec<(usize, u32)>,
        /// It is modulo 2^64 or 2^128.
        bits: u32,
    },
    /// The digits of a fixed point: each a word, or two of which the second counts 2^32.
    Float(Vec<(usize, Option<usize>)>, FloatScaleAt),
    /// A greatest image; `complement` for a least value.
    Extreme {
        /// The word.
        word: usize,
        /// Whether the image is the complement, so that the least is kept.
        complement: bool,
        /// What it is the image of.
        image: Image,
    },
    /// What a monoid makes of signed integers.
    Combined {
        /// The word.
        word: usize,
        /// How two are made one.
        monoid: &'static Monoid,
    },
    /// The greatest place in the order of a dictionary's strings, in the upper 32 bits, with its code
    /// in the lower ones; `complement` for the least string.
    String {
        /// The word.
        word: usize,
        /// Whether the word is the complement, so that the least is kept.
        complement: bool,
        /// The slot whose dictionary the code is of.
        dictionary: usize,
    },
    /// The digits of exact sums of values and of their squares, the least first.
    Moments {
        /// The words of the sum.
        sums: Vec<usize>,
        /// The words of the squares' sum.
        squares: Vec<usize>,
        /// The fixed point.
        scale: MomentScale,
    },
    /// The digits of exact sums of the values of pairs and of their products, the least first.
    CoMoment {
        /// The words of either sum.
        sums: [Vec<usize>; 2],
        /// The words of the products' sum.
        products: Vec<usize>,
        /// The fixed point of either.
        scales: [MomentScale; 2],
    },
}

/// How a value is told from its image in unsigned integers of the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// It is a boolean.
    Bool,
    /// It is a signed integer.
    Signed,
    /// It is unsigned, and its own image.
    Unsigned,
    /// It is a single.
    Single,
    /// It is a double.
    Double,
}

/// Rows that one block folds before it adds its own state to the global one.
pub const LOCAL_ROWS_MAX: u64 = 1 << 24;

/// Rows that go into one global state. More, and a low limb of 32 bits could overflow its word.
pub const STATE_ROWS_MAX: u64 = 1 << 31;

/// The most that may be added for each row, that 64 bits hold the sums of a block, and of a state.
const LOCAL_MAX: i128 = i64::MAX as i128 / LOCAL_ROWS_MAX as i128;
const STATE_MAX: i128 = i64::MAX as i128 / STATE_ROWS_MAX as i128;

/// How groups are kept, as far as their words depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    /// How float sums are kept.
    pub(super) floats: FloatForm,
    /// Whether a word tells whether a group has a row, or the table by itself.
    pub(super) by_word: bool,
    /// The first literal that is free.
    pub(super) first_literal: usize,
}

/// A string's place among those of its dictionary, for the rows that count.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    code: ValueId,
    rows: Rows,
    /// The literal that says where the order is.
    literal: usize,
}

/// The words of a group, and where each accumulator finds its own.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) words: Vec<Word>,
    pub(super) accumulators: Vec<AccumulatorPlan>,
    /// The word that is not 0 where a group has a row, if one is asked for or tells it anyway.
    pub(super) tells: Option<usize>,
    /// How many literals there are with those of the layout.
    pub(super) num_literals: usize,
    /// Slots whose strings' order is asked for, and the literal that says where it is.
    pub(super) ranks: Vec<(usize, usize)>,
    num_global: usize,
    floats: Vec<FloatSum>,
    moments: Vec<MomentSum>,
    /// Pairs whose products are summed.
    products: Vec<[MomentSum; 2]>,
    places: Vec<Place>,
}

impl Layout {
    /// Lays the accumulators of a program out.
    ///
    /// # Errors
    /// What a device has no form for.
    pub(super) fn new(
        program: &RowProgram,
        groups: &Groups,
        slots: &[(Slot, SlotFacts)],
        keeping: Keeping,
    ) -> Result<Self, Unsupported> {
        let mut planner = Planner {
            program,
            groups,
            slots,
            keeping,
            layout: Self {
                words: Vec::new(),
                accumulators: Vec::new(),
                tells: None,
                num_literals: keeping.first_literal,
                ranks: Vec::new(),
                num_global: 0,
                floats: Vec::new(),
                moments: Vec::new(),
                products: Vec::new(),
                places: Vec::new(),
            },
        };
        let is_grouped = !groups.keys.is_empty();
        let counts_rows = |kept: &Accumulator| planner.counted_rows(kept) == Some(program.selected);
        let is_counted = groups.accumulators.iter().any(counts_rows);
        if is_grouped && keeping.by_word && !is_counted {
            let seen = planner.one(WordOp::Seen, Rows::Selected);
            planner.layout.tells = Some(seen);
        }
        for index in 0..groups.accumulators.len() {
            let plan = planner.accumulator(index)?;
            planner.layout.accumulators.push(plan);
        }
        let mut layout = planner.layout;
        let counted = layout.words.iter();
        let mut counted =
            counted.filter(|word| word.op == WordOp::Count && word.rows == Rows::Selected);
        if is_grouped && layout.tells.is_none() {
            layout.tells = counted.next().map(|word| word.index);
        }
        Ok(layout)
    }

    /// Adds a word, unless there is one like it, and returns where it is in global memory.
    fn add(&mut self, word: Word) -> usize {
        let mut known = self.words.iter();
        let known = known.find(|known| {
            known.op == word.op && known.term == word.term && known.rows == word.rows
        });
        if let Some(known) = known {
            return known.index;
        }
        let index = self.num_global;
        self.num_global += if word.split { 2 } else { 1 };
        self.words.push(Word { index, ..word });
        index
    }

    /// Adds the words of keys that need more than 64 bits: the greatest and the greatest complement of
    /// each but the last. Returns where they begin in global memory.
    pub(super) fn add_key_words(&mut self, num_words: usize) -> usize {
        let first = self.num_global;
        for index in 0..num_words - 1 {
            for complement in [false, true] {
                self.add(Word {
                    op: WordOp::Max,
                    term: Term::KeyWord { index, complement },
                    rows: Rows::Selected,
                    range: Interval::ALL,
                    split: false,
                    index: 0,
                });
            }
        }
        first
    }

    /// Returns how each word in global memory takes in another.
    pub(super) fn global_ops(&self) -> Vec<WordOp> {
        let ops = self.words.iter().flat_map(|word| {
            let num = if word.split { 2 } else { 1 };
            std::iter::repeat_n(word.op, num)
        });
        ops.collect()
    }
}

/// Lays out accumulator after accumulator.
struct Planner<'a> {
    program: &'a RowProgram,
    groups: &'a Groups,
    slots: &'a [(Slot, SlotFacts)],
    keeping: Keeping,
    layout: Layout,
}

impl Planner<'_> {
    /// Returns the rows whose number is kept for an accumulator: its finish is told it, or a group may
    /// have none.
    fn counted_rows(&self, kept: &Accumulator) -> Option<ValueId> {
        let is_asked = match kept.reduce {
            Reduce::Count | Reduce::Moments | Reduce::CoMoment { .. } => true,
            _ => self.dictionary_of(kept).is_some(),
        };
        let is_every_row = !self.groups.keys.is_empty() && kept.rows == self.program.selected;
        (is_asked || !is_every_row).then_some(kept.rows)
    }

    fn dictionary_of(&self, accumulator: &Accumulator) -> Option<usize> {
        let slot = self.program.input_of(accumulator.value?)?.column;
        (self.slots[slot].0.kind == SlotKind::Code).then_some(slot)
    }

    fn rows(&self, rows: ValueId) -> Rows {
        match rows == self.program.selected {
            true => Rows::Selected,
            false => Rows::Where(rows),
        }
    }

    fn one(&mut self, op: WordOp, rows: Rows) -> usize {
        self.layout.add(Word {
            op,
            term: Term::One,
            rows,
            range: Interval::of(1),
            split: false,
            index: 0,
        })
    }

    fn accumulator(&mut self, index: usize) -> Result<AccumulatorPlan, Unsupported> {
        let kept = &self.groups.accumulators[index];
        let count = self.counted_rows(kept).map(|rows| {
            let rows = self.rows(rows);
            self.one(WordOp::Count, rows)
        });
        let none = || {
            Err(Unsupported::new(format!(
                "{} has no device form",
                kept.reduce
            )))
        };
        let rows = self.rows(kept.rows);
        let sums = match (kept.reduce, kept.value) {
            (Reduce::Count, _) => Sums::None,
            (_, None) => return none(),
            (Reduce::SumInteger { bits }, Some(value)) => self.integer_sum(value, bits, rows),
            (Reduce::SumFloat, Some(value)) => self.float_sum(value, rows),
            (Reduce::Moments, Some(value)) => self.moments(value, rows),
            (Reduce::Least | Reduce::Greatest, Some(value)) => {
                let complement = kept.reduce == Reduce::Least;
                match self.dictionary_of(kept) {
                    Some(dictionary) => self.string_extreme(value, rows, dictionary, complement),
                    None => self.extreme(value, rows, self.image_of(index, value)?, complement),
                }
            }
            (Reduce::Combine(monoid), Some(value)) if monoid.atomic.is_some() => {
                let word = self.layout.add(Word {
                    op: WordOp::Combine(monoid),
                    term: Term::Integer(value),
                    rows,
                    range: Interval::ALL,
                    split: false,
                    index: 0,
                });
                Sums::Combined { word, monoid }
            }
            (Reduce::CoMoment { other }, Some(value)) => self.co_moment(value, other, rows),
            (Reduce::Combine(_), _) => return none(),
        };
        Ok(AccumulatorPlan { count, sums })
    }

    /// Returns how values of an extreme are ordered in 64 bits. What is unsigned is told by its type, on
    /// which no range of values has a say.
    fn image_of(&self, index: usize, value: ValueId) -> Result<Image, Unsupported> {
        let is_unsigned = self
            .groups
            .results_of(index)
            .first()
            .is_some_and(|result| result.data_type == DataType::UInt64);
        match self.program.data(value).class() {
            Class::Bool => Ok(Image::Bool),
            Class::F32 => Ok(Image::Single),
            Class::F64 => Ok(Image::Double),
            _ if is_unsigned => Ok(Image::Unsigned),
            Class::I32 | Class::I64 => Ok(Image::Signed),
            Class::I128 | Class::Text => Err(Unsupported::new(
                "min or max beyond 64 bits has no device form yet",
            )),
        }
    }

    fn integer_sum(&mut self, value: ValueId, bits: u32, rows: Rows) -> Sums {
        let data = self.program.data(value);
        let range = data.interval();
        let word = |term: Term, range: Interval, split: bool| Word {
            op: WordOp::Add,
            term,
            rows,
            range,
            split,
            index: 0,
        };
        let is_within = |most: i128| range.is_within(Interval::new(-most, most));
        // Modulo 2^64 any sum fits.
        if bits == 64 || is_within(LOCAL_MAX) {
            let split = bits != 64 && !is_within(STATE_MAX);
            let index = self.layout.add(word(Term::Integer(value), range, split));
            let mut limbs = vec![(index, 0)];
            if split {
                limbs.push((index + 1, 32));
            }
            return Sums::Integer { limbs, bits };
        }
        let num_limbs = if data.class() == Class::I128 { 4 } else { 2 };
        let limbs = (0..num_limbs).map(|limb| {
            let (shift, is_last) = (32 * limb, limb + 1 == num_limbs);
            let range = match is_last {
                false => Interval::unsigned(32),
                true => Interval::signed(33),
            };
            let term = Term::Limb {
                value,
                shift,
                is_last,
            };
            (self.layout.add(word(term, range, false)), shift)
        });
        Sums::Integer {
            limbs: limbs.collect(),
            bits,
        }
    }

    fn greatest(&mut self, term: Term, rows: Rows) -> usize {
        self.layout.add(Word {
            op: WordOp::Max,
            term,
            rows,
            range: Interval::ALL,
            split: false,
            index: 0,
        })
    }

    fn extreme(&mut self, value: ValueId, rows: Rows, image: Image, complement: bool) -> Sums {
        let term = Term::Image {
            value,
            image,
            complement,
        };
        let word = self.greatest(term, rows);
        Sums::Extreme {
            word,
            complement,
            image,
        }
    }

    /// Keeps the first or last string by its place in the order of its dictionary, which the launch is
    /// given for each code.
    fn string_extreme(
        &mut self,
        code: ValueId,
        rows: Rows,
        dictionary: usize,
        complement: bool,
    ) -> Sums {
        let mut ranks = self.layout.ranks.iter();
        let known = ranks.find(|(slot, _)| *slot == dictionary);
        let literal = known.map_or(self.layout.num_literals, |(_, at)| *at);
        if literal == self.layout.num_literals {
            self.layout.num_literals += 1;
            self.layout.ranks.push((dictionary, literal));
        }
        let place = Place {
            code,
            rows,
            literal,
        };
        let mut places = self.layout.places.iter();
        let known = places.position(|known| *known == place);
        let index = known.unwrap_or(self.layout.places.len());
        if known.is_none() {
            self.layout.places.push(place);
        }
        let term = Term::Place {
            place: index,
            complement,
        };
        let word = self.greatest(term, rows);
        Sums::String {
            word,
            complement,
            dictionary,
        }
    }
}
