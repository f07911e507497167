//! An engine without a device: kernels compiled for the host, and memory that is the host's.
//!
//! New memory is filled with garbage and lies between two guards, which are looked at when it is
//! freed. What a kernel is made of is kept under the target folder by a hash of its text.

#![expect(
    unsafe_code,
    reason = "kernels are foreign code over raw addresses, as on a device"
)]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow_array::RecordBatch;
use futures::FutureExt;
use libloading::Library;
use tidegate_device::{DeviceError, DeviceId, MemoryBudget, Reservation};
use tidegate_kernels::RunError;
use tidegate_kernels::engine::{Engine, Machine};
use tidegate_kernels::execution::{Execution, FinishLimits, Programs};
use tidegate_kernels::program::{DeviceProgram, ProgramOptions, StoreLimits};
use tidegate_pipeline::Pipeline;

const SHIM_HEADER: &str = include_str!("../../shim/shim.hpp");
const SHIM_SOURCE: &str = include_str!("../../shim/shim.cpp");
/// Bytes on each side of a buffer that nobody may write.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0x5c;
const GARBAGE: u8 = 0xa5;
/// Bytes of one buffer, and of all reservations.
const MEMORY_LIMIT: u64 = 1 << 30;

/// `tg_run_<kernel>` of the shim.
type Run = unsafe extern "C" fn(*const u8, u64, u32, u32, u32, u64, u32, *mut u8, u64) -> i32;

/// The kernels of one program, which are unloaded with the last copy.
#[derive(Clone)]
pub(crate) struct Kernels(Rc<Library>);

impl Kernels {
    /// Compiles a program's text with the system's C++ compiler.
    pub(crate) fn compile(program: &DeviceProgram) -> Self {
        Self::of(&program.text, program.kernel_names())
    }

    /// Compiles the named kernels of a text.
    pub(crate) fn of(text: &str, kernels: &[&str]) -> Self {
        let folder = cache();
        let path = folder.join(format!("{:016x}.so", hash(text)));
        if !path.exists() {
            let mut source = format!("#include \"shim.hpp\"\n{text}");
            for kernel in kernels {
                source.push_str(&format!("TG_SHIM_ENTRY({kernel}, Launch)\n"));
            }
            let shim = object(&folder);
            // Few are run for long enough to be worth optimising, and none needs C++'s own library.
            let optimised = ["-Og", "-shared", &*shim.to_string_lossy()];
            let libraries = ["-nodefaultlibs", "-lm", "-lc", "-lgcc"];
            compile(&source, &[&optimised[..], &libraries].concat(), &path);
        }
        // SAFETY: the library was compiled from a generated program and the shim, neither of which
        // runs anything when it is loaded.
        Self(Rc::new(unsafe { Library::new(&path) }.unwrap()))
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the folder of what was compiled with this shim.
fn cache() -> PathBuf {
    let shim = hash(&format!("{SHIM_HEADER}{SHIM_SOURCE}"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-{shim:016x}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the scheduler's object file.
fn object(folder: &Path) -> PathBuf {
    let path = folder.join("shim.o");
    if !path.exists() {
        compile(SHIM_SOURCE, &["-O1", "-c"], &path);
    }
    path
}

/// Compiles a source to a file, which appears whole or not at all.
fn compile(source: &str, extra: &[&str], to: &Path) {
    let folder = tempfile::tempdir_in(to.parent().unwrap()).unwrap();
    let (from, made) = (folder.path().join("source.cpp"), folder.path().join("made"));
    std::fs::write(&from, source).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/shim");
    let output = Command::new("c++")
        .args([
            "-std=c++17",
            "-fno-strict-aliasing",
            "-ffp-contract=off",
            "-fPIC",
        ])
        .args([
            "-Wall",
            "-Wno-unused",
            "-Wno-unknown-pragmas",
            "-Wno-parentheses",
            include,
        ])
        .arg("-o")
        .arg(&made)
        .arg(&from)
        .args(extra)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{said}\nthe source is {}",
        keep(source, "rejected.cpp").display()
    );
    std::fs::rename(&made, to).unwrap();
}

/// Keeps a source to be looked at, and returns where.
pub(crate) fn keep(source: &str, name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace([' ', '/', '(', ')', ','], "-"));
    std::fs::write(&path, source).unwrap();
    path
}

/// Returns the options of programs here, whose blocks are small, so that few rows fill several.
pub(crate) fn options(limits: StoreLimits) -> ProgramOptions {
    ProgramOptions {
        threads: 64,
        limits,
        ..ProgramOptions::default()
    }
}

/// Returns what work gives that waits for nothing.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().unwrap()
}

/// What was asked of a device; each takes microseconds of a GPU's driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) allocations: u64,
    pub(crate) fills: u64,
    pub(crate) writes: u64,
    /// A GPU is waited for in each.
    pub(crate) reads: u64,
    pub(crate) launches: u64,
}

/// Runs kernels in an order that the seed decides.
pub(crate) struct ShimEngine {
    kernels: Kernels,
    seed: u64,
    launches: Cell<u64>,
    budget: Arc<MemoryBudget>,
    calls: Rc<Cell<Calls>>,
    told: Option<Told>,
}

/// Flags that were read for whoever hears of a fold later.
type Told = Rc<RefCell<Vec<Vec<u8>>>>;

impl ShimEngine {
    pub(crate) fn new(kernels: &Kernels, seed: u64) -> Self {
        Self {
            kernels: kernels.clone(),
            seed,
            launches: Cell::new(0),
            budget: MemoryBudget::new(DeviceId(0), MEMORY_LIMIT),
            calls: Rc::default(),
            told: None,
        }
    }

