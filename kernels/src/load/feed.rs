//! Loads filled outside of the device's thread.
//!
//! An [`Order`] is filled by the [threads](Threads) of its [`Dock`]: first each column's values are looked
//! at, then each piece is written to a slot, and the device is asked to copy it. Whoever is done last goes
//! on: with a second load if some value did not fit, else by handing the load over. A thread waits for
//! nothing but a free slot, and holds none while it does; slots come back as the device copies, which waits
//! for no thread here.

use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use tidegate_device::{DeviceError, Threads};
use tidegate_pipeline::EvalError;

use super::{Intake, Load, rows_of, unfit};
use crate::backend::RunError;
use crate::encode::Encoder;

/// The host's side of a device: slots to be filled, and where they are sent.
pub(crate) trait Dock: Send + Sync + 'static {
    /// Memory of the host that the device copies from. Dropped, it is free again.
    type Slot: DerefMut<Target = [u8]>;
    /// Memory of the device.
    type Memory: Send + Sync + 'static;

    /// Returns who encodes.
    fn threads(&self) -> &Threads;

    /// Returns how long the dock was at work.
    fn clock(&self) -> &Clock;

    /// Returns how many bytes a slot has.
    fn slot_bytes(&self) -> usize;

    /// Takes a slot, waiting for one.
    ///
    /// # Errors
    /// A lost device; a host that has no memory for slots.
    fn slot(&self) -> Result<Self::Slot, DeviceError>;

    /// Describes memory of the device, which is taken when the first copy to it comes.
    fn memory(&self, bytes: u64) -> Self::Memory;

    /// Has the device copy the first `bytes` of a slot to its memory. Does not wait for it; what goes
    /// wrong the memory tells.
    fn send(&self, memory: &Arc<Self::Memory>, offset: usize, slot: Self::Slot, bytes: usize);

    /// Calls `then` on the device's thread, behind everything that was [sent](Self::send) before; if the
    /// device is lost, on any thread.
    fn behind_copies(&self, then: Box<dyn FnOnce() + Send>);

    /// Returns what went wrong with the memory, or copies to it, so far.
    fn failure(&self, memory: &Self::Memory) -> Option<DeviceError>;
}

/// How long work lasted of which some overlaps: each moment counts once, for what ends next.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<Instant>>);

impl Clock {
    /// Returns the seconds since work began that ends now, without those that were told before.
    pub(crate) fn tell(&self, began: Instant) -> f64 {
        let told = &mut *self.0.lock();
        let since = told.map_or(began, |told| told.max(began));
        let now = Instant::now();
        *told = Some(now);
        now.saturating_duration_since(since).as_secs_f64()
    }
}

type Then<D> = Box<dyn FnOnce(Result<Filled<D>, RunError>) + Send>;

/// Rows that are to be loaded for somebody.
pub(crate) struct Order<D: Dock> {
    dock: Arc<D>,
    is_wanted: Box<dyn Fn() -> bool + Send + Sync>,
    /// Hears of the end.
    then: Mutex<Then<D>>,
    began: Instant,
}

/// A load whose pieces are all written, and sent to the device.
pub(crate) struct Filled<D: Dock> {
    pub(crate) load: Load,
    pub(crate) memory: Arc<D::Memory>,
    /// How long the host's threads were at work for it, as [`Clock`] tells.
    pub(crate) seconds: f64,
}

impl<D: Dock> Order<D> {
    /// Orders batches to be loaded. `then` is called exactly once, on the device's thread, when it has come
    /// to all of their copies; nothing more is encoded once they are not wanted any more.
    pub(crate) fn begin(
        dock: &Arc<D>,
        intake: &Arc<Intake>,
        batches: Vec<RecordBatch>,
        is_wanted: impl Fn() -> bool + Send + Sync + 'static,
        then: impl FnOnce(Result<Filled<D>, RunError>) + Send + 'static,
    ) {
        let order = Self {
            dock: Arc::clone(dock),
            is_wanted: Box::new(is_wanted),
            then: Mutex::new(Box::new(then)),
            began: Instant::now(),
        };
        let num_columns = intake.slots.len();
        let taking = Arc::new(Taking {
            order: Some(order),
            intake: Arc::clone(intake),
            batches,
            columns: Mutex::new((0..num_columns).map(|_| None).collect()),
        });
        for index in 0..num_columns {
            let taking = Arc::clone(&taking);
            dock.threads().run(move || taking.take(index));
        }
    }

    /// Hands the outcome over behind the copies: whoever gets it here could use the device's memory while
    /// they still wait in the device's queue.
    fn end(self, outcome: Result<Filled<D>, RunError>) {
        let then = self.then.into_inner();
        self.dock.behind_copies(Box::new(move || then(outcome)));
    }
}

