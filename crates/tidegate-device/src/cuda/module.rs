//! Loaded code and its kernels, kept as long as anyone holds one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::driver::{Function, Image};
use super::shared::{Garbage, Shared};

/// Code loaded on one device. Clones share it; it is unloaded when the last of them and of its
/// kernels is dropped.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    image: Option<Image>,
}

/// A kernel of a [`Module`], which it keeps loaded. Clones share it.
#[derive(Clone)]
pub struct Kernel(Arc<Entry>);

struct Entry {
    name: String,
    function: Function,
    facts: KernelFacts,
    /// Whether the kernel may use all the shared memory of a block.
    has_all_shared: AtomicBool,
    module: Module,
}

/// What the assembler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread: spilled registers and its stack.
    pub local_bytes: u32,
    /// Shared memory of a block that the kernel itself declares.
    pub static_shared_bytes: u32,
    /// The most threads of a block that it can be launched with.
    pub max_threads_per_block: u32,
}

/// How many threads run a kernel, and with how much shared memory beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks of the grid, at least 1.
    pub blocks: u32,
    /// Threads of a block, at least 1.
    pub threads: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl Module {
    pub(super) fn new(shared: Arc<Shared>, image: Image) -> Self {
        Self(Arc::new(Loaded {
            shared,
            image: Some(image),
        }))
    }

    /// Returns the image, if it is loaded on this device.
    pub(super) fn image(&self, device: &Arc<Shared>) -> Option<&Image> {
        let image = self.0.image.as_ref();
        image.filter(|_| Arc::ptr_eq(&self.0.shared, device))
    }
}

impl Kernel {
    pub(super) fn new(module: &Module, name: &str, function: Function, facts: KernelFacts) -> Self {
        Self(Arc::new(Entry {
            name: name.to_owned(),
            function,
            facts,
            has_all_shared: AtomicBool::new(false),
            module: module.clone(),
        }))
    }

    /// Returns its name in the source.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns what the assembler made of it.
    pub fn facts(&self) -> KernelFacts {
        self.0.facts
    }

    /// Returns the function, if it is loaded on this device.
    pub(super) fn function(&self, device: &Arc<Shared>) -> Option<Function> {
        self.0.module.image(device).map(|_| self.0.function)
    }

    pub(super) fn has_all_shared(&self) -> bool {
        self.0.has_all_shared.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_all_shared(&self) {
        self.0.has_all_shared.store(true, Ordering::Relaxed);
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(image) = self.image.take() {
            self.shared.discard(Garbage::Image(image));
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module of {}", self.0.shared.info.id)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} of {:?}", self.0.name, self.0.module)
    }
}
