//! The device's thread as an engine: what is asked of it is queued on the device.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_device::cuda::{DeviceBuffer, Kernel, Lane, LaunchShape, Mark};
use tidegate_device::{DeviceError, DeviceId, MemoryBudget, Reservation};

use super::Later;
use super::loaded::Loaded;
use crate::engine::{Engine, FLAGS_BYTES, bytes_of_words};

/// The device's thread as an engine for one source.
pub struct LaneEngine<'l> {
    pub(super) lane: Lane<'l>,
    pub(super) device: DeviceId,
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) loaded: Arc<Loaded>,
    /// The moment before the first launch whose time was not asked for.
    pub(super) launched: Rc<RefCell<Option<Mark>>>,
    /// Who hears of the fold under way when its flags were read.
    pub(super) later: Rc<RefCell<Option<Later>>>,
}

impl LaneEngine<'_> {
    /// Returns a kernel of the program by its name.
    ///
    /// # Errors
    /// The program has none of that name.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, DeviceError> {
        let kernel = self
            .loaded
            .kernels
            .iter()
            .find(|kernel| kernel.name() == name);
        kernel.ok_or_else(|| DeviceError::Refused {
            device: self.device,
            what: "launch".into(),
            why: format!("the program has no kernel {name}"),
        })
    }
}

impl Engine for LaneEngine<'_> {
    type Buffer = DeviceBuffer;

    fn device(&self) -> DeviceId {
        self.device
    }

    fn alloc(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        self.lane.alloc(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.budget.reserve(bytes)
    }

    fn address(&self, buffer: &DeviceBuffer) -> u64 {
        buffer.address()
    }

    fn fill(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<(), DeviceError> {
        self.lane.fill(buffer, offset, bytes, value)
    }

    fn write(&self, buffer: &DeviceBuffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.lane.upload(buffer, offset, bytes)
    }

    fn read(&self, buffer: &DeviceBuffer, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.lane.download(buffer, offset, into)
    }

    fn read_flags_later(&self, buffer: &DeviceBuffer, offset: u64) -> Result<bool, DeviceError> {
        let Some(later) = self.later.take() else {
            return Ok(false);
        };
        let from = self.launched.take();
        let told = self
            .lane
            .read_later(buffer, offset, FLAGS_BYTES, from, later);
        told.map(|()| true)
    }

    fn copy(
        &self,
        from: &DeviceBuffer,
        from_offset: u64,
        to: &DeviceBuffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        self.lane.copy(from, from_offset, to, to_offset, bytes)
    }

    fn resident_blocks(
        &self,
        kernel: &str,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        let kernel = self.kernel(kernel)?;
        let blocks = self.lane.resident_blocks(kernel, threads, shared_bytes)?;
        Ok((blocks * self.lane.facts().multiprocessors).max(1))
    }

    fn launch(
        &self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        shared_bytes: u32,
        parameters: &[u64],
    ) -> Result<(), DeviceError> {
        let shape = LaunchShape {
            blocks,
            threads,
            shared_bytes,
        };
        let mut launched = self.launched.borrow_mut();
        if launched.is_none() {
            *launched = Some(self.lane.mark()?);
        }
        self.lane
            .launch(self.kernel(kernel)?, shape, &bytes_of_words(parameters))
    }
}