/// Says that a thread has not done its part.
fn unencoded() -> RunError {
    RunError::Eval(EvalError::Internal {
        what: "a chunk could not be encoded".into(),
    })
}

/// An order whose columns are looked at, until the last thread lets go of it.
struct Taking<D: Dock> {
    /// `None` once it was passed on.
    order: Option<Order<D>>,
    intake: Arc<Intake>,
    batches: Vec<RecordBatch>,
    columns: Mutex<Vec<Option<Result<Encoder, EvalError>>>>,
}

impl<D: Dock> Taking<D> {
    fn take(&self, index: usize) {
        let is_wanted = |order: &Order<D>| (order.is_wanted)();
        if self.order.as_ref().is_some_and(is_wanted) {
            let column = self.intake.column(index, &self.batches);
            self.columns.lock()[index] = Some(column);
        }
    }
}

impl<D: Dock> Drop for Taking<D> {
    fn drop(&mut self) {
        let Some(order) = self.order.take() else {
            return;
        };
        if !(order.is_wanted)() {
            return order.end(Err(RunError::Void));
        }
        let columns = self.columns.get_mut().drain(..);
        let columns = columns.map(|column| Ok(column.ok_or_else(unencoded)??));
        match columns.collect::<Result<Vec<Encoder>, RunError>>() {
            Ok(columns) => {
                let num_rows = rows_of(&self.batches);
                let load = Load::of_rows(columns, num_rows, order.dock.slot_bytes());
                Filling::begin(order, load, true);
            }
            Err(error) => order.end(Err(error)),
        }
    }
}

/// An order whose pieces are written, until the last thread lets go of it.
struct Filling<D: Dock> {
    /// `None` once it was passed on.
    going: Option<Going<D>>,
    /// Its layouts are a guess.
    may_refit: bool,
    num_filled: AtomicUsize,
    failure: Mutex<Option<DeviceError>>,
}

struct Going<D: Dock> {
    order: Order<D>,
    load: Load,
    memory: Arc<D::Memory>,
}

impl<D: Dock> Filling<D> {
    fn begin(order: Order<D>, load: Load, may_refit: bool) {
        let dock = Arc::clone(&order.dock);
        let memory = Arc::new(dock.memory(load.bytes()));
        let num_pieces = load.pieces().len();
        let filling = Arc::new(Self {
            going: Some(Going {
                order,
                load,
                memory,
            }),
            may_refit,
            num_filled: AtomicUsize::new(0),
            failure: Mutex::default(),
        });
        for number in 0..num_pieces {
            let filling = Arc::clone(&filling);
            dock.threads().run(move || filling.fill(number));
        }
    }

    fn fill(&self, number: usize) {
        let Some(Going {
            order,
            load,
            memory,
        }) = &self.going
        else {
            return;
        };
        let is_over = !load.fits() || self.failure.lock().is_some();
        if is_over || !(order.is_wanted)() || order.dock.failure(memory).is_some() {
            return;
        }
        let piece = &load.pieces()[number];
        if piece.bytes == 0 {
            load.fill(piece, &mut []);
            self.num_filled.fetch_add(1, Ordering::AcqRel);
            return;
        }
        match order.dock.slot() {
            Ok(mut slot) => {
                load.fill(piece, &mut slot);
                if load.fits() {
                    order.dock.send(memory, piece.offset, slot, piece.bytes);
                    self.num_filled.fetch_add(1, Ordering::AcqRel);
                }
            }
            Err(error) => {
                self.failure.lock().get_or_insert(error);
            }
        }
    }
}

impl<D: Dock> Drop for Filling<D> {
    fn drop(&mut self) {
        let Some(Going {
            order,
            load,
            memory,
        }) = self.going.take()
        else {
            return;
        };
        let failure = self.failure.get_mut().take();
        if let Some(error) = failure.or_else(|| order.dock.failure(&memory)) {
            return order.end(Err(error.into()));
        }
        if !load.fits() {
            // It goes before that of the second load is asked for.
            drop(memory);
            return match self.may_refit {
                true => Self::begin(order, load.refitted(), false),
                false => order.end(Err(unfit())),
            };
        }
        let is_filled = *self.num_filled.get_mut() == load.pieces().len();
        let outcome = match (is_filled, (order.is_wanted)()) {
            (true, _) => Ok(Filled {
                seconds: order.dock.clock().tell(order.began),
                load,
                memory,
            }),
            (false, true) => Err(unencoded()),
            (false, false) => Err(RunError::Void),
        };
        order.end(outcome);
    }
}
