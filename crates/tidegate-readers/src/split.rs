//! Where a file can be cut into parts that are read side by side: at lines that begin rows.
//!
//! A cut is wanted at an offset, and is made at the first line behind it that begins a row. Whether a line
//! does depends on all that comes before it, since it may stand within a quoted value or an object. So each
//! part is first supposed to begin at the first line behind its offset; from there a [`Splitter`] searches
//! for the row that the next part begins with, all parts side by side. A part that does not begin where the
//! one before it ends was supposed wrongly ([`wrong_part`]), and is searched again from there. What that
//! comes to is the cuts that one reader from the beginning would have made.
//!
//! Lines without quotes are rows, so only lines with quotes are searched byte by byte.

use std::fmt;

use crate::dialect::{Dialect, Sniffed};
use crate::json::{Layout, SniffedJson};
use crate::records::{Rows, Step, Syntax, Tokenizer};

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchFrom {
    /// At the file's beginning.
    Head,
    /// At this offset, which is a row's.
    Row(u64),
    /// At the first line at this offset or behind it; the bytes that are searched begin one before it.
    Line(u64),
}

impl SearchFrom {
    /// Returns the offset of the first byte that is searched.
    pub fn offset(self) -> u64 {
        match self {
            Self::Head => 0,
            Self::Row(offset) => offset,
            Self::Line(offset) => offset.saturating_sub(1),
        }
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Where it ends; `None` if no row that ends it was found: it goes on to the file's end.
    pub end: Option<u64>,
    /// Its newlines.
    pub newlines: u64,
    /// Its rows, if they are objects of JSON.
    pub objects: u64,
}

/// Returns the first part that does not begin where the one before it ends, and its right beginning.
pub fn wrong_part(parts: &[Part]) -> Option<(usize, u64)> {
    for (place, pair) in parts.windows(2).enumerate() {
        // Nothing comes behind a part that goes on to the file's end.
        let end = pair[0].end?;
        if end != pair[1].start {
            return Some((place + 1, end));
        }
    }
    None
}

/// Where a part stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The line that it begins on, from 1.
    pub line: u64,
    /// The objects before it.
    pub objects: u64,
}

/// Returns where each part of a file of `size` bytes stands; no part is a wrong one.
pub fn places(parts: &[Part], size: u64) -> Vec<Place> {
    let (mut start, mut line, mut objects) = (0, 1, 0);
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let end = part.end.unwrap_or(size).max(start);
        places.push(Place {
            start,
            end,
            line,
            objects,
        });
        line += part.newlines;
        objects += part.objects;
        start = end;
    }
    places
}

/// Searches for the row that the next part begins with.
pub struct Splitter {
    /// The first offset at which the next part may begin.
    wanted: u64,
    part: Part,
    at: u64,
    /// Whether the last byte was a newline.
    is_line: bool,
    state: State,
    rows: Cutter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first line.
    Before,
    /// In lines that are no rows.
    Skipped(usize),
    /// Between rows.
    Between,
    /// Within a row.
    Within,
    /// In what is no row, or too long for one.
    Lost,
}

enum Cutter {
    Delimited {
        quote: Option<u8>,
        tokenizer: Box<Tokenizer>,
        rows: Rows,
    },
    Json {
        depth: usize,
        is_text: bool,
        is_escaped: bool,
    },
    /// Each line by itself.
    Lines,
}

impl fmt::Debug for Splitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Splitter")
            .field("wanted", &self.wanted)
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}

impl Dialect {
    /// Tells whether a newline's byte is a newline in every place, so that the file can be cut.
    pub fn is_splittable(&self) -> bool {
        self.encoding.is_cuttable()
    }
}

impl SniffedJson {
    /// Tells whether the file can be cut between objects.
    pub fn is_splittable(&self) -> bool {
        self.layout == Layout::Objects
    }
}

impl Splitter {
    /// Makes a splitter for delimited text, which looks for the first row at `wanted` or behind it.
    pub fn delimited(sniffed: &Sniffed, from: SearchFrom, wanted: u64) -> Self {
        let dialect = &sniffed.dialect;
        let mut tokenizer = Tokenizer::new(Syntax::of(dialect));
        if from != SearchFrom::Head {
            tokenizer.begin_within();
        }
        let rows = Cutter::Delimited {
            quote: dialect.quote,
            tokenizer: Box::new(tokenizer),
            rows: Rows::default(),
        };
        let mut splitter = Self::new(from, wanted, rows);
        if from == SearchFrom::Head {
            // The header or the first row belongs to the first part.
            splitter.state = State::Skipped(dialect.skip);
        }
        splitter
    }

    /// Makes a splitter for objects of JSON.
    pub fn json(sniffed: &SniffedJson, from: SearchFrom, wanted: u64) -> Self {
        let rows = match sniffed.by_line {
            true => Cutter::Lines,
            false => Cutter::Json {
                depth: 0,
                is_text: false,
                is_escaped: false,
            },
        };
        Self::new(from, wanted, rows)
    }

