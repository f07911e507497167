//! How the words of a layout are spelled, and the lines that come before them.

use super::floats::{FloatSum, MomentSum};
use super::{Image, Layout, Part, Rows, Term, Word};
use crate::program::print::RowText;
use crate::program::wide::KEY_WORD;

impl Word {
    /// Returns the C++ of what the word takes of a row: a `u64`, of a part a `double`.
    pub(in crate::program) fn code(&self, row: &RowText<'_>) -> String {
        let sign = |complement: bool| if complement { "~" } else { "" };
        match self.term {
            Term::One => "1ull".into(),
            Term::Integer(value) => format!("(u64)(i64){}", row.name(value)),
            Term::Limb {
                value,
                shift,
                is_last: false,
            } => format!("(u64)(u32)({} >> {shift})", row.name(value)),
            Term::Limb { value, shift, .. } => {
                format!("(u64)(i64)({} >> {shift})", row.name(value))
            }
            Term::Image {
                value,
                image,
                complement,
            } => {
                let image = match image {
                    Image::Single | Image::Double => {
                        format!("extreme_bits((i64){})", row.float_order(value))
                    }
                    Image::Unsigned => format!("(u64){}", row.name(value)),
                    Image::Bool | Image::Signed => {
                        format!("extreme_bits((i64){})", row.name(value))
                    }
                };
                format!("{}{image}", sign(complement))
            }
            Term::Place { place, complement } => format!("{}place{place}", sign(complement)),
            Term::Digit { literal, level } => format!("digits{literal}[{level}]"),
            Term::Part(part) => part.name(),
            Term::Power {
                literal,
                level,
                is_square,
            } => {
                let of = if is_square { "squares" } else { "sums" };
                format!("{of}{literal}[{level}]")
            }
            Term::Product {
                literals: [one, two],
                level,
            } => format!("products{one}_{two}[{level}]"),
            Term::KeyWord { index, complement } => format!("{}{KEY_WORD}{index}", sign(complement)),
            Term::Field { word, is_signed } => {
                let signed = if is_signed { "(i64)" } else { "" };
                format!("(u64){signed}r.word{word}")
            }
            Term::FieldComplement { word } => format!("~r.word{word}"),
        }
    }
}

impl Part {
    /// Returns the C++ name of what the digit is taken from: of what the one before it leaves over.
    pub(in crate::program) fn name(self) -> String {
        format!("rest{}_{}", self.literal, self.level)
    }
}

impl Rows {
    /// Returns the C++ condition, given that of a row that is selected.
    pub(in crate::program) fn code(self, row: &RowText<'_>, selected: &str) -> String {
        match self {
            Self::Selected => selected.to_owned(),
            Self::Where(condition) => row.name(condition).to_owned(),
            Self::Recorded(bit) => format!("((r.conditions >> {bit}) & 1)"),
        }
    }
}

impl Layout {
    /// Returns whether there is a sum of floats.
    pub(in crate::program) fn sums_floats(&self) -> bool {
        !self.floats.is_empty()
    }

    /// Returns whether there are sums of squares.
    pub(in crate::program) fn has_moments(&self) -> bool {
        !self.moments.is_empty()
    }

    /// Returns whether there are sums of products.
    pub(in crate::program) fn has_products(&self) -> bool {
        !self.products.is_empty()
    }

    /// Returns the numbers of digits of sums whose values are asked whether the digits hold enough of
    /// them, each with the first literal of one such sum.
    pub(in crate::program) fn checked_scales(&self) -> Vec<(usize, usize)> {
        let mut scales: Vec<(usize, usize)> = Vec::new();
        for sum in self.floats.iter().filter(|sum| sum.is_checked) {
            if scales.iter().all(|(levels, _)| *levels != sum.scale.levels) {
                scales.push((sum.scale.levels, sum.scale.literal));
            }
        }
        scales
    }

