//! Copies between buffers and blocks of pinned memory, on the copy stream.
//!
//! A copy begins behind what the compute stream holds at that moment, and what is put on the compute
//! stream later waits for it: so a buffer is read before it is freed, and found filled.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::Lane;
use crate::cuda::block::{Block, Copied, Owner, PinnedBytes};
use crate::cuda::buffer::DeviceBuffer;
use crate::cuda::driver::{Event, Pinned};
use crate::cuda::fault::Fault;
use crate::error::DeviceError;
use crate::pending::Pending;

impl Lane<'_> {
    /// Begins to copy all of a buffer into memory that is pinned for it; the result comes when the
    /// bytes are there.
    ///
    /// # Errors
    /// As [`Lane`] says; [`DeviceError::Refused`] if the host has no memory to pin.
    pub(in crate::cuda) fn download_block(
        &self,
        buffer: Arc<DeviceBuffer>,
        owner: Owner,
    ) -> Result<Pending<PinnedBytes>, DeviceError> {
        const WHAT: &str = "download a buffer to a block";
        let address = self.range(WHAT, &buffer, 0, buffer.bytes())?;
        let size = self.size(WHAT, buffer.bytes())?;
        let event = self.done(WHAT, Event::order(&self.engine.copy))?;
        let began = Instant::now();
        let memory = self.done(WHAT, Pinned::new(size))?;
        let seconds = began.elapsed().as_secs_f64();
        self.shared()
            .count_loading(|loading| loading.pin_seconds += seconds);
        self.done(WHAT, self.engine.order_copies())?;
        // SAFETY: the memory was just pinned, and nobody has it until the event below has happened.
        let pinned = unsafe { memory.range(0, size) };
        // SAFETY: the source was checked to be the buffer, which is kept until the event has happened;
        // the copy stream is behind whatever wrote it.
        let copied = unsafe { self.engine.copy.download(address, pinned) };
        let bytes = PinnedBytes::new(memory, self.shared());
        let (done, pending) = Pending::later(self.shared().info.id);
        let what = Copied::Down {
            bytes,
            buffer: (buffer, owner),
            done,
        };
        let marked = self.keep_until_copied(event, what);
        self.done(WHAT, copied.and(marked))?;
        Ok(pending)
    }

    /// Copies all of a block to the front of a buffer. Returns at once; what is queued later finds the
    /// bytes in the buffer. The block is held until they are there.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn upload_block(
        &self,
        buffer: &DeviceBuffer,
        block: Arc<Block>,
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "upload a block to a buffer";
        let address = self.range(WHAT, buffer, 0, block.bytes())?;
        let Some(memory) = block.memory() else {
            return Ok(());
        };
        let event = self.done(WHAT, Event::order(&self.engine.copy))?;
        self.done(WHAT, self.engine.order_copies())?;
        // SAFETY: a block is never written again.
        let pinned = unsafe { memory.read() };
        // SAFETY: the target was checked to lie in the buffer, which is freed on the compute stream,
        // behind this copy; the block is kept until the event below has happened.
        let copied = unsafe { self.engine.copy.upload(pinned, address) };
        let bytes = block.bytes();
        let marked = self.keep_until_copied(event, Copied::Up(block));
        self.shared().count_loading(|loading| {
            loading.copied_bytes += bytes;
            loading.copies += 1;
        });
        self.done(WHAT, copied.and(marked))
    }

    /// Keeps what a copy uses until the copy is done, and lets the compute stream wait for it.
    fn keep_until_copied(&self, event: Event, what: Copied) -> Result<(), Fault> {
        let engine = self.engine;
        let marked = event.record(&engine.copy);
        if marked.is_ok() {
            engine.blocks.borrow_mut().push(event, what);
        } else if engine.copy.synchronize().is_err() {
            // Nothing will tell when it is done: it may be read or written for ever.
            mem::forget(what);
        }
        marked.and(engine.join_copies())
    }
}
