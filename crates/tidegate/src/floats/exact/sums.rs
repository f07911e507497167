//! Exact sums of floats, and of products of two, a sum for each group.
//!
//! A double is an integer of 53 bits times a power of two, and a product of two one of 106 bits. Both are added
//! to words of a fixed point, each of which counts a multiple of 2^32 times that of the word before. Nothing is
//! rounded until a sum is read, so that sums do not depend on the order in which values come. (A "long
//! accumulator", as in U. Kulisch, "Computer Arithmetic and Validity", but with no more words than the values
//! need, and with spare bits in each, so that a carry is rare.)

use std::ops::Range;

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use num_bigint::{BigInt, Sign};

/// Bits of a word that count; the others take what additions carry.
const BITS: i32 = 32;

/// How many numbers are added before words are carried: each adds less than 2^32 to a word of 63 bits.
const ADDED_MAX: u32 = 1 << 30;

/// Words above those of a number: 64 bits, more than the sum of 2^63 numbers takes.
const SPARE: i32 = 2;

/// The places of words that any sum has: products of the least doubles are multiples of 2^-2148, those of the
/// greatest are below 2^2048.
const PLACES: Range<i32> = -70..70;

/// A sum for each group.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactSums {
    /// The words of group after group, the least first.
    words: Vec<i64>,
    /// The place of the first word of each group: it counts multiples of 2^(32 · place).
    low: i32,
    /// The number of words of each group.
    width: usize,
    groups: usize,
    /// How many numbers were added since words were carried.
    added: u32,
    /// The sum of what is infinite or NaN, by group; empty while there is none.
    special: Vec<f64>,
}

impl ExactSums {
    /// Adds groups with a sum of 0 until there are so many.
    pub(super) fn resize(&mut self, groups: usize) {
        self.groups = groups;
        self.words.resize(groups * self.width, 0);
        if !self.special.is_empty() {
            self.special.resize(groups, 0.0);
        }
    }

    /// Adds a value to a group's sum.
    pub(super) fn add(&mut self, group: usize, value: f64) {
        match parts(value) {
            Some((mantissa, exponent)) => {
                self.add_integer(group, mantissa, exponent, value.is_sign_negative());
            }
            None => self.add_special(group, value),
        }
    }

    /// Adds the product of two values to a group's sum.
    pub(super) fn add_product(&mut self, group: usize, a: f64, b: f64) {
        let (Some((one, exponent)), Some((other, other_exponent))) = (parts(a), parts(b)) else {
            return self.add_special(group, a * b);
        };
        let product = u128::from(one) * u128::from(other);
        let exponent = exponent + other_exponent;
        let is_negative = a.is_sign_negative() != b.is_sign_negative();
        self.add_integer(group, product as u64, exponent, is_negative);
        self.add_integer(group, (product >> 64) as u64, exponent + 64, is_negative);
    }

    fn add_special(&mut self, group: usize, value: f64) {
        self.special.resize(self.groups, 0.0);
        self.special[group] += value;
    }

    /// Adds an integer times a power of two.
    fn add_integer(&mut self, group: usize, integer: u64, exponent: i32, is_negative: bool) {
        if integer == 0 {
            return;
        }
        let place = exponent.div_euclid(BITS);
        let shifted = u128::from(integer) << exponent.rem_euclid(BITS);
        self.hold(place, place + 3 + SPARE);
        let first = group * self.width + (place - self.low) as usize;
        let words = &mut self.words[first..first + 3];
        for (at, word) in words.iter_mut().enumerate() {
            let part = i64::from((shifted >> (BITS as usize * at)) as u32);
            *word += if is_negative { -part } else { part };
        }
        self.count_added();
    }

    fn count_added(&mut self) {
        self.added += 1;
        if self.added == ADDED_MAX {
            self.added = 0;
            let width = self.width;
            self.words.chunks_exact_mut(width).for_each(carry);
        }
    }

    /// Sees to it that there are words of these places.
    fn hold(&mut self, low: i32, end: i32) {
        let held_end = self.low + self.width as i32;
        if self.width > 0 && low >= self.low && end <= held_end {
            return;
        }
        let (low, end) = match self.width {
            0 => (low, end),
            _ => (low.min(self.low), end.max(held_end)),
        };
        let width = (end - low) as usize;
        let mut words = vec![0; self.groups * width];
        if self.width > 0 {
            let before = (self.low - low) as usize;
            let from = self.words.chunks_exact(self.width);
            for (to, from) in words.chunks_exact_mut(width).zip(from) {
                to[before..before + from.len()].copy_from_slice(from);
            }
        }
        (self.words, self.low, self.width) = (words, low, width);
    }

