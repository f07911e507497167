//! Page headers, compared with what their column chunk may hold before a page is read.

use crate::error::{PageError, Result};
use crate::thrift::walk;

/// Kinds of pages, by their number in the format.
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Dictionary,
    Data,
    DataV2,
    /// An index page, or one that is not known here; it is passed over.
    Other,
}

/// What encodes a page's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageEncoding {
    Plain,
    Dictionary,
    Rle,
    DeltaBinaryPacked,
    DeltaLengthByteArray,
    DeltaByteArray,
    ByteStreamSplit,
    Unknown(i64),
}

impl PageEncoding {
    fn new(number: i64) -> Self {
        match number {
            0 => Self::Plain,
            2 | 8 => Self::Dictionary,
            3 => Self::Rle,
            5 => Self::DeltaBinaryPacked,
            6 => Self::DeltaLengthByteArray,
            7 => Self::DeltaByteArray,
            9 => Self::ByteStreamSplit,
            other => Self::Unknown(other),
        }
    }
}

/// The header of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHeader {
    pub(crate) kind: PageKind,
    pub(crate) encoding: PageEncoding,
    /// Whether definition levels of a page of the first version are run lengths, as all writers have them.
    pub(crate) has_rle_levels: bool,
    /// Values, or rows: columns are flat.
    pub(crate) num_values: usize,
    /// Bytes of the page, levels included.
    pub(crate) uncompressed: usize,
    /// Bytes of the page as they are stored.
    pub(crate) compressed: usize,
    /// Bytes of the definition levels before the values of a page of the second version.
    pub(crate) levels: usize,
    /// Whether the codec was used for the values.
    pub(crate) is_compressed: bool,
}

#[derive(Default)]
struct Numbers {
    kind: i64,
    uncompressed: i64,
    compressed: i64,
    num_values: Option<i64>,
    encoding: i64,
    level_encoding: Option<i64>,
    definition_bytes: i64,
    repetition_bytes: i64,
    is_plain: bool,
}

impl PageHeader {
    /// Reads the header at the beginning of some bytes; returns its length as well. `None` if the bytes
    /// may end within it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Result<(usize, Self)>> {
        let mut numbers = Numbers::default();
        let walked = walk(bytes, |path, value| match path {
            [1] => numbers.kind = value,
            [2] => numbers.uncompressed = value,
            [3] => numbers.compressed = value,
            // Of a data page, a dictionary page, and a data page of the second version.
            [5 | 7 | 8, 1] => numbers.num_values = Some(value),
            [5 | 7, 2] | [8, 4] => numbers.encoding = value,
            [5, 3] => numbers.level_encoding = Some(value),
            [8, 5] => numbers.definition_bytes = value,
            [8, 6] => numbers.repetition_bytes = value,
            [8, 7] => numbers.is_plain = value == 0,
            _ => {}
        });
        match walked {
            Ok(length) => Some(numbers.checked().map(|header| (length, header))),
            Err(_) => None,
        }
    }
}

impl Numbers {
    fn checked(&self) -> Result<PageHeader> {
        let kind = match self.kind {
            DATA_PAGE => PageKind::Data,
            DICTIONARY_PAGE => PageKind::Dictionary,
            DATA_PAGE_V2 => PageKind::DataV2,
            _ => PageKind::Other,
        };
        let length = |value: i64| {
            // Thrift has these as 32 bits.
            let value = i32::try_from(value).ok();
            value
                .and_then(|value| usize::try_from(value).ok())
                .ok_or_else(|| PageError::damaged("a page header has a length beyond its limits"))
        };
        let num_values = match (kind, self.num_values) {
            (PageKind::Other, _) => 0,
            (_, None) => return Err(PageError::damaged("a page header has no number of values")),
            (_, Some(num_values)) => length(num_values)?,
        };
        let (uncompressed, compressed) = (length(self.uncompressed)?, length(self.compressed)?);
        let levels = match kind {
            PageKind::DataV2 if self.repetition_bytes != 0 => {
                return Err(PageError::unsupported("a page has repetition levels"));
            }
            PageKind::DataV2 => length(self.definition_bytes)?,
            _ => 0,
        };
        if levels > compressed || levels > uncompressed {
            return Err(PageError::damaged(
                "a page's levels are longer than the page",
            ));
        }
        Ok(PageHeader {
            kind,
            encoding: PageEncoding::new(self.encoding),
            has_rle_levels: self.level_encoding.is_none_or(|encoding| encoding == 3),
            num_values,
            uncompressed,
            compressed,
            levels,
            is_compressed: !self.is_plain,
        })
    }
}
