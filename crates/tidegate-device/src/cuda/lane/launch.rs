//! Loading code, and launching its kernels.

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;

use super::Lane;
use crate::cuda::driver::{Function, Image};
use crate::cuda::fault::{Fault, Severity};
use crate::cuda::module::{Kernel, KernelFacts, LaunchShape, Module};
use crate::error::DeviceError;

/// Dynamic shared memory that every kernel may have without being asked for.
const SHARED_BYTES_UNASKED: u32 = 48 << 10;

impl Lane<'_> {
    /// Loads a compiled image: a cubin, or PTX, which the driver then compiles.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] for an image that is cut short or not for this device.
    pub fn load(&self, image: &[u8]) -> Result<Module, DeviceError> {
        const WHAT: &str = "load code";
        self.shared().check_alive()?;
        let text;
        let whole = if is_whole_elf(image) {
            image
        } else if is_ptx(image) {
            // The driver reads as far as a zero.
            text = [image, b"\0"].concat();
            &text
        } else {
            let why = "the image is neither a whole cubin nor PTX";
            return Err(self.shared().refuse(WHAT, why));
        };
        // SAFETY: the image is an ELF file whose parts lie inside of it, or text with a zero at its
        // end.
        let image = self.done(WHAT, unsafe { Image::load(whole) })?;
        Ok(Module::new(Arc::clone(self.shared()), image))
    }

    /// Looks a kernel up by its name, as `extern "C"` gives it.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] if the module has none of this name.
    pub fn kernel(&self, module: &Module, name: &str) -> Result<Kernel, DeviceError> {
        let what = format!("find kernel {name}");
        self.shared().check_alive()?;
        let Some(image) = module.image(self.shared()) else {
            let why = "the module belongs to another device";
            return Err(self.shared().refuse(what, why));
        };
        let Ok(symbol) = CString::new(name) else {
            let why = "the name contains a zero byte";
            return Err(self.shared().refuse(what, why));
        };
        let function = self.done(&what, image.function(&symbol))?;
        let facts = self.done(&what, facts(function))?;
        Ok(Kernel::new(module, name, function, facts))
    }

    /// Returns what the assembler made of a kernel.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn kernel_facts(&self, kernel: &Kernel) -> Result<KernelFacts, DeviceError> {
        self.function(kernel).map(|_| kernel.facts())
    }

    /// Returns how many blocks of this shape are resident on one multiprocessor; 0 if it does not
    /// hold even one.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn resident_blocks(
        &self,
        kernel: &Kernel,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        let function = self.function(kernel)?;
        self.allow_shared(kernel, function, shared_bytes)?;
        // SAFETY: the kernel keeps its image loaded.
        let blocks = unsafe { function.resident_blocks(threads, shared_bytes) };
        self.done(
            &format!("count resident blocks of {}", kernel.name()),
            blocks,
        )
    }

    /// Launches a kernel that takes exactly one parameter, a struct by value, whose bytes these are.
    ///
    /// The kernel is trusted: that the bytes are what it takes, and that it stays inside of the
    /// buffers whose addresses they hold, nobody can check here. The buffers must live until the
    /// launch was queued; dropped later, they are freed after it.
    ///
    /// # Errors
    /// [`DeviceError::LaunchFailed`] if the driver does not take the launch, for its shape say.
    pub fn launch(
        &self,
        kernel: &Kernel,
        shape: LaunchShape,
        parameters: &[u8],
    ) -> Result<(), DeviceError> {
        let function = self.function(kernel)?;
        check_shape(shape, kernel.facts()).map_err(|why| {
            let what = format!("launch {}", kernel.name());
            self.shared().refuse(what, why)
        })?;
        self.allow_shared(kernel, function, shape.shared_bytes)?;
        let block = &mut **self.engine.parameters.borrow_mut();
        if !block.set(parameters) {
            let why = format!("{} bytes are too many for a parameter", parameters.len());
            let what = format!("launch {}", kernel.name());
            return Err(self.shared().refuse(what, why));
        }
        self.engine.count_launch(kernel.name());
        let shape = (shape.blocks, shape.threads, shape.shared_bytes);
        // SAFETY: the kernel keeps its image loaded, and an image is unloaded only after the compute
        // stream was waited for. What the parameter means the caller vouches for.
        let launched = unsafe { self.engine.compute().launch(function, shape, block) };
        launched.map_err(|fault| self.launch_error(kernel, fault))
    }

    fn launch_error(&self, kernel: &Kernel, fault: Fault) -> DeviceError {
        if fault.severity() == Severity::Fatal {
            return self.engine.error("launch", 0, fault);
        }
        let why = format!("{}: {}", kernel.name(), fault.describe());
        self.engine.launch_failed(why)
    }

    fn function(&self, kernel: &Kernel) -> Result<Function, DeviceError> {
        self.shared().check_alive()?;
        kernel.function(self.shared()).ok_or_else(|| {
            let what = format!("use kernel {}", kernel.name());
            self.shared().refuse(what, "it is one of another device")
        })
    }

    /// Allows a kernel all the shared memory that a block can have, if it needs more than any may
    /// have. That is a limit and takes nothing, so it is the same for every launch.
    fn allow_shared(
        &self,
        kernel: &Kernel,
        function: Function,
        shared_bytes: u32,
    ) -> Result<(), DeviceError> {
        if kernel.has_all_shared() || shared_bytes <= SHARED_BYTES_UNASKED {
            return Ok(());
        }
        let what = format!(
            "give {} {shared_bytes} bytes of shared memory",
            kernel.name()
        );
        let all = self.facts().shared_bytes_per_block;
        let most = all.saturating_sub(kernel.facts().static_shared_bytes);
        if shared_bytes > most {
            let why = format!("a block has {most} beside the kernel's own");
            return Err(self.shared().refuse(what, why));
        }
        // SAFETY: the kernel keeps its image loaded.
        self.done(&what, unsafe { function.allow_shared(most) })?;
        kernel.set_has_all_shared();
        Ok(())
    }
}