    fn new(from: SearchFrom, wanted: u64, rows: Cutter) -> Self {
        let start = from.offset();
        Self {
            wanted,
            part: Part {
                start,
                end: None,
                newlines: 0,
                objects: 0,
            },
            at: start,
            is_line: !matches!(from, SearchFrom::Line(_)),
            state: match from {
                SearchFrom::Line(_) => State::Before,
                _ => State::Between,
            },
            rows,
        }
    }

    /// Takes the next bytes; returns whether the search is over.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        loop {
            if self.is_over() {
                return true;
            }
            if rest.is_empty() {
                return false;
            }
            let is_before = self.state == State::Before;
            let taken = self.step(rest);
            let (step, behind) = rest.split_at(taken);
            self.at += taken as u64;
            self.is_line = step.last().map_or(self.is_line, |last| *last == b'\n');
            if !is_before {
                self.part.newlines += memchr::memchr_iter(b'\n', step).count() as u64;
            }
            rest = behind;
        }
    }

    /// Returns the part that was searched: all of the bytes up to a row that is another part's, or the
    /// file's end.
    pub fn part(mut self) -> Part {
        match self.state {
            State::Lost => {}
            // No line came, so nothing belongs to it.
            State::Before => {
                self.part.start = self.at;
                self.part.end = Some(self.at);
            }
            _ => self.part.end = Some(self.at),
        }
        self.part
    }

    fn is_over(&self) -> bool {
        match self.state {
            State::Between => self.is_line && self.at >= self.wanted,
            State::Lost => true,
            _ => false,
        }
    }

    /// Returns how many of these bytes, of which there are some, belong to what the state says, and
    /// changes it.
    fn step(&mut self, bytes: &[u8]) -> usize {
        let line = || memchr::memchr(b'\n', bytes).map(|at| at + 1);
        match (self.state, line) {
            (State::Before, line) => match line() {
                Some(taken) => {
                    self.part.start = self.at + taken as u64;
                    self.state = State::Between;
                    taken
                }
                None => bytes.len(),
            },
            (State::Skipped(0), _) => {
                self.state = State::Within;
                0
            }
            (State::Skipped(lines), line) => match line() {
                Some(taken) => {
                    self.state = State::Skipped(lines - 1);
                    taken
                }
                None => bytes.len(),
            },
            (State::Lost, _) => bytes.len(),
            (State::Between | State::Within, _) => self.step_rows(bytes),
        }
    }

    fn step_rows(&mut self, bytes: &[u8]) -> usize {
        // Behind this newline the search may be over.
        let least = self.wanted.saturating_sub(self.at).saturating_sub(1) as usize;
        let is_between = self.state == State::Between;
        match &mut self.rows {
            Cutter::Delimited { quote, .. } if is_between => {
                let taken = whole_lines(bytes, least, *quote);
                if taken == 0 {
                    self.state = State::Within;
                }
                taken
            }
            Cutter::Delimited {
                tokenizer, rows, ..
            } => match tokenizer.read(bytes, rows) {
                Ok((Step::More, taken)) => taken,
                Ok((Step::Row, taken)) => {
                    rows.clear();
                    self.state = State::Between;
                    taken
                }
                Err(_) => {
                    self.state = State::Lost;
                    bytes.len()
                }
            },
            Cutter::Lines => {
                let behind = bytes.get(least..).unwrap_or_default();
                match memchr::memchr(b'\n', behind) {
                    Some(at) => {
                        self.state = State::Between;
                        least + at + 1
                    }
                    None => bytes.len(),
                }
            }
            Cutter::Json {
                depth,
                is_text,
                is_escaped,
            } => {
                let mut at = 0;
                while let Some(&byte) = bytes.get(at) {
                    at += 1;
                    match byte {
                        _ if *is_escaped => *is_escaped = false,
                        b'\\' if *is_text => *is_escaped = true,
                        b'"' => *is_text = !*is_text,
                        _ if *is_text => {
                            let rest = &bytes[at..];
                            at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                        }
                        b'{' | b'[' => {
                            self.part.objects += u64::from(*depth == 0);
                            *depth += 1;
                        }
                        b'}' | b']' if *depth == 0 => {
                            self.state = State::Lost;
                            return bytes.len();
                        }
                        b'}' | b']' => *depth -= 1,
                        b'\n' if *depth == 0 && at > least => {
                            self.state = State::Between;
                            return at;
                        }
                        _ => {}
                    }
                }
                self.state = State::Within;
                at
            }
        }
    }
}

/// Returns how many bytes, from the beginning of a row, are lines without quotes; no more than up to the
/// first newline at `least` or behind it.
fn whole_lines(bytes: &[u8], least: usize, quote: Option<u8>) -> usize {
    let behind = bytes.get(least..).unwrap_or_default();
    let stop = memchr::memchr(b'\n', behind).map_or(bytes.len(), |at| least + at + 1);
    let lines = &bytes[..stop];
    let plain = match quote.and_then(|quote| memchr::memchr(quote, lines)) {
        Some(quoted) => &lines[..quoted],
        None => lines,
    };
    memchr::memrchr(b'\n', plain).map_or(0, |at| at + 1)
}
