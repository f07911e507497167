//! What the device's thread holds of the driver, and the order in which things are given back.

#![expect(unsafe_code, reason = "memory is freed by its address")]

use std::cell::{Cell, RefCell};
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::affinity::keep_near;
use super::block::BlockCopies;
use super::driver::{self, Context, Event, ParameterBlock, Pool, Stream};
use super::facts::CudaFacts;
use super::fault::{Fault, Severity};
use super::options::CudaOptions;
use super::reading::{Readings, Settled};
use super::shared::{Command, Garbage, Shared};
use super::slots::Pieces;
use super::staging::Staging;
use crate::error::DeviceError;
use crate::faults::{FaultPlan, Faults};
use crate::info::DeviceInfo;
use crate::memory::MemoryBudget;

/// The driver's side of one device. It lives and dies on the device's thread; its fields are
/// dropped in order, the context last.
pub(super) struct Engine {
    pub(super) staging: RefCell<Staging>,
    /// The memory of slots.
    pub(super) pieces: RefCell<Pieces>,
    /// Copies from and to blocks that are under way.
    pub(super) blocks: RefCell<BlockCopies>,
    /// Few bytes on their way to the host.
    pub(super) readings: RefCell<Readings>,
    pub(super) parameters: RefCell<Box<ParameterBlock>>,
    /// Recorded on the compute stream before an upload, which waits for it.
    before_copy: Event,
    /// Recorded on the copy stream after an upload; the compute stream waits for it.
    after_copy: Event,
    pool: Pool,
    pub(super) copy: Stream,
    compute: Stream,
    /// Whether the copy stream may hold copies for which the compute stream does not wait yet.
    has_copies: Cell<bool>,
    /// Whether the compute stream may hold something for which the copy stream does not wait yet.
    has_work: Cell<bool>,
    /// Whether somebody else knows the compute stream, who puts things on it that nobody here sees.
    is_shared: Cell<bool>,
    launches: Cell<u64>,
    last_kernel: RefCell<String>,
    shared: Arc<Shared>,
    _context: Context,
}

impl Engine {
    /// Opens the device on this thread, which becomes its own.
    pub(super) fn open(
        ordinal: u32,
        info: DeviceInfo,
        options: &CudaOptions,
    ) -> Result<Self, String> {
        driver::start()?;
        Self::open_started(ordinal, info, options)
            .map_err(|fault| format!("it cannot be opened: {}", fault.describe()))
    }

