//! Runs instructions over the rows of a block, or over the entries of a dictionary.

use tidegate_pipeline::Interval;
use tidegate_pipeline::catalogue::Matcher;

use super::block::{Chunk, Values};
use super::code::{Instruction, Register};
use super::declined::Declined;
use super::load::{self, Selection};
use super::ops::arithmetic::{self, by_integers};
use super::ops::{choose, compare, convert, map1, map2};
use super::vector::{Held, Lane, Vector, mismatch, read, write};
use crate::strings::Dictionary;
use crate::strings::Texts;

/// Where instructions read inputs.
#[derive(Clone, Copy)]
pub(super) enum Source<'s, 'a> {
    /// Nothing is read.
    Nothing,
    /// The entries of the one input that is read, from one on.
    Entries { held: &'a Held, at: usize },
    Rows {
        chunks: &'s [Option<Chunk<'a>>],
        held: &'a [Option<Held>],
        tables: &'s [Option<Vector>],
        selection: Selection<'s>,
    },
}

/// Registers, and the strings of those that hold text.
pub(super) struct Machine<'s, 'a> {
    pub(super) registers: &'s mut [Vector],
    pub(super) texts: &'s mut [Texts<'a>],
    /// The strings of keys.
    pub(super) strings: &'s mut [Dictionary],
}

