//! The words by which a device orders rows.
//!
//! Each key of a sort becomes one to three unsigned words, so that the rows of the greatest words, the
//! first word first, are the first rows. Rows whose words are equal are equal in the order.

use tidegate_pipeline::program::{Class, Order};
use tidegate_pipeline::{Interval, Pipeline, Sort, Unsupported};

use super::print::RowText;
use super::slots::{Slot, SlotFacts};
use super::{DeviceProgram, ProgramOptions, generate_with};

/// A word of an order.
pub(super) struct OrderWord {
    /// The C++ value, a `u64`.
    pub(super) code: String,
    /// How many of its low bits are used.
    pub(super) bits: u32,
}

/// Writes the kernel of a pipeline without an aggregate that writes, behind the columns of its rows,
/// the words of an order of them. Returns it with the bits that each word uses.
///
/// # Errors
/// Why the pipeline, or a key of the order, has no device form.
pub fn generate_ordered(
    pipeline: &Pipeline,
    sort: &Sort,
    facts_of: &dyn Fn(&Slot) -> SlotFacts,
    options: &ProgramOptions,
) -> Result<(DeviceProgram, Vec<u32>), Unsupported> {
    if pipeline.aggregates() {
        return Err(Unsupported::new("groups are ordered once they are rows"));
    }
    generate_with(pipeline, facts_of, options, &sort.keys)
}

/// Returns the words of an order.
pub(super) fn order_words(row: &RowText<'_>, keys: &[Order]) -> Vec<OrderWord> {
    let mut words = Vec::new();
    for key in keys {
        let (value, program) = (key.value.value, row.program);
        let valid = row.name(key.value.valid);
        let is_always = program.is(key.value.valid, true);
        if !is_always {
            let first = if key.nulls_first {
                "0ull : 1ull"
            } else {
                "1ull : 0ull"
            };
            words.push(OrderWord {
                code: format!("(({valid}) ? {first})"),
                bits: 1,
            });
        }
        let code = row.name(value);
        let images = match row.class(value) {
            Class::Bool => vec![(format!("(u64)({code})"), 1)],
            Class::I32 | Class::Text => {
                vec![(format!("(u64)((u32){code} ^ 0x80000000u)"), 32)]
            }
            Class::F32 => {
                let image = format!("(u64)((u32){} ^ 0x80000000u)", row.float_order(value));
                vec![(image, 32)]
            }
            Class::I64 => vec![(format!("extreme_bits({code})"), 64)],
            Class::F64 => vec![(format!("extreme_bits({})", row.float_order(value)), 64)],
            // What is unsigned is its own image.
            Class::I128
                if program
                    .data(value)
                    .interval()
                    .is_within(Interval::unsigned(64)) =>
            {
                vec![(format!("(u64)({code})"), 64)]
            }
            Class::I128 => vec![
                (format!("extreme_bits((i64)({code} >> 64))"), 64),
                (format!("(u64)({code})"), 64),
            ],
        };
        for (image, bits) in images {
            let image = if key.descending {
                image
            } else {
                format!("({:#x}ull - ({image}))", u64::MAX >> (64 - bits))
            };
            let code = match is_always {
                true => image,
                false => format!("(({valid}) ? {image} : 0ull)"),
            };
            words.push(OrderWord { code, bits });
        }
    }
    words
}
