//! The C++ of what accumulators give for a group, from the words of its state.

use std::collections::BTreeSet;
use std::ops::Range;

use tidegate_pipeline::Unsupported;
use tidegate_pipeline::program::Class;

use crate::program::layout::{FloatScaleAt, Image, MomentScale, Sums};
use crate::program::store::GroupPlan;

/// Spells results, each once.
pub(super) struct ResultCode<'a> {
    plan: &'a GroupPlan,
    /// The words that are read; `w0` stands for the first of the state.
    words: BTreeSet<usize>,
    /// The accumulators whose results have variables.
    bound: BTreeSet<usize>,
}

impl<'a> ResultCode<'a> {
    pub(super) fn new(plan: &'a GroupPlan) -> Self {
        Self {
            plan,
            words: BTreeSet::new(),
            bound: BTreeSet::new(),
        }
    }

    /// Notes that words are read.
    pub(super) fn read_words(&mut self, words: Range<usize>) {
        self.words.extend(words);
    }

    /// Returns the words that are read, in order.
    pub(super) fn words_read(&self) -> impl Iterator<Item = usize> {
        self.words.iter().copied()
    }

    /// Returns how many results an accumulator has.
    pub(super) fn num_results(&self, at: usize) -> usize {
        match self.plan.accumulators[at].sums {
            Sums::Moments { .. } => 2,
            _ => 1,
        }
    }

    /// Returns the C++ of a result, and how it stands in the code. What takes lines is computed by
    /// `lines`, unless it was before.
    ///
    /// # Errors
    /// What leaves from the host.
    pub(super) fn value(
        &mut self,
        at: usize,
        result: usize,
        lines: &mut Vec<String>,
    ) -> Result<(String, Class), Unsupported> {
        let kept = &self.plan.accumulators[at];
        Ok(match &kept.sums {
            Sums::None => (format!("(i64){}", self.count(at)), Class::I64),
            Sums::Integer { limbs, .. } => match limbs.as_slice() {
                [(word, 0)] => (format!("(i64){}", self.word(*word)), Class::I64),
                limbs => (self.limbs(at, limbs, lines), Class::I128),
            },
            Sums::Float(digits, scale) => (self.float_sum(at, digits, *scale, lines), Class::F64),
            Sums::Extreme {
                word,
                complement,
                image,
            } => {
                let sign = if *complement { "~" } else { "" };
                extreme(&format!("{sign}{}", self.word(*word)), *image)
            }
            Sums::Combined { word, .. } => (format!("(i64){}", self.word(*word)), Class::I64),
            Sums::Moments {
                sums,
                squares,
                scale,
            } => {
                self.moments(at, (sums, squares), *scale, lines);
                let name = if result == 0 { "mean" } else { "spread" };
                (format!("{name}{at}"), Class::F64)
            }
            Sums::CoMoment {
                sums,
                products,
                scales,
            } => {
                let name = self.co_moment(at, (sums, products), scales, lines);
                (name, Class::F64)
            }
            Sums::String { .. } => {
                let what = "min and max of strings leave from the host";
                return Err(Unsupported::new(what));
            }
        })
    }

    /// Returns the C++ of whether the results of an accumulator are there.
    pub(super) fn valid(&mut self, at: usize) -> String {
        match self.plan.accumulators[at].count {
            Some(_) => format!("({} != 0)", self.count(at)),
            // A group that is there has a row, and every row a value.
            None => "true".to_owned(),
        }
    }

    fn word(&mut self, word: usize) -> String {
        self.words.insert(word);
        format!("w{word}")
    }

    fn count(&mut self, at: usize) -> String {
        match self.plan.accumulators[at].count {
            Some(word) => self.word(word),
            None => "1ull".to_owned(),
        }
    }

    fn listed(&mut self, words: &[usize]) -> String {
        let words: Vec<String> = words.iter().map(|word| self.word(*word)).collect();
        words.join(", ")
    }