impl<'a> Machine<'_, 'a> {
    /// Runs instructions over so many rows.
    pub(super) fn run(
        &mut self,
        instructions: &[Instruction],
        source: Source<'_, 'a>,
        count: usize,
    ) -> Result<(), Declined> {
        for instruction in instructions {
            let to = *{ *instruction }.result();
            match self.registers[to].lane() {
                Lane::Text => {
                    let rows = self.texts[to].take_rows();
                    self.texts[to] = self.text_step(instruction, source, rows, count)?;
                }
                _ => {
                    let mut result = std::mem::replace(&mut self.registers[to], Vector::Text);
                    let done = self.step(instruction, source, &mut result, count);
                    self.registers[to] = result;
                    done?;
                }
            }
        }
        Ok(())
    }

    /// Runs an instruction whose result is text; `result` is memory for it.
    fn text_step(
        &self,
        instruction: &Instruction,
        source: Source<'_, 'a>,
        mut result: Vec<&'a str>,
        count: usize,
    ) -> Result<Texts<'a>, Declined> {
        match *instruction {
            Instruction::Load { input, .. } => match source {
                Source::Rows {
                    chunks,
                    held,
                    selection,
                    ..
                } => {
                    let chunk = chunk_of(chunks, input)?;
                    if let (Values::Text { array, at }, None) = (chunk.values, selection) {
                        return Ok(Texts::Array(array, at));
                    }
                    load::texts(chunk, held[input].as_ref(), selection, &mut result, count)?;
                }
                Source::Entries {
                    held: Held::Text(array),
                    at,
                } => return Ok(Texts::Array(array, at)),
                _ => return Err(mismatch(Lane::Text)),
            },
            Instruction::Select {
                condition,
                then,
                otherwise,
                ..
            } => {
                let condition = read::<u8>(&self.registers[condition], count)?;
                let (then, otherwise) = (&self.texts[then], &self.texts[otherwise]);
                let rows = condition.iter().enumerate();
                result.extend(rows.map(|(row, condition)| match condition {
                    0 => otherwise.get(row),
                    _ => then.get(row),
                }));
            }
            Instruction::Slice {
                body,
                from,
                start,
                length,
                ..
            } => {
                let start = read::<i64>(&self.registers[start], count)?;
                let length = read::<i64>(&self.registers[length], count)?;
                let from = &self.texts[from];
                let rows = start.iter().zip(length).enumerate();
                result.extend(
                    rows.map(|(row, (start, length))| body(from.get(row), *start, *length)),
                );
            }
            _ => return Err(mismatch(Lane::Text)),
        }
        Ok(Texts::Rows(result))
    }

    /// Runs an instruction whose result is a number or a boolean.
    fn step(
        &mut self,
        instruction: &Instruction,
        source: Source<'_, 'a>,
        result: &mut Vector,
        count: usize,
    ) -> Result<(), Declined> {
        let registers = &*self.registers;
        let at = |register: Register| &registers[register];
        let both = |left: Register, right: Register| (&registers[left], &registers[right]);
        match *instruction {
            Instruction::Load {
                input, interval, ..
            } => load_from(source, input, interval, result, count),
            Instruction::Gather { input, table, .. } => match source {
                Source::Rows {
                    chunks,
                    tables,
                    selection,
                    ..
                } => {
                    let table = tables[table].as_ref();
                    let table = table.ok_or_else(|| missing("a table"))?;
                    load::gather(chunk_of(chunks, input)?, selection, table, result, count)
                }
                _ => Err(missing("rows")),
            },
            Instruction::IsPresent { input, .. } => match source {
                Source::Rows {
                    chunks, selection, ..
                } => {
                    let to = write::<u8>(result, count)?;
                    load::presence(chunk_of(chunks, input)?, selection, to);
                    Ok(())
                }
                _ => Err(missing("rows")),
            },
            Instruction::Integer {
                op,
                wrap,
                left,
                right,
                ..
            } => by_integers!(result.lane(), T => {
                arithmetic::integer::<T>(op, wrap, both(left, right), result, count)
            }),
            Instruction::Checked {
                op,
                bits,
                left,
                right,
                ..
            } => by_integers!(result.lane(), T => {
                arithmetic::checked::<T>(op, bits, both(left, right), result, count)
            }),
            Instruction::Overflows {
                op,
                bits,
                left,
                right,
                ..
            } => by_integers!(at(left).lane(), T => {
                arithmetic::overflows::<T>(op, bits, both(left, right), result, count)
            }),
            Instruction::Divide {
                rounding,
                bits,
                left,
                right,
                ..
            } => by_integers!(result.lane(), T => {
                arithmetic::divide::<T>(rounding, bits, both(left, right), result, count)
            }),
            Instruction::Remainder { left, right, .. } => by_integers!(result.lane(), T => {
                arithmetic::remainder::<T>(both(left, right), result, count)
            }),
            Instruction::Float {
                op, left, right, ..
            } => arithmetic::float(op, both(left, right), result, count),
            Instruction::Negate { from, .. } => arithmetic::negate(at(from), result, count),
            Instruction::Canonical { from, .. } => arithmetic::canonical(at(from), result, count),
            Instruction::Compare {
                op, left, right, ..
            } if at(left).lane() == Lane::Text => {
                let texts = (&self.texts[left], &self.texts[right]);
                compare::texts(op, texts, write(result, count)?);
                Ok(())
            }
            Instruction::Compare {
                op, left, right, ..
            } => compare::compare(op, both(left, right), result, count),
            Instruction::Not { from, .. } => {
                map1(read::<u8>(at(from), count)?, write(result, count)?, |a| {
                    a ^ 1
                });
                Ok(())
            }
            Instruction::And { left, right, .. } => {
                let (a, b) = (read::<u8>(at(left), count)?, read::<u8>(at(right), count)?);
                map2(a, b, write::<u8>(result, count)?, |a, b| a & b);
                Ok(())
            }
            Instruction::Or { left, right, .. } => {
                let (a, b) = (read::<u8>(at(left), count)?, read::<u8>(at(right), count)?);
                map2(a, b, write::<u8>(result, count)?, |a, b| a | b);
                Ok(())
            }
            Instruction::Select {
                condition,
                then,
                otherwise,
                ..
            } => {
                let condition = read::<u8>(at(condition), count)?;
                select(condition, both(then, otherwise), result, count)
            }
            Instruction::Cast { from, .. } => convert::cast(at(from), result, count),
            Instruction::CastFails { from, .. } => convert::cast_fails(at(from), result, count),
            Instruction::CallFloat { body, from, .. } => {
                map1(read::<f64>(at(from), count)?, write(result, count)?, body);
                Ok(())
            }
            Instruction::CallFloat2 {
                body, left, right, ..
            } => {
                let a = read::<f64>(at(left), count)?;
                map2(a, read(at(right), count)?, write(result, count)?, body);
                Ok(())
            }
            Instruction::CallSingle { body, from, .. } => {
                map1(read::<f32>(at(from), count)?, write(result, count)?, body);
                Ok(())
            }
            Instruction::CallSingle2 {
                body, left, right, ..
            } => {
                let a = read::<f32>(at(left), count)?;
                map2(a, read(at(right), count)?, write(result, count)?, body);
                Ok(())
            }
            Instruction::CallInt { body, from, .. } => {
                map1(read::<i64>(at(from), count)?, write(result, count)?, body);
                Ok(())
            }
            Instruction::CallInt2 {
                body, left, right, ..
            } => {
                let (a, b) = (
                    read::<i64>(at(left), count)?,
                    read::<i64>(at(right), count)?,
                );
                map2(a, b, write(result, count)?, body);
                Ok(())
            }
            Instruction::Unpack { body, from, .. } => {
                map1(read::<i128>(at(from), count)?, write(result, count)?, body);
                Ok(())
            }
            Instruction::Pack { body, parts, .. } => {
                let [one, two, three] = parts.map(|part| read::<i64>(at(part), count));
                let (one, two, three) = (one?, two?, three?);
                for (row, to) in write::<i128>(result, count)?.iter_mut().enumerate() {
                    *to = body(one[row], two[row], three[row]);
                }
                Ok(())
            }
            Instruction::Matches {
                body, left, right, ..
            } => {
                let (text, pattern) = (&self.texts[left], &self.texts[right]);
                for (row, to) in write::<u8>(result, count)?.iter_mut().enumerate() {
                    *to = body(text.get(row), pattern.get(row)).into();
                }
                Ok(())
            }
            Instruction::Pattern {
                prepare,
                left,
                right,
                ..
            } => {
                let (text, patterns) = (&self.texts[left], &self.texts[right]);
                let mut prepared: Option<(&str, Box<Matcher>)> = None;
                for (row, to) in write::<u8>(result, count)?.iter_mut().enumerate() {
                    let pattern = patterns.get(row);
                    if prepared.as_ref().is_none_or(|(known, _)| *known != pattern) {
                        prepared = Some((pattern, prepare(pattern)));
                    }
                    let matches = prepared.as_ref().map(|(_, matches)| matches(text.get(row)));
                    *to = matches.unwrap_or_default().into();
                }
                Ok(())
            }
            Instruction::TextInt { body, from, .. } => {
                let from = &self.texts[from];
                for (row, to) in write::<i64>(result, count)?.iter_mut().enumerate() {
                    *to = body(from.get(row));
                }
                Ok(())
            }
            Instruction::Text2Int {
                body, left, right, ..
            } => {
                let (a, b) = (&self.texts[left], &self.texts[right]);
                for (row, to) in write::<i64>(result, count)?.iter_mut().enumerate() {
                    *to = body(a.get(row), b.get(row));
                }
                Ok(())
            }
            Instruction::Intern { key, from, .. } => {
                let (strings, from) = (&mut self.strings[key], &self.texts[from]);
                strings.codes(from, write::<i32>(result, count)?)?;
                Ok(())
            }
            Instruction::Slice { .. } => Err(mismatch(result.lane())),
        }
    }
}

