//! Code with its registers.

use tidegate_pipeline::Unsupported;

use super::block::BLOCK;
use super::code::{Code, Constant, Register};
use super::columns::Column;
use super::declined::Declined;
use super::execute::{Machine, Source};
use super::ops::any_of_both;
use super::vector::{Lane, Vector, read};
use crate::strings::Dictionary;
use crate::strings::Texts;

/// Code with registers of its own, whose constants are there.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) code: Code,
    pub(super) registers: Vec<Vector>,
}

impl Unit {
    pub(super) fn new(code: Code) -> Result<Self, Declined> {
        Self::of_rows(code, BLOCK)
    }

    /// The same for blocks of no more than so many rows.
    pub(super) fn of_rows(code: Code, rows: usize) -> Result<Self, Declined> {
        let lanes = code.lanes.iter();
        let mut registers: Vec<Vector> = lanes.map(|lane| Vector::new(*lane, rows)).collect();
        for (register, constant) in &code.constants {
            fill(&mut registers[*register], constant);
        }
        let mut texts = code.texts();
        let mut machine = Machine {
            registers: &mut registers,
            texts: &mut texts,
            strings: &mut [],
        };
        machine.run(&code.setup, Source::Nothing, rows)?;
        drop(texts);
        Ok(Self { code, registers })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.registers.iter().map(Vector::memory_bytes).sum()
    }
}

fn fill(register: &mut Vector, constant: &Constant) {
    match (register, constant) {
        (Vector::Bool(values), Constant::Int(value)) => values.fill((*value != 0).into()),
        (Vector::I32(values), Constant::Int(value)) => values.fill(*value as i32),
        (Vector::I64(values), Constant::Int(value)) => values.fill(*value as i64),
        (Vector::I128(values), Constant::Int(value)) => values.fill(*value),
        (Vector::F32(values), Constant::Float(bits)) => values.fill(f64::from_bits(*bits) as f32),
        (Vector::F64(values), Constant::Float(bits)) => values.fill(f64::from_bits(*bits)),
        // Text lies apart, and no constant is of another lane.
        _ => {}
    }
}

impl Code {
    /// Returns the strings of registers, of which constants are there.
    pub(super) fn texts(&self) -> Vec<Texts<'_>> {
        if !self.lanes.contains(&Lane::Text) {
            return Vec::new();
        }
        let mut texts: Vec<Texts<'_>> = self.lanes.iter().map(|_| Texts::None).collect();
        for (register, constant) in &self.constants {
            if let Constant::Text(text) = constant {
                texts[*register] = Texts::One(text);
            }
        }
        texts
    }
}

impl<'s, 'a> Machine<'s, 'a> {
    pub(super) fn new(
        registers: &'s mut [Vector],
        texts: &'s mut [Texts<'a>],
        strings: &'s mut [Dictionary],
    ) -> Self {
        Self {
            registers,
            texts,
            strings,
        }
    }

    /// Returns whether a row has an error, of those that `pass` selects if it is given.
    pub(super) fn raises(
        &self,
        raises: &[(Register, Register)],
        pass: Option<&[u8]>,
        count: usize,
    ) -> Result<bool, Declined> {
        for (guard, when) in raises {
            let guard = read::<u8>(&self.registers[*guard], count)?;
            let when = read::<u8>(&self.registers[*when], count)?;
            let raises = match pass {
                None => any_of_both(guard, when),
                Some(pass) => {
                    let mut rows = pass.iter().zip(guard).zip(when);
                    rows.any(|((pass, guard), when)| pass & guard & when != 0)
                }
            };
            if raises {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends a value of each row to a column.
    pub(super) fn append(
        &self,
        column: &mut Column,
        (value, valid): (Register, Option<Register>),
        count: usize,
    ) -> Result<(), Declined> {
        let valid = valid.map(|valid| &self.registers[valid]);
        column.append(&self.registers[value], self.text(value), valid, count)
    }

    /// Returns the strings of a register.
    pub(super) fn text(&self, register: Register) -> &Texts<'a> {
        self.texts.get(register).unwrap_or(&Texts::None)
    }
}

impl From<Unsupported> for Declined {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error.what)
    }
}
