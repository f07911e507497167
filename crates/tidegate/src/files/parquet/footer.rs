//! Footers, compared with their files before they are parsed.
//!
//! A footer is checked once for each state of a file: [`CHECKED`] remembers the states that passed.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use parking_lot::Mutex;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use tidegate_pages::thrift::walk;

/// Bytes from the end of a file that are read to find its footer.
const TAIL_BYTES: u64 = 64 << 10;

/// States of files that are remembered.
const CHECKED_MAX: usize = 1 << 16;

/// The states of files, as hashes, of which the footers passed.
static CHECKED: LazyLock<(RandomState, Mutex<HashSet<u64>>)> = LazyLock::new(Default::default);

/// Why a footer was not found to be good.
pub(in crate::files) enum Failure {
    /// It is damaged.
    Flaw(String),
    /// The file cannot be read.
    Read(ParquetError),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Flaw(why)
    }
}

/// Checks the footer of a file of a store, if its state is not known to be good.
pub(in crate::files) async fn check_file(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
) -> Result<(), Failure> {
    let key = state_of(file);
    if CHECKED.1.lock().contains(&key) {
        return Ok(());
    }
    let mut tail = Tail::of(file)?;
    while let Some(range) = tail.next()? {
        let read = store.get_range(&file.location, range.clone()).await;
        let read = read.map_err(|error| Failure::Read(ParquetError::External(Box::new(error))))?;
        tail.take(range, read);
    }
    remember(key);
    Ok(())
}

/// Checks the footer of a reader's file, if its state is not known to be good.
pub(super) async fn check_once(
    file: &ObjectMeta,
    reader: &mut Box<dyn AsyncFileReader + Send>,
) -> Result<(), Failure> {
    let key = state_of(file);
    if CHECKED.1.lock().contains(&key) {
        return Ok(());
    }
    let mut tail = Tail::of(file)?;
    while let Some(range) = tail.next()? {
        let bytes = reader
            .get_bytes(range.clone())
            .await
            .map_err(Failure::Read)?;
        tail.take(range, bytes);
    }
    remember(key);
    Ok(())
}

fn state_of(file: &ObjectMeta) -> u64 {
    let state = (
        file.location.as_ref(),
        file.size,
        file.last_modified,
        &file.e_tag,
        &file.version,
    );
    CHECKED.0.hash_one(state)
}

fn remember(state: u64) {
    let mut checked = CHECKED.1.lock();
    if checked.len() >= CHECKED_MAX {
        checked.clear();
    }
    checked.insert(state);
}

/// The end of a file, as far as it was read.
struct Tail {
    size: u64,
    start: u64,
    bytes: Bytes,
}

impl Tail {
    fn of(file: &ObjectMeta) -> Result<Self, String> {
        if file.size < 12 {
            return Err(format!(
                "it has {} bytes, and a Parquet file has 12 or more",
                file.size
            ));
        }
        Ok(Self {
            size: file.size,
            start: file.size,
            bytes: Bytes::new(),
        })
    }

    fn take(&mut self, range: Range<u64>, bytes: Bytes) {
        self.start = range.start;
        self.bytes = bytes;
    }

    /// Returns what must be read to go on; `None` once all was found to be good.
    fn next(&mut self) -> Result<Option<Range<u64>>, String> {
        if self.bytes.is_empty() {
            let start = self.size.saturating_sub(TAIL_BYTES);
            return Ok(Some(start..self.size));
        }
        if self.bytes.len() as u64 != self.size - self.start {
            return Err("it is shorter than it was".into());
        }
        let (rest, end) = self.bytes.split_at(self.bytes.len() - 8);
        match &end[4..] {
            b"PAR1" => {}
            // Another error says more of encrypted files.
            b"PARE" => return Ok(None),
            _ => return Err(
                "it does not end as a Parquet file (with 'PAR1'): it is cut, or no Parquet file"
                    .into(),
            ),
        }
        let length = end
            .first_chunk()
            .map_or(0, |length| u32::from_le_bytes(*length));
        let length = u64::from(length);
        if length > self.size - 12 {
            let size = self.size;
            return Err(format!(
                "its footer says that it has {length} bytes, and the file has {size}"
            ));
        }
        let footer_start = self.size - 8 - length;
        if footer_start < self.start {
            return Ok(Some(footer_start..self.size));
        }
        let footer = &rest[(footer_start - self.start) as usize..];
        let indexes = checked(footer).map_err(|why| format!("its footer is damaged: {why}"))?;
        let mut first = self.size;
        for index in indexes {
            if index.end > footer_start {
                let (start, end) = (index.start, index.end);
                return Err(format!(
                    "its footer names bytes {start} to {end} as a page index, and they are not before it"
                ));
            }
            if index.start < self.start {
                first = first.min(index.start);
                continue;
            }
            let (start, end) = (index.start - self.start, index.end - self.start);
            // Where it does not parse the index is left out, or refused, when it is read.
            check_offset_index(&self.bytes[start as usize..end as usize])?;
        }
        Ok((first < self.size).then_some(first..self.size))
    }
}

/// Walks a footer, compares the numbers of rows that it claims, and returns where its offset indexes lie.
fn checked(footer: &[u8]) -> Result<Vec<Range<u64>>, String> {
    const FILE_ROWS: [i16; 1] = [3];
    const GROUP_ROWS: [i16; 2] = [4, 3];
    // Of a row group's column chunk: its values, the index's offset, and its length.
    const VALUES: [i16; 4] = [4, 1, 3, 5];
    const OFFSET: [i16; 3] = [4, 1, 4];
    const LENGTH: [i16; 3] = [4, 1, 5];
    let (mut indexes, mut offset) = (Vec::new(), None);
    let (mut of_file, mut of_groups) = (None, 0_i64);
    // The fewest values of a column of the row group; those of a list may be more than its rows.
    let mut values = None;
    let mut lacks = None;
    walk(footer, |path, value| {
        if path == OFFSET {
            offset = u64::try_from(value).ok();
        } else if path == LENGTH
            && let (Some(start), Ok(length)) = (offset.take(), u64::try_from(value))
        {
            indexes.push(start..start.saturating_add(length));
        } else if path == VALUES {
            values = Some(values.map_or(value, |least: i64| least.min(value)));
        } else if path == GROUP_ROWS {
            of_groups = of_groups.saturating_add(value);
            let least = values.take().filter(|values| *values < value);
            lacks = lacks.or(least.map(|least| (least, value)));
        } else if path == FILE_ROWS {
            of_file = Some(value);
        }
    })?;
    match (of_file, lacks) {
        (Some(rows), _) if rows != of_groups => Err(format!(
            "the file is said to have {rows} rows, and its row groups {of_groups}"
        )),
        (_, Some((values, rows))) => Err(format!(
            "a column of a row group of {rows} rows is said to have {values} values"
        )),
        _ => Ok(indexes),
    }
}

/// Compares the number of pages that an offset index claims with its length.
fn check_offset_index(index: &[u8]) -> Result<(), String> {
    match index {
        // The first field is the list of pages, in a byte for its length or in several.
        [0x19, header, rest @ ..] if header >> 4 == 15 => {
            let mut count = 0_u64;
            for (at, byte) in rest.iter().take(5).enumerate() {
                count |= u64::from(byte & 0x7f) << (7 * at);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            match count > rest.len() as u64 {
                true => Err(format!(
                    "a page index says that it has {count} pages in {} bytes",
                    index.len()
                )),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
