//! Arrow IPC, read with distrust.
//!
//! A message claims lengths: of its metadata, its body, the buffers in the body, what compressed buffers
//! expand to, the rows. arrow-rs allocates what a message claims; [`check_message`] compares all claims
//! with the bytes that are there first. Rows that clients send over Flight pass the same check.
//!
//! `IpcFormat` and `IpcSource` read files with it. A file begins with `ARROW1` (the file format, with
//! a footer) or with a message (the stream format), and is read as what it begins with. Blocks and
//! messages are read one after the other, never more than the file has.

mod columns;
mod format;
mod messages;
mod source;

use datafusion::arrow::ipc::{MessageHeader, RecordBatch, root_as_message};

pub(crate) use format::IpcFormat;
pub(crate) use source::IpcSource;

/// What compressed buffers may expand to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressed {
    /// Nothing: they are refused.
    Refused,
    /// So many bytes in one message.
    AtMost(u64),
}

/// Says what a message claims that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is damaged, or not Arrow IPC.
    Damaged(String),
    /// It has compressed buffers, which are refused.
    Compressed,
    /// Its compressed buffers expand to so many bytes, which are more than are allowed.
    Expands(u64),
}

/// Compares what a message's metadata, a flatbuffer, claims with its body.
///
/// # Errors
/// The first claim that cannot be, or that is not allowed.
pub fn check_message(
    metadata: &[u8],
    body: &[u8],
    compressed: Compressed,
) -> Result<MessageHeader, Flaw> {
    let message = root_as_message(metadata)
        .map_err(|error| Flaw::Damaged(format!("a message is not Arrow IPC: {error}")))?;
    let kind = message.header_type();
    let is_missing = || Flaw::Damaged("a message lacks its header".into());
    let batch = match kind {
        MessageHeader::RecordBatch => message.header_as_record_batch().ok_or_else(is_missing)?,
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data())
            .ok_or_else(is_missing)?,
        _ => return Ok(kind),
    };
    check_batch(&batch, body, compressed)?;
    Ok(kind)
}

fn check_batch(batch: &RecordBatch<'_>, body: &[u8], compressed: Compressed) -> Result<(), Flaw> {
    let is_compressed = batch.compression().is_some();
    if is_compressed && compressed == Compressed::Refused {
        return Err(Flaw::Compressed);
    }
    if batch.length() < 0 || batch.length() > i64::from(i32::MAX) {
        return Err(Flaw::Damaged(format!(
            "a batch says that it has {} rows: there may be at most {}",
            batch.length(),
            i32::MAX
        )));
    }
    let first = batch.nodes().and_then(|nodes| nodes.iter().next());
    if let Some(node) = first.filter(|node| node.length() != batch.length()) {
        return Err(Flaw::Damaged(format!(
            "a batch says that it has {} rows, and its first array {}",
            batch.length(),
            node.length()
        )));
    }
    if let Some(node) = batch
        .nodes()
        .into_iter()
        .flatten()
        .find(|node| node.length() < 0)
    {
        let length = node.length();
        return Err(Flaw::Damaged(format!(
            "an array says that it has {length} values"
        )));
    }
    let buffers = || batch.buffers().into_iter().flatten();
    let views = batch.variadicBufferCounts().into_iter().flatten();
    let num_buffers = buffers().count() as i64;
    if views
        .into_iter()
        .any(|count| !(0..=num_buffers).contains(&count))
    {
        return Err(Flaw::Damaged(
            "an array says that it has more buffers than its batch".into(),
        ));
    }
    let (mut stored, mut expanded) = (0_u64, 0_u64);
    for buffer in buffers() {
        let bytes = slice(body, buffer.offset(), buffer.length()).ok_or_else(|| {
            Flaw::Damaged(format!(
                "a buffer of {} bytes at {} is outside of its body of {} bytes",
                buffer.length(),
                buffer.offset(),
                body.len()
            ))
        })?;
        stored += bytes.len() as u64;
        if is_compressed && !bytes.is_empty() {
            expanded = expanded.saturating_add(expanded_length(bytes)?);
        }
    }
    if stored > body.len() as u64 {
        return Err(Flaw::Damaged(format!(
            "its buffers overlap: they have {stored} bytes in a body of {}",
            body.len()
        )));
    }
    match compressed {
        Compressed::AtMost(most) if expanded > most => Err(Flaw::Expands(expanded)),
        _ => Ok(()),
    }
}

/// Returns the length that a compressed buffer claims to have uncompressed.
fn expanded_length(bytes: &[u8]) -> Result<u64, Flaw> {
    let claimed = bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
    match claimed {
        // It is stored as it is.
        Some(-1) => Ok(bytes.len() as u64 - 8),
        Some(length) if length >= 0 => Ok(length as u64),
        _ => Err(Flaw::Damaged(
            "a compressed buffer has no valid length".into(),
        )),
    }
}

fn slice(body: &[u8], offset: i64, length: i64) -> Option<&[u8]> {
    let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    body.get(offset..offset.checked_add(length)?)
}

#[cfg(test)]
mod tests;
