//! The values of one page.

use arrow_array::StringViewArray;
use bytes::Bytes;

use crate::delta::Delta;
use crate::error::{PageError, Result};
use crate::header::{PageEncoding, PageKind};
use crate::kind::Kind;
use crate::runs::{Runs, Uniform};
use crate::slices::Slices;
use crate::split;
use crate::stream::Page;
use crate::text::text_of;
use crate::typed::{Typed, read_decimals};
use crate::unpack::unpack;

/// A cursor over the values of a page.
pub(crate) enum Cursor {
    /// There is no page.
    None,
    /// Codes of the dictionary's entries.
    Codes(Runs),
    /// Values of one length, as `PLAIN` has them.
    Fixed {
        bytes: Bytes,
        at: usize,
        width: usize,
    },
    /// Booleans as bits.
    Bits { bytes: Bytes, at: usize, len: usize },
    /// Booleans in runs.
    Flags(Runs),
    /// Integers as differences.
    Delta(Delta),
    /// Decimals that were byte arrays.
    Decimals { values: Vec<i128>, at: usize },
    /// Strings, one for each *row*, and so what is said of values holds for rows.
    Text { array: StringViewArray, at: usize },
}

/// What pages are made into cursors with.
pub(crate) struct PageParser {
    pub(crate) kind: Kind,
    pub(crate) is_optional: bool,
    pub(crate) bytes_max: u64,
    slices: Slices,
    levels: Vec<u8>,
}

impl PageParser {
    pub(crate) fn new(kind: Kind, is_optional: bool, bytes_max: u64) -> Self {
        Self {
            kind,
            is_optional,
            bytes_max,
            slices: Slices::default(),
            levels: Vec::new(),
        }
    }

    /// Splits a data page into definition levels, if the column has any, and values.
    pub(crate) fn parse(&mut self, page: Page) -> Result<(Option<Runs>, Cursor)> {
        let Page {
            header,
            levels,
            values,
        } = page;
        let (levels, values) = match (header.kind, self.is_optional) {
            (_, false) => (None, values),
            (PageKind::DataV2, true) => (levels, values),
            (_, true) if !header.has_rle_levels => {
                return Err(PageError::unsupported("definition levels are packed bits"));
            }
            (_, true) => {
                let (levels, values) = with_length(&values)?;
                (Some(levels), values)
            }
        };
        let levels = levels.map(|levels| Runs::new(levels, 1));
        let cursor = self.cursor(header.encoding, header.num_values, levels.as_ref(), values)?;
        Ok((levels, cursor))
    }

    /// Reads the entries of a dictionary page.
    pub(crate) fn entries(&mut self, page: Page, memory: Typed) -> Result<Dictionary> {
        let (len, bytes) = (page.header.num_values, page.values);
        let ends = || PageError::damaged("a dictionary ends within its entries");
        let mut entries = match memory {
            memory if memory.is_like(&Typed::new(self.kind)) => memory,
            _ => Typed::new(self.kind),
        };
        if let Some(width) = self.kind.width() {
            if len
                .checked_mul(width)
                .is_none_or(|needed| needed > bytes.len())
            {
                return Err(ends());
            }
            entries.resize(len);
            entries.read_plain(self.kind, &bytes, 0, len)?;
            return Ok(Dictionary::Typed(entries));
        }
        if self.kind == Kind::Bool {
            return Err(PageError::unsupported("booleans have a dictionary"));
        }
        self.slices
            .read(PageEncoding::Plain, bytes, len, self.bytes_max)?;
        if self.kind == Kind::Text {
            let text = text_of(&self.slices, None)?;
            self.slices.bytes = Bytes::new();
            return Ok(Dictionary::Text(text));
        }
        let mut decimals = Vec::new();
        read_decimals(&self.slices, None, &mut decimals)?;
        self.slices.bytes = Bytes::new();
        entries.resize(len);
        entries.write_decimals(&decimals, 0)?;
        Ok(Dictionary::Typed(entries))
    }

    fn cursor(
        &mut self,
        encoding: PageEncoding,
        num_rows: usize,
        levels: Option<&Runs>,
        values: Bytes,
    ) -> Result<Cursor> {
        let kind = self.kind;
        match (encoding, kind) {
            (PageEncoding::Dictionary, Kind::Bool) => Err(no_cursor(encoding, kind)),
            (PageEncoding::Dictionary, _) => Ok(Cursor::Codes(Runs::with_width(values)?)),
            (PageEncoding::Plain, Kind::Bool) => Ok(Cursor::Bits {
                len: values.len().saturating_mul(8),
                bytes: values,
                at: 0,
            }),
            (PageEncoding::Rle, Kind::Bool) => {
                // A page without values may have no length either.
                let runs = match values.is_empty() {
                    true => values,
                    false => with_length(&values)?.0,
                };
                Ok(Cursor::Flags(Runs::new(runs, 1)))
            }
            (PageEncoding::DeltaBinaryPacked, kind) => match kind.delta_bits() {
                Some(_) if values.is_empty() => Ok(Cursor::fixed(values, 1)),
                Some(bits) => Ok(Cursor::Delta(Delta::new(values, bits)?)),
                None => Err(no_cursor(encoding, kind)),
            },
            (PageEncoding::Plain | PageEncoding::ByteStreamSplit, kind)
                if kind.width().is_some() =>
            {
                let width = kind.width().unwrap_or(1);
                match encoding {
                    PageEncoding::Plain => Ok(Cursor::fixed(values, width)),
                    _ => Ok(Cursor::fixed(split::joined(&values, width)?, width)),
                }
            }
            (
                PageEncoding::Plain
                | PageEncoding::DeltaLengthByteArray
                | PageEncoding::DeltaByteArray,
                Kind::Text | Kind::BytesDecimal { .. },
            )
            | (PageEncoding::DeltaByteArray, Kind::FixedDecimal { .. }) => {
                self.byte_arrays(encoding, num_rows, levels, values)
            }
            _ => Err(no_cursor(encoding, kind)),
        }
    }

