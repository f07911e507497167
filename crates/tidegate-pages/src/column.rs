//! One column of a row group: pages to blocks.

use std::sync::Arc;

use arrow_array::{Array, StringViewArray};
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;
use tidegate_kernels::host::{BLOCK, Chunk, Entries, Values};

use crate::cursor::{Cursor, Dictionary, PageParser};
use crate::error::{PageError, Result};
use crate::header::PageKind;
use crate::kind::Kind;
use crate::runs::{Runs, Uniform};
use crate::selection::Stretch;
use crate::source::{Buffers, ChunkBytes};
use crate::stream::{PageStream, ReadOptions};
use crate::text::{Piece, PieceRows, joined};
use crate::typed::{Typed, at_least_one, spread};
use crate::unpack::Code;

/// A cursor over a column of a row group.
pub(crate) struct Column {
    stream: PageStream,
    parser: PageParser,
    /// Whether the first page was looked at.
    has_begun: bool,
    entries: Option<Entries>,
    /// Entries that the file has: one is made if there are none.
    num_entries: u32,
    /// Whether the footer says that all data pages have codes.
    is_all_codes: bool,
    /// Rows that are left in the page.
    page_rows: usize,
    levels: Option<Runs>,
    cursor: Cursor,
    /// Rows to pass over before the next block.
    pub(crate) behind: usize,
    out: Out,
}

/// Memory of a column that is no longer read.
#[derive(Default)]
pub(crate) struct Memory {
    entries: Option<Entries>,
    out: Option<Out>,
}

/// The rows of a block.
struct Out {
    rows: usize,
    codes: Codes,
    typed: Typed,
    validity: Vec<u8>,
    has_nulls: bool,
    uniform: Uniform,
    form: Form,
    /// Strings that are not codes of this group's entries alone.
    pieces: Vec<(usize, Piece)>,
    text: Option<(StringViewArray, usize)>,
}

/// What a block's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// There is no block.
    Nothing,
    Codes,
    Typed,
    Text,
}

/// Codes as wide as the number of entries asks for.
enum Codes {
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

impl Column {
    /// Begins a column chunk.
    pub(crate) fn new(
        chunk: &ColumnChunkMetaData,
        kind: Kind,
        num_rows: usize,
        source: &Arc<dyn ChunkBytes>,
        buffers: &Buffers,
        options: &ReadOptions,
        memory: Memory,
    ) -> Result<Self> {
        if usize::try_from(chunk.num_values()).ok() != Some(num_rows) {
            return Err(PageError::damaged("it has other rows than its row group"));
        }
        let is_optional = chunk.column_descr().max_def_level() > 0;
        let typed = Typed::new(kind);
        let out = memory.out.filter(|out| out.typed.is_like(&typed));
        Ok(Self {
            stream: PageStream::new(chunk, num_rows, source, buffers, options)?,
            parser: PageParser::new(kind, is_optional, options.page_bytes_max),
            has_begun: false,
            entries: memory.entries,
            num_entries: 0,
            is_all_codes: is_all_codes(chunk),
            page_rows: 0,
            levels: None,
            cursor: Cursor::None,
            behind: 0,
            out: out.unwrap_or_else(|| Out::new(typed)),
        })
    }

    /// Gives the memory back.
    pub(crate) fn into_memory(mut self) -> Memory {
        self.out.begin();
        Memory {
            entries: self.entries,
            out: Some(self.out),
        }
    }

    /// Returns the entries that codes are of, once [`begin`](Self::begin) was called.
    pub(crate) fn entries(&self) -> Option<&Entries> {
        self.entries.as_ref().filter(|_| self.has_begun)
    }

    /// Returns whether the footer says that each value is one of the entries.
    pub(crate) fn is_all_codes(&self) -> bool {
        self.is_all_codes
    }

