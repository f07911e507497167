//! Pinned memory that keeps what lay on a device, for as long as somebody holds it.
//!
//! A [`Block`] is filled once, by a copy from the device, and then only read: by copies to this device
//! or another one. Whoever holds it need not know of these: a copy under way holds it too.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::buffer::DeviceBuffer;
use super::device::CudaDevice;
use super::driver::{Event, Pinned};
use super::fault::{Fault, Severity};
use super::shared::{Garbage, Shared};
use crate::error::DeviceError;
use crate::pending::Delivery;

/// Bytes in page-locked memory of the host, which any device copies from at the speed of its link.
pub struct Block {
    bytes: PinnedBytes,
    /// Keeps the context alive in which the memory was pinned; dropped after it.
    device: CudaDevice,
}

/// Whatever a buffer belongs to.
pub(super) type Owner = Arc<dyn Any + Send + Sync>;

/// Pinned memory that the device's thread frees.
pub(super) struct PinnedBytes {
    memory: Option<Pinned>,
    shared: Arc<Shared>,
}

impl PinnedBytes {
    pub(super) fn new(memory: Pinned, shared: &Arc<Shared>) -> Self {
        Self {
            memory: Some(memory),
            shared: Arc::clone(shared),
        }
    }

    pub(super) fn memory(&self) -> Option<&Pinned> {
        self.memory.as_ref()
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.shared.discard(Garbage::Pinned(memory));
        }
    }
}

impl Block {
    /// Copies all of a buffer into a new block, behind what was submitted before. Pinning takes the
    /// device's thread about 0.08 ms for each megabyte; the copy itself holds up nobody on the host.
    /// `owner`, such as the promise of the buffer's bytes, is kept as long as the buffer, also if the
    /// future is dropped while it is copied.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] if the host has no memory to pin, [`DeviceError::Lost`].
    pub async fn of(
        device: &CudaDevice,
        buffer: Arc<DeviceBuffer>,
        owner: Owner,
    ) -> Result<Self, DeviceError> {
        let begun = device.submit(move |lane| lane.download_block(buffer, owner));
        let bytes = begun.await??.await?;
        Ok(Self {
            bytes,
            device: device.clone(),
        })
    }

    /// Returns how many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.memory().map_or(0, |memory| memory.len() as u64)
    }

    pub(super) fn memory(&self) -> Option<&Pinned> {
        self.bytes.memory()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.device.info().id;
        write!(f, "block of {} bytes pinned by {id}", self.bytes())
    }
}

/// Copies under way, in the order in which they end.
#[derive(Default)]
pub(super) struct BlockCopies(VecDeque<BlockCopy>);

/// One of them, with the event that is recorded behind it.
struct BlockCopy {
    event: Event,
    what: Copied,
}

/// What a copy uses.
pub(super) enum Copied {
    /// It fills pinned memory, for whoever waits for it; the buffer stays until it has.
    Down {
        bytes: PinnedBytes,
        buffer: (Arc<DeviceBuffer>, Owner),
        done: Delivery<PinnedBytes>,
    },
    /// It reads the block.
    Up(Arc<Block>),
}

impl BlockCopy {
    /// Leaves what the copy uses to it for ever; who waits for it hears that the device is gone.
    fn forget(self) {
        match self.what {
            Copied::Down {
                bytes,
                buffer,
                done,
            } => {
                drop(done);
                mem::forget((bytes, buffer));
            }
            Copied::Up(block) => mem::forget(block),
        }
    }
}

impl BlockCopies {
    pub(super) fn push(&mut self, event: Event, what: Copied) {
        self.0.push_back(BlockCopy { event, what });
    }

    /// Delivers what was filled and lets go of what was read. Returns whether copies are left; if the
    /// device is lost there are none, and what they use is never freed, for nobody knows what they do.
    pub(super) fn settle(&mut self) -> Result<bool, Fault> {
        while let Some(first) = self.0.front() {
            match first.event.is_done() {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(fault) => {
                    if fault.severity() == Severity::Fatal {
                        self.0.drain(..).for_each(BlockCopy::forget);
                    }
                    return Err(fault);
                }
            }
            if let Some(BlockCopy {
                what: Copied::Down { bytes, done, .. },
                ..
            }) = self.0.pop_front()
            {
                // Nobody waiting is no failure: the memory goes back.
                let _ = done.send(Ok(bytes));
            }
        }
        Ok(false)
    }
}
