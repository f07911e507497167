//! A device's stream and memory, for work that a user wrote.
//!
//! Such work runs on the device's thread, in turn with everything else. On a GPU it may launch kernels
//! of its own, or hand the stream and the addresses to a library; a simulated device has no kernels, and
//! its memory is bytes of the host.

use std::cell::Cell;
use std::sync::Arc;

use futures::future::BoxFuture;
use tidegate_device::cuda::DeviceBuffer;
use tidegate_device::{DeviceError, DeviceId};

use crate::compiling::Waiting;
use crate::cuda::UserLane;

/// Work with a device's stream, on the device's thread.
pub type StreamWork = Box<dyn FnOnce(&DeviceStream<'_>) + Send>;

/// A kernel that work with a device's stream [launches](DeviceStream::launch): it is compiled before the work
/// begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamKernel {
    source: Arc<str>,
    name: Arc<str>,
}

impl StreamKernel {
    /// Names a kernel of a CUDA C++ source, which is compiled once in a process. The kernel is declared
    /// `extern "C" __global__`, and takes one parameter by value: a struct of 64-bit words.
    pub fn new(source: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            source: source.into(),
            name: name.into(),
        }
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the kernel's name in it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is(&self, source: &str, name: &str) -> bool {
        *self.name == *name && *self.source == *source
    }
}

/// Work of a user that was asked for.
pub struct UnderWay {
    /// Ends with the work.
    pub done: BoxFuture<'static, Result<(), DeviceError>>,
    /// Tells when it waits for kernels: the device does nothing for it meanwhile. `None` if that never
    /// happens.
    pub waiting: Option<Arc<Waiting>>,
}

/// A device's stream, as work on its thread sees it.
///
/// What is asked for is done in the order of the calls. Memory comes from what was reserved for the work,
/// and counts until the work has ended, whenever it is dropped.
pub struct DeviceStream<'a> {
    device: DeviceId,
    side: Side<'a>,
    reserved: u64,
    taken: Cell<u64>,
}

enum Side<'a> {
    Cuda(&'a UserLane<'a>),
    Simulated,
}

/// Bytes of a device's memory.
#[derive(Debug)]
pub struct DeviceMemory(Memory);

#[derive(Debug)]
enum Memory {
    Cuda(DeviceBuffer),
    Simulated(Vec<u8>),
}

impl DeviceMemory {
    /// Returns how many bytes there are.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Memory::Cuda(buffer) => buffer.bytes(),
            Memory::Simulated(bytes) => bytes.len() as u64,
        }
    }

    /// Returns where they begin, as kernels are told; 0 on a simulated device, and of no bytes.
    pub fn address(&self) -> u64 {
        match &self.0 {
            Memory::Cuda(buffer) => buffer.address(),
            Memory::Simulated(_) => 0,
        }
    }

    /// Returns the bytes themselves on a simulated device; `None` on a GPU.
    pub fn simulated(&self) -> Option<&[u8]> {
        match &self.0 {
            Memory::Cuda(_) => None,
            Memory::Simulated(bytes) => Some(bytes),
        }
    }

    /// Returns the bytes themselves on a simulated device, to be written; `None` on a GPU.
    pub fn simulated_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Cuda(_) => None,
            Memory::Simulated(bytes) => Some(bytes),
        }
    }
}

impl<'a> DeviceStream<'a> {
    pub(crate) fn cuda(user: &'a UserLane<'a>, reserved: u64) -> Self {
        Self {
            device: user.lane.device(),
            side: Side::Cuda(user),
            reserved,
            taken: Cell::new(0),
        }
    }

    pub(crate) fn simulated(device: DeviceId, reserved: u64) -> Self {
        Self {
            device,
            side: Side::Simulated,
            reserved,
            taken: Cell::new(0),
        }
    }

    /// Returns the device.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns whether it is a simulated device, which is not a GPU and runs no kernels.
    pub fn is_simulated(&self) -> bool {
        matches!(self.side, Side::Simulated)
    }

