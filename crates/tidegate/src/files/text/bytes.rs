//! The bytes of a file: pieces to look at, and all of them to read.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::{DataFusionError, Result};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectMeta, ObjectStore};
use tidegate_readers::{Sample, pieces_of};

use crate::error::{Error, ErrorKind};
use crate::files::name_of;

/// Bytes of a compressed file that are looked at, and of one whose store gives no parts.
const HEAD_BYTES: usize = 1 << 20;
/// The most bytes of a file that are looked at where a user asks for all rows.
const ALL_BYTES: u64 = 256 << 20;
/// Bytes of a row, about, where a user says how many rows to look at.
const ROW_BYTES: u64 = 4 << 10;
/// Bytes that are read of a file at a time.
const READ_BYTES: usize = 512 << 10;

/// The bytes of a file in buffers.
pub(super) type Buffers = BoxStream<'static, Result<Bytes>>;

/// Endings of compressed files, what OPTIONS call each compression, and DataFusion's value of it.
pub(crate) const COMPRESSIONS: [(&str, &str, FileCompressionType); 4] = [
    ("gz", "gzip", FileCompressionType::GZIP),
    ("zst", "zstd", FileCompressionType::ZSTD),
    ("bz2", "bzip2", FileCompressionType::BZIP2),
    ("xz", "xz", FileCompressionType::XZ),
];

/// Returns how a file is compressed: as was said, or as its name ends.
pub(super) fn compression_of(
    said: Option<FileCompressionType>,
    file: &ObjectMeta,
) -> FileCompressionType {
    if let Some(said) = said.filter(FileCompressionType::is_compressed) {
        return said;
    }
    let name = file.location.as_ref();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let mut all = COMPRESSIONS.iter();
    let known = all.find(|(known, ..)| ending == Some(*known));
    known.map_or(FileCompressionType::UNCOMPRESSED, |(.., known)| *known)
}

/// Reads what is looked at of a file: pieces and at least `head` bytes from its start; `rows` are those that a user
/// wants looked at there.
pub(super) async fn sample(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    compression: FileCompressionType,
    rows: Option<usize>,
    head: u64,
) -> Result<Sample> {
    let wanted = rows.map(|rows| match rows {
        usize::MAX => u64::MAX,
        rows => (rows as u64)
            .saturating_mul(ROW_BYTES)
            .max(HEAD_BYTES as u64)
            .max(head),
    });
    if wanted == Some(u64::MAX) && file.size > ALL_BYTES {
        let message = format!(
            "cannot look at all rows of {}: it has {} bytes, and at most {ALL_BYTES} are looked at; \
             give the columns' types with types => {{…}}, or read them as text with all_varchar => true",
            name_of(store.as_ref(), &file.location),
            file.size
        );
        return Err(Error::new(ErrorKind::ResourcesExhausted, message).into());
    }
    if compression.is_compressed() {
        let most = wanted.unwrap_or(head.max(HEAD_BYTES as u64)).min(ALL_BYTES) as usize;
        return sample_of_head(store, file, compression, most).await;
    }
    let ranges = match wanted {
        Some(wanted) => std::iter::once(0..file.size.min(wanted)).collect(),
        None => pieces_of(file.size, head),
    };
    match store.get_ranges(&file.location, &ranges).await {
        Ok(pieces) => {
            let pieces = pieces.into_iter().map(|bytes| bytes.to_vec());
            Ok(Sample::of(file.size, ranges.into_iter().zip(pieces)))
        }
        Err(object_store::Error::NotSupported { .. }) => {
            let most = (head as usize).max(HEAD_BYTES);
            sample_of_head(store, file, compression, most).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn sample_of_head(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    compression: FileCompressionType,
    most: usize,
) -> Result<Sample> {
    let (mut buffers, _) = open(store, file, None, compression).await?;
    let mut bytes = Vec::new();
    while let Some(buffer) = buffers.try_next().await? {
        bytes.extend_from_slice(&buffer);
        if bytes.len() > most {
            bytes.truncate(most);
            return Ok(Sample::head(bytes));
        }
    }
    Ok(Sample::whole(bytes))
}

/// Opens a file, or a part of one that is not compressed, and tells which version of it is read.
pub(super) async fn open(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    range: Option<Range<u64>>,
    compression: FileCompressionType,
) -> Result<(Buffers, ObjectMeta)> {
    let options = GetOptions {
        range: range.map(GetRange::Bounded),
        ..GetOptions::default()
    };
    let result = store.get_opts(&file.location, options).await?;
    let (range, version) = (result.range.clone(), result.meta.clone());
    let buffers = match result.payload {
        GetResultPayload::File(mut local, _) => {
            local.seek(SeekFrom::Start(range.start))?;
            let part = local.take(range.end - range.start);
            let reader = compression.convert_read(part)?;
            stream::iter(ReaderBuffers(reader)).boxed()
        }
        GetResultPayload::Stream(buffers) => {
            compression.convert_stream(buffers.map_err(DataFusionError::from).boxed())?
        }
    };
    Ok((buffers, version))
}

/// What a reader gives, in buffers.
struct ReaderBuffers(Box<dyn Read + Send>);

impl Iterator for ReaderBuffers {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let mut buffer = BytesMut::zeroed(READ_BYTES);
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(error.into())),
            }
        }
        if filled == 0 {
            return None;
        }
        buffer.truncate(filled);
        Some(Ok(buffer.freeze()))
    }
}
