//! The rows of a block that were read: codes, values of a type, or strings.
//!
//! Rows are appended part by part, page by page. Where codes and values meet in a block, the codes become
//! values; a block is of one form.

use std::ops::Range;

use arrow_array::StringViewArray;
use tidegate_kernels::host::{BLOCK, Chunk, Entries, Values};

use crate::error::Result;
use crate::kind::Kind;
use crate::runs::{Runs, Uniform};
use crate::text::{Piece, PieceRows, joined};
use crate::typed::{Typed, spread};
use crate::unpack::Code;

/// The rows of a block.
pub(crate) struct Output {
    pub(crate) rows: usize,
    pub(crate) codes: Codes,
    pub(crate) typed: Typed,
    pub(crate) validity: Vec<u8>,
    has_nulls: bool,
    uniform: Uniform,
    pub(crate) form: Form,
    /// Strings that are not codes of this group's entries alone.
    pieces: Vec<(usize, Piece)>,
    text: Option<(StringViewArray, usize)>,
}

/// What a block's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// There is no block.
    Nothing,
    Codes,
    Typed,
    Text,
}

/// Codes as wide as the number of entries asks for.
pub(crate) enum Codes {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

macro_rules! with_codes {
    ($codes:expr, $each:ident => $body:expr) => {
        match $codes {
            Codes::U8($each) => $body,
            Codes::U16($each) => $body,
            Codes::U32($each) => $body,
        }
    };
}

impl Output {
    pub(crate) fn new(mut typed: Typed) -> Self {
        typed.resize(BLOCK);
        Self {
            rows: 0,
            codes: Codes::U8(Vec::new()),
            typed,
            validity: vec![0; BLOCK],
            has_nulls: false,
            uniform: Uniform::Empty,
            form: Form::Nothing,
            pieces: Vec::new(),
            text: None,
        }
    }

    /// Returns the block that was read last.
    pub(crate) fn chunk(&self) -> Option<Chunk<'_>> {
        let values = match self.form {
            Form::Nothing => return None,
            Form::Codes => match self.uniform {
                Uniform::Empty => Values::Constant(0),
                Uniform::Value(code) => Values::Constant(code),
                Uniform::No => match &self.codes {
                    Codes::U8(codes) => Values::Codes8(&codes[..self.rows]),
                    Codes::U16(codes) => Values::Codes16(&codes[..self.rows]),
                    Codes::U32(codes) => Values::Codes32(&codes[..self.rows]),
                },
            },
            Form::Typed => self.typed.values()?,
            Form::Text => {
                let (array, at) = self.text.as_ref()?;
                Values::Text { array, at: *at }
            }
        };
        Some(Chunk {
            values,
            validity: self.has_nulls.then(|| &self.validity[..self.rows]),
        })
    }

    /// Returns the bytes of a block.
    pub(crate) fn memory_bytes(&self) -> usize {
        let codes = with_codes!(&self.codes, codes => size_of_val(codes.as_slice()));
        codes + self.typed.num_bytes() + self.validity.len()
    }

    /// Begins an empty block.
    pub(crate) fn begin(&mut self) {
        self.rows = 0;
        self.has_nulls = false;
        self.uniform = Uniform::Empty;
        self.form = Form::Nothing;
        self.pieces.clear();
        self.text = None;
    }

    /// Reads levels of rows; returns how many of them have a value.
    pub(crate) fn read_levels(&mut self, levels: Option<&mut Runs>, rows: usize) -> Result<usize> {
        let (from, to) = (self.rows, self.rows + rows);
        let mut present = rows;
        if let Some(levels) = levels {
            if levels.repeats(rows)? == Some(1) {
                levels.pass(rows)?;
            } else {
                let validity = &mut self.validity[from..to];
                levels.read(2, validity, &mut Uniform::Empty)?;
                present = validity.iter().map(|level| usize::from(*level)).sum();
                if present < rows && !self.has_nulls {
                    self.validity[..from].fill(1);
                    self.has_nulls = true;
                }
                return Ok(present);
            }
        }
        if self.has_nulls {
            self.validity[from..to].fill(1);
        }
        Ok(present)
    }

