//! Groups on their way from a device's words to Arrow arrays.
//!
//! A table's slots are decoded to [`Groups`], column by column. A run whose table had to be replaced
//! by one of another layout has several; they are merged by their keys.

mod accumulated;
pub(crate) mod arrays;
pub(crate) mod floats;
mod moments;
mod products;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use tidegate_pipeline::{Aggregate, EvalError, Step};

use crate::backend::Unsuited;
use crate::host::{Finish, Results};
use crate::program::{EMPTY_KEY, GroupPlan, KeyPlan, MomentScale, Presence, Sums};
use crate::strings::Dictionary;

use accumulated::{Accumulated, SumColumn};
pub use arrays::{code_array, dictionary_array, integer_array, plain_array};
pub use floats::scale_exponent;
use floats::{DIGITS_SEEN, unit_exponent};

/// The groups of an aggregate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    num_groups: usize,
    keys: Vec<Vec<Option<i128>>>,
    accumulated: Vec<Accumulated>,
    /// The accumulators of each call.
    calls: Vec<Vec<usize>>,
}

/// A group table as it was copied from a device.
#[derive(Clone, Copy, Debug)]
pub struct TableImage<'a> {
    /// A bit for each group of a direct-addressed table, if that is what tells the group.
    pub present: &'a [u32],
    /// The words of every slot, slot after slot. A hash table's slots begin with their key, and the
    /// last two are for the packed key that is the same as EMPTY and for NULL.
    pub words: &'a [u64],
}

impl Groups {
    /// Returns how many groups there are.
    pub fn len(&self) -> usize {
        self.num_groups
    }

