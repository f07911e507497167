//! Streams, and the events that order them.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent_flags, CUevent_wait_flags};
use cudarc::driver::{result, result::stream::StreamKind};

use super::done;
use crate::cuda::fault::{Fault, INVALID_HANDLE, NOT_FOUND, NOT_READY};
use crate::faults::{Faults, Operation};

type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> u32;

/// A stream that does not wait for the default one. Dropping it lets its work end.
pub(in crate::cuda) struct Stream {
    raw: sys::CUstream,
    /// What is planned to fail on the device, of which every call here is a part.
    faults: Arc<Faults>,
}

impl Stream {
    /// Makes a stream of the current context.
    pub(in crate::cuda) fn new(faults: &Arc<Faults>) -> Result<Self, Fault> {
        let raw = result::stream::create(StreamKind::NonBlocking);
        Ok(Self {
            raw: done("cuStreamCreate", raw)?,
            faults: Arc::clone(faults),
        })
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Fails in place of a call that is planned to fail.
    pub(super) fn check(&self, operation: Operation, call: &'static str) -> Result<(), Fault> {
        Fault::check(&self.faults, operation, call)
    }

    /// Returns the driver's handle as a number.
    pub(in crate::cuda) fn handle(&self) -> usize {
        self.raw.addr()
    }

    /// Lets what is put on this stream later wait for the event as it was recorded last.
    pub(in crate::cuda) fn wait(&self, event: &Event) -> Result<(), Fault> {
        const CALL: &str = "cuStreamWaitEvent";
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        self.check(Operation::Event, CALL)?;
        // SAFETY: both live as long as the values that own them.
        let waits = unsafe { result::stream::wait_event(self.raw, event.raw(), flags) };
        done(CALL, waits)
    }

    /// Tells whether all of its work is done.
    pub(in crate::cuda) fn is_idle(&self) -> Result<bool, Fault> {
        // SAFETY: the stream lives as long as this value.
        let idle = unsafe { sys::cuStreamQuery(self.raw) }.result();
        is_ready(done("cuStreamQuery", idle))
    }

    /// Blocks until all of its work is done.
    pub(in crate::cuda) fn synchronize(&self) -> Result<(), Fault> {
        const CALL: &str = "cuStreamSynchronize";
        self.check(Operation::Event, CALL)?;
        // SAFETY: the stream lives as long as this value.
        done(CALL, unsafe { result::stream::synchronize(self.raw) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was made for this value and is destroyed only here; its work goes on
        // until it ends. A failure means that the context is gone, and the stream with it.
        let _ = unsafe { result::stream::destroy(self.raw) };
    }
}

/// An event. It may be sent anywhere, but must be dropped, like all else here, on the device's
/// thread.
pub(in crate::cuda) struct Event {
    raw: NonNull<sys::CUevent_st>,
    faults: Arc<Faults>,
}

// SAFETY: the pointer is a name that only the driver looks behind, and the driver may be called from
// any thread.
unsafe impl Send for Event {}
// SAFETY: as above; a shared reference allows nothing more.
unsafe impl Sync for Event {}

impl Event {
    /// Makes an event for the streams of this one's device, which orders them and keeps no time.
    pub(in crate::cuda) fn order(stream: &Stream) -> Result<Self, Fault> {
        Self::new(stream, CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    /// Makes an event for the streams of this one's device, which keeps the time at which it happened.
    pub(in crate::cuda) fn timed(stream: &Stream) -> Result<Self, Fault> {
        Self::new(stream, CUevent_flags::CU_EVENT_DEFAULT)
    }

    fn new(stream: &Stream, flags: CUevent_flags) -> Result<Self, Fault> {
        const CALL: &str = "cuEventCreate";
        let raw = NonNull::new(done(CALL, result::event::create(flags))?);
        Ok(Self {
            raw: raw.ok_or(Fault {
                call: CALL,
                code: INVALID_HANDLE,
            })?,
            faults: Arc::clone(&stream.faults),
        })
    }

    fn raw(&self) -> sys::CUevent {
        self.raw.as_ptr()
    }

    /// Puts the event behind all work that is on the stream now.
    pub(in crate::cuda) fn record(&self, stream: &Stream) -> Result<(), Fault> {
        const CALL: &str = "cuEventRecord";
        stream.check(Operation::Event, CALL)?;
        // SAFETY: both live as long as the values that own them.
        let recorded = unsafe { result::event::record(self.raw(), stream.raw()) };
        done(CALL, recorded)
    }

    /// Tells whether the event happened; one never recorded has.
    pub(in crate::cuda) fn is_done(&self) -> Result<bool, Fault> {
        // SAFETY: the event lives as long as this value.
        let ready = unsafe { result::event::query(self.raw()) };
        is_ready(done("cuEventQuery", ready))
    }

    /// Blocks until the event happened.
    pub(in crate::cuda) fn wait(&self) -> Result<(), Fault> {
        const CALL: &str = "cuEventSynchronize";
        Fault::check(&self.faults, Operation::Event, CALL)?;
        // SAFETY: the event lives as long as this value.
        let waited = unsafe { result::event::synchronize(self.raw()) };
        done(CALL, waited)
    }

    /// Returns the milliseconds from this event to a later one; both are timed and happened.
    pub(in crate::cuda) fn milliseconds_to(&self, later: &Self) -> Result<f32, Fault> {
        const CALL: &str = "cuEventElapsedTime";
        // cudarc knows only the newer symbol, which the driver floor does not have.
        // SAFETY: the library is open, or start() would have failed; cuda.h of CUDA 12 declares
        // `CUresult cuEventElapsedTime(float *, CUevent, CUevent)`.
        let elapsed = unsafe { sys::culib().get::<ElapsedTime>(CALL) };
        let elapsed = elapsed.map_err(|_| Fault {
            call: CALL,
            code: NOT_FOUND,
        })?;
        let mut milliseconds: f32 = 0.0;
        // SAFETY: both events live as long as their values, and the float for the duration of the
        // call.
        let code = unsafe { elapsed(&raw mut milliseconds, self.raw(), later.raw()) };
        if code != 0 {
            return Err(Fault { call: CALL, code });
        }
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event was made for this value and is destroyed only here; the driver keeps it
        // until streams are past it. A failure means that the context is gone.
        let _ = unsafe { result::event::destroy(self.raw()) };
    }
}

fn is_ready(outcome: Result<(), Fault>) -> Result<bool, Fault> {
    match outcome {
        Ok(()) => Ok(true),
        Err(fault) if fault.code == NOT_READY => Ok(false),
        Err(fault) => Err(fault),
    }
}
