//! Stored columns on their way to pinned memory and back.

use std::sync::Arc;

use tidegate_device::DeviceError;
use tidegate_device::cuda::Block;

use super::Shared;
use crate::backend::RunError;
use crate::engine::ResidentColumn;
use crate::stored::{Moving, Payload, PinnedColumn, PinnedPayload, Promoted, StoredColumn, Told};

/// Copies a column of this device to pinned memory.
pub(super) async fn demote(
    shared: Arc<Shared>,
    stored: Arc<StoredColumn>,
) -> Result<PinnedColumn, RunError> {
    let device = &shared.device;
    let here = device.info().id;
    let Payload::Cuda {
        column,
        facts,
        buffer,
    } = &stored.payload
    else {
        return Err(refused(&shared, "demote a column", "it is not in a GPU's memory").into());
    };
    if stored.device != here {
        return Err(refused(&shared, "demote a column", "it is another device's").into());
    }
    let block = match buffer.bytes() {
        0 => None,
        _ => {
            let owner = Arc::clone(&stored) as _;
            let block = Block::of(device, Arc::clone(buffer), owner).await?;
            Some(Arc::new(block))
        }
    };
    let nullable = column.validity != 0;
    let payload = PinnedPayload::Cuda {
        block,
        column: ResidentColumn {
            values: 0,
            validity: if nullable {
                column.validity - column.values
            } else {
                0
            },
            ..*column
        },
        nullable,
        facts: facts.clone(),
    };
    Ok(PinnedColumn::of(&stored, payload))
}

/// Copies a column from pinned memory to this device, between two marks on its compute stream: the copy
/// goes behind the first, and the second behind the copy.
pub(super) async fn promote(
    shared: Arc<Shared>,
    pinned: Arc<PinnedColumn>,
) -> Result<Promoted, RunError> {
    let device = &shared.device;
    let PinnedPayload::Cuda {
        block,
        column,
        nullable,
        facts,
    } = &pinned.payload
    else {
        return Err(refused(&shared, "promote a column", "it is not one of a GPU").into());
    };
    let bytes = pinned.bytes;
    let memory = device.reserve(bytes)?;
    let block = block.clone();
    // The promise goes with the memory, also if nobody waits for it any more.
    let taken = device.submit(move |lane| {
        let buffer = lane.alloc(bytes)?;
        let mut told = Told::Never;
        if let Some(block) = block {
            let from = lane.mark();
            lane.upload_block(&buffer, block)?;
            // Without a mark the column is there all the same.
            if let (Ok(from), Ok(to)) = (from, lane.mark()) {
                told = Told::Between(from, to);
            }
        }
        Ok::<_, DeviceError>((buffer, memory, told))
    });
    let (buffer, memory, told) = taken.await??;
    let values = buffer.address();
    let payload = Payload::Cuda {
        column: ResidentColumn {
            values,
            validity: if *nullable {
                values + column.validity
            } else {
                0
            },
            ..*column
        },
        facts: facts.clone(),
        buffer: Arc::new(buffer),
    };
    Ok(Promoted {
        column: pinned.stored(device.info().id, payload, memory),
        moving: Moving(told),
    })
}

fn refused(shared: &Shared, what: &str, why: &str) -> DeviceError {
    DeviceError::Refused {
        device: shared.device.info().id,
        what: what.into(),
        why: why.into(),
    }
}
