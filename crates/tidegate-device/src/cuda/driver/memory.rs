//! Device memory from a pool of our own, and host memory that the device can copy from and to.

use std::ffi::c_void;
use std::mem;
use std::ptr::{self, NonNull};
use std::slice;

use cudarc::driver::result::{self, mem_pool};
use cudarc::driver::sys::{
    self, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolProps,
};

use super::{Context, Pages, Stream, done};
use crate::cuda::fault::{Fault, OUT_OF_MEMORY};
use crate::faults::Operation;

/// A pool of one device's memory. It keeps what was freed until it is trimmed.
pub(in crate::cuda) struct Pool(sys::CUmemoryPool);

impl Pool {
    pub(in crate::cuda) fn new(context: &Context) -> Result<Self, Fault> {
        let properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: context.device(),
            },
            win32SecurityAttributes: ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        // SAFETY: the properties live for the duration of the call, and what they do not set is
        // zero, as cuda.h asks.
        let pool = done("cuMemPoolCreate", unsafe {
            mem_pool::create(&raw const properties)
        })?;
        let pool = Self(pool);
        let mut threshold = u64::MAX;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the pool lives, and the attribute's type is a 64-bit unsigned integer.
        done("cuMemPoolSetAttribute", unsafe {
            mem_pool::set_attribute(pool.0, attribute, (&raw mut threshold).cast::<c_void>())
        })?;
        Ok(pool)
    }

    /// Takes memory, in the order of the stream. It is not initialised.
    pub(in crate::cuda) fn alloc(&self, bytes: usize, stream: &Stream) -> Result<u64, Fault> {
        const CALL: &str = "cuMemAllocFromPoolAsync";
        stream.check(Operation::Reservation, CALL)?;
        // SAFETY: pool and stream live; the memory is only used on this stream, or on one that
        // waits for it.
        let memory = unsafe { mem_pool::alloc_async(self.0, bytes, stream.raw()) };
        done(CALL, memory)
    }

    /// Gives to the system what is free in the pool.
    pub(in crate::cuda) fn trim(&self) -> Result<(), Fault> {
        // SAFETY: the pool lives as long as this value.
        done("cuMemPoolTrimTo", unsafe { mem_pool::trim_to(self.0, 0) })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool was made for this value and is destroyed only here; memory still taken
        // from it stays until it is freed or the context ends.
        let _ = unsafe { mem_pool::destroy(self.0) };
    }
}

/// Operations on ranges of device memory. Callers checked that each range lies in a live buffer.
impl Stream {
    /// Gives memory of a [`Pool`] back, in the order of this stream.
    ///
    /// # Safety
    /// The address came from [`Pool::alloc`], is freed once, and no other stream uses it later.
    pub(in crate::cuda) unsafe fn free(&self, address: u64) -> Result<(), Fault> {
        // SAFETY: the caller vouches for the address; the stream lives.
        done("cuMemFreeAsync", unsafe {
            result::free_async(address, self.raw())
        })
    }

    /// Sets each byte of the range.
    ///
    /// # Safety
    /// The range lies in one live buffer that this stream may use.
    pub(in crate::cuda) unsafe fn fill(
        &self,
        address: u64,
        bytes: usize,
        value: u8,
    ) -> Result<(), Fault> {
        const CALL: &str = "cuMemsetD8Async";
        self.check(Operation::Copy, CALL)?;
        // SAFETY: the caller vouches for the range; the stream lives.
        let filled = unsafe { result::memset_d8_async(address, value, bytes, self.raw()) };
        done(CALL, filled)
    }

    /// Copies from device memory to device memory.
    ///
    /// # Safety
    /// Both ranges lie in live buffers that this stream may use, and do not overlap.
    pub(in crate::cuda) unsafe fn copy(
        &self,
        from: u64,
        to: u64,
        bytes: usize,
    ) -> Result<(), Fault> {
        const CALL: &str = "cuMemcpyDtoDAsync";
        self.check(Operation::Copy, CALL)?;
        // SAFETY: the caller vouches for the ranges; the stream lives.
        let copied = unsafe { result::memcpy_dtod_async(to, from, bytes, self.raw()) };
        done(CALL, copied)
    }

    /// Begins to copy pinned bytes to device memory.
    ///
    /// # Safety
    /// The range at `to` lies in one live buffer that this stream may use, and the pinned bytes
    /// stay, unchanged, until the copy is done.
    pub(in crate::cuda) unsafe fn upload(&self, from: &[u8], to: u64) -> Result<(), Fault> {
        const CALL: &str = "cuMemcpyHtoDAsync";
        self.check(Operation::Copy, CALL)?;
        // SAFETY: the caller vouches for both ranges; the stream lives.
        let copied = unsafe { result::memcpy_htod_async(to, from, self.raw()) };
        done(CALL, copied)
    }