    /// Returns the driver's handle of the stream, a `CUstream`, for a library that launches on it; `None`
    /// on a simulated device. The device's context is current. It is good while the work runs.
    pub fn handle(&self) -> Option<usize> {
        match &self.side {
            Side::Cuda(user) => Some(user.lane.stream_handle()),
            Side::Simulated => None,
        }
    }

    /// Takes memory, all bytes 0.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] beyond what was reserved for this work; a lost device.
    pub fn alloc(&self, bytes: u64) -> Result<DeviceMemory, DeviceError> {
        let taken = self.taken.get();
        let free = self.reserved.saturating_sub(taken);
        if bytes > free {
            return Err(DeviceError::OutOfMemory {
                device: self.device,
                wanted: bytes,
                free,
                limit: self.reserved,
            });
        }
        self.taken.set(taken + bytes);
        Ok(DeviceMemory(match &self.side {
            Side::Cuda(user) => {
                let buffer = user.lane.alloc(bytes)?;
                user.lane.fill(&buffer, 0, bytes, 0)?;
                Memory::Cuda(buffer)
            }
            Side::Simulated => {
                let length = usize::try_from(bytes).map_err(|_| {
                    self.refuse("take memory", "the host cannot count so many bytes")
                })?;
                Memory::Simulated(vec![0; length])
            }
        }))
    }

    /// Takes memory and copies bytes of the host there.
    ///
    /// # Errors
    /// As [`DeviceStream::alloc`].
    pub fn upload(&self, bytes: &[u8]) -> Result<DeviceMemory, DeviceError> {
        let mut memory = self.alloc(bytes.len() as u64)?;
        match (&self.side, &mut memory.0) {
            (Side::Cuda(user), Memory::Cuda(buffer)) => {
                user.lane.upload(buffer, 0, bytes)?;
            }
            (_, Memory::Simulated(own)) => own.copy_from_slice(bytes),
            (Side::Simulated, Memory::Cuda(_)) => return Err(self.foreign()),
        }
        Ok(memory)
    }

    /// Waits for what was asked for before, and copies the first bytes to the host.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] if there are fewer bytes, or they are another device's; a lost device.
    pub fn download(&self, memory: &DeviceMemory, bytes: usize) -> Result<Vec<u8>, DeviceError> {
        match (&self.side, &memory.0) {
            (Side::Cuda(user), Memory::Cuda(buffer)) => {
                let mut own = vec![0; bytes];
                user.lane.download(buffer, 0, &mut own)?;
                Ok(own)
            }
            (Side::Simulated, Memory::Simulated(own)) => match own.get(..bytes) {
                Some(own) => Ok(own.to_vec()),
                None => {
                    let why = format!("{bytes} bytes are wanted of {}", own.len());
                    Err(self.refuse("download from a buffer", why))
                }
            },
            _ => Err(self.foreign()),
        }
    }

    /// Launches a kernel of a source, which were both named before the work began, as a [`StreamKernel`].
    /// `words` are the words of its parameter: addresses and numbers.
    ///
    /// That the kernel stays inside of the memory whose addresses it is given, nobody can check here.
    ///
    /// # Errors
    /// [`DeviceError::LaunchFailed`] if the driver does not take the launch; [`DeviceError::Refused`] for a
    /// kernel that was not named before, and on a simulated device.
    pub fn launch(
        &self,
        source: &str,
        kernel: &str,
        (blocks, threads): (u32, u32),
        words: &[u64],
    ) -> Result<(), DeviceError> {
        match &self.side {
            Side::Cuda(user) => match user.launch((source, kernel), (blocks, threads), words) {
                Some(launched) => launched,
                None => {
                    let why = "it was not among the kernels that the work was said to launch";
                    Err(self.refuse(&format!("launch {kernel}"), why))
                }
            },
            Side::Simulated => {
                let why = "a simulated device runs no kernels; compute on the bytes of its memory";
                Err(self.refuse(&format!("launch {kernel}"), why))
            }
        }
    }

    fn foreign(&self) -> DeviceError {
        self.refuse("copy", "the memory is another device's")
    }

    fn refuse(&self, what: &str, why: impl Into<String>) -> DeviceError {
        DeviceError::Refused {
            device: self.device,
            what: what.into(),
            why: why.into(),
        }
    }
}