    /// Returns whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.num_groups == 0
    }

    /// Returns a key of a group: an integer, the bits of a float, the code of a string.
    pub fn key_of(&self, key: usize, group: usize) -> Option<i128> {
        self.keys[key][group]
    }

    /// Returns how many rows the first accumulator of a call, which is its count if it has one, has taken
    /// in in a group.
    pub fn count_of(&self, call: usize, group: usize) -> u64 {
        let first = self.calls.get(call).and_then(|of| of.first());
        let first = first.and_then(|first| self.accumulated.get(*first));
        first.map_or(0, |kept| kept.counts[group])
    }

    /// Returns the accumulator that a call ends with: its sum, or its count if it has nothing else.
    fn last_of(&self, call: usize) -> Option<&Accumulated> {
        let last = self.calls.get(call)?.last()?;
        self.accumulated.get(*last)
    }

    /// Returns a call's sum in a group, if it is one of integers.
    pub fn integer_of(&self, call: usize, group: usize) -> Option<i128> {
        match &self.last_of(call)?.sums {
            SumColumn::Integers { sums, .. } => sums.get(group).copied(),
            _ => None,
        }
    }

    /// Returns a call's sum in a group, rounded if it is one of integers.
    pub fn sum_of(&self, call: usize, group: usize) -> Option<f64> {
        match &self.last_of(call)?.sums {
            SumColumn::Integers { sums, .. } => sums.get(group).map(|sum| *sum as f64),
            SumColumn::Floats(sums) => sums.get(group),
            _ => None,
        }
    }

    /// Decodes a table. `literals` are those of its launches.
    ///
    /// # Errors
    /// [`Unsuited::KeysMet`], if one of its groups is two.
    pub fn decode(
        plan: &GroupPlan,
        literals: &[u64],
        table: TableImage<'_>,
    ) -> Result<Self, Unsuited> {
        let slots = occupied(plan, table);
        let (stride, first) = plan.record();
        let keys = match &plan.wide {
            None => {
                let column = |key: &KeyPlan| {
                    let packed = slots.iter().map(|(_, packed)| *packed);
                    packed.map(|packed| key_of(key, packed)).collect()
                };
                plan.keys.iter().map(column).collect()
            }
            Some(wide) => {
                let seed = literals[wide.seed];
                let words = slots.iter().map(|(slot, packed)| match packed {
                    PackedKey::Packed(key) => {
                        let state = &table.words[slot * stride + first..][..stride - first];
                        wide.words_of(*key, state, seed)
                    }
                    // Their NULLs are among their words.
                    PackedKey::Null => None,
                });
                let words: Option<Vec<_>> = words.collect();
                wide_keys(plan, &words.ok_or(Unsuited::KeysMet)?)
            }
        };
        let words = StateWords {
            words: table.words,
            stride,
            first,
            slots: slots.iter().map(|(slot, _)| *slot).collect(),
        };
        let plans = plan.accumulators.iter();
        Ok(Self {
            num_groups: slots.len(),
            keys,
            accumulated: plans
                .map(|plan| Accumulated::decode(plan, literals, &words))
                .collect(),
            calls: plan.calls.clone(),
        })
    }

    /// Puts strings in the place of codes, given the dictionaries by slot: codes of two tables cannot be
    /// compared.
    pub fn named(mut self, dictionaries: &[&Dictionary]) -> Self {
        let all = self.accumulated.iter_mut();
        all.for_each(|kept| kept.name(dictionaries));
        self
    }

    /// Merges the groups of several tables of one run. Calls may share accumulators in one table and not in
    /// another, of whose rows other facts hold.
    pub fn merged(mut parts: Vec<Self>) -> Self {
        if parts.iter().any(|part| !part.is_empty()) {
            parts.retain(|part| !part.is_empty());
        }
        if parts.windows(2).any(|pair| pair[0].calls != pair[1].calls) {
            parts = parts.into_iter().map(Self::by_call).collect();
        }
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else {
            return Self::default();
        };
        if parts.len() == 0 {
            return all;
        }
        let key_of = |groups: &Self, row: usize| -> Vec<Option<i128>> {
            groups.keys.iter().map(|column| column[row]).collect()
        };
        let mut rows: HashMap<Vec<Option<i128>>, usize> = (0..all.num_groups)
            .map(|row| (key_of(&all, row), row))
            .collect();
        for part in parts {
            for row in 0..part.num_groups {
                let key = key_of(&part, row);
                match rows.get(&key) {
                    Some(at) => all.add(*at, &part, row),
                    None => {
                        rows.insert(key, all.num_groups);
                        all.push(&part, row);
                    }
                }
            }
        }
        all
    }

    /// Gives each call accumulators of its own, in order.
    fn by_call(self) -> Self {
        let order = self.calls.iter().flatten();
        let accumulated = order.filter_map(|at| self.accumulated.get(*at).cloned());
        let mut next = 0;
        let own = |of: &Vec<usize>| {
            let first = next;
            next += of.len();
            (first..next).collect()
        };
        Self {
            accumulated: accumulated.collect(),
            calls: self.calls.iter().map(own).collect(),
            ..self
        }
    }

    fn push(&mut self, from: &Self, row: usize) {
        self.num_groups += 1;
        for (to, from) in self.keys.iter_mut().zip(&from.keys) {
            to.push(from[row]);
        }
        for (to, from) in self.accumulated.iter_mut().zip(&from.accumulated) {
            to.push(from, row);
        }
    }

    fn add(&mut self, at: usize, from: &Self, row: usize) {
        for (to, from) in self.accumulated.iter_mut().zip(&from.accumulated) {
            to.add(at, from, row);
        }
    }

    /// Returns the rows that leave the aggregate. Strings among the keys are looked up in the
    /// dictionary of their column.
    ///
    /// # Errors
    /// What a call's finish raises; a NULL in a column declared without.
    pub fn to_batch(
        &self,
        finishes: &[Finish],
        dictionaries: &[Option<&Dictionary>],
        schema: &Arc<Schema>,
    ) -> Result<RecordBatch, EvalError> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (index, (values, field)) in self.keys.iter().zip(schema.fields()).enumerate() {
            columns.push(match dictionaries.get(index) {
                Some(Some(dictionary)) => dictionary_array(field.data_type(), values, dictionary)?,
                _ => integer_array(field.data_type(), values)?,
            });
        }
        let results = self.accumulated.iter().map(Accumulated::results);
        let results: Vec<Vec<Results>> = results.collect();
        for (finish, call) in finishes.iter().zip(&self.calls) {
            let inputs: Vec<&Results> = call.iter().flat_map(|at| &results[*at]).collect();
            columns.extend(finish.columns(&inputs, self.num_groups)?);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.num_groups));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }

    /// Returns about how many bytes the groups take.
    pub fn memory_bytes(&self) -> usize {
        let key = size_of::<Option<i128>>() * self.keys.len();
        let kept = (size_of::<u64>() + size_of::<i128>()) * self.accumulated.len();
        self.num_groups * (key + kept)
    }
}

/// Returns the schema of an aggregate's output.
pub fn output_schema(aggregate: &Aggregate) -> Arc<Schema> {
    let step = Step::Aggregate(aggregate.clone());
    Arc::new(step.output_schema(&Schema::empty()))
}

/// What names a group in its table.
#[derive(Clone, Copy, Debug)]
enum PackedKey {
    Packed(u64),
    /// The one NULL of a key that fills 64 bits.
    Null,
}

/// The words of groups, by their slots in a table.
struct StateWords<'a> {
    words: &'a [u64],
    /// From one slot to the next, and where a group's own begin.
    stride: usize,
    first: usize,
    slots: Vec<usize>,
}