    fn count(&self, count: impl FnOnce(&mut Calls)) {
        let mut calls = self.calls.get();
        count(&mut calls);
        self.calls.set(calls);
    }

    fn refused(&self, what: &str, why: String) -> DeviceError {
        DeviceError::Refused {
            device: self.device(),
            what: what.into(),
            why,
        }
    }

    /// Returns the address of a range that lies in the buffer.
    fn range(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Result<*mut u8, DeviceError> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > buffer.bytes as u64) {
            let why = format!("{offset} + {bytes} of {} bytes", buffer.bytes);
            return Err(self.refused("reach beyond a buffer", why));
        }
        Ok((buffer.start() + offset as usize) as *mut u8)
    }
}

/// The shim as a machine, whose kernels stay loaded.
pub(crate) struct ShimMachine {
    seed: u64,
    budget: Arc<MemoryBudget>,
    loaded: RefCell<HashMap<String, Kernels>>,
    programs: Programs,
    /// The kernels asked for, in order.
    pub(crate) asked: RefCell<Vec<&'static [&'static str]>>,
    /// What was asked of its engines.
    pub(crate) calls: Rc<Cell<Calls>>,
    beside: Option<Beside>,
    told: Option<Told>,
}

/// What a machine keeps whose work waits for its kernels.
#[derive(Default)]
struct Beside {
    /// Kernels that are waited for.
    lacking: RefCell<Vec<(String, &'static [&'static str])>>,
}

impl ShimMachine {
    pub(crate) fn new(seed: u64, memory_bytes: u64) -> Self {
        Self {
            seed,
            budget: MemoryBudget::new(DeviceId(0), memory_bytes),
            loaded: RefCell::default(),
            programs: Programs::default(),
            asked: RefCell::default(),
            calls: Rc::default(),
            beside: None,
            told: None,
        }
    }

    /// Begins an execution of a pipeline.
    pub(crate) fn execution(
        &self,
        pipeline: &Pipeline,
        options: &ProgramOptions,
    ) -> Result<Execution<Buffer>, RunError> {
        Execution::new(&self.budget, Arc::new(pipeline.clone()), options)
    }

