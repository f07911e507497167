//! Columns brought to a GPU to stay there.
//!
//! A column is encoded where the device copies it from: piece by piece into slots of pinned memory,
//! by whoever polls the future. While a piece is copied the next is written. Nobody keeps a slot while
//! waiting for something else, so there is always one that comes back. Until all is written nothing but a
//! free slot is waited for: the device's thread takes the column's memory when its first piece comes.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use tidegate_device::cuda::{DeviceBuffer, Lane, Pending, SLOT_BYTES, Slot};
use tidegate_device::{DeviceError, Reservation};
use tidegate_pipeline::EvalError;

use super::Shared;
use crate::backend::RunError;
use crate::encode::{Encoder, Narrowing, PADDED_ROWS, Reader, padded};
use crate::engine::ResidentColumn;
use crate::execution::COLUMN_ALIGNMENT;
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
    let mut column = Moving {
        shared,
        encoder,
        encode_seconds: began.elapsed().as_secs_f64(),
    };
    let (memory, buffer) = match column.go().await? {
        Some(moved) => moved,
        None => {
            let began = Instant::now();
            column.encoder.refit();
            column.encode_seconds += began.elapsed().as_secs_f64();
            column.go().await?.ok_or_else(|| EvalError::Internal {
                what: "a column does not fit what all of its values say".into(),
            })?
        }
    };
    let places = Places::of(&column.encoder);
    let Moving {
        shared,
        encoder,
        encode_seconds,
    } = column;
    let (base, factor) = encoder.scale();
    let nullable = encoder.validity().is_some();
    Ok(StoredColumn {
        device: shared.device.info().id,
        num_rows: encoder.num_rows() as u64,
        device_bytes: places.end,
        plain_bytes,
        encoding: describe(&encoder, kind),
        dictionary: (kind == SlotKind::Code).then_some(dictionary),
        encode_seconds,
        payload: Payload::Cuda {
            column: ResidentColumn {
                values: buffer.address(),
                validity: if nullable {
                    buffer.address() + places.validity as u64
                } else {
                    0
                },
                base,
                factor,
                width: encoder.width() as u32,
            },
            facts: encoder.facts(),
            buffer,
        },
        memory,
    })
}

/// A column on its way.
struct Moving {
    shared: Arc<Shared>,
    encoder: Encoder,
    encode_seconds: f64,
}

/// Where a column's parts are in its memory on the device.
struct Places {
    /// After the values.
    validity: usize,
    /// After all.
    end: u64,
}

impl Places {
    fn of(encoder: &Encoder) -> Self {
        let values = padded(encoder.num_rows()) * encoder.width();
        let words = encoder.validity().map_or(0, <[u32]>::len);
        let validity = match words {
            0 => values,
            _ => values.next_multiple_of(COLUMN_ALIGNMENT),
        };
        Self {
            validity,
            end: (validity + words * size_of::<u32>()) as u64,
        }
    }
}

/// Memory of the device that its thread takes when it is first asked for.
struct Target {
    bytes: u64,
    taken: OnceLock<Result<Arc<DeviceBuffer>, DeviceError>>,
}

impl Target {
    fn new(bytes: u64) -> Arc<Self> {
        let taken = OnceLock::new();
        Arc::new(Self { bytes, taken })
    }

    fn buffer(&self, lane: &Lane<'_>) -> Result<&Arc<DeviceBuffer>, DeviceError> {
        let take = || lane.alloc(self.bytes).map(Arc::new);
        self.taken.get_or_init(take).as_ref().map_err(Clone::clone)
    }

    /// Returns whether the memory was asked for and not given.
    fn has_failed(&self) -> bool {
        self.taken.get().is_some_and(Result::is_err)
    }
}

/// Copies that were submitted.
type Copies = Vec<Pending<Result<(), DeviceError>>>;

