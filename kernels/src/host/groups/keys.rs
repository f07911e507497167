//! Keys as words: each key is one or more parts, numbers of few bits, which are packed into words of 64
//! bits. Two rows are of one group if their words are equal.

use tidegate_pipeline::RowProgram;
use tidegate_pipeline::program::{Groups, Type};

use super::super::code::Register;
use super::super::columns::Column;
use super::super::declined::Declined;
use super::super::simd::widest_of;
use super::super::vector::{Lane, Native, Vector, mismatch, read};
use crate::strings::Dictionary;

/// What a part is of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// The distance from the least value; one more, and 0 for NULL, if `nullable`.
    Distance { low: i128, nullable: bool },
    /// The code of a string, likewise.
    Code { nullable: bool },
    /// The value's bits; of NULL 0.
    Low,
    /// The higher bits of a value of 128 bits; of NULL 0.
    High,
    /// Whether the value is there.
    Valid,
}

/// A part of a key, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) key: usize,
    pub(super) kind: PartKind,
    pub(super) bits: u32,
    pub(super) word: usize,
    pub(super) shift: u32,
}

impl Part {
    /// Returns the bits of the part, moved to the lowest.
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits.clamp(1, 64))
    }
}

/// How keys become words.
#[derive(Clone, Debug)]
pub(in super::super) struct KeyPlan {
    pub(super) parts: Vec<Part>,
    pub(super) num_words: usize,
    lanes: Vec<Lane>,
}

