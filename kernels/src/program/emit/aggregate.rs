//! Aggregate calls as words: sums of integers modulo 2^64 and greatest unsigned integers.
//!
//! Both commute, so a state does not depend on the order of its rows. A sum that 64 bits may not hold
//! is kept in limbs of 32 bits, each summed in a word of its own; a float sum is the sum of the
//! digits of its fixed point; an extreme is the greatest of the values' images in unsigned integers
//! of the same order. A call without a value is told by a count.

use arrow_schema::DataType;
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{AggregateCall, AggregateFunction, Expr, ExprKind, Interval};

use super::moments::MomentScale;
use super::{Class, Emitter, Scope, Val, Valid};
use crate::groups::{DIGITS_SEEN, scale_exponent, unit_exponent};

/// How a word takes in a row.
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
}

/// One 64-bit word of a group's state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) op: WordOp,
    /// The C++ value, of type `u64`; empty for a count.
    pub(crate) code: String,
    /// The C++ condition under which a row counts.
    pub(crate) condition: String,
    /// Where the value lies, as a signed integer.
    pub(crate) range: Interval,
    /// In global memory the word is two: its low 32 bits are summed apart from the rest.
    pub(crate) split: bool,
    /// Where the word is in global memory.
    pub(crate) index: usize,
    /// What more there is to a part.
    pub(crate) part: Option<Part>,
}

/// A digit of a float sum that is summed as a double.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// The literal that the sum begins with.
    pub(crate) zero: usize,
    /// The literal that turns a sum into units.
    pub(crate) inverse: usize,
    /// The C++ name of what the digit leaves to the next; none for the last one.
    pub(crate) rest: Option<String>,
}

impl CallPlan {
    /// Moves the call's words a place down.
    pub(crate) fn without_first(&mut self) {
        let words = self.count.iter_mut().chain(match &mut self.sums {
            Sums::None => Vec::new(),
            Sums::Limbs(limbs) => limbs.iter_mut().map(|(word, _)| word).collect(),
            Sums::Float(digits, _) => digits
                .iter_mut()
                .flat_map(|(low, high)| std::iter::once(low).chain(high))
                .collect(),
            Sums::Extreme { word, .. } | Sums::String { word, .. } => vec![word],
            Sums::Moments { sums, squares, .. } => sums.iter_mut().chain(squares).collect(),
        });
        words.for_each(|word| *word -= 1);
    }
}

/// Where a call's state is among the words in global memory.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// The word that counts the values that the call has seen; `None` if every row of a group has one
    /// and only that is asked.
    pub count: Option<usize>,
    /// The rest of it.
    pub sums: Sums,
}

/// The part of a call's state beside its count.
#[derive(Clone, Debug, PartialEq)]
pub enum Sums {
    /// None: the call is a count.
    None,
    /// The sum of words shifted left by so many bits, modulo 2^128.
    Limbs(Vec<(usize, u32)>),
    /// The digits of a fixed point: each a word, or two of which the second counts 2^32.
    Float(Vec<(usize, Option<usize>)>, FloatScaleAt),
    /// A greatest image; `complement` for a least value.
    Extreme {
        /// The word.
        word: usize,
        /// Whether the image is the complement, so that the least is kept.
        complement: bool,
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
}

/// A fixed point's parameters among the literals, and the bound of the values that go into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatScaleAt {
    /// The first of `2 + levels` words.
    pub literal: usize,
    /// How many digits there are.
    pub levels: usize,
    /// Bits of a digit.
    pub digit_bits: u32,
    /// No value is farther from zero; infinite if that is not known.
    pub bound: f64,
}

/// Rows that one block folds before it adds its own state to the global one.
pub const LOCAL_ROWS_MAX: u64 = 1 << 24;

/// Rows that go into one global state. More, and a low limb of 32 bits could overflow its word.
pub const STATE_ROWS_MAX: u64 = 1 << 31;