impl Moving {
    /// Takes memory on the device and moves the column there; `None` if its values turn out to be
    /// others than they were taken for.
    async fn go(&mut self) -> Result<Option<(Reservation, Arc<DeviceBuffer>)>, RunError> {
        let places = Places::of(&self.encoder);
        let device = &self.shared.device;
        let memory = device.reserve(places.end)?;
        let target = Target::new(places.end);
        let mut copies = Vec::new();
        let sent = self.send(&target, &places, &mut copies);
        let device = &self.shared.device;
        let taken = Arc::clone(&target);
        let buffer = device.submit(move |lane| taken.buffer(lane).map(Arc::clone));
        // Whatever came of it: the promise is kept until nothing is copied there any more.
        let buffer = buffer.await.and_then(|buffer| buffer);
        let mut outcome = Ok(());
        for copy in copies {
            let copied = copy.await;
            outcome = outcome.and(copied.and_then(|copied| copied));
        }
        let fits = sent?;
        outcome?;
        let buffer = buffer?;
        Ok(fits.then_some((memory, buffer)))
    }

    /// Writes the column and submits its copies; returns whether it fits.
    fn send(
        &mut self,
        target: &Arc<Target>,
        places: &Places,
        copies: &mut Copies,
    ) -> Result<bool, DeviceError> {
        let num_rows = self.encoder.num_rows();
        let width = self.encoder.width();
        let Some(values) = SLOT_BYTES.checked_div(width) else {
            // A constant has nothing to write.
            self.timed(|encoder| encoder.write(0..num_rows, &mut [], Reader::Device));
            if !self.encoder.fits() {
                return Ok(false);
            }
            self.send_validity(target, places, copies)?;
            return Ok(true);
        };
        let rows_at_once = values / PADDED_ROWS * PADDED_ROWS;
        for start in (0..num_rows).step_by(rows_at_once) {
            let rows = start..num_rows.min(start + rows_at_once);
            let bytes = rows.len() * width;
            let whole = padded(rows.len()) * width;
            let mut slot = self.shared.device.slot()?;
            slot[bytes..whole].fill(0);
            self.timed(|encoder| encoder.write(rows, &mut slot[..bytes], Reader::Device));
            if !self.encoder.fits() {
                return Ok(false);
            }
            copies.push(self.submit(target, start * width, slot, whole));
            if target.has_failed() {
                // The copies tell why.
                break;
            }
        }
        self.send_validity(target, places, copies)?;
        Ok(true)
    }

    fn send_validity(
        &self,
        target: &Arc<Target>,
        places: &Places,
        copies: &mut Copies,
    ) -> Result<(), DeviceError> {
        let words = self.encoder.validity().unwrap_or_default();
        for (index, words) in words.chunks(SLOT_BYTES / size_of::<u32>()).enumerate() {
            let mut slot = self.shared.device.slot()?;
            for (place, word) in slot.as_chunks_mut().0.iter_mut().zip(words) {
                *place = word.to_le_bytes();
            }
            let offset = places.validity + index * SLOT_BYTES;
            copies.push(self.submit(target, offset, slot, size_of_val(words)));
        }
        Ok(())
    }

    /// Has the device's thread copy what is at the front of a slot.
    fn submit(
        &self,
        target: &Arc<Target>,
        offset: usize,
        slot: Slot,
        bytes: usize,
    ) -> Pending<Result<(), DeviceError>> {
        let (target, slot) = (Arc::clone(target), slot.filled());
        let device = &self.shared.device;
        device.submit(move |lane| {
            let buffer = target.buffer(lane)?;
            lane.upload_slot(buffer, offset as u64, slot, bytes)
        })
    }

    fn timed(&mut self, write: impl FnOnce(&mut Encoder)) {
        let began = Instant::now();
        write(&mut self.encoder);
        self.encode_seconds += began.elapsed().as_secs_f64();
    }
}

fn slice_bytes(array: &dyn Array) -> u64 {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or_default() as u64
}

fn kind_of(arrays: &[ArrayRef]) -> Result<SlotKind, RunError> {
    let data_type = arrays
        .first()
        .map_or(DataType::Int64, |array| array.data_type().clone());
    let unsupported = |what: String| RunError::Eval(EvalError::Internal { what });
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