    fn byte_arrays(
        &mut self,
        encoding: PageEncoding,
        num_rows: usize,
        levels: Option<&Runs>,
        values: Bytes,
    ) -> Result<Cursor> {
        let levels = match levels {
            None => None,
            Some(runs) => {
                self.levels.resize(num_rows, 0);
                runs.clone()
                    .read(2, &mut self.levels, &mut Uniform::Empty)?;
                Some(self.levels.as_slice())
            }
        };
        let present = levels.map_or(num_rows, |levels| {
            levels.iter().map(|level| usize::from(*level)).sum()
        });
        match present {
            0 => self.slices = Slices::default(),
            _ => self
                .slices
                .read(encoding, values, present, self.bytes_max)?,
        }
        let cursor = match self.kind {
            Kind::Text => Cursor::Text {
                array: text_of(&self.slices, levels)?,
                at: 0,
            },
            kind => {
                let mut decimals = Vec::new();
                read_decimals(&self.slices, kind.width(), &mut decimals)?;
                Cursor::Decimals {
                    values: decimals,
                    at: 0,
                }
            }
        };
        // The page's memory is used again.
        self.slices.bytes = Bytes::new();
        Ok(cursor)
    }
}

/// The entries of a dictionary page.
pub(crate) enum Dictionary {
    Typed(Typed),
    Text(StringViewArray),
}

impl Cursor {
    fn fixed(bytes: Bytes, width: usize) -> Self {
        Self::Fixed {
            bytes,
            at: 0,
            width,
        }
    }

    /// Returns the bytes of what was made of the page.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Text { array, .. } => size_of_val::<[u128]>(array.views()),
            Self::Decimals { values, .. } => size_of_val(values.as_slice()),
            _ => 0,
        }
    }

    /// Passes over `rows` rows, `present` of which have a value.
    pub(crate) fn pass(&mut self, rows: usize, present: usize) -> Result<()> {
        match self {
            Self::None => Err(ends()),
            Self::Codes(runs) | Self::Flags(runs) => runs.pass(present).map(|_| ()),
            Self::Fixed { at, width, .. } => {
                *at = at.saturating_add(present.saturating_mul(*width));
                Ok(())
            }
            Self::Bits { at, .. } | Self::Decimals { at, .. } => {
                *at = at.saturating_add(present);
                Ok(())
            }
            Self::Delta(delta) => delta.pass(present),
            Self::Text { at, .. } => {
                *at = at.saturating_add(rows);
                Ok(())
            }
        }
    }

    /// Reads `present` values that are neither codes nor strings.
    pub(crate) fn read(
        &mut self,
        kind: Kind,
        present: usize,
        out: &mut Typed,
        from: usize,
    ) -> Result<()> {
        match self {
            Self::Fixed { bytes, at, width } => {
                let end = present
                    .checked_mul(*width)
                    .and_then(|len| len.checked_add(*at));
                let stored = end.and_then(|end| bytes.get(*at..end)).ok_or_else(ends)?;
                out.read_plain(kind, stored, from, present)?;
                *at += stored.len();
                Ok(())
            }
            Self::Bits { bytes, at, len } => {
                if present > len.saturating_sub(*at) {
                    return Err(ends());
                }
                if let Typed::Bool(out) = out {
                    unpack(bytes, 1, *at, &mut out[from..from + present]);
                }
                *at += present;
                Ok(())
            }
            Self::Flags(runs) => match out {
                Typed::Bool(out) => {
                    runs.read(2, &mut out[from..from + present], &mut Uniform::Empty)
                }
                _ => Err(ends()),
            },
            Self::Delta(delta) => {
                let mut some = [0; 256];
                let mut done = 0;
                while done < present {
                    let now = (present - done).min(some.len());
                    delta.read(&mut some[..now])?;
                    out.write_integers(kind, &some[..now], from + done);
                    done += now;
                }
                Ok(())
            }
            Self::Decimals { values, at } => {
                let end = at.checked_add(present);
                let stored = end.and_then(|end| values.get(*at..end)).ok_or_else(ends)?;
                out.write_decimals(stored, from)?;
                *at += present;
                Ok(())
            }
            Self::None | Self::Codes(_) | Self::Text { .. } => Err(ends()),
        }
    }
}

/// Splits off what a length of four bytes stands before.
fn with_length(bytes: &Bytes) -> Result<(Bytes, Bytes)> {
    let length = bytes
        .first_chunk()
        .map(|length| u32::from_le_bytes(*length) as usize);
    match length {
        Some(length) if length <= bytes.len() - 4 => {
            Ok((bytes.slice(4..4 + length), bytes.slice(4 + length..)))
        }
        _ => Err(ends()),
    }
}

fn no_cursor(encoding: PageEncoding, kind: Kind) -> PageError {
    PageError::unsupported(format!("{kind:?} as {encoding:?}"))
}

fn ends() -> PageError {
    PageError::damaged("a page ends within its values")
}
