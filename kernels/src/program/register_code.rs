//! The code of the one group of an aggregate without keys: its words are in each thread's registers.
//!
//! Integers are summed as they are. A part of a float sum is a double that stays in its binade for some
//! rows, as in cells of each thread's own (float_sum.cuh); now and then it goes over into an integer.

use std::fmt::Write;

use super::layout::WordOp;
use super::store_code::StoreCode;

impl StoreCode<'_> {
    pub(super) fn write_registers_begin(&self, text: &mut String) {
        for (position, word) in self.words.iter().enumerate() {
            let _ = match (word.part(), word.op) {
                (Some(part), _) => writeln!(
                    text,
                    "    u64 sum{position} = 0;\n    double part{position} = double_of_bits(p.literals[{}]);",
                    part.zero()
                ),
                (None, WordOp::Count | WordOp::Seen) => {
                    writeln!(text, "    u32 sum{position} = 0;")
                }
                (None, _) => writeln!(text, "    u64 sum{position} = 0;"),
            };
        }
    }

    pub(super) fn write_registers_update(&self, text: &mut String, indent: &str) {
        for (position, word) in self.words.iter().enumerate() {
            let (condition, value) = self.addend(word);
            let _ = match (word.part(), word.op) {
                (Some(part), _) => {
                    // What follows from a first part of 0 is 0.
                    let value = match part.level > 0 {
                        true => value,
                        false => format!("({condition} ? {value} : 0.0)"),
                    };
                    match part.next() {
                        Some(next) => writeln!(
                            text,
                            "{indent}const double value{position} = {value};\n\
                             {indent}const double new{position} = part{position} + value{position};\n\
                             {indent}const double {} = value{position} - (new{position} - part{position});\n\
                             {indent}part{position} = new{position};",
                            next.name()
                        ),
                        None => writeln!(
                            text,
                            "{indent}part{position} = __dadd_rd(part{position}, {value});"
                        ),
                    }
                }
                (None, WordOp::Count | WordOp::Seen) => {
                    writeln!(text, "{indent}sum{position} += {condition} ? 1u : 0u;")
                }
                (None, WordOp::Add | WordOp::Part) => writeln!(
                    text,
                    "{indent}sum{position} += {condition} ? {value} : 0ull;"
                ),
                (None, WordOp::Max) => writeln!(
                    text,
                    "{indent}{{ const u64 image = {value}; if ({condition} && image > sum{position}) sum{position} = image; }}"
                ),
                (None, op @ WordOp::Combine(_)) => {
                    let sum = format!("sum{position}");
                    let taken = format!("({condition} ? {value} : 0ull)");
                    writeln!(text, "{indent}{sum} = {};", op.joined(&sum, &taken))
                }
            };
        }
    }

    /// Ends the loop over as many tiles as a part holds, if there are parts: they go over into integers.
    pub(super) fn write_registers_flush(&self, text: &mut String) {
        let parts = self.words.iter().enumerate();
        let parts: Vec<_> = parts
            .filter_map(|(position, word)| Some((position, word.part()?)))
            .collect();
        if parts.is_empty() {
            return;
        }
        text.push_str("    }\n");
        for (position, part) in parts {
            let zero = format!("double_of_bits(p.literals[{}])", part.zero());
            let _ = writeln!(
                text,
                "        // A multiple of its unit, and few enough of them to be exact.\n\
                 \x20       sum{position} += (u64)(i64)((part{position} - {zero}) * double_of_bits(p.literals[{}]));\n\
                 \x20       part{position} = {zero};",
                part.inverse()
            );
        }
    }

    /// Adds up each word over a warp, all of them in one loop, and then to the global state. A part's
    /// halves are added up apart, for a warp's sum may need more than 64 bits.
    pub(super) fn write_registers_end(&self, text: &mut String) {
        for (position, word) in self.words.iter().enumerate() {
            let _ = match word.part() {
                Some(_) => writeln!(
                    text,
                    "    u64 total{position} = (u32)sum{position}, carry{position} = (u64)((i64)sum{position} >> 32);"
                ),
                None => writeln!(text, "    u64 total{position} = sum{position};"),
            };
        }
        text.push_str(
            "#pragma unroll 1\n    for (u32 distance = 16; distance != 0; distance /= 2) {\n",
        );
        let other = |name: &str| format!("__shfl_down_sync(0xffffffffu, {name}, distance)");
        for (position, word) in self.words.iter().enumerate() {
            let total = format!("total{position}");
            let joined = word.op.joined(&total, &other(&total));
            let _ = writeln!(text, "        {total} = {joined};");
            if word.part().is_some() {
                let carry = format!("carry{position}");
                let _ = writeln!(text, "        {carry} += {};", other(&carry));
            }
        }
        text.push_str("    }\n    if ((threadIdx.x & 31) == 0) {\n");
        for (position, word) in self.words.iter().enumerate() {
            let index = word.index;
            let add = match word.split && word.part().is_none() {
                true => "add_split",
                // A number of rows is not 0 either.
                false if word.op == WordOp::Seen => "add_word",
                false => word.op.taking(),
            };
            let _ = writeln!(
                text,
                "        if (total{position} != 0) {add}(p.state + {index}, total{position});"
            );
            if word.part().is_some() {
                let _ = writeln!(
                    text,
                    "        if (carry{position} != 0) add_word(p.state + {}, carry{position});",
                    index + 1
                );
            }
        }
        text.push_str("    }\n");
    }
}