fn facts(function: Function) -> Result<KernelFacts, Fault> {
    use CUfunction_attribute as A;
    // SAFETY: the image that the function was just found in is loaded.
    let attribute = |attribute| unsafe { function.attribute(attribute) };
    Ok(KernelFacts {
        registers: attribute(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local_bytes: attribute(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        static_shared_bytes: attribute(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        max_threads_per_block: attribute(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
    })
}

fn check_shape(shape: LaunchShape, facts: KernelFacts) -> Result<(), String> {
    let LaunchShape {
        blocks, threads, ..
    } = shape;
    let most = facts.max_threads_per_block;
    if blocks == 0 || threads == 0 {
        return Err(format!("{blocks} blocks of {threads} threads are none"));
    }
    if threads > most {
        return Err(format!(
            "a block of {threads} threads is larger than the kernel's limit of {most}"
        ));
    }
    Ok(())
}

/// Tells whether this is an ELF file of 64 bits whose tables and sections lie inside of it: the
/// driver takes no length and would read on.
fn is_whole_elf(image: &[u8]) -> bool {
    const SECTION_BYTES: u64 = 64;
    const SEGMENT_BYTES: u64 = 56;
    const NO_BITS: u64 = 8;
    let number = |at: u64, bytes: usize| -> Option<u64> {
        let start = usize::try_from(at).ok()?;
        let field = image.get(start..start.checked_add(bytes)?)?;
        let fold = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        Some(field.iter().rev().fold(0, fold))
    };
    let ends_inside = |start: u64, bytes: u64| {
        let end = start.checked_add(bytes);
        end.is_some_and(|end| end <= image.len() as u64)
    };
    let check = || -> Option<bool> {
        let (segments, sections) = (number(0x20, 8)?, number(0x28, 8)?);
        let (num_segments, num_sections) = (number(0x38, 2)?, number(0x3c, 2)?);
        if !ends_inside(segments, num_segments * SEGMENT_BYTES)
            || !ends_inside(sections, num_sections * SECTION_BYTES)
        {
            return Some(false);
        }
        for section in (0..num_sections).map(|i| sections + i * SECTION_BYTES) {
            let kind = number(section + 4, 4)?;
            let (start, bytes) = (number(section + 0x18, 8)?, number(section + 0x20, 8)?);
            if kind != NO_BITS && !ends_inside(start, bytes) {
                return Some(false);
            }
        }
        Some(true)
    };
    image.starts_with(b"\x7fELF\x02\x01") && check().unwrap_or(false)
}

/// Tells whether this is text, apart from zeros at its end.
fn is_ptx(image: &[u8]) -> bool {
    let text = image.trim_ascii_end();
    let end = text
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |i| i + 1);
    let text = &text[..end];
    !text.contains(&0) && text.windows(8).any(|word| word == b".version")
}

#[cfg(test)]
mod tests;