/// Digits of a float sum whose values have a known bound, and of one whose values have not, or lie
/// far apart.
const LEVELS: usize = 3;
const LEVELS_UNBOUNDED: usize = 5;
const LEVELS_FIXED: usize = 6;
const DIGIT_BITS: u32 = 32;

/// The same where the digits are kept as doubles for a while.
const PARTS: usize = 2;
const PARTS_UNBOUNDED: usize = 4;
const PART_BITS: u32 = 41;

/// The words of a group.
#[derive(Default)]
pub(crate) struct Words {
    /// There are keys, so that a group without a row is not there.
    pub(crate) grouped: bool,
    /// The condition under which a row is selected.
    pub(crate) rows: String,
    pub(crate) words: Vec<Word>,
    pub(crate) num_global: usize,
}

impl Words {
    /// Adds a word, unless there is one like it, and returns where it is in global memory.
    pub(crate) fn add(&mut self, mut word: Word) -> usize {
        word.index = self.num_global;
        let known = self.words.iter().find(|known| {
            known.op == word.op && known.code == word.code && known.condition == word.condition
        });
        if let Some(known) = known {
            return known.index;
        }
        self.num_global += if word.split { 2 } else { 1 };
        self.words.push(word);
        self.words[self.words.len() - 1].index
    }

    /// Adds a word that tells whether a group has a row.
    pub(crate) fn seen(&mut self, condition: &str) -> usize {
        self.add(Word {
            op: WordOp::Seen,
            code: String::new(),
            condition: condition.to_owned(),
            range: Interval::of(1),
            split: false,
            index: 0,
            part: None,
        })
    }

    /// Takes the first word out of global memory, and the others a place down.
    pub(crate) fn without_first(&mut self) {
        self.words.remove(0);
        for word in &mut self.words {
            word.index -= 1;
        }
        self.num_global -= 1;
    }

    /// Adds a count of the rows for which the condition holds.
    pub(crate) fn count(&mut self, condition: &str) -> usize {
        self.add(Word {
            op: WordOp::Count,
            code: String::new(),
            condition: condition.to_owned(),
            range: Interval::of(1),
            split: false,
            index: 0,
            part: None,
        })
    }
}

