//! Columns brought to a GPU to stay there.
//!
//! A column is loaded as the rows of a fold are, but by whoever polls the future: each piece is written to a
//! slot and sent, and while it is copied the next is written. Until all is written nothing but a free slot
//! is waited for: the device's thread takes the column's memory when its first piece comes.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use tidegate_device::cuda::{DeviceBuffer, SLOT_BYTES};
use tidegate_device::{DeviceError, Reservation};
use tidegate_pipeline::{EvalError, Unsupported};

use super::Shared;
use super::dock::Memory;
use crate::backend::RunError;
use crate::encode::{Encoder, Narrowing};
use crate::load::{Dock, Load, unfit};
use crate::program::{SlotKind, slot_kind};
use crate::stored::{ColumnDictionary, Payload, StoredColumn};

/// Encodes a column and copies it to the device.
pub(super) async fn store(
    shared: Arc<Shared>,
    arrays: Vec<ArrayRef>,
    dictionary: Arc<ColumnDictionary>,
) -> Result<StoredColumn, RunError> {
    let plain_bytes = arrays.iter().map(|array| slice_bytes(array.as_ref())).sum();
    let kind = kind_of(&arrays)?;
    let began = Instant::now();
    let encoder = Encoder::new(kind, &arrays, &dictionary.strings, Narrowing::Factor)?;
    drop(arrays);
    let mut load = Load::of_column(encoder, SLOT_BYTES);
    let mut encode_seconds = began.elapsed().as_secs_f64();
    let (memory, buffer) = match go(&shared, &load, &mut encode_seconds).await? {
        Some(moved) => moved,
        None => {
            let began = Instant::now();
            load = load.refitted();
            encode_seconds += began.elapsed().as_secs_f64();
            let moved = go(&shared, &load, &mut encode_seconds).await?;
            moved.ok_or_else(unfit)?
        }
    };
    let internal = |what: &str| RunError::Eval(EvalError::Internal { what: what.into() });
    let lost = || internal("a column was not loaded");
    let encoder = load.columns().first().ok_or_else(lost)?;
    Ok(StoredColumn {
        device: shared.device.info().id,
        num_rows: encoder.num_rows() as u64,
        device_bytes: load.bytes(),
        plain_bytes,
        encoding: describe(encoder, kind),
        dictionary: (kind == SlotKind::Code).then_some(dictionary),
        encode_seconds,
        payload: Payload::Cuda {
            column: load.column(buffer.address()).ok_or_else(lost)?,
            facts: load.facts().pop().ok_or_else(lost)?,
            buffer,
        },
        memory,
    })
}

/// Takes memory on the device and moves a column there; `None` if its values turn out to be others than
/// they were taken for.
async fn go(
    shared: &Shared,
    load: &Load,
    encode_seconds: &mut f64,
) -> Result<Option<(Reservation, Arc<DeviceBuffer>)>, RunError> {
    let device = &shared.device;
    let reserved = device.reserve(load.bytes())?;
    let memory = Arc::new(shared.memory(load.bytes()));
    let sent = send(shared, load, &memory, encode_seconds);
    // Behind all copies. Whatever came of them: the promise is kept until no other is asked for.
    let buffer = device.submit(move |lane| memory.filled(lane)).await;
    sent?;
    let buffer = buffer.and_then(|buffer| buffer)?;
    Ok(load.fits().then_some((reserved, buffer)))
}

/// Writes a column and has it copied, as far as its values fit and there is room.
fn send(
    shared: &Shared,
    load: &Load,
    memory: &Arc<Memory>,
    encode_seconds: &mut f64,
) -> Result<(), DeviceError> {
    let mut fill = |piece, slot: &mut [u8]| {
        let began = Instant::now();
        load.fill(piece, slot);
        *encode_seconds += began.elapsed().as_secs_f64();
    };
    for piece in load.pieces() {
        if piece.bytes == 0 {
            fill(piece, &mut []);
            continue;
        }
        let mut slot = shared.slot()?;
        fill(piece, &mut slot);
        if !load.fits() || shared.failure(memory).is_some() {
            break;
        }
        shared.send(memory, piece.offset, slot, piece.bytes);
    }
    Ok(())
}

fn slice_bytes(array: &dyn Array) -> u64 {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or_default() as u64
}

fn kind_of(arrays: &[ArrayRef]) -> Result<SlotKind, RunError> {
    let data_type = arrays
        .first()
        .map_or(DataType::Int64, |array| array.data_type().clone());
    let unsupported = |why: Unsupported| RunError::Eval(EvalError::Internal { what: why.what });
    slot_kind(&data_type).map_err(unsupported)
}

fn describe(encoder: &Encoder, kind: SlotKind) -> String {
    let width = encoder.width();
    let (_, factor) = encoder.scale();
    let bytes = if width == 1 { "byte" } else { "bytes" };
    match kind {
        _ if width == 0 => "constant".into(),
        SlotKind::Code => format!("codes of {width} {bytes}"),
        SlotKind::Integer if width == 16 => "plain".into(),
        SlotKind::Integer if factor != 1 => format!("narrowed to {width} {bytes} with a factor"),
        SlotKind::Integer => format!("narrowed to {width} {bytes}"),
        SlotKind::Float32 | SlotKind::Float64 => "plain".into(),
    }
}