    /// Begins to copy device memory to pinned bytes.
    ///
    /// # Safety
    /// The range at `from` lies in one live buffer that this stream may use, and nobody looks at
    /// the pinned bytes until the copy is done.
    pub(in crate::cuda) unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<(), Fault> {
        const CALL: &str = "cuMemcpyDtoHAsync";
        self.check(Operation::Copy, CALL)?;
        // SAFETY: the caller vouches for both ranges; the stream lives.
        let copied = unsafe { result::memcpy_dtoh_async(to, from, self.raw()) };
        done(CALL, copied)
    }
}

/// Page-locked host memory, cached by the processor and known to every context.
pub(in crate::cuda) struct Pinned {
    start: NonNull<u8>,
    bytes: usize,
    /// The pages, if they are the process's own and not the driver's.
    pages: Option<Pages>,
}

// SAFETY: it is the address of memory that every context and thread may use; whoever has the value
// alone touches the memory, and it is freed on the device's thread.
unsafe impl Send for Pinned {}
// SAFETY: a shared reference gives the address, and ranges for which the caller vouches.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Takes memory and pins it.
    pub(in crate::cuda) fn new(bytes: usize) -> Result<Self, Fault> {
        match Pages::shared(bytes) {
            Some(pages) => Self::of(pages, bytes),
            None => Self::of_driver(bytes),
        }
    }

    /// Pins pages, of which so many bytes are used.
    pub(in crate::cuda) fn of(pages: Pages, bytes: usize) -> Result<Self, Fault> {
        let start = pages.start();
        let whole = pages.len();
        // SAFETY: a context is current; the range is all of the pages, which stay, and stay pinned, until
        // this value's drop.
        let registered = unsafe {
            sys::cuMemHostRegister_v2(
                start.as_ptr().cast(),
                whole,
                sys::CU_MEMHOSTREGISTER_PORTABLE,
            )
        };
        match registered.result() {
            Ok(()) => Ok(Self {
                start,
                bytes: bytes.min(whole),
                pages: Some(pages),
            }),
            // Some systems pin only what the driver itself takes.
            Err(_) => {
                drop(pages);
                Self::of_driver(bytes)
            }
        }
    }

    /// Has the driver take memory, which is slower.
    fn of_driver(bytes: usize) -> Result<Self, Fault> {
        const CALL: &str = "cuMemHostAlloc";
        // SAFETY: a context is current, and the memory is freed only by this value's drop.
        let start = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        let start = done(CALL, start)?;
        let start = NonNull::new(start.cast()).ok_or(Fault {
            call: CALL,
            code: OUT_OF_MEMORY,
        })?;
        Ok(Self {
            start,
            bytes,
            pages: None,
        })
    }

    /// Returns where it begins.
    pub(in crate::cuda) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns how many bytes it has.
    pub(in crate::cuda) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns all of it, to be read.
    ///
    /// # Safety
    /// While the slice lives nobody writes to the memory.
    pub(in crate::cuda) unsafe fn read(&self) -> &[u8] {
        // SAFETY: the memory lives as long as `self`, it came with contents, and the caller
        // vouches that nobody writes.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns a range of it.
    ///
    /// # Safety
    /// While the slice lives nothing else touches the range: no other slice, and no copy that the
    /// device makes, save one that only reads while the slice is only read.
    ///
    /// # Panics
    /// If the range is not inside; callers take it from a piece's own length.
    #[expect(
        clippy::mut_from_ref,
        reason = "ranges are handed out apart from each other"
    )]
    pub(in crate::cuda) unsafe fn range(&self, offset: usize, bytes: usize) -> &mut [u8] {
        let is_inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes);
        assert!(is_inside, "a range ends outside of its pinned memory");
        // SAFETY: the range is inside of memory that lives as long as `self` and that came
        // with contents; the caller vouches that nothing else touches it.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(offset), bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast();
        let Some(pages) = self.pages.take() else {
            // SAFETY: the driver took the memory for this value, and it is freed only here; whoever drops
            // it has let the device's copies end. A failure leaves it to the process's end.
            let _ = unsafe { result::free_host(start) };
            return;
        };
        // SAFETY: the pages were pinned for this value, and are let go of only here; whoever drops it has
        // let the device's copies end.
        let released = unsafe { sys::cuMemHostUnregister(start) };
        if released.result().is_err() {
            // The device may still know them: nobody else may get them.
            mem::forget(pages);
        }
    }
}