impl StateWords<'_> {
    /// Returns each group's words.
    fn groups(&self) -> impl Iterator<Item = &[u64]> {
        let own = self.stride - self.first;
        let slots = self.slots.iter();
        slots.map(move |slot| &self.words[slot * self.stride + self.first..][..own])
    }

    /// Returns something that is made of each group's words.
    fn each<T>(&self, make: impl Fn(&[u64]) -> T) -> Vec<T> {
        self.groups().map(make).collect()
    }
}

fn occupied(plan: &GroupPlan, table: TableImage<'_>) -> Vec<(usize, PackedKey)> {
    let (stride, _) = plan.record();
    let by_place = |slot: usize| (slot, PackedKey::Packed(slot as u64));
    match plan.presence {
        Presence::Always => vec![by_place(0)],
        Presence::Word(index) => (0..table.words.len() / stride)
            .filter(|slot| table.words[slot * stride + index] != 0)
            .map(by_place)
            .collect(),
        Presence::Bit => table
            .present
            .iter()
            .enumerate()
            .flat_map(|(word, bits)| {
                let bits = *bits;
                (0..32)
                    .filter(move |bit| bits >> bit & 1 == 1)
                    .map(move |bit| word * 32 + bit)
            })
            .map(by_place)
            .collect(),
        Presence::Key => {
            let slots = table.words.len() / stride;
            let key = |slot: usize| table.words[slot * stride];
            (0..slots)
                .filter(|slot| key(*slot) != EMPTY_KEY)
                .map(|slot| match slots - slot {
                    1 => (slot, PackedKey::Null),
                    2 => (slot, PackedKey::Packed(EMPTY_KEY)),
                    _ => (slot, PackedKey::Packed(key(slot))),
                })
                .collect()
        }
    }
}

/// Returns the columns of keys that need more than 64 bits, given the words of each group's.
fn wide_keys(plan: &GroupPlan, words: &[Vec<u64>]) -> Vec<Vec<Option<i128>>> {
    let column = |key: &KeyPlan| {
        let of_group = |words: &Vec<u64>| key.wide.as_ref().and_then(|at| key.among(at, words));
        words.iter().map(of_group).collect()
    };
    plan.keys.iter().map(column).collect()
}

fn key_of(key: &KeyPlan, packed: PackedKey) -> Option<i128> {
    let PackedKey::Packed(packed) = packed else {
        return None;
    };
    let indices = key.num_values + u128::from(key.nullable);
    let strides = packed / key.stride;
    // Only a key that fills 64 bits has more indices than a word counts, and needs no remainder.
    let index = match u64::try_from(indices) {
        Ok(indices) => u128::from(strides % indices.max(1)),
        Err(_) => u128::from(strides),
    };
    // A key that fills 64 bits has its NULL apart.
    if index == key.num_values {
        return None;
    }
    let distance = (index as i128).wrapping_mul(i128::from(key.step.max(1)));
    Some(key.low.wrapping_add(distance))
}

/// Brings scales for the values of a program's float sums into its literals.
pub fn fill_float_scales(plan: &GroupPlan, literals: &mut [u64]) {
    for kept in &plan.accumulators {
        let moments: &[MomentScale] = match &kept.sums {
            Sums::Moments { scale, .. } => std::slice::from_ref(scale),
            Sums::CoMoment { scales, .. } => scales,
            _ => &[],
        };
        for scale in moments {
            let unit = scale.unit_exponent(scale_exponent(scale.bound));
            literals[scale.literal] = MomentScale::literal_of(unit);
        }
        let Sums::Float(_, scale) = &kept.sums else {
            continue;
        };
        let exponent = scale_exponent(scale.bound);
        let unit = |level: usize| 2_f64.powi(unit_exponent(exponent, scale.digit_bits, level));
        let last = unit(scale.levels - 1);
        // The last unit is 2^-44 of the least value, and the greatest are below the power of two. Both
        // are told by the upper halves of their bits, doubled. Where one digit holds all of each value
        // nothing asks.
        let doubled = |value: f64| (value.to_bits() >> 31) as u32;
        let least = doubled(last * 2_f64.powi(DIGITS_SEEN));
        let reach = doubled(2_f64.powi(exponent)).checked_sub(least);
        literals[scale.literal] = u64::from(reach.unwrap_or(u32::MAX));
        literals[scale.literal + 1] = u64::from(least.wrapping_neg());
        for level in 0..scale.levels {
            let magic = 1.5 * 4_503_599_627_370_496.0 * unit(level);
            literals[scale.literal + 2 + level] = magic.to_bits();
            literals[scale.literal + 2 + scale.levels + level] = (1.0 / unit(level)).to_bits();
        }
    }
}

#[cfg(test)]
mod tests;
