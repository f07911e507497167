//! Damaged and odd Arrow files.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use datafusion::arrow::ipc::{MessageHeader, root_as_message};
use datafusion::arrow::record_batch::RecordBatch;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::messages::{Messages, Window};
use super::{Compressed, Flaw, check_message};
use crate::files::guard::caught_async;

/// Returns the metadata and the body of the only batch of a stream.
fn batch(compression: Option<CompressionType>) -> (Vec<u8>, Vec<u8>) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|_| "x")));
    let rows = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .unwrap();
    let mut stream =
        StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options).unwrap();
    stream.write(&rows).unwrap();
    let bytes = stream.into_inner().unwrap();
    let length = |at: usize| i32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    // Behind the message of the columns, which has no body.
    let start = 8 + length(0);
    let metadata = bytes[start + 8..start + 8 + length(start)].to_vec();
    let body_length = root_as_message(&metadata).unwrap().bodyLength() as usize;
    let body_start = start + 8 + metadata.len();
    (
        metadata,
        bytes[body_start..body_start + body_length].to_vec(),
    )
}

#[test]
fn what_fits_passes() {
    let (metadata, body) = batch(None);
    let checked = check_message(&metadata, &body, Compressed::Refused);
    assert_eq!(checked, Ok(MessageHeader::RecordBatch));
}

#[test]
fn buffers_lie_in_their_body() {
    let (metadata, body) = batch(None);
    let checked = check_message(&metadata, &body[..body.len() - 64], Compressed::Refused);
    assert!(matches!(checked, Err(Flaw::Damaged(why)) if why.contains("outside of its body")));
}

#[test]
fn compressed_buffers_are_bounded() {
    let (metadata, body) = batch(Some(CompressionType::LZ4_FRAME));
    let check = |compressed| check_message(&metadata, &body, compressed);
    assert_eq!(check(Compressed::Refused), Err(Flaw::Compressed));
    assert!(
        matches!(check(Compressed::AtMost(10_000)), Err(Flaw::Expands(bytes)) if bytes > 12_000)
    );
    assert!(check(Compressed::AtMost(20_000)).is_ok());
}

#[test]
fn every_changed_byte_is_refused_or_harmless() {
    let (metadata, body) = batch(Some(CompressionType::LZ4_FRAME));
    for at in 0..metadata.len() {
        for value in [0x00, 0x7f, 0x80, 0xff] {
            let mut changed = metadata.clone();
            changed[at] = value;
            // It must neither panic nor allow more than the limit.
            let _ = check_message(&changed, &body, Compressed::AtMost(20_000));
        }
    }
}

/// Any byte before a footer may be another: the rows are those that were written, or there is an error. (A footer that
/// lists fewer batches is as good as any.)
#[tokio::test]
async fn no_damage_of_a_header_loses_rows() {
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40));
    let rows = RecordBatch::try_from_iter([("n", rows)]).unwrap();
    let mut file = FileWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    for (start, len) in [(0, 15), (15, 15), (30, 10)] {
        file.write(&rows.slice(start, len)).unwrap();
    }
    let file = file.into_inner().unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    stream.write(&rows).unwrap();
    let stream = stream.into_inner().unwrap();
    let footer = file[file.len() - 10..]
        .first_chunk()
        .map(|length| u32::from_le_bytes(*length));
    let before_footer = file.len() - 10 - footer.unwrap() as usize;
    let stream_bytes = stream.len();
    for (whole, end) in [(file, before_footer), (stream, stream_bytes)] {
        assert_eq!(rows_of(whole.clone(), &[0]).await, Ok(40));
        assert_eq!(rows_of(whole.clone(), &[]).await, Ok(40));
        for at in 0..end {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            for wanted in [&[0][..], &[]] {
                let read = rows_of(damaged.clone(), wanted).await;
                assert!(matches!(read, Ok(40) | Err(_)), "byte {at}: {read:?}");
            }
        }
    }
}

/// Returns how many rows a file has, of which so many columns are read.
async fn rows_of(bytes: Vec<u8>, wanted: &[usize]) -> Result<usize, String> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("x.arrow");
    store.put(&path, bytes.into()).await.unwrap();
    let meta = store.head(&path).await.unwrap();
    let table = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let read = async {
        let window = Window::new(store, meta, "x.arrow".into());
        let mut messages = Messages::open(window, &table, wanted, None, 1 << 20).await?;
        let mut rows = 0;
        while let Some(batch) = messages.next().await? {
            rows += batch.num_rows();
        }
        Ok(rows)
    };
    caught_async("x.arrow", read)
        .await
        .map_err(|error| error.to_string())
}