impl Emitter<'_> {
    /// Emits a call's argument and adds its words.
    pub(crate) fn call(
        &mut self,
        call: &AggregateCall,
        scope: &Scope,
        words: &mut Words,
    ) -> Result<CallPlan, String> {
        let outer = self.guard.clone();
        if let Some(filter) = &call.filter {
            let filter = self.value(filter, scope)?;
            let holds = self.truth(&filter);
            self.guard = self.bind(Class::Bool, &format!("{outer} && {holds}"));
        }
        let plan = self.call_under_guard(call, scope, words);
        self.guard = outer;
        plan
    }

    fn call_under_guard(
        &mut self,
        call: &AggregateCall,
        scope: &Scope,
        words: &mut Words,
    ) -> Result<CallPlan, String> {
        use AggregateFunction::{Count, Max, Min, Sum};
        use AggregateFunction::{StddevPop, StddevSamp, VarPop, VarSamp};

        if let AggregateFunction::Named(_) = call.function {
            return Err(format!("{} is not on a device yet", call.function));
        }
        let Some(argument) = &call.argument else {
            let count = words.count(&self.guard);
            return Ok(CallPlan {
                count: Some(count),
                sums: Sums::None,
            });
        };
        if call.function == Count {
            let valid = self.validity(argument, scope)?;
            let condition = self.condition(&valid);
            let count = words.count(&condition);
            return Ok(CallPlan {
                count: Some(count),
                sums: Sums::None,
            });
        }
        if is_string(&argument.data_type) {
            return self.string_extreme(call.function == Min, argument, scope, words);
        }
        let value = self.value(summed(call.function, argument), scope)?;
        let condition = self.condition(&value.valid);
        let asks_how_many = !matches!(call.function, Max | Min | Sum);
        let is_every_row = words.grouped && condition == words.rows && !asks_how_many;
        let count = if is_every_row {
            None
        } else {
            Some(words.count(&condition))
        };
        let sums = match call.function {
            Min | Max => {
                let unsigned = call.data_type == DataType::UInt64;
                self.extreme(&value, call.function == Min, unsigned, &condition, words)?
            }
            VarPop | VarSamp | StddevPop | StddevSamp => self.moments(&value, &condition, words),
            _ if matches!(value.class, Class::F32 | Class::F64) => {
                self.float_sum(&value, &condition, words)
            }
            _ => {
                let wraps = call.function == Sum
                    && tidegate_pipeline::types::Decimal::of(&call.data_type).is_none();
                self.limbs(&value, wraps, &condition, words)
            }
        };
        Ok(CallPlan { count, sums })
    }

    /// Emits what tells, after the last row, whether the digits held all values.
    pub(crate) fn float_checks(&mut self) {
        for (levels, condition, greatest) in std::mem::take(&mut self.float_distances) {
            self.lines.push(format!(
                "{{ const u32 distance = {greatest}; float_far{levels} = max(float_far{levels}, {condition} ? distance : 0u); }}"
            ));
        }
    }

    /// Returns the validity of an expression of which nothing else is wanted.
    fn validity(&mut self, expr: &Expr, scope: &Scope) -> Result<Valid, String> {
        if !is_string(&expr.data_type) {
            return Ok(self.value(expr, scope)?.valid);
        }
        let is_there = Expr::is_not_null(expr.clone()).map_err(|error| error.to_string())?;
        let value = self.lifted(&is_there, scope)?;
        Ok(Valid::If(value.code))
    }

    fn condition(&mut self, valid: &Valid) -> String {
        match valid {
            Valid::Always => self.guard.clone(),
            Valid::Never => "false".into(),
            Valid::If(valid) => {
                let code = format!("{} && {valid}", self.guard);
                self.bind(Class::Bool, &code)
            }
        }
    }

    fn extreme(
        &mut self,
        value: &Val,
        complement: bool,
        unsigned: bool,
        condition: &str,
        words: &mut Words,
    ) -> Result<Sums, String> {
        let image = match value.class {
            Class::F32 | Class::F64 => format!("extreme_bits((i64){})", value.float_order()),
            // What is unsigned is its own image.
            _ if unsigned => format!("(u64){}", value.code),
            Class::I128 => return Err("min or max beyond 64 bits has no device form yet".into()),
            _ => format!("extreme_bits((i64){})", value.code),
        };
        let sign = if complement { "~" } else { "" };
        let word = words.add(Word {
            op: WordOp::Max,
            code: format!("{sign}{image}"),
            condition: condition.to_owned(),
            range: Interval::ALL,
            split: false,
            index: 0,
            part: None,
        });
        Ok(Sums::Extreme { word, complement })
    }

    /// Keeps the first or last string by its place in the order of its dictionary, which the launch is
    /// told for each code.
    fn string_extreme(
        &mut self,
        complement: bool,
        argument: &Expr,
        scope: &Scope,
        words: &mut Words,
    ) -> Result<CallPlan, String> {
        let value = self.key(argument, scope)?;
        let Some(dictionary) = self.dictionary_of(&value) else {
            return Err("min or max of strings without a dictionary has no device form".into());
        };
        let condition = self.condition(&value.valid);
        let count = words.count(&condition);
        let at = self.ranks_of(dictionary);
        let name = format!("place{}", self.lines.len());
        // A code that is not there is not looked up.
        self.lines.push(format!(
            "const u64 {name} = ({condition}) ? ((const u64*)p.literals[{at}])[(u32){}] : 0ull;",
            value.code
        ));
        let sign = if complement { "~" } else { "" };
        let word = words.add(Word {
            op: WordOp::Max,
            code: format!("{sign}{name}"),
            condition,
            range: Interval::ALL,
            split: false,
            index: 0,
            part: None,
        });
        Ok(CallPlan {
            count: Some(count),
            sums: Sums::String {
                word,
                complement,
                dictionary,
            },
        })
    }

    /// Returns the literal that says where the order of a slot's strings is.
    fn ranks_of(&mut self, slot: usize) -> usize {
        if let Some((_, at)) = self.ranks.iter().find(|(known, _)| *known == slot) {
            return *at;
        }
        let at = self.literals.len();
        self.literals.push(0);
        self.ranks.push((slot, at));
        at
    }

    fn float_sum(&mut self, value: &Val, condition: &str, words: &mut Words) -> Sums {
        let same =
            |(code, under, _): &&(String, String, Sums)| *code == value.code && under == condition;
        if let Some((_, _, sums)) = self.float_sums.iter().find(same) {
            return sums.clone();
        }
        let known = value.bound.is_finite() && !self.wide_floats;
        let keeps_parts = self.keeps_parts && !self.fixed_floats;
        let (levels, digit_bits) = match (keeps_parts, known) {
            _ if self.fixed_floats => (LEVELS_FIXED, DIGIT_BITS),
            (false, true) => (LEVELS, DIGIT_BITS),
            (false, false) => (LEVELS_UNBOUNDED, DIGIT_BITS),
            (true, true) => (PARTS, PART_BITS),
            (true, false) => (PARTS_UNBOUNDED, PART_BITS),
        };
        let exponent = scale_exponent(self.scale_bound(value));
        let levels =
            if levels == PARTS && is_multiple_of(value, unit_exponent(exponent, digit_bits, 0)) {
                // One part holds every digit that a value has.
                1
            } else {
                levels
            };
        // The digits hold enough of each value, as is known without asking it.
        let is_near = levels == 1
            || value.least
                >= 2_f64.powi(unit_exponent(exponent, digit_bits, levels - 1) + DIGITS_SEEN);
        let literal = self.literals.len();
        self.literals.resize(literal + 2 + 2 * levels, 0);
        if !is_near {
            self.check_distance(value, condition, (literal, levels));
        }
        let digits = if keeps_parts {
            self.float_parts(value, condition, (literal, levels), words)
        } else {
            self.float_digits(value, condition, (literal, levels), words)
        };
        let sums = Sums::Float(
            digits,
            FloatScaleAt {
                literal,
                levels,
                digit_bits,
                bound: self.scale_bound(value),
            },
        );
        let known = (value.code.clone(), condition.to_owned(), sums.clone());
        self.float_sums.push(known);
        sums
    }

    /// Notes that each value has to be asked whether the digits hold enough of it.
    fn check_distance(&mut self, value: &Val, condition: &str, (literal, levels): (usize, usize)) {
        if !self.float_scales.iter().any(|(known, _)| *known == levels) {
            self.float_scales.push((levels, literal));
        }
        let distance = format!(
            "float_distance({}, (u32)p.literals[{}])",
            value.code,
            literal + 1
        );
        let same =
            |(of, under, _): &&mut (usize, String, String)| *of == levels && under == condition;
        match self.float_distances.iter_mut().find(same) {
            Some((_, _, greatest)) => *greatest = format!("max({greatest}, {distance})"),
            None => {
                let first = (levels, condition.to_owned(), distance);
                self.float_distances.push(first);
            }
        }
    }

    /// Returns the bound that a value's fixed point is made for.
    pub(super) fn scale_bound(&self, value: &Val) -> f64 {
        if self.fixed_floats {
            f64::INFINITY
        } else {
            value.bound
        }
    }

    /// Adds the digits of a value as integers, and returns their words.
    fn float_digits(
        &mut self,
        value: &Val,
        condition: &str,
        (literal, levels): (usize, usize),
        words: &mut Words,
    ) -> Vec<(usize, Option<usize>)> {
        let magic: Vec<String> = (0..levels)
            .map(|level| double_literal(literal + 2 + level))
            .collect();
        self.lines.extend([
            format!(
                "const double magic{literal}[{levels}] = {{{}}};",
                magic.join(", ")
            ),
            format!("u64 digits{literal}[{levels}];"),
            format!(
                "float_digits<{levels}>({}, magic{literal}, digits{literal});",
                value.code
            ),
        ]);
        let word = |level: usize| Word {
            op: WordOp::Add,
            code: format!("digits{literal}[{level}]"),
            condition: condition.to_owned(),
            range: Interval::new(-(1 << (DIGIT_BITS - 1)), 1 << (DIGIT_BITS - 1)),
            split: false,
            index: 0,
            part: None,
        };
        (0..levels)
            .map(|level| (words.add(word(level)), None))
            .collect()
    }

    /// Adds the digits of a value as doubles, and returns their words.
    fn float_parts(
        &mut self,
        value: &Val,
        condition: &str,
        (literal, levels): (usize, usize),
        words: &mut Words,
    ) -> Vec<(usize, Option<usize>)> {
        let rest = |level: usize| format!("rest{literal}_{level}");
        let counted = if condition == words.rows {
            value.code.clone()
        } else {
            format!("{condition} ? {} : 0.0", value.code)
        };
        self.lines
            .push(format!("const double {} = {counted};", rest(0)));
        let word = |level: usize| Word {
            op: WordOp::Part,
            code: rest(level),
            condition: condition.to_owned(),
            range: Interval::new(-(1 << (PART_BITS - 1)), 1 << (PART_BITS - 1)),
            split: true,
            index: 0,
            part: Some(Part {
                zero: literal + 2 + level,
                inverse: literal + 2 + levels + level,
                rest: (level + 1 < levels).then(|| rest(level + 1)),
            }),
        };
        (0..levels)
            .map(|level| words.add(word(level)))
            .map(|index| (index, Some(index + 1)))
            .collect()
    }

    fn limbs(&mut self, value: &Val, wraps: bool, condition: &str, words: &mut Words) -> Sums {
        let word = |code: String, range: Interval, split: bool| Word {
            op: WordOp::Add,
            code,
            condition: condition.to_owned(),
            range,
            split,
            index: 0,
            part: None,
        };
        let whole = format!("(u64)(i64){}", value.code);
        let local_max = i128::from(i64::MAX) / i128::from(LOCAL_ROWS_MAX);
        if wraps {
            let index = words.add(word(whole, value.range, false));
            return Sums::Limbs(vec![(index, 0)]);
        }
        if value.range.is_within(Interval::new(-local_max, local_max)) {
            let state_max = i128::from(i64::MAX) / i128::from(STATE_ROWS_MAX);
            let split = !value.range.is_within(Interval::new(-state_max, state_max));
            let index = words.add(word(whole, value.range, split));
            let mut limbs = vec![(index, 0)];
            if split {
                limbs.push((index + 1, 32));
            }
            return Sums::Limbs(limbs);
        }
        let num_limbs = match value.class {
            Class::I128 => 4,
            _ => 2,
        };
        let limbs = (0..num_limbs).map(|limb| {
            let shift = 32 * limb;
            let (code, range) = if limb + 1 < num_limbs {
                let code = format!("(u64)(u32)({} >> {shift})", value.code);
                (code, Interval::new(0, (1 << 32) - 1))
            } else {
                let code = format!("(u64)(i64)({} >> {shift})", value.code);
                (code, Interval::signed(33))
            };
            (words.add(word(code, range, false)), shift as u32)
        });
        Sums::Limbs(limbs.collect())
    }
}

fn double_literal(word: usize) -> String {
    format!("__longlong_as_double((i64)p.literals[{word}])")
}

/// Returns what is summed: for the mean of integers the integers themselves, whose sum is exact.
fn summed(function: AggregateFunction, argument: &Expr) -> &Expr {
    match &argument.kind {
        ExprKind::Cast { expr, .. }
            if function == AggregateFunction::Avg
                && argument.data_type == DataType::Float64
                && expr.data_type.is_integer() =>
        {
            expr
        }
        _ => argument,
    }
}

/// Returns whether all values are multiples of a power of two: singles that are not nearer to zero than
/// where their last digit is one.
fn is_multiple_of(value: &Val, exponent: i32) -> bool {
    value.are_singles && value.least >= 2_f64.powi(exponent + 23)
}
