//! Page headers, compared with their pages before these are decoded.

use std::ops::Range;

use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;
use tidegate_pages::thrift::walk;

/// What a page claims that cannot be, or that is not allowed.
pub(super) enum Flaw {
    /// It is damaged.
    Damaged(String),
    /// It has so many bytes uncompressed.
    Large(u64),
}

/// The column chunks of a file, by where they begin.
pub(super) struct Chunks(Vec<Chunk>);

struct Chunk {
    bytes: Range<u64>,
    num_values: u64,
    /// Bytes that a value of its dictionary takes at least.
    value_bytes: u64,
    is_compressed: bool,
    /// How many of its levels are stored: of repetition, of definition.
    num_levels: usize,
}

/// What a page's header says.
#[derive(Default)]
struct Header {
    kind: i64,
    uncompressed: i64,
    compressed: i64,
    num_values: i64,
    encoding: i64,
    /// Bytes of levels that stand before the values of a page of the second version.
    levels: [i64; 2],
    is_plain: bool,
}

const DATA_PAGE: i64 = 0;
pub(super) const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

impl Chunks {
    /// Lists the column chunks of a file.
    pub(super) fn of(metadata: &ParquetMetaData) -> Self {
        let columns = metadata
            .row_groups()
            .iter()
            .flat_map(|group| group.columns());
        let chunk = |column: &parquet::file::metadata::ColumnChunkMetaData| {
            let start = column.dictionary_page_offset();
            let start = start.unwrap_or_else(|| column.data_page_offset());
            let start = u64::try_from(start).ok()?;
            let length = u64::try_from(column.compressed_size()).ok()?;
            let value_bytes = match column.column_type() {
                Type::BOOLEAN => 0,
                Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
                Type::INT64 | Type::DOUBLE => 8,
                Type::INT96 => 12,
                Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().max(0) as u64,
            };
            let levels = column.column_descr();
            let levels = [levels.max_rep_level(), levels.max_def_level()];
            Some(Chunk {
                num_levels: levels.iter().filter(|level| **level > 0).count(),
                bytes: start..start.saturating_add(length),
                num_values: column.num_values().max(0) as u64,
                value_bytes,
                is_compressed: column.compression() != parquet::basic::Compression::UNCOMPRESSED,
            })
        };
        let mut chunks: Vec<Chunk> = columns.filter_map(chunk).collect();
        chunks.sort_by_key(|chunk| chunk.bytes.start);
        Self(chunks)
    }

    /// Checks the pages of a chunk, or some of them, that were read from `start`. A page may have so
    /// many bytes uncompressed.
    pub(super) fn check(&self, start: u64, bytes: &[u8], most: u64) -> Result<(), Flaw> {
        let after = self.0.partition_point(|chunk| chunk.bytes.start <= start);
        let chunk = after.checked_sub(1).map(|at| &self.0[at]);
        let Some(chunk) = chunk.filter(|chunk| start < chunk.bytes.end) else {
            return Ok(());
        };
        let (mut at, mut num_values) = (0, 0_u64);
        // Some writers leave bytes behind the last page.
        while at < bytes.len() && num_values < chunk.num_values {
            let place = start + at as u64;
            let wrong = |why: String| Flaw::Damaged(format!("the page at {place}: {why}"));
            let (length, header) = read_header(&bytes[at..]).map_err(wrong)?;
            at += length;
            let page = usize::try_from(header.compressed).ok();
            let page = page.and_then(|length| bytes.get(at..at.checked_add(length)?));
            let Some(page) = page else {
                let (says, rest) = (header.compressed, bytes.len() - at);
                return Err(wrong(format!(
                    "it says that it has {says} bytes, and {rest} are left"
                )));
            };
            at += page.len();
            num_values += chunk
                .check_page(&header, page, most)
                .map_err(|flaw| match flaw {
                    Flaw::Damaged(why) => wrong(why),
                    Flaw::Large(bytes) => Flaw::Large(bytes),
                })?;
        }
        Ok(())
    }
}