    /// Returns the lines that come between those of the program and the words.
    pub(in crate::program) fn lines(&self, row: &RowText<'_>) -> Vec<String> {
        let selected = row.name(row.program.selected);
        let mut lines = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            // A code that is not there is not looked up.
            lines.push(format!(
                "const u64 place{index} = ({}) ? ((const u64*)p.literals[{}])[(u32){}] : 0ull;",
                place.rows.code(row, selected),
                place.literal,
                row.name(place.code)
            ));
        }
        for sum in &self.floats {
            lines.extend(sum.lines(row, selected));
        }
        for sum in &self.moments {
            lines.extend(sum.lines(row, selected));
        }
        lines.extend(self.products.iter().flat_map(product_lines));
        lines.extend(self.distance_lines(row, selected));
        lines
    }

    /// Returns the lines that note how far values are from the least ones of their digits: one for all
    /// sums of as many digits over the same rows.
    fn distance_lines(&self, row: &RowText<'_>, selected: &str) -> Vec<String> {
        let mut greatest: Vec<(usize, Rows, String)> = Vec::new();
        for sum in self.floats.iter().filter(|sum| sum.is_checked) {
            let levels = sum.scale.levels;
            let distance = format!(
                "float_distance({}, (u32)p.literals[{}])",
                row.name(sum.value),
                sum.scale.literal + 1
            );
            let mut known = greatest.iter_mut();
            match known.find(|(of, rows, _)| *of == levels && *rows == sum.rows) {
                Some((_, _, before)) => *before = format!("max({before}, {distance})"),
                None => greatest.push((levels, sum.rows, distance)),
            }
        }
        let line = |(levels, rows, greatest): (usize, Rows, String)| {
            let condition = rows.code(row, selected);
            format!(
                "{{ const u32 distance = {greatest}; float_far{levels} = max(float_far{levels}, {condition} ? distance : 0u); }}"
            )
        };
        greatest.into_iter().map(line).collect()
    }
}

/// Returns the lines that make the digits of the products of a pair, of the digits of both.
fn product_lines([one, two]: &[MomentSum; 2]) -> [String; 2] {
    let (one, two) = (one.scale, two.scale);
    let name = format!("products{}_{}", one.literal, two.literal);
    [
        format!("u64 {name}[{}];", one.levels + two.levels),
        format!(
            "product_digits<{}, {}>(sums{}, sums{}, {name});",
            one.levels, two.levels, one.literal, two.literal
        ),
    ]
}

impl FloatSum {
    fn lines(&self, row: &RowText<'_>, selected: &str) -> Vec<String> {
        let (literal, levels) = (self.scale.literal, self.scale.levels);
        let value = row.name(self.value);
        if self.as_parts {
            let first = Part {
                literal,
                levels,
                level: 0,
            };
            let counted = match self.rows {
                Rows::Selected => value.to_owned(),
                rows => format!("{} ? {value} : 0.0", rows.code(row, selected)),
            };
            return vec![format!("const double {} = {counted};", first.name())];
        }
        let magic = (0..levels).map(|level| {
            let word = literal + 2 + level;
            format!("__longlong_as_double((i64)p.literals[{word}])")
        });
        let magic: Vec<String> = magic.collect();
        vec![
            format!(
                "const double magic{literal}[{levels}] = {{{}}};",
                magic.join(", ")
            ),
            format!("u64 digits{literal}[{levels}];"),
            format!("float_digits<{levels}>({value}, magic{literal}, digits{literal});"),
        ]
    }
}

impl MomentSum {
    fn lines(&self, row: &RowText<'_>, selected: &str) -> Vec<String> {
        let (literal, levels) = (self.scale.literal, self.scale.levels);
        let condition = self.rows.code(row, selected);
        vec![
            format!(
                "u64 sums{literal}[{levels}], squares{literal}[{}];",
                2 * levels
            ),
            format!(
                "moments_outside |= !power_digits<{levels}>({}, (i32)p.literals[{literal}], sums{literal}, squares{literal}) && {condition};",
                row.name(self.value)
            ),
        ]
    }
}
