//! Runs instructions over the rows of a block, or over the entries of a dictionary.

use tidegate_pipeline::Interval;
use tidegate_pipeline::catalogue::{Body, Kernel, Matcher};

use super::block::{Chunk, Values};
use super::code::{Instruction, Operation, Register};
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
            let to = instruction.to;
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
        let [one, two, three] = instruction.operands;
        match instruction.operation {
            Operation::Load { input, .. } => match source {
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
            Operation::Select => {
                let condition = read::<u8>(&self.registers[one], count)?;
                let (then, otherwise) = (&self.texts[two], &self.texts[three]);
                let rows = condition.iter().enumerate();
                result.extend(rows.map(|(row, condition)| match condition {
                    0 => otherwise.get(row),
                    _ => then.get(row),
                }));
            }
            Operation::Call(Kernel {
                body: Body::Slice(body),
                ..
            }) => {
                let start = read::<i64>(&self.registers[two], count)?;
                let length = read::<i64>(&self.registers[three], count)?;
                let from = &self.texts[one];
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
        let [one, two, three] = instruction.operands;
        let (left, right) = (&self.registers[one], &self.registers[two]);
        let both = (left, right);
        match instruction.operation {
            Operation::Load { input, interval } => {
                load_from(source, input, interval, result, count)
            }
            Operation::Gather { input, table } => match source {
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
            Operation::IsPresent { input } => match source {
                Source::Rows {
                    chunks, selection, ..
                } => {
                    let to = write::<u8>(result, count)?;
                    load::presence(chunk_of(chunks, input)?, selection, to);
                    Ok(())
                }
                _ => Err(missing("rows")),
            },
            Operation::Integer { op, wrap } => by_integers!(result.lane(), T => {
                arithmetic::integer::<T>(op, wrap, both, result, count)
            }),
            Operation::Checked { op, bits } => by_integers!(result.lane(), T => {
                arithmetic::checked::<T>(op, bits, both, result, count)
            }),
            Operation::Overflows { op, bits } => by_integers!(left.lane(), T => {
                arithmetic::overflows::<T>(op, bits, both, result, count)
            }),
            Operation::Divide { rounding, bits } => by_integers!(result.lane(), T => {
                arithmetic::divide::<T>(rounding, bits, both, result, count)
            }),
            Operation::Remainder => by_integers!(result.lane(), T => {
                arithmetic::remainder::<T>(both, result, count)
            }),
            Operation::Float(op) => arithmetic::float(op, both, result, count),
            Operation::Negate => arithmetic::negate(left, result, count),
            Operation::Canonical => arithmetic::canonical(left, result, count),
            Operation::Compare(op) if left.lane() == Lane::Text => {
                let texts = (&self.texts[one], &self.texts[two]);
                compare::texts(op, texts, write(result, count)?);
                Ok(())
            }
            Operation::Compare(op) => compare::compare(op, both, result, count),
            Operation::Not => {
                map1(read::<u8>(left, count)?, write(result, count)?, |a| a ^ 1);
                Ok(())
            }
            Operation::And => {
                let (a, b) = (read::<u8>(left, count)?, read::<u8>(right, count)?);
                map2(a, b, write::<u8>(result, count)?, |a, b| a & b);
                Ok(())
            }
            Operation::Or => {
                let (a, b) = (read::<u8>(left, count)?, read::<u8>(right, count)?);
                map2(a, b, write::<u8>(result, count)?, |a, b| a | b);
                Ok(())
            }
            Operation::Select => {
                let condition = read::<u8>(left, count)?;
                select(condition, (right, &self.registers[three]), result, count)
            }
            Operation::Cast => convert::cast(left, result, count),
            Operation::CastFails => convert::cast_fails(left, result, count),
            Operation::Call(kernel) => self.call(&kernel.body, instruction.operands, result, count),
            Operation::Intern { key } => {
                let (strings, from) = (&mut self.strings[key], &self.texts[one]);
                strings.codes(from, write::<i32>(result, count)?)?;
                Ok(())
            }
        }
    }

    /// Calls a body for each row.
    fn call(
        &self,
        body: &Body,
        [one, two, three]: [Register; 3],
        result: &mut Vector,
        count: usize,
    ) -> Result<(), Declined> {
        let (left, right) = (&self.registers[one], &self.registers[two]);
        // Without text there are none.
        let texts = || (&self.texts[one], &self.texts[two]);
        match *body {
            Body::Float(body) => map1(read::<f64>(left, count)?, write(result, count)?, body),
            Body::Float2(body) => {
                let (a, b) = (read::<f64>(left, count)?, read::<f64>(right, count)?);
                map2(a, b, write(result, count)?, body);
            }
            Body::Single(body) => map1(read::<f32>(left, count)?, write(result, count)?, body),
            Body::Single2(body) => {
                let (a, b) = (read::<f32>(left, count)?, read::<f32>(right, count)?);
                map2(a, b, write(result, count)?, body);
            }
            Body::Int(body) => map1(read::<i64>(left, count)?, write(result, count)?, body),
            Body::Int2(body) => {
                let (a, b) = (read::<i64>(left, count)?, read::<i64>(right, count)?);
                map2(a, b, write(result, count)?, body);
            }
            Body::Unpack(body) => map1(read::<i128>(left, count)?, write(result, count)?, body),
            Body::Pack(body) => {
                let (a, b) = (read::<i64>(left, count)?, read::<i64>(right, count)?);
                let c = read::<i64>(&self.registers[three], count)?;
                for (row, to) in write::<i128>(result, count)?.iter_mut().enumerate() {
                    *to = body(a[row], b[row], c[row]);
                }
            }
            Body::Matches(body) => {
                let (text, other) = texts();
                for (row, to) in write::<u8>(result, count)?.iter_mut().enumerate() {
                    *to = body(text.get(row), other.get(row)).into();
                }
            }
            // A pattern is prepared anew where it differs from the row's before.
            Body::Pattern(prepare) => {
                let (text, other) = texts();
                let mut prepared: Option<(&str, Box<Matcher>)> = None;
                for (row, to) in write::<u8>(result, count)?.iter_mut().enumerate() {
                    let pattern = other.get(row);
                    if prepared.as_ref().is_none_or(|(known, _)| *known != pattern) {
                        prepared = Some((pattern, prepare(pattern)));
                    }
                    let matches = prepared.as_ref().map(|(_, matches)| matches(text.get(row)));
                    *to = matches.unwrap_or_default().into();
                }
            }
            Body::TextInt(body) => {
                let (text, _) = texts();
                for (row, to) in write::<i64>(result, count)?.iter_mut().enumerate() {
                    *to = body(text.get(row));
                }
            }
            Body::Text2Int(body) => {
                let (text, other) = texts();
                for (row, to) in write::<i64>(result, count)?.iter_mut().enumerate() {
                    *to = body(text.get(row), other.get(row));
                }
            }
            Body::Slice(_) | Body::Text(_) => return Err(mismatch(result.lane())),
        }
        Ok(())
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