    pub(crate) fn read_codes(
        &mut self,
        runs: &mut Runs,
        num_entries: u32,
        from: usize,
        present: usize,
    ) -> Result<()> {
        let (rows, uniform) = (self.rows, &mut self.uniform);
        with_codes!(&mut self.codes, codes => {
            runs.read(num_entries, &mut codes[from..from + present], uniform)?;
            if from + present < rows {
                spread(&mut codes[from..], &self.validity[from..rows], present);
            }
        });
        Ok(())
    }

    /// Makes rows without a value where there are no entries.
    pub(crate) fn append_nulls(&mut self, from: usize, rows: usize, kind: Kind) -> Result<()> {
        match kind {
            Kind::Text => {
                self.form = Form::Text;
                let array = StringViewArray::from(vec![""; rows]);
                self.append_text(&array, 0, rows);
            }
            _ => {
                self.form = Form::Typed;
                self.typed.clear(from, rows);
            }
        }
        Ok(())
    }

    /// Goes on with values of the type, where the rows before may be codes.
    pub(crate) fn go_on_typed(&mut self, from: usize, entries: Option<&Entries>) {
        if let (Form::Codes, Some(entries)) = (self.form, entries) {
            self.codes_to_typed(0..from, entries);
        }
        self.form = Form::Typed;
    }

    pub(crate) fn codes_to_typed(&mut self, rows: Range<usize>, entries: &Entries) {
        let from = rows.start;
        with_codes!(&self.codes, codes => self.typed.gather(from, entries, &codes[rows]));
    }

    pub(crate) fn codes_to_piece(&mut self, rows: Range<usize>, entries: &StringViewArray) {
        let num_rows = rows.len();
        let codes = with_codes!(&self.codes, codes => {
            codes[rows].iter().map(|code| code.widened()).collect()
        });
        let piece = Piece {
            array: entries.clone(),
            rows: PieceRows::Codes(codes),
        };
        self.pieces.push((num_rows, piece));
    }

    pub(crate) fn append_text(&mut self, array: &StringViewArray, at: usize, rows: usize) {
        let piece = Piece {
            array: array.clone(),
            rows: PieceRows::From(at),
        };
        self.pieces.push((rows, piece));
    }

    pub(crate) fn finish(&mut self, entries: Option<&Entries>) -> Result<()> {
        match self.form {
            Form::Nothing if entries.is_some() => self.form = Form::Codes,
            Form::Nothing => self.form = Form::Typed,
            Form::Codes | Form::Typed => {}
            Form::Text => {
                self.text = Some(match self.pieces.as_slice() {
                    [
                        (
                            _,
                            Piece {
                                array,
                                rows: PieceRows::From(at),
                            },
                        ),
                    ] => (array.clone(), *at),
                    pieces => (joined(pieces)?, 0),
                });
                self.pieces.clear();
            }
        }
        Ok(())
    }
}

impl Codes {
    /// Makes codes as wide as entries ask for.
    pub(crate) fn fit(&mut self, num_entries: u32) {
        let is_fit = match (&*self, num_entries) {
            (Self::U8(codes), 0..=0x100) => codes.len() == BLOCK,
            (Self::U16(codes), 0x101..=0x1_0000) => codes.len() == BLOCK,
            (Self::U32(codes), 0x1_0001..) => codes.len() == BLOCK,
            _ => false,
        };
        if !is_fit {
            *self = match num_entries {
                0..=0x100 => Self::U8(vec![0; BLOCK]),
                0x101..=0x1_0000 => Self::U16(vec![0; BLOCK]),
                0x1_0001.. => Self::U32(vec![0; BLOCK]),
            };
        }
    }
}
