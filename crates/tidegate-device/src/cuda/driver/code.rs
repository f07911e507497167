//! Loaded code, its functions, and launches of them.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use cudarc::driver::sys::{self, CUfunction_attribute};
use cudarc::driver::{result, result::module};

use super::{Stream, done};
use crate::cuda::fault::{Fault, INVALID_HANDLE, NOT_FOUND};
use crate::faults::Operation;

/// The most bytes that a kernel's parameters can have, on any device so far.
const PARAMETER_BYTES_MAX: usize = 32_764;
const BLOCK_BYTES: usize = 32_768;

/// A loaded image. It may be sent anywhere, but must be dropped, like all else here, on the device's
/// thread, when nothing runs its code.
pub(in crate::cuda) struct Image(NonNull<sys::CUmod_st>);

// SAFETY: the pointer is a name that only the driver looks behind, and the driver may be called from
// any thread.
unsafe impl Send for Image {}
// SAFETY: as above; a shared reference allows nothing more.
unsafe impl Sync for Image {}

impl Image {
    /// Loads a cubin, or PTX that ends with a zero, into the current context.
    ///
    /// # Safety
    /// The image is whole: the driver reads as far as the image itself says.
    pub(in crate::cuda) unsafe fn load(image: &[u8]) -> Result<Self, Fault> {
        const CALL: &str = "cuModuleLoadData";
        // SAFETY: the caller vouches for the image, which outlives the call.
        let raw = unsafe { module::load_data(image.as_ptr().cast()) };
        let raw = done(CALL, raw)?;
        let missing = Fault {
            call: CALL,
            code: INVALID_HANDLE,
        };
        NonNull::new(raw).map(Self).ok_or(missing)
    }

    pub(in crate::cuda) fn function(&self, name: &CStr) -> Result<Function, Fault> {
        const CALL: &str = "cuModuleGetFunction";
        // SAFETY: the image is loaded as long as this value lives.
        let raw = unsafe { module::get_function(self.0.as_ptr(), name.to_owned()) };
        let raw = done(CALL, raw)?;
        let missing = Fault {
            call: CALL,
            code: NOT_FOUND,
        };
        NonNull::new(raw).map(Function).ok_or(missing)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: it was loaded for this value and is unloaded only here; whoever drops it has let
        // its kernels end. A failure means that the context is gone.
        let _ = unsafe { module::unload(self.0.as_ptr()) };
    }
}

/// A kernel of an [`Image`], which must outlive it.
#[derive(Clone, Copy)]
pub(in crate::cuda) struct Function(NonNull<sys::CUfunc_st>);

// SAFETY: the pointer is a name that only the driver looks behind, and the driver may be called from
// any thread.
unsafe impl Send for Function {}
// SAFETY: as above; a shared reference allows nothing more.
unsafe impl Sync for Function {}

impl Function {
    /// Returns an attribute; negative ones are 0.
    ///
    /// # Safety
    /// The function's image is loaded.
    pub(in crate::cuda) unsafe fn attribute(
        self,
        attribute: CUfunction_attribute,
    ) -> Result<u32, Fault> {
        // SAFETY: the caller vouches for the image.
        let value = unsafe { result::function::get_function_attribute(self.0.as_ptr(), attribute) };
        let value = done("cuFuncGetAttribute", value)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Allows launches with as much dynamic shared memory.
    ///
    /// # Safety
    /// The function's image is loaded.
    pub(in crate::cuda) unsafe fn allow_shared(self, bytes: u32) -> Result<(), Fault> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the caller vouches for the image.
        let set =
            unsafe { result::function::set_function_attribute(self.0.as_ptr(), attribute, bytes) };
        done("cuFuncSetAttribute", set)
    }

    /// Returns how many blocks of this shape one multiprocessor holds.
    ///
    /// # Safety
    /// The function's image is loaded.
    pub(in crate::cuda) unsafe fn resident_blocks(
        self,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, Fault> {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: the caller vouches for the image.
        let blocks = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(
                self.0.as_ptr(),
                threads,
                shared_bytes as usize,
            )
        };
        let blocks = done("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}

/// A kernel's one parameter, aligned, and zero behind its end: whatever size the kernel declares,
/// the driver finds that many bytes here.
#[repr(C, align(16))]
pub(in crate::cuda) struct ParameterBlock {
    bytes: [u8; BLOCK_BYTES],
    used: usize,
}

impl ParameterBlock {
    pub(in crate::cuda) fn new() -> Box<Self> {
        Box::new(Self {
            bytes: [0; BLOCK_BYTES],
            used: 0,
        })
    }

    /// Takes the parameter's bytes, or returns `false` if no kernel can have so many.
    pub(in crate::cuda) fn set(&mut self, parameters: &[u8]) -> bool {
        if parameters.len() > PARAMETER_BYTES_MAX {
            return false;
        }
        let (head, tail) = self.bytes.split_at_mut(parameters.len());
        head.copy_from_slice(parameters);
        let stale = self.used.saturating_sub(parameters.len());
        tail[..stale].fill(0);
        self.used = parameters.len();
        true
    }

    pub(in crate::cuda) fn pointer(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }
}

impl Stream {
    /// Launches a kernel that takes at most one parameter, which the driver copies at once.
    ///
    /// # Safety
    /// The function's image is loaded and stays so until the kernel is done, and the parameter is
    /// what the kernel takes: addresses in it are those of live device memory.
    pub(in crate::cuda) unsafe fn launch(
        &self,
        function: Function,
        (blocks, threads, shared_bytes): (u32, u32, u32),
        parameters: &mut ParameterBlock,
    ) -> Result<(), Fault> {
        const CALL: &str = "cuLaunchKernel";
        self.check(Operation::Launch, CALL)?;
        let mut pointers = [parameters.pointer()];
        // SAFETY: the caller vouches for the function and for what the parameter means; its pointer
        // is to as many bytes as any kernel's parameter can have, aligned to 16.
        let launched = unsafe {
            result::launch_kernel(
                function.0.as_ptr(),
                (blocks, 1, 1),
                (threads, 1, 1),
                shared_bytes,
                self.raw(),
                &mut pointers,
            )
        };
        done(CALL, launched)
    }
}

#[cfg(test)]
mod tests {
    use super::{PARAMETER_BYTES_MAX, ParameterBlock};

    #[test]
    fn a_parameter_is_followed_by_zeros() {
        let mut block = ParameterBlock::new();
        assert!(block.set(&[1, 2, 3, 4, 5]));
        assert!(block.set(&[9, 8]));
        assert_eq!(block.bytes[..6], [9, 8, 0, 0, 0, 0]);
        assert!(block.set(&[7; 100]));
        assert!(block.set(&[]));
        assert!(block.bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_parameter_is_aligned_and_bounded() {
        let mut block = ParameterBlock::new();
        assert_eq!(block.pointer().addr() % 16, 0);
        assert!(block.set(&[1; PARAMETER_BYTES_MAX]));
        assert!(!block.set(&[1; PARAMETER_BYTES_MAX + 1]));
    }
}