    /// Returns the sum of limbs, modulo 2^128.
    fn limbs(&mut self, at: usize, limbs: &[(usize, u32)], lines: &mut Vec<String>) -> String {
        let name = format!("sum{at}");
        if self.bound.insert(at) {
            let limb = |(word, shift): &(usize, u32)| {
                format!("((u128)(i128)(i64){} << {shift})", self.word(*word))
            };
            let terms: Vec<String> = limbs.iter().map(limb).collect();
            let sum = terms.join(" + ");
            lines.push(format!("const i128 {name} = (i128)({sum});"));
        }
        name
    }

    fn float_sum(
        &mut self,
        at: usize,
        digits: &[(usize, Option<usize>)],
        scale: FloatScaleAt,
        lines: &mut Vec<String>,
    ) -> String {
        let name = format!("sum{at}");
        if !self.bound.insert(at) {
            return name;
        }
        let digit = |(low, high): &(usize, Option<usize>)| match high {
            None => format!("(i128)(i64){}", self.word(*low)),
            Some(high) => {
                let (low, high) = (self.word(*low), self.word(*high));
                format!("(i128){low} + (i128)((u128)(i128)(i64){high} << 32)")
            }
        };
        let digits: Vec<String> = digits.iter().map(digit).collect();
        let unit = |level: usize| format!("unit_of(p.literals[{}])", scale.literal + 2 + level);
        let units: Vec<String> = (0..scale.levels).map(unit).collect();
        let levels = scale.levels;
        lines.extend([
            format!("i128 digits{at}[{levels}] = {{{}}};", digits.join(", ")),
            format!(
                "const double units{at}[{levels}] = {{{}}};",
                units.join(", ")
            ),
            format!(
                "const double {name} = fixed_point_sum<{levels}>(digits{at}, units{at}, {});",
                scale.digit_bits
            ),
        ]);
        name
    }

    /// Computes mean and squared distances.
    fn moments(
        &mut self,
        at: usize,
        (sums, squares): (&[usize], &[usize]),
        scale: MomentScale,
        lines: &mut Vec<String>,
    ) {
        if !self.bound.insert(at) {
            return;
        }
        let levels = scale.levels;
        let (sums, squares) = (self.listed(sums), self.listed(squares));
        lines.extend([
            format!("const u64 sums{at}[{levels}] = {{{sums}}};"),
            format!("const u64 squares{at}[{}] = {{{squares}}};", 2 * levels),
            format!("double mean{at}, spread{at};"),
            format!(
                "moments_of<{levels}>({}, sums{at}, squares{at}, {}, mean{at}, spread{at});",
                self.count(at),
                scale.unit_code()
            ),
        ]);
    }
}

impl ResultCode<'_> {
    /// Computes the products of distances.
    fn co_moment(
        &mut self,
        at: usize,
        ([one, two], products): (&[Vec<usize>; 2], &[usize]),
        scales: &[MomentScale; 2],
        lines: &mut Vec<String>,
    ) -> String {
        let name = format!("products{at}");
        if !self.bound.insert(at) {
            return name;
        }
        let levels = scales.map(|scale| scale.levels);
        let [unit, other] = scales.map(|scale| scale.unit_code());
        let (of_one, of_two) = (self.listed(one), self.listed(two));
        lines.extend([
            format!("const u64 ones{at}[{}] = {{{of_one}}};", levels[0]),
            format!("const u64 twos{at}[{}] = {{{of_two}}};", levels[1]),
            format!(
                "const u64 pairs{at}[{}] = {{{}}};",
                products.len(),
                self.listed(products)
            ),
            format!(
                "const double {name} = co_moment_of<{}, {}>({}, ones{at}, twos{at}, pairs{at}, {unit} + {other});",
                levels[0],
                levels[1],
                self.count(at)
            ),
        ]);
        name
    }
}

/// Returns the C++ of the value of an image, and how it stands in the code.
fn extreme(image: &str, of: Image) -> (String, Class) {
    let ordered = format!("extreme_of({image})");
    match of {
        Image::Bool => (format!("({ordered} != 0)"), Class::Bool),
        Image::Signed => (ordered, Class::I64),
        Image::Unsigned => (format!("(i128)({image})"), Class::I128),
        Image::Single => (format!("float_of_order({ordered})"), Class::F32),
        Image::Double => (format!("double_of_order({ordered})"), Class::F64),
    }
}