    /// Runs a pipeline over so many folds, each of some batches, and returns what leaves it.
    pub(crate) fn run<'a>(
        &self,
        pipeline: &Pipeline,
        options: &ProgramOptions,
        folds: impl IntoIterator<Item = &'a [RecordBatch]>,
        finish: &FinishLimits,
    ) -> Result<Vec<RecordBatch>, RunError> {
        let mut execution = self.execution(pipeline, options)?;
        for batches in folds {
            now(execution.fold(self, batches))?;
        }
        now(execution.finish(self, finish))?.into_batches()
    }

    /// Has folds told of later, as a GPU does.
    pub(crate) fn telling_later(mut self) -> Self {
        self.told = Some(Rc::default());
        self
    }

    /// Returns whether each fold of which was told later has something to say, and forgets them.
    pub(crate) fn told(&self) -> Vec<bool> {
        let told = self.told.as_ref().unwrap().take();
        let says = |flags: &Vec<u8>| flags.iter().any(|byte| *byte != 0);
        told.iter().map(says).collect()
    }

    /// Has work wait for its kernels, as on a GPU.
    pub(crate) fn compiling_beside(mut self) -> Self {
        self.beside = Some(Beside::default());
        self
    }

    /// Does work, and compiles what it waits for; returns how often it waited too.
    pub(crate) fn compiling_for<T>(&self, work: impl Future<Output = T>) -> (T, usize) {
        let beside = self.beside.as_ref().unwrap();
        let mut work = pin!(work);
        let mut num_waits = 0;
        loop {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                assert!(beside.lacking.borrow().is_empty());
                return (done, num_waits);
            }
            num_waits += 1;
            let lacking = beside.lacking.take();
            assert!(!lacking.is_empty(), "nothing but kernels is waited for");
            for (text, kernels) in lacking {
                let compiled = Kernels::of(&text, kernels);
                self.loaded.borrow_mut().insert(text, compiled);
            }
        }
    }

    /// Returns how many sources are loaded.
    pub(crate) fn num_sources(&self) -> usize {
        self.loaded.borrow().len()
    }
}

impl Machine for ShimMachine {
    type Buffer = Buffer;
    type Engine = ShimEngine;

    fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Few, so that rows come in several pieces.
    fn piece_bytes(&self) -> usize {
        4096
    }

    fn upload(&self, parts: &[(u64, &[u8])], bytes: u64) -> Result<Buffer, DeviceError> {
        let buffer = Buffer::new(bytes as usize);
        for (offset, part) in parts {
            let end = *offset as usize + part.len();
            assert!(end <= buffer.bytes, "{end} of {} bytes", buffer.bytes);
            let to = (buffer.start() + *offset as usize) as *mut u8;
            // SAFETY: the range lies in the buffer, and the slice elsewhere.
            unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        }
        Ok(buffer)
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.start() as u64
    }

    async fn engine(
        &self,
        text: &str,
        kernels: &'static [&'static str],
    ) -> Result<ShimEngine, DeviceError> {
        self.asked.borrow_mut().push(kernels);
        let is_loaded = || self.loaded.borrow().contains_key(text);
        if let Some(beside) = &self.beside
            && !is_loaded()
        {
            beside.lacking.borrow_mut().push((text.to_owned(), kernels));
            let look = |_: &mut Context<'_>| match is_loaded() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
            poll_fn(look).await;
        }
        let mut loaded = self.loaded.borrow_mut();
        let known = loaded.entry(text.to_owned());
        let kernels = known.or_insert_with(|| Kernels::of(text, kernels));
        let mut engine = ShimEngine::new(kernels, self.seed);
        engine.budget = Arc::clone(&self.budget);
        engine.calls = Rc::clone(&self.calls);
        engine.told = self.told.clone();
        Ok(engine)
    }
}

/// Memory between two guards.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// The first guard's address.
    at: usize,
    bytes: usize,
}

impl Buffer {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes + 2 * GUARD_BYTES, GUARD_BYTES).unwrap()
    }

    fn new(bytes: usize) -> Self {
        // SAFETY: the layout is at least two guards large.
        let at = unsafe { alloc(Self::layout(bytes)) };
        assert!(!at.is_null(), "{bytes} bytes");
        // SAFETY: the three ranges make up the allocation.
        unsafe {
            at.write_bytes(GUARD, GUARD_BYTES);
            at.add(GUARD_BYTES).write_bytes(GARBAGE, bytes);
            at.add(GUARD_BYTES + bytes).write_bytes(GUARD, GUARD_BYTES);
        }
        Self {
            at: at as usize,
            bytes,
        }
    }

    fn start(&self) -> usize {
        self.at + GUARD_BYTES
    }

    fn guards_hold(&self) -> bool {
        [self.at, self.start() + self.bytes]
            .into_iter()
            .all(|guard| {
                // SAFETY: both guards are part of the allocation, which nobody else frees.
                let guard = unsafe { std::slice::from_raw_parts(guard as *const u8, GUARD_BYTES) };
                guard.iter().all(|byte| *byte == GUARD)
            })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let held = self.guards_hold();
        // SAFETY: `new` allocated it with this layout.
        unsafe { dealloc(self.at as *mut u8, Self::layout(self.bytes)) };
        assert!(
            held || std::thread::panicking(),
            "a kernel wrote beside its memory"
        );
    }
}

