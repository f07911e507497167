//! Group keys that need more than 64 bits.
//!
//! They are packed into several words. A table knows such a key by one: the last of them, combined with
//! a hash of the others, under a seed that each launch is told. A group's state has two more words for
//! each of the others: the greatest and the greatest complement. Where these are complements of each
//! other, all rows of the group had one key, which can be read from them; where they are not, two keys
//! have met in one group, and the fold counts for nothing.

use super::store::{KEY_LITERALS, KeyPlan, KeyText};

pub(super) const WIDE_KEY: &str = include_str!("../../cuda/wide_key.cuh");

/// The values that a word has.
const WORD_VALUES: u128 = 1 << 64;

/// Where a key is among the words that its group's keys are packed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WidePlace {
    /// The word of its index, which is multiplied by the key's stride there.
    pub word: usize,
    /// Its value has more than 64 bits and takes this word and the next: first its lower half.
    pub is_halved: bool,
    /// The word and the bit that is set where the key is NULL, if it can be.
    pub null: Option<(usize, u32)>,
}

/// The words of keys that need more than 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideKeys {
    /// How many words there are.
    pub num_words: usize,
    /// The first of the group's words that hold them: the greatest and the greatest complement of each
    /// but the last.
    pub first: usize,
    /// The literal that is the seed of their hash, an odd number.
    pub seed: usize,
}

impl WideKeys {
    /// Returns the words of a group's keys, from the word that its table knows it by and those of its
    /// state; `None` if two keys have met there.
    pub(crate) fn words_of(&self, key: u64, state: &[u64], seed: u64) -> Option<Vec<u64>> {
        let pairs = state.get(self.first..)?.chunks_exact(2);
        let mut words = Vec::with_capacity(self.num_words);
        let mut hash = 0;
        for pair in pairs.take(self.num_words - 1) {
            if pair[0] != !pair[1] {
                return None;
            }
            words.push(pair[0]);
            hash = mix((hash ^ pair[0]).wrapping_mul(seed));
        }
        words.push(key ^ hash);
        Some(words)
    }

    /// Returns the C++ hash of all words but the last.
    pub(super) fn hash_code(&self) -> String {
        let seed = self.seed;
        (0..self.num_words - 1).fold("0ull".to_owned(), |hash, word| {
            format!("hash_key_word({hash}, {KEY_WORD}{word}, p.literals[{seed}])")
        })
    }

    /// Returns the lines that read a group's key words from its state's words `w0`, `w1` and so on.
    pub(super) fn reading_code(&self) -> Vec<String> {
        let last = self.num_words - 1;
        let mut lines = Vec::new();
        for word in 0..last {
            let most = self.first + 2 * word;
            lines.push(format!("const u64 {KEY_WORD}{word} = w{most};"));
            lines.push(format!(
                "if ({KEY_WORD}{word} != ~w{}) atomicMax(&p.flags[FLAG_KEYS_MET], 1u);",
                most + 1
            ));
        }
        lines.push(format!(
            "const u64 {KEY_WORD}{last} = packed ^ {};",
            self.hash_code()
        ));
        lines
    }
}

/// What the C++ names of key words begin with.
pub(super) const KEY_WORD: &str = "key_word";

/// The finaliser of MurmurHash3, as kernels have it.
fn mix(mut key: u64) -> u64 {
    key ^= key >> 33;
    key = key.wrapping_mul(0xff51_afd7_ed55_8ccd);
    key ^= key >> 33;
    key = key.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ (key >> 33)
}

/// Returns a seed to be tried after this one.
pub(crate) fn next_seed(seed: u64) -> u64 {
    mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1
}

/// Gives each key its place, and returns how many words there are. NULLs come first, a bit each.
pub(super) fn place<'a>(keys: impl Iterator<Item = &'a mut KeyPlan>) -> usize {
    let mut keys: Vec<&mut KeyPlan> = keys.collect();
    let num_nulls = keys.iter().filter(|key| key.nullable).count();
    let mut totals: Vec<u128> = (0..num_nulls.div_ceil(64))
        .map(|word| 1 << (num_nulls - 64 * word).min(64))
        .collect();
    let mut nulls = (0..num_nulls).map(|bit| (bit / 64, bit as u32 % 64));
    for key in &mut keys {
        let null = if key.nullable { nulls.next() } else { None };
        let is_halved = key.num_values > WORD_VALUES;
        let fits = |total: &u128| {
            let with = total.saturating_mul(key.num_values);
            !is_halved && *total < WORD_VALUES && with <= WORD_VALUES
        };
        let word = match totals.iter().position(fits) {
            Some(word) => word,
            None => {
                totals.push(1);
                totals.len() - 1
            }
        };
        key.stride = u64::try_from(totals[word]).unwrap_or(1);
        if is_halved {
            totals[word] = WORD_VALUES;
            totals.push(WORD_VALUES);
        } else {
            totals[word] *= key.num_values;
        }
        key.wide = Some(WidePlace {
            word,
            is_halved,
            null,
        });
    }
    totals.len()
}

/// Returns the C++ of the words of a row's keys, given that of each key's index.
pub(super) fn words_code(
    keys: &[(KeyPlan, KeyText)],
    num_words: usize,
    key_literals: usize,
    index_of: impl Fn(usize) -> String,
) -> Vec<String> {
    let mut terms = vec![Vec::new(); num_words];
    for (position, (key, value)) in keys.iter().enumerate() {
        let Some(place) = key.wide else {
            continue;
        };
        if let (Some((word, bit)), Some(valid)) = (place.null, &value.valid) {
            let mask = 1_u64 << bit;
            terms[word].push(format!("({valid} ? 0ull : {mask}ull)"));
        }
        let mut add = |word: usize, code: String| {
            terms[word].push(match &value.valid {
                None => code,
                Some(valid) => format!("({valid} ? {code} : 0ull)"),
            });
        };
        if place.is_halved {
            add(place.word, format!("(u64){}", value.code));
            add(place.word + 1, format!("(u64)({} >> 64)", value.code));
        } else if key.stride == 1 {
            add(place.word, index_of(position));
        } else {
            let stride = key_literals + KEY_LITERALS * position + 2;
            let index = index_of(position);
            add(place.word, format!("{index} * p.literals[{stride}]"));
        }
    }
    terms.iter().map(|terms| terms.join(" + ")).collect()
}

impl KeyPlan {
    /// Returns the key among the words of its group's keys: an integer, the bits of a float, the code of a
    /// string; `None` for NULL.
    pub(crate) fn among(&self, place: &WidePlace, words: &[u64]) -> Option<i128> {
        if place
            .null
            .is_some_and(|(word, bit)| words[word] >> bit & 1 == 1)
        {
            return None;
        }
        let word = words[place.word];
        if place.is_halved {
            let high = u128::from(words[place.word + 1]);
            return Some((high << 64 | u128::from(word)) as i128);
        }
        let index = u128::from(word / self.stride) % self.num_values;
        let distance = (index as i128).wrapping_mul(i128::from(self.step.max(1)));
        Some(self.low.wrapping_add(distance))
    }

    /// Returns the C++ of the key's index among the words of its group's keys.
    pub(super) fn among_code(&self, place: &WidePlace, literals: usize) -> String {
        let mut index = format!("{KEY_WORD}{}", place.word);
        if self.stride != 1 {
            index = format!("{index} / p.literals[{}]", literals + 2);
        }
        if self.num_values < WORD_VALUES {
            index = format!("({index}) % p.literals[{}]", literals + 1);
        }
        index
    }
}