    fn special_of(&self, group: usize) -> f64 {
        self.special.get(group).copied().unwrap_or(0.0)
    }

    /// Returns a group's words, carried, and the place of the first.
    fn carried(&self, group: usize) -> Vec<i64> {
        let mut words = self.words_of(group).to_vec();
        carry(&mut words);
        words
    }

    /// Returns a group's sum as an integer and the exponent of the power of two that it is a multiple of; `Err`
    /// with the sum, if it is infinite or NaN.
    pub(super) fn integer(&self, group: usize) -> std::result::Result<(BigInt, i32), f64> {
        let special = self.special_of(group);
        // NaN differs from 0 as well.
        if special != 0.0 {
            return Err(special);
        }
        let words = self.carried(group);
        Ok((
            BigInt::from_signed_bytes_le(&bytes(&words)),
            BITS * self.low,
        ))
    }

    /// Returns a group's sum, rounded to the nearest double, ties to even.
    pub(super) fn rounded(&self, group: usize) -> f64 {
        if let Some(rounded) = self.rounded_short(group) {
            return rounded;
        }
        match self.integer(group) {
            Ok((integer, exponent)) => nearest(&integer, exponent),
            Err(special) => special,
        }
    }

    /// Returns the same of a finite sum whose words make an integer of 128 bits, as those of most sums do.
    fn rounded_short(&self, group: usize) -> Option<f64> {
        let exponent = BITS * self.low;
        // Neither a power of two beyond doubles nor a product that is: it is rounded once, by the conversion.
        if self.special_of(group) != 0.0 || !(-1_000..=800).contains(&exponent) {
            return None;
        }
        let mut integer = 0_i128;
        for word in self.words_of(group).iter().rev() {
            integer = integer
                .checked_mul(1 << BITS)?
                .checked_add(i128::from(*word))?;
        }
        Some(integer as f64 * power_of_two(i64::from(exponent)))
    }

    fn words_of(&self, group: usize) -> &[i64] {
        &self.words[group * self.width..(group + 1) * self.width]
    }

    /// Returns a group's sum as bytes: the same for the same sum, however it came to be.
    ///
    /// A finite sum is the place of its first word that is not 0 (16 bits, little-endian) and its words (32 bits
    /// each, little-endian, together in two's complement). Another is a double (8 bytes) behind the place 32767.
    #[cfg(test)]
    pub(super) fn state(&self, group: usize) -> Vec<u8> {
        let mut state = Vec::new();
        self.write_state(group, &mut Vec::new(), &mut state);
        state
    }

    /// Writes the same into `state`; `words` is room for a group's words. What was in them is gone.
    pub(super) fn write_state(&self, group: usize, words: &mut Vec<i64>, state: &mut Vec<u8>) {
        state.clear();
        let special = self.special_of(group);
        if special != 0.0 {
            let canonical = if special.is_nan() { f64::NAN } else { special };
            state.extend(i16::MAX.to_le_bytes());
            state.extend(canonical.to_le_bytes());
            return;
        }
        words.clear();
        words.extend(self.words_of(group));
        carry(words);
        let zeros = words.iter().take_while(|word| **word == 0).count();
        let low = match zeros == words.len() {
            true => 0,
            false => self.low + zeros as i32,
        };
        state.extend((low as i16).to_le_bytes());
        for word in trimmed(&words[zeros..]) {
            state.extend((*word as i32).to_le_bytes());
        }
    }

