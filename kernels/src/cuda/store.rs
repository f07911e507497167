//! Columns brought to a GPU to stay there.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use tidegate_device::Reservation;
use tidegate_pipeline::EvalError;

use super::{LaneMachine, Shared};
use crate::backend::RunError;
use crate::encode::{EncodedColumn, Narrowing, encode_column};
use crate::execution::upload;
use crate::program::{SlotKind, slot_kind};
use crate::stored::{ColumnDictionary, Payload, StoredColumn};

/// Encodes a column and copies it to the device.
pub(super) async fn store(
    shared: Arc<Shared>,
    arrays: Vec<ArrayRef>,
    dictionary: Arc<ColumnDictionary>,
) -> Result<StoredColumn, RunError> {
    let plain_bytes = arrays.iter().map(|array| slice_bytes(array.as_ref())).sum();
    let (column, kind) = encoded(&arrays, &dictionary)?;
    drop(arrays);
    let memory: Reservation = shared.device.reserve(column.device_bytes())?;
    let encoding = describe(&column, kind);
    let facts = column.facts.clone();
    let (num_rows, device_bytes) = (column.num_rows as u64, column.device_bytes());
    let of_thread = Arc::clone(&shared);
    let uploaded = shared.device.submit(move |lane| {
        let columns = [column];
        let machine = LaneMachine::new(&of_thread, lane);
        upload(&machine, columns[0].num_rows as u64, &columns)
    });
    let (chunk, buffer) = uploaded.await??;
    Ok(StoredColumn {
        device: shared.device.info().id,
        num_rows,
        device_bytes,
        plain_bytes,
        encoding,
        dictionary: (kind == SlotKind::Code).then_some(dictionary),
        payload: Payload::Cuda {
            column: chunk.columns[0],
            facts,
            _buffer: buffer,
        },
        memory,
    })
}

fn slice_bytes(array: &dyn Array) -> u64 {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or_default() as u64
}

fn encoded(
    arrays: &[ArrayRef],
    dictionary: &ColumnDictionary,
) -> Result<(EncodedColumn, SlotKind), RunError> {
    let data_type = arrays
        .first()
        .map_or(DataType::Int64, |array| array.data_type().clone());
    let unsupported = |what: String| RunError::Eval(EvalError::Internal { what });
    let kind = slot_kind(&data_type).map_err(unsupported)?;
    let column = encode_column(kind, arrays, &dictionary.strings, Narrowing::Factor)?;
    Ok((column, kind))
}

fn describe(column: &EncodedColumn, kind: SlotKind) -> String {
    let width = column.width;
    let bytes = if width == 1 { "byte" } else { "bytes" };
    match kind {
        _ if width == 0 => "constant".into(),
        SlotKind::Code => format!("codes of {width} {bytes}"),
        SlotKind::Integer if width == 16 => "plain".into(),
        SlotKind::Integer if column.factor != 1 => {
            format!("narrowed to {width} {bytes} with a factor")
        }
        SlotKind::Integer => format!("narrowed to {width} {bytes}"),
        SlotKind::Float32 | SlotKind::Float64 => "plain".into(),
    }
}
