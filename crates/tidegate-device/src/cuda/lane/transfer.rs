//! Copies between host and device, through pinned memory.
//!
//! An upload of few bytes fills a part of a small piece, a larger one a slot after the other, while the device
//! copies what was filled before. A download of several pieces has the device fill one while the host copies
//! from the other.

use std::sync::Arc;
use std::time::Instant;

use super::Lane;
use crate::cuda::buffer::DeviceBuffer;
use crate::cuda::copier::Copier;
use crate::cuda::driver::Pages;
use crate::cuda::engine::Engine;
use crate::cuda::fault::{Fault, OUT_OF_MEMORY};
use crate::cuda::mark::Mark;
use crate::cuda::reading::ReadBack;
use crate::cuda::slots::{RawSlot, SLOT_BYTES, Slot};
use crate::cuda::staging::{PIECE_BYTES, SMALL_BYTES, Staging};
use crate::error::DeviceError;

impl Lane<'_> {
    /// Copies host bytes into a buffer. Returns when the bytes were read: what the device has not
    /// copied yet is in pinned memory. What is queued later finds the bytes in the buffer.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn upload(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "upload to a buffer";
        let address = self.range(WHAT, buffer, offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let staging = &mut *self.engine.staging.borrow_mut();
        let outcome = if bytes.len() < SMALL_BYTES {
            upload_small(self.engine, staging, address, bytes)
        } else {
            upload_large(self.engine, &mut staging.copier, address, bytes)
        };
        self.done(WHAT, outcome)
    }

    /// Copies the first `bytes` of a slot into a buffer, and frees the slot when that is done. Returns
    /// at once; what is queued later finds the bytes in the buffer.
    ///
    /// # Errors
    /// As [`Lane`] says; the slot is freed all the same.
    pub fn upload_slot(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        slot: Slot,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "upload a slot to a buffer";
        let began = Instant::now();
        let address = self.range(WHAT, buffer, offset, bytes as u64)?;
        if bytes > SLOT_BYTES || !Arc::ptr_eq(slot.device().shared(), self.shared()) {
            return Err(self.shared().refuse(WHAT, "it is not such a slot of it"));
        }
        if bytes == 0 {
            return Ok(());
        }
        let waits = !buffer.is_for_slots();
        let outcome = upload_slot(self.engine, slot.into_raw(), (address, bytes), waits);
        let seconds = began.elapsed().as_secs_f64();
        self.shared().count_loading(|loading| {
            loading.copied_bytes += bytes as u64;
            loading.copies += 1;
            loading.queue_seconds += seconds;
        });
        self.done(WHAT, outcome)
    }

    /// Pins pages for more slots, for whoever waits for one.
    pub(in crate::cuda) fn pin_slots(&self, pages: Pages) {
        let began = Instant::now();
        let pinned = self
            .engine
            .pieces
            .borrow_mut()
            .pin(pages, &self.engine.copy);
        let seconds = began.elapsed().as_secs_f64();
        self.shared().count_loading(|loading| {
            loading.pin_seconds += seconds;
            let num_slots = pinned.as_ref().map_or(0, Vec::len);
            loading.slot_bytes += (num_slots * SLOT_BYTES) as u64;
        });
        match pinned {
            Ok(slots) => self.shared().slots.put_new(slots),
            Err(fault) => {
                let error = self.engine.error("pin host memory", 0, fault);
                self.shared().slots.cannot_pin(error);
            }
        }
    }

    /// Copies from a buffer into host memory, after all that was queued so far. Blocks until the
    /// bytes are there.
    ///
    /// # Errors
    /// As [`Lane`] says; then `into` may hold a part of the bytes.
    pub fn download(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "download from a buffer";
        let address = self.range(WHAT, buffer, offset, into.len() as u64)?;
        if into.is_empty() {
            return Ok(());
        }
        let staging = &mut *self.engine.staging.borrow_mut();
        let outcome = if into.len() <= SMALL_BYTES {
            download_small(self.engine, staging, address, into)
        } else {
            download_large(self.engine, staging, address, into)
        };
        self.done(WHAT, outcome)
    }

    /// Reads at most 64 KiB from a buffer after all that was queued so far, without waiting. `then` hears
    /// of them and of the seconds since `from`, on the device's thread, between other work; also if the
    /// device is lost meanwhile. After an error it hears of nothing.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn read_later(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        bytes: usize,
        from: Option<Mark>,
        then: impl FnOnce(Result<ReadBack, DeviceError>) + Send + 'static,
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "read from a buffer";
        let address = self.range(WHAT, buffer, offset, bytes as u64)?;
        if bytes == 0 || bytes > SMALL_BYTES {
            return Err(self.shared().refuse(WHAT, "there are none, or too many"));
        }
        let stream = self.engine.compute();
        let readings = &mut *self.engine.readings.borrow_mut();
        // SAFETY: the source was checked to lie in the buffer, which is freed on this stream, later.
        let begun = unsafe { readings.begin(stream, (address, bytes), from, Box::new(then)) };
        self.done(WHAT, begun)
    }

    /// Waits until all that was to be read later is read, and whoever is to hear of it has heard.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn settle_readings(&self) -> Result<(), DeviceError> {
        let any_left = self.engine.tell(true);
        self.shared().check_alive()?;
        match any_left {
            true => Err(self
                .shared()
                .refuse("wait for what is read", "an event failed")),
            false => Ok(()),
        }
    }
}