    /// Reads the dictionary page, if there is one.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.has_begun {
            return Ok(());
        }
        let memory = self.entries.take();
        let first = self.stream.peek()?;
        if first.is_some_and(|header| header.kind == PageKind::Dictionary) {
            let page = self.stream.load()?;
            self.num_entries = page.header.num_values as u32;
            let memory = memory.map_or(Typed::None, Typed::from_entries);
            let entries = match self.parser.entries(page, memory)? {
                Dictionary::Typed(typed) => typed.into_entries(),
                Dictionary::Text(array) => Some(Entries::Text(array)),
            };
            self.entries = entries.map(at_least_one);
            self.out.codes.fit(self.num_entries);
        }
        self.has_begun = true;
        Ok(())
    }

    /// Reads the rows of a block.
    pub(crate) fn decode(&mut self, stretches: &[Stretch]) -> Result<()> {
        self.begin()?;
        self.out.begin();
        let behind = std::mem::take(&mut self.behind);
        self.pass(behind)?;
        for stretch in stretches {
            self.pass(stretch.gap)?;
            let mut left = stretch.rows;
            while left > 0 {
                while self.page_rows == 0 {
                    self.next_page()?;
                }
                let rows = left.min(self.page_rows);
                self.read(rows)?;
                self.took(rows);
                left -= rows;
            }
        }
        self.out.finish(self.entries.as_ref())
    }

    /// Returns the block that was read last.
    pub(crate) fn chunk(&self) -> Option<Chunk<'_>> {
        let out = &self.out;
        let values = match out.form {
            Form::Nothing => return None,
            Form::Codes => match out.uniform {
                Uniform::Empty => Values::Constant(0),
                Uniform::Value(code) => Values::Constant(code),
                Uniform::No => match &out.codes {
                    Codes::U8(codes) => Values::Codes8(&codes[..out.rows]),
                    Codes::U16(codes) => Values::Codes16(&codes[..out.rows]),
                    Codes::U32(codes) => Values::Codes32(&codes[..out.rows]),
                },
            },
            Form::Typed => out.typed.values()?,
            Form::Text => {
                let (array, at) = out.text.as_ref()?;
                Values::Text { array, at: *at }
            }
        };
        Some(Chunk {
            values,
            validity: out.has_nulls.then(|| &out.validity[..out.rows]),
        })
    }

    /// Forgets the block that was read last.
    pub(crate) fn forget(&mut self) {
        self.out.begin();
    }

    fn took(&mut self, rows: usize) {
        self.page_rows -= rows;
        if self.page_rows == 0 {
            // Its memory is there for the next page.
            self.cursor = Cursor::None;
            self.levels = None;
        }
    }

    /// Passes over rows; pages that have no others are not restored.
    fn pass(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            if self.page_rows == 0 {
                let next = self.stream.peek()?;
                match next {
                    Some(header) if is_data(header.kind) && header.num_values <= rows => {
                        rows -= header.num_values;
                        self.stream.pass()?;
                    }
                    _ => self.next_page()?,
                }
                continue;
            }
            let now = rows.min(self.page_rows);
            if now < self.page_rows {
                let present = match &mut self.levels {
                    None => now,
                    Some(levels) => levels.pass(now)?,
                };
                self.cursor.pass(now, present)?;
            }
            self.took(now);
            rows -= now;
        }
        Ok(())
    }

    fn next_page(&mut self) -> Result<()> {
        match self.stream.peek()? {
            Some(header) if is_data(header.kind) => {}
            Some(_) => return Err(PageError::damaged("it has a second dictionary")),
            None => return Err(PageError::damaged("its pages end before its rows")),
        }
        let page = self.stream.load()?;
        let rows = page.header.num_values;
        if rows > 0 {
            (self.levels, self.cursor) = self.parser.parse(page)?;
        }
        self.page_rows = rows;
        Ok(())
    }

    /// Appends rows of the page to the block.
    fn read(&mut self, rows: usize) -> Result<()> {
        let out = &mut self.out;
        let from = out.rows;
        let present = out.read_levels(self.levels.as_mut(), rows)?;
        out.rows += rows;
        match &mut self.cursor {
            Cursor::Codes(runs) => {
                let Some(entries) = &self.entries else {
                    return match present {
                        0 => out.append_nulls(from, rows, self.parser.kind),
                        _ => Err(PageError::damaged("it has codes, and no dictionary")),
                    };
                };
                out.read_codes(runs, self.num_entries, from, present)?;
                match (out.form, entries) {
                    (Form::Nothing, _) => out.form = Form::Codes,
                    (Form::Typed, entries) => out.codes_to_typed(from..out.rows, entries),
                    (Form::Text, Entries::Text(array)) => out.codes_to_piece(from..out.rows, array),
                    _ => {}
                }
                Ok(())
            }
            Cursor::Text { array, at } => {
                if at.saturating_add(rows) > array.len() {
                    return Err(PageError::damaged("a page ends within its values"));
                }
                if let (Form::Codes, Some(Entries::Text(entries))) = (out.form, &self.entries) {
                    out.codes_to_piece(0..from, entries);
                }
                out.form = Form::Text;
                out.append_text(array, *at, rows);
                *at += rows;
                Ok(())
            }
            cursor => {
                out.to_typed(from, self.entries.as_ref());
                cursor.read(self.parser.kind, present, &mut out.typed, from)?;
                if present < rows {
                    let validity = &out.validity[from..out.rows];
                    out.typed.spread(from, validity, present);
                }
                Ok(())
            }
        }
    }
}