fn missing(what: &str) -> Declined {
    Declined::Unsupported(format!("an instruction without {what}"))
}

fn chunk_of<'s, 'a>(
    chunks: &'s [Option<Chunk<'a>>],
    input: usize,
) -> Result<&'s Chunk<'a>, Declined> {
    let chunk = chunks.get(input).and_then(Option::as_ref);
    chunk.ok_or_else(|| missing("its chunk"))
}

fn load_from(
    source: Source<'_, '_>,
    input: usize,
    interval: Interval,
    result: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    match source {
        Source::Rows {
            chunks,
            held,
            selection,
            ..
        } => {
            let (chunk, held) = (chunk_of(chunks, input)?, held[input].as_ref());
            match load::load(chunk, held, selection, interval, result, count)? {
                true => Ok(()),
                false => Err(Declined::OutsideFacts { input }),
            }
        }
        Source::Entries {
            held: Held::Vector(held),
            at,
        } => load::entries(held, at, result, count),
        Source::Entries { .. } | Source::Nothing => Err(missing("rows")),
    }
}

fn select(
    condition: &[u8],
    (then, otherwise): (&Vector, &Vector),
    result: &mut Vector,
    count: usize,
) -> Result<(), Declined> {
    macro_rules! choose {
        ($($lane:ident $type:ty),*) => {
            match result.lane() {
                $(Lane::$lane => {
                    let to = write::<$type>(result, count)?;
                    choose(condition, read(then, count)?, read(otherwise, count)?, to);
                })*
                other @ Lane::Text => return Err(mismatch(other)),
            }
        };
    }
    choose!(Bool u8, I32 i32, I64 i64, I128 i128, F32 f32, F64 f64);
    Ok(())
}