impl Chunk {
    /// Checks a page; returns how many of the chunk's values are in it.
    fn check_page(&self, header: &Header, page: &[u8], most: u64) -> Result<u64, Flaw> {
        let (Ok(uncompressed), Ok(num_values)) = (
            u64::try_from(header.uncompressed),
            u64::try_from(header.num_values),
        ) else {
            return Err(Flaw::Damaged("its header has a negative length".into()));
        };
        if uncompressed > most {
            return Err(Flaw::Large(uncompressed));
        }
        match header.kind {
            DICTIONARY_PAGE => {
                let fits = num_values.saturating_mul(self.value_bytes) <= uncompressed;
                if !fits || (self.value_bytes == 0 && num_values > most) {
                    return Err(Flaw::Damaged(format!(
                        "a dictionary says that it has {num_values} values in {uncompressed} bytes"
                    )));
                }
                Ok(0)
            }
            DATA_PAGE | DATA_PAGE_V2 => {
                // Each value takes memory once it is decoded, however little it takes in the page.
                let decoded = num_values.saturating_mul(self.value_bytes.max(1));
                if decoded > most {
                    return Err(Flaw::Large(decoded));
                }
                if num_values > self.num_values {
                    return Err(Flaw::Damaged(format!(
                        "it says that it has {num_values} values, and its column has {}",
                        self.num_values
                    )));
                }
                if !self.is_compressed || header.is_plain {
                    self.check_lengths(header, page, num_values)?;
                }
                Ok(num_values)
            }
            _ => Ok(0),
        }
    }

    /// Checks the number of strings that a page claims where their lengths are stored before them.
    fn check_lengths(&self, header: &Header, page: &[u8], num_values: u64) -> Result<(), Flaw> {
        const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
        const DELTA_BYTE_ARRAY: i64 = 7;
        if !matches!(header.encoding, DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY) {
            return Ok(());
        }
        let mut numbers = match header.kind {
            DATA_PAGE_V2 => {
                let levels = header
                    .levels
                    .iter()
                    .map(|bytes| usize::try_from(*bytes).unwrap_or(0));
                page.get(levels.sum()..).unwrap_or_default()
            }
            _ => (0..self.num_levels).fold(page, |rest, _| after_levels(rest)),
        };
        let mut claimed = 0;
        // The third number is how many there are.
        for _ in 0..3 {
            let (number, rest) = varint(numbers);
            (claimed, numbers) = (number, rest);
        }
        match claimed > num_values {
            true => Err(Flaw::Damaged(format!(
                "it stores {claimed} lengths for {num_values} values"
            ))),
            false => Ok(()),
        }
    }
}

/// Returns what stands behind the levels of a page of the first version: their length stands before them.
fn after_levels(page: &[u8]) -> &[u8] {
    let length = page
        .first_chunk()
        .map(|length| u32::from_le_bytes(*length) as usize);
    let end = length.and_then(|length| length.checked_add(4));
    end.and_then(|end| page.get(end..)).unwrap_or_default()
}

fn varint(bytes: &[u8]) -> (u64, &[u8]) {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f)
            .checked_shl(7 * at as u32)
            .unwrap_or(0);
        if byte & 0x80 == 0 {
            return (value, &bytes[at + 1..]);
        }
    }
    (value, &[])
}

fn read_header(bytes: &[u8]) -> Result<(usize, Header), String> {
    let mut header = Header::default();
    let length = walk(bytes, |path, value| match path {
        [1] => header.kind = value,
        [2] => header.uncompressed = value,
        [3] => header.compressed = value,
        // Of a data page, a dictionary page, and a data page of the second version.
        [5 | 7 | 8, 1] => header.num_values = value,
        [5, 2] | [8, 4] => header.encoding = value,
        [8, 5] => header.levels[0] = value,
        [8, 6] => header.levels[1] = value,
        [8, 7] => header.is_plain = value == 0,
        _ => {}
    })?;
    Ok((length, header))
}