impl Out {
    fn new(mut typed: Typed) -> Self {
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

    fn begin(&mut self) {
        self.rows = 0;
        self.has_nulls = false;
        self.uniform = Uniform::Empty;
        self.form = Form::Nothing;
        self.pieces.clear();
        self.text = None;
    }

    /// Reads levels of rows; returns how many of them have a value.
    fn read_levels(&mut self, levels: Option<&mut Runs>, rows: usize) -> Result<usize> {
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

    fn read_codes(
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
    fn append_nulls(&mut self, from: usize, rows: usize, kind: Kind) -> Result<()> {
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
    fn to_typed(&mut self, from: usize, entries: Option<&Entries>) {
        if let (Form::Codes, Some(entries)) = (self.form, entries) {
            self.codes_to_typed(0..from, entries);
        }
        self.form = Form::Typed;
    }

    fn codes_to_typed(&mut self, rows: std::ops::Range<usize>, entries: &Entries) {
        let from = rows.start;
        with_codes!(&self.codes, codes => self.typed.gather(from, entries, &codes[rows]));
    }

    fn codes_to_piece(&mut self, rows: std::ops::Range<usize>, entries: &StringViewArray) {
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

    fn append_text(&mut self, array: &StringViewArray, at: usize, rows: usize) {
        let piece = Piece {
            array: array.clone(),
            rows: PieceRows::From(at),
        };
        self.pieces.push((rows, piece));
    }

    fn finish(&mut self, entries: Option<&Entries>) -> Result<()> {
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
    fn fit(&mut self, num_entries: u32) {
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

fn is_data(kind: PageKind) -> bool {
    matches!(kind, PageKind::Data | PageKind::DataV2)
}

/// Returns whether the footer says that all data pages are codes.
fn is_all_codes(chunk: &ColumnChunkMetaData) -> bool {
    let is_code = |encoding: Encoding| {
        matches!(
            encoding,
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
        )
    };
    if let Some(mask) = chunk.page_encoding_stats_mask() {
        return mask.as_i32() != 0 && mask.encodings().all(is_code);
    }
    chunk.page_encoding_stats().is_some_and(|pages| {
        use parquet::basic::PageType;
        let mut data = pages
            .iter()
            .filter(|page| matches!(page.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2));
        data.all(|page| is_code(page.encoding))
    })
}