    fn open_started(ordinal: u32, info: DeviceInfo, options: &CudaOptions) -> Result<Self, Fault> {
        let context = Context::open(ordinal)?;
        let facts = CudaFacts::of(&context)?;
        // Before it touches memory, and starts threads of its own.
        let nearness = keep_near(facts.numa_node);
        let faults = Arc::new(Faults::default());
        let compute = Stream::new(&faults)?;
        let copy = Stream::new(&faults)?;
        let pool = Pool::new(&context)?;
        let (before_copy, after_copy) = (Event::order(&copy)?, Event::order(&copy)?);
        let (free, _) = context.memory()?;
        let budget = MemoryBudget::new(info.id, options.budget_bytes(free));
        Ok(Self {
            staging: RefCell::default(),
            pieces: RefCell::default(),
            blocks: RefCell::default(),
            readings: RefCell::default(),
            parameters: RefCell::new(ParameterBlock::new()),
            before_copy,
            after_copy,
            pool,
            copy,
            compute,
            has_copies: Cell::new(false),
            has_work: Cell::new(true),
            is_shared: Cell::new(false),
            launches: Cell::new(0),
            last_kernel: RefCell::default(),
            shared: Arc::new(Shared::new(
                info,
                facts,
                nearness,
                budget,
                faults,
                options.num_slots(),
            )),
            _context: context,
        })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Turns a fault of the driver into an error; one that breaks the context makes the device
    /// lost. `wanted` bytes were asked for, if it was memory.
    pub(super) fn error(&self, what: &str, wanted: u64, fault: Fault) -> DeviceError {
        match fault.severity() {
            Severity::OutOfMemory if wanted > 0 => self.shared.budget.shortage(wanted),
            Severity::OutOfMemory | Severity::Refused => self.shared.refuse(what, fault.describe()),
            Severity::Fatal => self.shared.lose(self.blame(fault)),
        }
    }

    /// Says which launch was the last before a fault: errors of kernels show at a later call.
    fn blame(&self, fault: Fault) -> String {
        let launches = self.launches.get();
        if launches == 0 {
            return fault.describe();
        }
        let kernel = self.last_kernel.borrow();
        format!("{}, after launch {launches} ({kernel})", fault.describe())
    }

    /// Counts a launch that is about to begin.
    pub(super) fn count_launch(&self, kernel: &str) {
        self.launches.set(self.launches.get() + 1);
        let last = &mut *self.last_kernel.borrow_mut();
        last.clear();
        last.push_str(kernel);
    }

    /// Says whether the result of work may be believed.
    pub(super) fn verdict(&self, ran: Result<(), String>) -> Result<(), DeviceError> {
        self.shared.check_alive()?;
        ran.map_err(|why| self.launch_failed(why))
    }

    pub(super) fn launch_failed(&self, why: String) -> DeviceError {
        DeviceError::LaunchFailed {
            device: self.shared.info.id,
            launch: self.launches.get(),
            why,
        }
    }

    /// Takes memory of the pool, for slots to be copied to or for anything. If there is none, gives back
    /// what can be, and tries once more.
    pub(super) fn alloc(&self, bytes: u64, for_slots: bool) -> Result<u64, DeviceError> {
        let began = Instant::now();
        let taken = self.alloc_uncounted(bytes, for_slots);
        let seconds = began.elapsed().as_secs_f64();
        self.shared
            .count_loading(|loading| loading.alloc_seconds += seconds);
        taken
    }

    fn alloc_uncounted(&self, bytes: u64, for_slots: bool) -> Result<u64, DeviceError> {
        self.collect();
        let Ok(size) = usize::try_from(bytes) else {
            return Err(self.shared.budget.shortage(bytes));
        };
        let stream = match for_slots {
            // In the order of the copies: what the compute stream puts there, or frees, goes behind them.
            true => {
                self.has_copies.set(true);
                &self.copy
            }
            // It may have been used for something else, which the compute stream still holds.
            false => {
                self.has_work.set(true);
                &self.compute
            }
        };
        let first = self.pool.alloc(size, stream);
        let outcome = match first {
            Err(fault) if fault.severity() == Severity::OutOfMemory => {
                self.reclaim().and_then(|()| {
                    self.has_copies.set(self.has_copies.get() || for_slots);
                    self.pool.alloc(size, stream)
                })
            }
            other => other,
        };
        outcome.map_err(|fault| self.error(&format!("allocate {bytes} bytes"), bytes, fault))
    }

    /// Waits until all that was freed is free, and gives it to the system, so that the pool can
    /// take it in other shapes.
    fn reclaim(&self) -> Result<(), Fault> {
        let is_garbage = |command: &Command| matches!(command, Command::Garbage(_));
        while let Some(Command::Garbage(garbage)) = self.shared.commands.next_if(is_garbage) {
            self.give_back(garbage);
        }
        self.copy.synchronize()?;
        // Copies that have ended hold no buffers any more.
        self.blocks.borrow_mut().settle()?;
        self.collect();
        self.compute.synchronize()?;
        self.pool.trim()
    }

    /// Gives back what was dropped on this thread.
    pub(super) fn collect(&self) {
        for garbage in self.shared.take_dropped_here() {
            self.give_back(garbage);
        }
    }

    /// Gives something back to the driver.
    pub(super) fn give_back(&self, garbage: Garbage) {
        let outcome = match garbage {
            // SAFETY: the address came from the pool and only its buffer's drop sends it here. The
            // copy stream is done with it before the compute stream gets here, which is behind all
            // copies.
            Garbage::Memory(address) => unsafe { self.compute().free(address) },
            Garbage::Image(image) => {
                // Its kernels may still run, and for ever if that cannot be told.
                let ended = self.compute.synchronize();
                match ended {
                    Ok(()) => drop(image),
                    Err(_) => mem::forget(image),
                }
                ended
            }
            Garbage::Event(event) => {
                drop(event);
                Ok(())
            }
            Garbage::Pinned(memory) => {
                drop(memory);
                Ok(())
            }
        };
        // What cannot be given back is forgotten, unless the whole device is.
        if let Err(fault) = outcome
            && fault.severity() == Severity::Fatal
        {
            self.shared.lose(self.blame(fault));
        }
    }

    /// Returns the compute stream, behind all copies that were queued, for something to be put on it.
    pub(super) fn compute(&self) -> &Stream {
        self.has_work.set(true);
        if self.has_copies.get() {
            // If that fails nothing is copied any more, or the device is lost.
            let _ = self.join_copies();
        }
        &self.compute
    }

    /// Returns the driver's handle of the compute stream, behind all copies that were queued.
    pub(super) fn share_compute(&self) -> usize {
        self.is_shared.set(true);
        self.compute().handle()
    }

    /// Has the copy stream go on behind what the compute stream holds now: memory to which something is
    /// to be copied may still be in use there.
    pub(super) fn order_copies(&self) -> Result<(), Fault> {
        self.before_copy.record(&self.compute)?;
        self.copy.wait(&self.before_copy)?;
        self.has_work.set(self.is_shared.get());
        Ok(())
    }

    /// The same, if the compute stream may hold something since then. Copies that follow each other then
    /// wait for nothing, unless something was done in between: each wait of two streams for each other
    /// leaves the link idle for some microseconds.
    pub(super) fn order_copies_of_slots(&self) -> Result<(), Fault> {
        match self.has_work.get() {
            true => self.order_copies(),
            false => Ok(()),
        }
    }

    /// Notes that something is copied from a slot; whatever is put on the compute stream next waits for it.
    pub(super) fn has_copied_slot(&self) {
        self.has_copies.set(true);
    }

    /// Waits until both streams have done what they hold.
    pub(super) fn synchronize(&self) -> Result<(), Fault> {
        self.copy.synchronize()?;
        self.compute.synchronize()
    }

    /// Has the compute stream go on behind what the copy stream holds now, so that nothing is freed
    /// to which something is copied. If it cannot be made to wait, this thread waits.
    pub(super) fn join_copies(&self) -> Result<(), Fault> {
        self.has_copies.set(false);
        let joined = self
            .after_copy
            .record(&self.copy)
            .and_then(|()| self.compute.wait(&self.after_copy));
        if joined.is_err()
            && let Err(fault) = self.copy.synchronize()
        {
            // Nobody knows what is still copied where.
            self.shared.lose(self.blame(fault));
        }
        joined
    }

    /// Tells what was read, as far as it was, or all of it after waiting for it. Returns whether some is
    /// still to come.
    pub(super) fn tell(&self, waits: bool) -> bool {
        loop {
            // Whoever hears of it may ask for something else.
            let settled = self.readings.borrow_mut().settle(waits);
            match settled {
                Settled::Ended(then, told) => {
                    let verdict = self.shared.check_alive();
                    then(verdict.map(|()| told));
                }
                Settled::Lost(all, fault) => {
                    let lost = self.shared.lose(self.blame(fault));
                    all.into_iter().for_each(|then| then(Err(lost.clone())));
                }
                Settled::UnderWay => return true,
                Settled::None => return false,
            }
        }
    }

    /// Gives slots and blocks back that copies are done with, and tells what was read. Returns whether there
    /// are others.
    pub(super) fn recycle(&self) -> bool {
        let any_reading = self.tell(false);
        let blocks = self.blocks.borrow_mut().settle();
        let any_block = blocks.unwrap_or_else(|fault| {
            if fault.severity() == Severity::Fatal {
                self.shared.lose(self.blame(fault));
            }
            false
        });
        // Buffers and memory that copies held.
        self.collect();
        self.recycle_slots() || any_block || any_reading
    }

    fn recycle_slots(&self) -> bool {
        let pieces = &mut *self.pieces.borrow_mut();
        loop {
            match pieces.next_done() {
                Ok(Some(slot)) => self.shared.slots.put(slot, true),
                Ok(None) => return pieces.any_in_flight(),
                Err(fault) => {
                    if fault.severity() == Severity::Fatal {
                        self.shared.lose(self.blame(fault));
                    }
                    // Whoever waits for a slot sees that the device is lost.
                    return false;
                }
            }
        }
    }

    /// Gives free memory to the system, now that nothing waits. Returns whether there is no more to
    /// do; a device that still computes is not waited for.
    pub(super) fn rest(&self) -> bool {
        if self.shared.check_alive().is_err() {
            return true;
        }
        let trimmed = self.compute.is_idle().and_then(|is_idle| {
            if !is_idle {
                return Ok(false);
            }
            // The driver takes frees as done once they were waited for.
            self.compute.synchronize()?;
            self.pool.trim()?;
            Ok(true)
        });
        match trimmed {
            Ok(is_done) => is_done,
            Err(fault) => {
                if fault.severity() == Severity::Fatal {
                    self.shared.lose(self.blame(fault));
                }
                true
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.faults.plan(FaultPlan::default());
        // Copies from and to pinned memory end before that memory is freed. A device that is lost
        // copies nothing any more.
        let _ = self.copy.synchronize();
        let _ = self.compute.synchronize();
        // What they held goes while there is a context, and nobody is left waiting.
        self.recycle();
        drop(self.readings.take());
        self.collect();
    }
}