impl KeyPlan {
    pub(in super::super) fn new(program: &RowProgram, groups: &Groups) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let mut used: Vec<u32> = Vec::new();
        let mut lanes = Vec::new();
        for (key, output) in groups.keys.iter().enumerate() {
            let data = program.data(output.value.value);
            let nullable = !program.is(output.value.valid, true);
            lanes.push(Lane::of(data));
            for (kind, bits) in kinds(data, nullable) {
                let room = used.iter().position(|used| used + bits <= 64);
                let word = room.unwrap_or(used.len());
                if room.is_none() {
                    used.push(0);
                }
                parts.push(Part {
                    key,
                    kind,
                    bits,
                    word,
                    shift: used[word],
                });
                used[word] += bits;
            }
        }
        Self {
            parts,
            num_words: used.len().max(1),
            lanes,
        }
    }

    /// Returns how many words a key has.
    pub(in super::super) fn num_words(&self) -> usize {
        self.num_words
    }

    /// Adds a part of each row's key, times a factor, to a word of each row.
    pub(super) fn add_part<W: Word>(
        &self,
        part: &Part,
        keys: Keys<'_>,
        times: impl Fn(u64) -> W + Copy,
        words: &mut [W],
    ) -> Result<(), Declined> {
        let (vector, valid) = (keys.value(part.key), keys.valid(part.key));
        match self.lanes[part.key] {
            Lane::Bool => add::<u8, W>(part, vector, valid, times, words),
            Lane::I32 | Lane::Text => add::<i32, W>(part, vector, valid, times, words),
            Lane::I64 => add::<i64, W>(part, vector, valid, times, words),
            Lane::I128 => add::<i128, W>(part, vector, valid, times, words),
            Lane::F32 => add::<f32, W>(part, vector, valid, times, words),
            Lane::F64 => add::<f64, W>(part, vector, valid, times, words),
        }
    }

    /// Replaces the codes of strings in words, which lie column by column: those of each key by `codes`.
    pub(super) fn recode(&self, codes: &[Vec<u32>], words: &mut [Vec<u64>]) {
        for part in &self.parts {
            let (PartKind::Code { nullable }, Some(codes), Some(words)) =
                (part.kind, codes.get(part.key), words.get_mut(part.word))
            else {
                continue;
            };
            let (null, mask) = (u64::from(nullable), part.mask());
            for word in words {
                let number = *word >> part.shift & mask;
                let code = number.checked_sub(null);
                let code = code.and_then(|code| codes.get(code as usize));
                let other = code.map_or(0, |code| u64::from(*code) + null);
                *word = *word & !(mask << part.shift) | other << part.shift;
            }
        }
    }

    /// Returns the number that a part is in a group's words.
    pub(super) fn number(part: &Part, words: &[u64]) -> u64 {
        words
            .get(part.word)
            .map_or(0, |word| word >> part.shift & part.mask())
    }

    /// Appends a key of integers of 64 bits, or fewer, that has one number; returns whether it is one.
    fn append_distances(
        &self,
        part: &Part,
        words: &[u64],
        column: &mut Column,
    ) -> Result<bool, Declined> {
        let (low, nullable) = match part.kind {
            PartKind::Distance { low, nullable } => (low as u64, nullable),
            PartKind::Low => (0, false),
            PartKind::Code { .. } | PartKind::High | PartKind::Valid => return Ok(false),
        };
        if !matches!(self.lanes[part.key], Lane::I32 | Lane::I64) {
            return Ok(false);
        }
        let (mask, shift) = (part.mask(), part.shift);
        let numbers = words.chunks_exact(self.num_words);
        let numbers = numbers.map(|words| words[part.word] >> shift & mask);
        let value = |number: u64| low.wrapping_add(number).wrapping_sub(nullable.into()) as i64;
        let values: Vec<i64> = numbers.clone().map(value).collect();
        let valid: Option<Vec<u8>> =
            nullable.then(|| numbers.map(|number| (number != 0).into()).collect());
        column.append_integers(&values, valid.as_deref())?;
        Ok(true)
    }

    /// Appends a key of strings.
    fn append_codes(
        &self,
        part: &Part,
        nullable: bool,
        words: &[u64],
        strings: &Dictionary,
        column: &mut Column,
    ) -> Result<(), Declined> {
        let (mask, shift) = (part.mask(), part.shift);
        let numbers = words.chunks_exact(self.num_words);
        let numbers = numbers.map(|words| (words[part.word] >> shift & mask) as u32);
        let code = |number: u32| number.saturating_sub(nullable.into());
        let codes: Vec<u32> = numbers.clone().map(code).collect();
        let valid: Option<Vec<u8>> =
            nullable.then(|| numbers.map(|number| (number != 0).into()).collect());
        column.fill_with_codes(strings, &codes, valid.as_deref())
    }

    /// Appends a key of groups, whose words lie side by side, to a column.
    pub(in crate::host) fn append_key(
        &self,
        key: usize,
        words: &[u64],
        strings: &Dictionary,
        column: &mut Column,
    ) -> Result<(), Declined> {
        let parts: Vec<&Part> = self.parts.iter().filter(|part| part.key == key).collect();
        if let [part] = parts[..] {
            if let PartKind::Code { nullable } = part.kind {
                return self.append_codes(part, nullable, words, strings, column);
            }
            if self.append_distances(part, words, column)? {
                return Ok(());
            }
        }
        let lane = self.lanes[key];
        for words in words.chunks_exact(self.num_words) {
            let (mut bits, mut valid) = (0_i128, true);
            for part in &parts {
                let number = Self::number(part, words);
                match part.kind {
                    PartKind::Distance { low, nullable } => {
                        valid = !nullable || number != 0;
                        let distance = i128::from(number) - i128::from(nullable && valid);
                        bits = low.wrapping_add(distance);
                    }
                    PartKind::Low => {
                        bits |= match lane {
                            Lane::I32 | Lane::I64 => i128::from(number as i64),
                            _ => i128::from(number),
                        };
                    }
                    PartKind::High => bits |= i128::from(number as i64) << 64,
                    PartKind::Valid => valid = number != 0,
                    // A key of strings has one part.
                    PartKind::Code { .. } => return Err(mismatch(lane)),
                }
            }
            match lane {
                Lane::F32 => {
                    let float = f32::from_bits(bits as u32);
                    column.push_float(valid.then(|| float.into()))?;
                }
                Lane::F64 => {
                    let float = f64::from_bits(bits as u64);
                    column.push_float(valid.then_some(float))?;
                }
                _ => column.push_int(valid.then_some(bits))?,
            }
        }
        Ok(())
    }
}

/// Returns the parts of a key, with their bits.
fn kinds(data: Type, nullable: bool) -> Vec<(PartKind, u32)> {
    let mut kinds = match data {
        Type::Text => return vec![(PartKind::Code { nullable }, 31)],
        Type::Float32(_) => vec![(PartKind::Low, 32)],
        Type::Float64(_) => vec![(PartKind::Low, 64)],
        Type::Bool | Type::Int(_) => {
            let interval = data.interval();
            let values = interval.num_values();
            let most = values.and_then(|values| values.checked_add(nullable.into()));
            if let Some(most) = most.filter(|most| *most <= 1 << 64) {
                let bits = 128 - (most - 1).leading_zeros();
                let low = interval.low;
                return vec![(PartKind::Distance { low, nullable }, bits.max(1))];
            }
            match Lane::of(data) {
                Lane::I128 => vec![(PartKind::Low, 64), (PartKind::High, 64)],
                _ => vec![(PartKind::Low, 64)],
            }
        }
    };
    if nullable {
        kinds.push((PartKind::Valid, 1));
    }
    kinds
}