fn upload_small(
    engine: &Engine,
    staging: &mut Staging,
    address: u64,
    bytes: &[u8],
) -> Result<(), Fault> {
    let stream = engine.compute();
    let (memory, offset) = staging.small.claim(stream, bytes.len())?;
    // SAFETY: this place was given out once, and not again before the device is done with what was copied
    // from its piece.
    let pinned = unsafe { memory.range(offset, bytes.len()) };
    pinned.copy_from_slice(bytes);
    // SAFETY: the target was checked to lie in the buffer, which is freed on this stream, later; the piece is
    // kept until the copy is done.
    unsafe { stream.upload(pinned, address) }
}

/// Queues a copy from a slot, which is free again when that is done. It waits for what the compute stream
/// holds if that may still use the buffer's memory.
fn upload_slot(
    engine: &Engine,
    slot: RawSlot,
    (address, bytes): (u64, usize),
    waits: bool,
) -> Result<(), Fault> {
    let pieces = &mut *engine.pieces.borrow_mut();
    let slots = &engine.shared().slots;
    if waits && let Err(fault) = engine.order_copies_of_slots() {
        slots.put(slot, true);
        return Err(fault);
    }
    // SAFETY: whoever filled the slot has given it up, and it is free only when the copy is done.
    let pinned = unsafe { pieces.front(slot, bytes) };
    // SAFETY: the target was checked to lie in the buffer; the copy stream is behind what the
    // compute stream did with it before, which is nothing if the memory was taken on the copy stream, and
    // the compute stream waits before it goes on. The slot is kept until the event that is recorded behind
    // the copy has happened, or for ever.
    let copied = unsafe { engine.copy.upload(pinned, address) };
    engine.has_copied_slot();
    let marked = pieces.piece(slot).event.record(&engine.copy);
    match marked {
        Ok(()) => pieces.is_read(slot),
        // Nothing will tell when it is read: wait, and if that is no use either, never use it again.
        Err(_) if engine.copy.synchronize().is_ok() => slots.put(slot, true),
        Err(_) => slots.forget(slot),
    }
    copied.and(marked)
}

fn upload_large(
    engine: &Engine,
    copier: &mut Copier,
    address: u64,
    bytes: &[u8],
) -> Result<(), Fault> {
    let mut to = address;
    for part in bytes.chunks(SLOT_BYTES) {
        let slot = own_slot(engine)?;
        {
            let pieces = engine.pieces.borrow();
            // SAFETY: the slot is neither free nor read by a copy, so that this thread alone has it.
            let pinned = unsafe { pieces.front_mut(slot, part.len()) };
            copier.copy(part, pinned);
        }
        engine.shared().slots.fill();
        upload_slot(engine, slot, (to, part.len()), true)?;
        to += part.len() as u64;
    }
    Ok(())
}

/// Takes a slot for this thread: a free one, else one that a copy has read, else a new one. Those that
/// others fill are not waited for, since they may wait for this thread.
fn own_slot(engine: &Engine) -> Result<RawSlot, Fault> {
    let slots = &engine.shared().slots;
    engine.recycle();
    if let Some(slot) = slots.try_take() {
        return Ok(slot);
    }
    let pieces = &mut *engine.pieces.borrow_mut();
    if let Some(slot) = pieces.wait_for_oldest()? {
        slots.take_back();
        return Ok(slot);
    }
    let none = Fault {
        call: "malloc",
        code: OUT_OF_MEMORY,
    };
    let pages = Pages::shared(SLOT_BYTES).ok_or(none)?;
    let slot = pieces.pin(pages, &engine.copy)?.pop().ok_or(none)?;
    slots.add_taken();
    Ok(slot)
}

fn download_small(
    engine: &Engine,
    staging: &mut Staging,
    address: u64,
    into: &mut [u8],
) -> Result<(), Fault> {
    let memory = staging.small_landing(engine.compute())?;
    // SAFETY: downloads alone use this piece, one after the other on this stream, and each looks at it
    // only when its copy is done.
    let pinned = unsafe { memory.range(0, into.len()) };
    // SAFETY: the source was checked to lie in the buffer, which is freed on this stream, later;
    // nobody looks at the pinned bytes before the stream is waited for.
    unsafe { engine.compute().download(address, pinned) }?;
    engine.compute().synchronize()?;
    into.copy_from_slice(pinned);
    Ok(())
}

fn download_large(
    engine: &Engine,
    staging: &mut Staging,
    address: u64,
    into: &mut [u8],
) -> Result<(), Fault> {
    let (pieces, copier) = staging.large_landing(engine.compute())?;
    let mut from = address;
    // What the device fills while the host copies from the other piece.
    let mut on_its_way = None;
    let chunks = into.chunks_mut(PIECE_BYTES).map(Some);
    for (chunk, piece) in chunks.chain([None]).zip(pieces.into_iter().cycle()) {
        let (memory, event) = (&piece.memory, &piece.event);
        let next = match chunk {
            None => None,
            Some(chunk) => {
                // SAFETY: downloads alone use this piece; the one before last, which used it too,
                // was waited for and copied from.
                let pinned = unsafe { memory.range(0, chunk.len()) };
                // SAFETY: the source was checked to lie in the buffer, which is freed on this
                // stream, later; nobody looks at the pinned bytes before the event below.
                unsafe { engine.compute().download(from, pinned) }?;
                event.record(engine.compute())?;
                from += chunk.len() as u64;
                Some((memory, event, chunk))
            }
        };
        if let Some((memory, event, chunk)) = std::mem::replace(&mut on_its_way, next) {
            event.wait()?;
            // SAFETY: the device has filled these bytes and fills them again only after this
            // borrow ended.
            let pinned = unsafe { memory.range(0, chunk.len()) };
            copier.copy(pinned, chunk);
        }
    }
    Ok(())
}
