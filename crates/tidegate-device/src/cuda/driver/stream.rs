//! Streams, and the events that order them.

use std::ptr::NonNull;

use cudarc::driver::sys::{self, CUevent_flags, CUevent_wait_flags};
use cudarc::driver::{result, result::stream::StreamKind};

use super::done;
use crate::cuda::fault::{Fault, INVALID_HANDLE, NOT_FOUND, NOT_READY};

type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> u32;

/// A stream that does not wait for the default one. Dropping it lets its work end.
pub(in crate::cuda) struct Stream(sys::CUstream);

impl Stream {
    /// Makes a stream of the current context.
    pub(in crate::cuda) fn new() -> Result<Self, Fault> {
        done(
            "cuStreamCreate",
            result::stream::create(StreamKind::NonBlocking),
        )
        .map(Self)
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.0
    }

    /// Returns the driver's handle as a number.
    pub(in crate::cuda) fn handle(&self) -> usize {
        self.0.addr()
    }

    /// Lets what is put on this stream later wait for the event as it was recorded last.
    pub(in crate::cuda) fn wait(&self, event: &Event) -> Result<(), Fault> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both live as long as the values that own them.
        let waits = unsafe { result::stream::wait_event(self.0, event.raw(), flags) };
        done("cuStreamWaitEvent", waits)
    }

    /// Tells whether all of its work is done.
    pub(in crate::cuda) fn is_idle(&self) -> Result<bool, Fault> {
        // SAFETY: the stream lives as long as this value.
        let idle = unsafe { sys::cuStreamQuery(self.0) }.result();
        is_ready(done("cuStreamQuery", idle))
    }

    /// Blocks until all of its work is done.
    pub(in crate::cuda) fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the stream lives as long as this value.
        done("cuStreamSynchronize", unsafe {
            result::stream::synchronize(self.0)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was made for this value and is destroyed only here; its work goes on
        // until it ends. A failure means that the context is gone, and the stream with it.
        let _ = unsafe { result::stream::destroy(self.0) };
    }
}

/// An event. It may be sent anywhere, but must be dropped, like all else here, on the device's
/// thread.
pub(in crate::cuda) struct Event(NonNull<sys::CUevent_st>);

// SAFETY: the pointer is a name that only the driver looks behind, and the driver may be called from
// any thread.
unsafe impl Send for Event {}
// SAFETY: as above; a shared reference allows nothing more.
unsafe impl Sync for Event {}

impl Event {
    /// Makes an event that orders streams and keeps no time.
    pub(in crate::cuda) fn order() -> Result<Self, Fault> {
        Self::new(CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    /// Makes an event that keeps the time at which it happened.
    pub(in crate::cuda) fn timed() -> Result<Self, Fault> {
        Self::new(CUevent_flags::CU_EVENT_DEFAULT)
    }

    fn new(flags: CUevent_flags) -> Result<Self, Fault> {
        const CALL: &str = "cuEventCreate";
        let raw = done(CALL, result::event::create(flags))?;
        NonNull::new(raw).map(Self).ok_or(Fault {
            call: CALL,
            code: INVALID_HANDLE,
        })
    }

    fn raw(&self) -> sys::CUevent {
        self.0.as_ptr()
    }

    /// Puts the event behind all work that is on the stream now.
    pub(in crate::cuda) fn record(&self, stream: &Stream) -> Result<(), Fault> {
        // SAFETY: both live as long as the values that own them.
        let recorded = unsafe { result::event::record(self.raw(), stream.raw()) };
        done("cuEventRecord", recorded)
    }

    /// Tells whether the event happened; one never recorded has.
    pub(in crate::cuda) fn is_done(&self) -> Result<bool, Fault> {
        // SAFETY: the event lives as long as this value.
        let ready = unsafe { result::event::query(self.raw()) };
        is_ready(done("cuEventQuery", ready))
    }

    /// Blocks until the event happened.
    pub(in crate::cuda) fn wait(&self) -> Result<(), Fault> {
        // SAFETY: the event lives as long as this value.
        let waited = unsafe { result::event::synchronize(self.raw()) };
        done("cuEventSynchronize", waited)
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
