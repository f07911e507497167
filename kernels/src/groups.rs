//! Groups on their way from a device's words to Arrow arrays.
//!
//! A table's slots are decoded to [`Groups`], column by column. A run whose table had to be replaced
//! by one of another layout has several; they are merged by their keys.

mod arrays;
mod calls;
mod floats;
mod moments;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use tidegate_pipeline::{Aggregate, AggregateOutput, EvalError, Step};

use crate::encode::Dictionary;
use crate::program::{EMPTY_KEY, GroupPlan, KEYS_MET, KeyPlan, MomentScale, Presence, Sums};

pub use arrays::{code_array, dictionary_array, integer_array, plain_array};
use calls::{CallColumn, SumColumn};
use floats::FloatSums;
use moments::PowerSums;

/// The groups of an aggregate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    num_groups: usize,
    keys: Vec<Vec<Option<i128>>>,
    calls: Vec<CallColumn>,
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

    /// Returns how many values a call has seen in a group.
    pub fn count_of(&self, call: usize, group: usize) -> u64 {
        self.calls[call].counts[group]
    }

    /// Returns a call's sum in a group, if it is one of integers.
    pub fn integer_of(&self, call: usize, group: usize) -> Option<i128> {
        match &self.calls[call].sums {
            SumColumn::Integers(sums) => sums.get(group).copied(),
            _ => None,
        }
    }

    /// Returns a call's sum in a group, rounded if it is one of integers.
    pub fn sum_of(&self, call: usize, group: usize) -> Option<f64> {
        match &self.calls[call].sums {
            SumColumn::Integers(sums) => sums.get(group).map(|sum| *sum as f64),
            SumColumn::Floats(sums) => sums.get(group),
            _ => None,
        }
    }

    /// Decodes a table. `literals` are those of its launches.
    ///
    /// # Errors
    /// [`KEYS_MET`], if one of its groups is two.
    pub fn decode(
        plan: &GroupPlan,
        literals: &[u64],
        table: TableImage<'_>,
    ) -> Result<Self, &'static str> {
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
                wide_keys(plan, &words.ok_or(KEYS_MET)?)
            }
        };
        let word = |slot: usize, index: usize| table.words[slot * stride + first + index];
        let column = |call: &crate::program::CallPlan| CallColumn {
            counts: match call.count {
                Some(count) => slots.iter().map(|(slot, _)| word(*slot, count)).collect(),
                // A group that is there has a row, and every row a value.
                None => vec![1; slots.len()],
            },
            sums: match &call.sums {
                Sums::None => SumColumn::None,
                Sums::Limbs(limbs) => {
                    let sum = |slot: usize| {
                        limbs.iter().fold(0_i128, |sum, (index, shift)| {
                            let limb = i128::from(word(slot, *index) as i64);
                            sum.wrapping_add(limb.wrapping_shl(*shift))
                        })
                    };
                    SumColumn::Integers(slots.iter().map(|(slot, _)| sum(*slot)).collect())
                }
                Sums::Float(digits, scale) => {
                    let units = digit_units(&literals[scale.literal..], scale.levels);
                    let mut sums = FloatSums::new(units, scale.digit_bits);
                    for (slot, _) in &slots {
                        sums.push(digits.iter().map(|(low, high)| match high {
                            None => i128::from(word(*slot, *low) as i64),
                            Some(high) => {
                                i128::from(word(*slot, *low))
                                    + (i128::from(word(*slot, *high) as i64) << 32)
                            }
                        }));
                    }
                    SumColumn::Floats(sums)
                }
                Sums::Extreme {
                    word: at,
                    complement,
                } => SumColumn::Extremes {
                    images: slots.iter().map(|(slot, _)| word(*slot, *at)).collect(),
                    complement: *complement,
                },
                Sums::String {
                    word: at,
                    complement,
                    dictionary,
                } => {
                    let mask = if *complement { u64::MAX } else { 0 };
                    let code = |(slot, _): &(usize, PackedKey)| (word(*slot, *at) ^ mask) as u32;
                    SumColumn::Codes {
                        codes: slots.iter().map(code).collect(),
                        dictionary: *dictionary,
                        least: *complement,
                    }
                }
                Sums::Moments {
                    sums,
                    squares,
                    scale,
                } => {
                    let unit = scale.unit_of(literals);
                    let of_slot = |slot: usize| {
                        let digits = |words: &[usize]| -> Vec<u64> {
                            words.iter().map(|index| word(slot, *index)).collect()
                        };
                        let (sums, squares) = (digits(sums), digits(squares));
                        PowerSums::of(sums.into_iter(), squares.into_iter(), unit)
                    };
                    SumColumn::Moments(slots.iter().map(|(slot, _)| of_slot(*slot)).collect())
                }
            },
        };
        Ok(Self {
            num_groups: slots.len(),
            keys,
            calls: plan.calls.iter().map(column).collect(),
        })
    }

    /// Puts strings in the place of codes, given the dictionaries by slot: codes of two tables cannot be
    /// compared.
    pub fn named(mut self, dictionaries: &[&Dictionary]) -> Self {
        for call in &mut self.calls {
            let SumColumn::Codes {
                codes,
                dictionary,
                least,
            } = &call.sums
            else {
                continue;
            };
            let values = dictionaries[*dictionary].values();
            // A group without a value has no code.
            let string = |code: &u32| values.get(*code as usize).cloned().unwrap_or_default();
            call.sums = SumColumn::Strings {
                strings: codes.iter().map(string).collect(),
                least: *least,
            };
        }
        self
    }

    /// Merges the groups of several tables of one run.
    pub fn merged(parts: Vec<Self>) -> Self {
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

    fn push(&mut self, from: &Self, row: usize) {
        self.num_groups += 1;
        for (to, from) in self.keys.iter_mut().zip(&from.keys) {
            to.push(from[row]);
        }
        for (to, from) in self.calls.iter_mut().zip(&from.calls) {
            to.counts.push(from.counts[row]);
            match (&mut to.sums, &from.sums) {
                (SumColumn::Integers(to), SumColumn::Integers(from)) => to.push(from[row]),
                (SumColumn::Floats(to), SumColumn::Floats(from)) => to.push_from(from, row),
                (SumColumn::Extremes { images: to, .. }, SumColumn::Extremes { images, .. }) => {
                    to.push(images[row]);
                }
                (SumColumn::Moments(to), SumColumn::Moments(from)) => to.push(from[row].clone()),
                (SumColumn::Strings { strings: to, .. }, SumColumn::Strings { strings, .. }) => {
                    to.push(Arc::clone(&strings[row]));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, at: usize, from: &Self, row: usize) {
        for (to, from) in self.calls.iter_mut().zip(&from.calls) {
            let (count, other_count) = (to.counts[at], from.counts[row]);
            to.counts[at] += other_count;
            match (&mut to.sums, &from.sums) {
                (SumColumn::Integers(to), SumColumn::Integers(from)) => {
                    to[at] = to[at].wrapping_add(from[row]);
                }
                (SumColumn::Floats(to), SumColumn::Floats(from)) => to.add_from(at, from, row),
                (SumColumn::Extremes { images: to, .. }, SumColumn::Extremes { images, .. }) => {
                    to[at] = to[at].max(images[row]);
                }
                (SumColumn::Strings { strings: to, least }, SumColumn::Strings { strings, .. }) => {
                    let is_better = match least {
                        true => strings[row] < to[at],
                        false => strings[row] > to[at],
                    };
                    if other_count > 0 && (count == 0 || is_better) {
                        to[at] = Arc::clone(&strings[row]);
                    }
                }
                (SumColumn::Moments(to), SumColumn::Moments(from)) => {
                    to[at].merge(count, &from[row], other_count);
                }
                _ => {}
            }
        }
    }

    /// Returns the rows that leave the aggregate. Strings among the keys are looked up in the
    /// dictionary of their column.
    ///
    /// # Errors
    /// An average that its type does not hold; a NULL in a column declared without.
    pub fn to_batch(
        &self,
        aggregate: &Aggregate,
        dictionaries: &[Option<&Dictionary>],
        schema: &Arc<Schema>,
    ) -> Result<RecordBatch, EvalError> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (index, key) in aggregate.keys.iter().enumerate() {
            let data_type = &key.expr.data_type;
            let values = &self.keys[index];
            columns.push(match dictionaries.get(index) {
                Some(Some(dictionary)) => dictionary_array(data_type, values, dictionary)?,
                _ => integer_array(data_type, values)?,
            });
        }
        for (call, column) in aggregate.calls.iter().zip(&self.calls) {
            match aggregate.output {
                AggregateOutput::State => columns.extend(column.state(call)?),
                AggregateOutput::Value => columns.push(column.value(call)?),
            }
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
        let call = (size_of::<u64>() + size_of::<i128>()) * self.calls.len();
        self.num_groups * (key + call)
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

/// Returns the value of one unit of each digit, from the literals of its scale.
fn digit_units(literals: &[u64], levels: usize) -> Vec<f64> {
    let magic = |word: &u64| f64::from_bits(*word) / (1.5 * 4_503_599_627_370_496.0);
    literals[2..2 + levels].iter().map(magic).collect()
}

/// Brings scales for the values of a program's float sums into its literals.
pub fn fill_float_scales(plan: &GroupPlan, literals: &mut [u64]) {
    for call in &plan.calls {
        if let Sums::Moments { scale, .. } = &call.sums {
            let unit = scale.unit_exponent(scale_exponent(scale.bound));
            literals[scale.literal] = MomentScale::literal_of(unit);
        }
        let Sums::Float(_, scale) = &call.sums else {
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

/// How many digits of a value its fixed point holds at the least.
pub(crate) const DIGITS_SEEN: i32 = 44;

/// Returns the exponent of a unit of a digit of values below 2^`exponent`.
pub(crate) fn unit_exponent(exponent: i32, digit_bits: u32, level: usize) -> i32 {
    let bits = digit_bits as i32;
    exponent - (bits - 1) - bits * level as i32
}

/// Returns an exponent whose power of two is beyond every value of the bound: a multiple of 8, so
/// that chunks of about the same values share one.
pub fn scale_exponent(bound: f64) -> i32 {
    if !bound.is_finite() {
        return 64;
    }
    let exponent = if bound == 0.0 {
        0
    } else {
        bound.log2().floor() as i32 + 1
    };
    ((exponent + 7).div_euclid(8) * 8).clamp(-800, 960)
}