    /// Adds a sum of [`Self::state`].
    ///
    /// # Errors
    ///
    /// `Execution` if the bytes are no such state.
    pub(super) fn merge(&mut self, group: usize, state: &[u8]) -> Result<()> {
        let Some((place, words)) = state.split_first_chunk::<2>() else {
            return exec_err!("the state of an exact sum has {} bytes", state.len());
        };
        let place = i16::from_le_bytes(*place);
        if place == i16::MAX {
            let Ok(special) = words.try_into() else {
                return exec_err!("the state of an exact sum has {} bytes", state.len());
            };
            self.add_special(group, f64::from_le_bytes(special));
            return Ok(());
        }
        let (place, (words, rest)) = (i32::from(place), words.as_chunks::<4>());
        let end = place.saturating_add(words.len() as i32);
        if !rest.is_empty() || place < PLACES.start || end > PLACES.end {
            return exec_err!(
                "the state of an exact sum has {} bytes from the place {place} on",
                state.len()
            );
        }
        let Some((last, others)) = words.split_last() else {
            return Ok(());
        };
        self.hold(place, end + SPARE);
        let first = group * self.width + (place - self.low) as usize;
        let to = &mut self.words[first..];
        for (to, word) in to.iter_mut().zip(others) {
            *to += i64::from(u32::from_le_bytes(*word));
        }
        to[others.len()] += i64::from(i32::from_le_bytes(*last));
        self.count_added();
        Ok(())
    }

    /// Takes the first groups, or all of them, out.
    pub(super) fn take(&mut self, emit: EmitTo) -> Self {
        let groups = match emit {
            EmitTo::All => self.groups,
            EmitTo::First(groups) => groups,
        };
        let words = groups * self.width;
        let special = groups.min(self.special.len());
        let taken = Self {
            words: EmitTo::First(words).take_needed(&mut self.words),
            groups,
            special: EmitTo::First(special).take_needed(&mut self.special),
            ..*self
        };
        self.groups -= groups;
        taken
    }

    /// Bytes that are held.
    pub(super) fn size(&self) -> usize {
        size_of::<i64>() * self.words.capacity() + size_of::<f64>() * self.special.capacity()
    }
}

/// Returns the integer and the exponent of two of a double without its sign; `None` of one that is not finite.
fn parts(value: f64) -> Option<(u64, i32)> {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    match exponent {
        0x7ff => None,
        0 => Some((fraction, -1074)),
        _ => Some((fraction | 1 << 52, exponent - 1075)),
    }
}

/// Leaves bits of a word in it that count, and adds the others to the next; the last has the sign.
fn carry(words: &mut [i64]) {
    let mut carried = 0;
    let last = words.len().saturating_sub(1);
    for (at, word) in words.iter_mut().enumerate() {
        *word += carried;
        if at < last {
            carried = *word >> BITS;
            *word &= i64::from(u32::MAX);
        }
    }
}

/// Returns carried words in two's complement.
fn bytes(words: &[i64]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|word| (*word as u32).to_le_bytes())
        .collect()
}

/// Leaves carried words out at the end that the sign of those before tells, in two's complement.
fn trimmed(mut words: &[i64]) -> &[i64] {
    while let [rest @ .., last] = words
        && let Some(before) = rest.last()
        && *last as i32 == *before as i32 >> 31
    {
        words = rest;
    }
    words
}

/// Returns the double that is nearest to an integer times a power of two, ties to even.
pub(super) fn nearest(integer: &BigInt, exponent: i32) -> f64 {
    let magnitude = integer.magnitude();
    let bits = magnitude.bits() as i64;
    if bits == 0 {
        return 0.0;
    }
    // The exponent of the last bit of the double.
    let unit = (bits + i64::from(exponent) - 53).max(-1074);
    let mantissa = match unit - i64::from(exponent) {
        cut @ 1.. => {
            let kept = (magnitude >> cut).iter_u64_digits().next().unwrap_or(0);
            let is_half = magnitude.bit(cut as u64 - 1);
            let is_tie = magnitude.trailing_zeros() == Some(cut as u64 - 1);
            kept + u64::from(is_half && (!is_tie || kept & 1 == 1))
        }
        spare => {
            let kept = magnitude.iter_u64_digits().next().unwrap_or(0);
            kept << -spare
        }
    };
    let rounded = match unit {
        972.. => f64::INFINITY,
        // Both are doubles, and so is their product, or it is infinite.
        _ => mantissa as f64 * power_of_two(unit),
    };
    match integer.sign() {
        Sign::Minus => -rounded,
        Sign::NoSign | Sign::Plus => rounded,
    }
}

/// Returns 2^`exponent`, which is from −1074 to 1023.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(match exponent {
        -1022.. => ((exponent + 1023) as u64) << 52,
        _ => 1 << (exponent + 1074),
    })
}

#[cfg(test)]
mod tests;