impl Engine for ShimEngine {
    type Buffer = Buffer;

    fn device(&self) -> DeviceId {
        DeviceId(0)
    }

    fn alloc(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        self.count(|calls| calls.allocations += 1);
        if bytes > MEMORY_LIMIT {
            return Err(DeviceError::OutOfMemory {
                device: self.device(),
                wanted: bytes,
                free: MEMORY_LIMIT,
                limit: MEMORY_LIMIT,
            });
        }
        Ok(Buffer::new(bytes as usize))
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.budget.reserve(bytes)
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.start() as u64
    }

    fn fill(&self, buffer: &Buffer, offset: u64, bytes: u64, value: u8) -> Result<(), DeviceError> {
        self.count(|calls| calls.fills += 1);
        let to = self.range(buffer, offset, bytes)?;
        // SAFETY: the range lies in the buffer.
        unsafe { to.write_bytes(value, bytes as usize) };
        Ok(())
    }

    fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.count(|calls| calls.writes += 1);
        let to = self.range(buffer, offset, bytes.len() as u64)?;
        // SAFETY: the range lies in the buffer, and the slice elsewhere.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.count(|calls| calls.reads += 1);
        let from = self.range(buffer, offset, into.len() as u64)?;
        // SAFETY: the range lies in the buffer, and the slice elsewhere.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
        Ok(())
    }

    fn read_flags_later(&self, buffer: &Buffer, offset: u64) -> Result<bool, DeviceError> {
        let Some(told) = &self.told else {
            return Ok(false);
        };
        let mut flags = vec![0; 32];
        let from = self.range(buffer, offset, 32)?;
        // SAFETY: the range lies in the buffer, and the slice elsewhere.
        unsafe { flags.as_mut_ptr().copy_from_nonoverlapping(from, 32) };
        told.borrow_mut().push(flags);
        Ok(true)
    }

    fn copy(
        &self,
        from: &Buffer,
        from_offset: u64,
        to: &Buffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let from = self.range(from, from_offset, bytes)?;
        let to = self.range(to, to_offset, bytes)?;
        // SAFETY: both ranges lie in their buffers; they may overlap.
        unsafe { to.copy_from(from, bytes as usize) };
        Ok(())
    }

    fn resident_blocks(&self, kernel: &str, _: u32, _: u32) -> Result<u32, DeviceError> {
        // Once more of them than a warp has lanes.
        const RESIDENT: [u32; 4] = [1, 2, 4, 37];
        Ok(RESIDENT[(self.seed ^ hash(kernel)) as usize % RESIDENT.len()])
    }

    fn launch(
        &self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        shared_bytes: u32,
        parameters: &[u64],
    ) -> Result<(), DeviceError> {
        self.count(|calls| calls.launches += 1);
        let launch = self.launches.get() + 1;
        self.launches.set(launch);
        let resident = self.resident_blocks(kernel, threads, shared_bytes)?;
        let mut message = [0_u8; 1024];
        let name = format!("tg_run_{kernel}");
        // SAFETY: the shim defines the function with this signature; the parameters are as many
        // bytes as are told, and the message has room for as many.
        let status = unsafe {
            let run = self.kernels.0.get::<Run>(name.as_bytes()).unwrap();
            run(
                parameters.as_ptr().cast(),
                size_of_val(parameters) as u64,
                blocks,
                threads,
                shared_bytes,
                self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ launch,
                resident,
                message.as_mut_ptr(),
                message.len() as u64,
            )
        };
        if status == 0 {
            return Ok(());
        }
        let why = CStr::from_bytes_until_nul(&message).unwrap();
        Err(self.refused(&format!("run {kernel}"), why.to_string_lossy().into_owned()))
    }
}