/// The keys of a block's selected rows.
#[derive(Clone, Copy)]
pub(in super::super) struct Keys<'a> {
    pub(in super::super) registers: &'a [Vector],
    pub(in super::super) keys: &'a [(Register, Option<Register>)],
}

impl<'a> Keys<'a> {
    fn value(self, key: usize) -> &'a Vector {
        &self.registers[self.keys[key].0]
    }

    fn valid(self, key: usize) -> Option<&'a Vector> {
        self.keys[key].1.map(|register| &self.registers[register])
    }
}

/// What parts are made of.
trait KeyValue: Native {
    fn distance(self, low: i128) -> u64;
    fn low(self) -> u64;
    fn high(self) -> u64 {
        0
    }
}

macro_rules! short {
    ($($type:ty),*) => {$(
        impl KeyValue for $type {
            #[inline(always)]
            fn distance(self, low: i128) -> u64 {
                (self as i64 as u64).wrapping_sub(low as u64)
            }
            #[inline(always)]
            fn low(self) -> u64 {
                self as i64 as u64
            }
        }
    )*};
}
short!(u8, i32, i64);

impl KeyValue for i128 {
    #[inline(always)]
    fn distance(self, low: i128) -> u64 {
        (self as u64).wrapping_sub(low as u64)
    }
    #[inline(always)]
    fn low(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn high(self) -> u64 {
        (self >> 64) as u64
    }
}

impl KeyValue for f32 {
    fn distance(self, _: i128) -> u64 {
        0
    }
    #[inline(always)]
    fn low(self) -> u64 {
        self.to_bits().into()
    }
}

impl KeyValue for f64 {
    fn distance(self, _: i128) -> u64 {
        0
    }
    #[inline(always)]
    fn low(self) -> u64 {
        self.to_bits()
    }
}

fn add<T: KeyValue, W: Word>(
    part: &Part,
    vector: &Vector,
    valid: Option<&Vector>,
    times: impl Fn(u64) -> W + Copy,
    words: &mut [W],
) -> Result<(), Declined> {
    let values = read::<T>(vector, words.len())?;
    let valid = valid
        .map(|valid| read::<u8>(valid, words.len()))
        .transpose()?;
    match part.kind {
        PartKind::Distance { low, nullable } => {
            let of = |value: T| value.distance(low).wrapping_add(nullable.into());
            each(values, valid, words, |value| times(of(value)));
        }
        PartKind::Code { nullable } => {
            let of = |value: T| value.low().wrapping_add(nullable.into());
            each(values, valid, words, |value| times(of(value)));
        }
        PartKind::Low => each(values, valid, words, |value| times(value.low())),
        PartKind::High => each(values, valid, words, |value| times(value.high())),
        PartKind::Valid => each(values, valid, words, |_| times(1)),
    }
    Ok(())
}

/// What the parts of a row's key are added up in.
pub(super) trait Word: Copy + Default {
    fn plus(self, other: Self) -> Self;
}

macro_rules! words {
    ($($type:ty),*) => {$(
        impl Word for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
words!(u32, u64);

/// Adds to each word what a value gives, and nothing where it is not there.
fn each<T: Copy, W: Word>(
    values: &[T],
    valid: Option<&[u8]>,
    words: &mut [W],
    of: impl Fn(T) -> W,
) {
    match valid {
        None => widest_of(add_all, (values, words, of)),
        Some(valid) => widest_of(add_valid, (values, valid, words, of)),
    }
}

#[inline(always)]
fn add_all<T: Copy, W: Word>((values, words, of): (&[T], &mut [W], impl Fn(T) -> W)) {
    for (word, value) in words.iter_mut().zip(values) {
        *word = word.plus(of(*value));
    }
}

#[inline(always)]
fn add_valid<T: Copy, W: Word>(
    (values, valid, words, of): (&[T], &[u8], &mut [W], impl Fn(T) -> W),
) {
    for ((word, value), valid) in words.iter_mut().zip(values).zip(valid) {
        let counted = word.plus(of(*value));
        *word = if *valid != 0 { counted } else { *word };
    }
}
