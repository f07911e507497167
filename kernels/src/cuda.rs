//! The CUDA backend: a pipeline's own kernel, compiled for the device and launched over chunks.
//!
//! A fold's batches are encoded by threads of the host, straight to where the device copies them from
//! (`dock`); once all was sent, the device's thread launches the kernel over them:
//! [`Execution`](crate::execution::Execution) says how. Kernels are compiled elsewhere, while the device's
//! thread does what others ask for (`steps`); so is what is left to do once the last bytes have left.

mod dock;
mod engine;
mod fold;
mod loaded;
mod run;
mod steps;
mod store;
mod tiers;
mod user;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use arrow_array::ArrayRef;
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_device::compiler::{CompileError, Compiled, ImageCache, WarmUp};
use tidegate_device::cuda::{CudaDevice, DeviceBuffer, Lane, Mark, ReadBack};
use tidegate_device::{Cost, DeviceError, DeviceInfo, FaultPlan, MemoryBudget, Reservation};
use tidegate_pipeline::{Interpreter, Pipeline};

use crate::backend::{PipelineDevice, PipelineRun, RunError, Sample};
use crate::compiling::CompileThreads;
use crate::engine::Machine;
use crate::execution::Programs;
use crate::load::{Clock, Threads};
use crate::program::{DeviceProgram, Generated, Part, ProgramOptions, parts_of, warm_up_source};
use crate::stored::{ColumnDictionary, Moving, PinnedColumn, Promoted, StoredColumn, Told};
use crate::stream::{StreamWork, UnderWay};

use loaded::{Loaded, LoadedSources};

pub use crate::program::declared_program;
pub use engine::LaneEngine;

/// A GPU that runs pipelines.
#[derive(Clone)]
pub struct CudaPipelineDevice {
    shared: Arc<Shared>,
    /// Float sums have the same bits whatever the order of rows and folds.
    ordered: bool,
}

/// What the device's runs have in common.
pub(crate) struct Shared {
    pub(crate) device: CudaDevice,
    images: ImageCache,
    architecture: String,
    pub(crate) options: ProgramOptions,
    programs: Programs,
    loaded: LoadedSources,
    compile_threads: CompileThreads<Image>,
    /// Who encodes for the device.
    encoders: Threads,
    /// How long they do.
    encoding: Clock,
    /// How long the device works at what was encoded.
    folding: Clock,
    /// Waited for when the device is given up.
    _warm_up: WarmUp,
}

/// Hears of flags that were read later.
type Later = Box<dyn FnOnce(Result<ReadBack, DeviceError>) + Send>;

/// What came of compiling a source.
type Image = Result<Arc<Compiled>, CompileError>;

/// What the compiler calls a source.
const SOURCE_NAME: &str = "pipeline.cu";

/// How long whoever gives the device up waits for the compiler: a process that ends while it compiles may
/// crash there.
const COMPILING_MAX: Duration = Duration::from_secs(5);

impl CudaPipelineDevice {
    /// Makes the device run pipelines with kernels of this cache, compiled for `architecture`, as
    /// `sm_90`.
    pub fn new(device: CudaDevice, images: ImageCache, architecture: String) -> Self {
        let warm_up = images.warm_up(warm_up_source(), architecture.clone());
        let facts = device.facts();
        let mut options = ProgramOptions::default();
        options.limits.fit(
            u64::from(facts.shared_bytes_per_block),
            u64::from(facts.shared_bytes_per_multiprocessor),
        );
        let compile = {
            let (images, architecture) = (images.clone(), architecture.clone());
            move |text: &str| images.get(SOURCE_NAME, text, &architecture, &[])
        };
        Self {
            shared: Arc::new(Shared {
                device,
                images,
                architecture,
                options,
                programs: Programs::default(),
                loaded: LoadedSources::default(),
                encoders: Threads::of_host(),
                encoding: Clock::default(),
                folding: Clock::default(),
                compile_threads: CompileThreads::new(compile, COMPILING_MAX),
                _warm_up: warm_up,
            }),
            ordered: false,
        }
    }

    /// Returns the device underneath.
    pub fn device(&self) -> &CudaDevice {
        &self.shared.device
    }

    /// Returns the device's thread as an engine for a program, whose kernels are compiled and loaded
    /// if they are not.
    ///
    /// # Errors
    /// What the compiler says; a lost device.
    pub fn engine<'a, 'l>(
        &'a self,
        lane: &'a Lane<'l>,
        program: &DeviceProgram,
    ) -> Result<LaneEngine<'a, 'l>, DeviceError> {
        self.machine(lane)
            .engine(&program.text, program.kernel_names())
    }

    /// Returns the device's thread as a machine, which waits for the compiler.
    pub fn machine<'a, 'l>(&'a self, lane: &'a Lane<'l>) -> LaneMachine<'a, 'l> {
        LaneMachine::new(&self.shared, lane)
    }

    fn run_options(&self) -> ProgramOptions {
        ProgramOptions {
            fixed_floats: self.ordered,
            ..self.shared.options.clone()
        }
    }

    /// Returns what kernels are compiled for.
    pub fn architecture(&self) -> &str {
        &self.shared.architecture
    }

    /// Returns the cache of compiled kernels.
    pub fn images(&self) -> &ImageCache {
        &self.shared.images
    }
}

impl fmt::Debug for CudaPipelineDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPipelineDevice")
            .field("device", &self.shared.device)
            .field("architecture", &self.shared.architecture)
            .finish_non_exhaustive()
    }
}

impl PipelineDevice for CudaPipelineDevice {
    fn info(&self) -> &DeviceInfo {
        self.shared.device.info()
    }

    fn budget(&self) -> &Arc<MemoryBudget> {
        self.shared.device.budget()
    }

    fn refusals(&self, pipeline: &Pipeline) -> Vec<String> {
        let lost = self.shared.device.check_alive().err();
        let lost = lost.map(|error| error.to_string());
        let pipeline = Arc::new(pipeline.clone());
        let unable = match Interpreter::new(Arc::clone(&pipeline)) {
            Err(error) => Some(error.to_string()),
            Ok(_) => self.shared.declared_program(&pipeline).err(),
        };
        lost.into_iter().chain(unable).collect()
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.shared.device.reserve(bytes)
    }

    fn open(&self, pipeline: Arc<Pipeline>) -> Result<Box<dyn PipelineRun>, RunError> {
        self.shared.device.check_alive()?;
        Ok(Box::new(run::CudaRun::new(
            &self.shared,
            pipeline,
            &self.run_options(),
        )?))
    }

    fn compiles(&self) -> bool {
        true
    }

    fn compile(
        &self,
        pipeline: Arc<Pipeline>,
        sample: Sample,
    ) -> BoxFuture<'static, Result<(), RunError>> {
        run::compile(&self.shared, pipeline, &self.run_options(), sample)
    }

    fn ordered(&self) -> Option<Arc<dyn PipelineDevice>> {
        Some(Arc::new(Self {
            shared: Arc::clone(&self.shared),
            ordered: true,
        }))
    }

    fn store(
        &self,
        arrays: Vec<ArrayRef>,
        dictionary: Arc<ColumnDictionary>,
    ) -> BoxFuture<'static, Result<StoredColumn, RunError>> {
        store::store(Arc::clone(&self.shared), arrays, dictionary).boxed()
    }

    fn demote(
        &self,
        stored: Arc<StoredColumn>,
    ) -> BoxFuture<'static, Result<PinnedColumn, RunError>> {
        tiers::demote(Arc::clone(&self.shared), stored).boxed()
    }

    fn promote(&self, pinned: Arc<PinnedColumn>) -> BoxFuture<'static, Result<Promoted, RunError>> {
        tiers::promote(Arc::clone(&self.shared), pinned).boxed()
    }

    fn generates(&self, pipeline: &Arc<Pipeline>, source: &Arc<Generated>) -> bool {
        let Shared {
            programs, options, ..
        } = self.shared.as_ref();
        let written = programs.generated(pipeline, source, false, options);
        written.is_ok()
    }

    fn with_stream(&self, _: Cost, memory: Reservation, work: StreamWork) -> UnderWay {
        user::run(&self.shared, memory, work)
    }

    fn is_lost(&self) -> bool {
        self.shared.device.is_lost()
    }

    fn plan_faults(&self, plan: FaultPlan) {
        self.shared.device.plan_faults(plan);
    }

    fn planned_faults_met(&self) -> u64 {
        self.shared.device.planned_faults_met()
    }
}

impl Shared {
    /// As [`declared_program`], written once.
    fn declared_program(&self, pipeline: &Arc<Pipeline>) -> Result<Arc<DeviceProgram>, String> {
        self.programs.declared(pipeline, &self.options)
    }

    /// Returns the kernels of a source if they are loaded.
    fn loaded(&self, text: &str) -> Option<Arc<Loaded>> {
        self.loaded.find(text)
    }

    /// Compiles sources now, at once, as far as they are not compiled.
    fn compiled(&self, texts: &[Arc<str>]) -> Vec<Image> {
        let asked: Vec<_> = texts
            .iter()
            .map(|text| {
                let (sender, compiled) = mpsc::channel();
                let then = move |image: Option<&Image>| {
                    // Whoever asked waits for it.
                    let _ = sender.send(image.cloned());
                };
                self.compile_threads.ask(text, Box::new(then));
                compiled
            })
            .collect();
        let known = |compiled: mpsc::Receiver<Option<Image>>| {
            let image = compiled.recv().ok().flatten();
            image.unwrap_or_else(|| Err(panicked()))
        };
        asked.into_iter().map(known).collect()
    }

    /// Loads the kernels of a source, whose parts were compiled.
    fn load(
        &self,
        lane: &Lane<'_>,
        text: &str,
        parts: &[Part<'_>],
        images: Vec<Image>,
    ) -> Result<Arc<Loaded>, DeviceError> {
        let mut kernels = Vec::new();
        for (part, image) in parts.iter().zip(images) {
            let compiled = image.map_err(|error| DeviceError::LaunchFailed {
                device: self.device.info().id,
                launch: 0,
                why: error.to_string(),
            })?;
            let module = lane.load(&compiled.image)?;
            for name in &part.kernels {
                kernels.push(lane.kernel(&module, name)?);
            }
        }
        let loaded = Arc::new(Loaded { kernels });
        self.loaded.keep(text, Arc::clone(&loaded));
        Ok(loaded)
    }
}

/// What is known of a source whose compiler panicked.
fn panicked() -> CompileError {
    CompileError::Rejected {
        name: SOURCE_NAME.to_owned(),
        why: "the compiler panicked".to_owned(),
        log: String::new(),
    }
}

/// The device's thread as a machine.
pub struct LaneMachine<'a, 'l> {
    shared: &'a Shared,
    lane: &'a Lane<'l>,
    /// The moment before the first launch of the fold under way.
    launched: Rc<RefCell<Option<Mark>>>,
    /// Who hears of the fold under way when its flags were read; `None` if nobody does, or it is to come.
    later: Rc<RefCell<Option<Later>>>,
    /// What was compiled for the work under way.
    images: &'a [(Arc<str>, Image)],
    /// The work under way may begin again, so that it need not wait for the compiler.
    may_begin_again: Cell<bool>,
    /// Sources that have to be compiled before it does.
    lacking: RefCell<Vec<Arc<str>>>,
}

impl<'a, 'l> LaneMachine<'a, 'l> {
    pub(crate) fn new(shared: &'a Shared, lane: &'a Lane<'l>) -> Self {
        Self {
            shared,
            lane,
            launched: Rc::default(),
            later: Rc::default(),
            images: &[],
            may_begin_again: Cell::new(false),
            lacking: RefCell::default(),
        }
    }

    /// Makes a machine for work that may begin again once its sources are compiled; these were.
    fn not_waiting(
        shared: &'a Shared,
        lane: &'a Lane<'l>,
        images: &'a [(Arc<str>, Image)],
    ) -> Self {
        Self {
            images,
            may_begin_again: Cell::new(true),
            ..Self::new(shared, lane)
        }
    }

    /// Returns the sources that have to be compiled before the work begins again.
    fn into_lacking(self) -> Vec<Arc<str>> {
        self.lacking.into_inner()
    }

    /// Returns what came of compiling sources; `None` if the work is to begin again when that is known.
    fn images(&self, texts: &[Arc<str>]) -> Option<Vec<Image>> {
        if !self.may_begin_again.get() {
            return Some(self.shared.compiled(texts));
        }
        let images = texts.iter().map(|text| self.image(text));
        // All that is lacking is asked for at once.
        let images: Vec<Option<Image>> = images.collect();
        images.into_iter().collect()
    }

    fn image(&self, text: &Arc<str>) -> Option<Image> {
        let of_work = self.images.iter().find(|(known, _)| known == text);
        if let Some((_, image)) = of_work {
            return Some(image.clone());
        }
        let Shared {
            images,
            architecture,
            ..
        } = self.shared;
        let known = images.peek(text, architecture, &[]);
        if known.is_none() {
            self.lacking.borrow_mut().push(Arc::clone(text));
        }
        known.map(Ok)
    }

    fn load(
        &self,
        text: &str,
        kernels: &'static [&'static str],
    ) -> Result<Arc<Loaded>, DeviceError> {
        match self.shared.loaded(text) {
            Some(loaded) => Ok(loaded),
            None => self.load_parts(text, &parts_of(text, kernels)),
        }
    }

    /// Loads the kernels of a source, in these parts.
    fn load_parts(&self, text: &str, parts: &[Part<'_>]) -> Result<Arc<Loaded>, DeviceError> {
        let texts: Vec<Arc<str>> = parts.iter().map(|part| part.text.as_str().into()).collect();
        match self.images(&texts) {
            Some(images) => self.shared.load(self.lane, text, parts, images),
            None => Err(DeviceError::Refused {
                device: self.shared.device.info().id,
                what: "launch".into(),
                why: "its kernels are not compiled yet".into(),
            }),
        }
    }

    /// Waits for the launches of the fold under way and returns the seconds that they took.
    fn seconds_since_launch(&self) -> Result<f64, DeviceError> {
        let to = self.lane.mark()?;
        match self.launched.take() {
            Some(from) => self.lane.elapsed_seconds(&from, &to),
            None => Ok(0.0),
        }
    }

    /// Does work of which `later` hears if its flags are read later; returns whether they are.
    fn telling_later<T>(
        &self,
        later: Later,
        work: impl FnOnce(&Self) -> Result<T, RunError>,
    ) -> Result<bool, RunError> {
        *self.later.borrow_mut() = Some(later);
        let done = work(self);
        let is_later = self.later.take().is_none();
        done.map(|_| is_later)
    }

    /// Waits for copies to this device and returns the seconds that they took, as far as that can be
    /// told.
    fn seconds_of(&self, moving: &[Moving]) -> f64 {
        let seconds = |Moving(told): &Moving| match told {
            Told::Never => 0.0,
            Told::Seconds(seconds) => *seconds,
            // What is wrong with the device is said by whatever it is asked for next.
            Told::Between(from, to) => self.lane.elapsed_seconds(from, to).unwrap_or(0.0),
        };
        moving.iter().map(seconds).sum()
    }
}

impl<'a, 'l> Machine for LaneMachine<'a, 'l> {
    type Buffer = DeviceBuffer;
    type Engine = LaneEngine<'a, 'l>;

    fn budget(&self) -> &Arc<MemoryBudget> {
        self.shared.device.budget()
    }

    fn upload(&self, parts: &[(u64, &[u8])], bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        let buffer = self.lane.alloc(bytes)?;
        for (offset, part) in parts {
            self.lane.upload(&buffer, *offset, part)?;
        }
        Ok(buffer)
    }

    fn address(&self, buffer: &DeviceBuffer) -> u64 {
        buffer.address()
    }

    fn programs(&self) -> &Programs {
        &self.shared.programs
    }

    fn launching(&self) -> Result<(), DeviceError> {
        let mut launched = self.launched.borrow_mut();
        if launched.is_none() {
            *launched = Some(self.lane.mark()?);
        }
        Ok(())
    }

    fn may_begin_again(&self, may: bool) -> bool {
        self.may_begin_again.replace(may)
    }

    fn lacks_kernels(&self) -> bool {
        !self.lacking.borrow().is_empty()
    }

    fn engine(
        &self,
        text: &str,
        kernels: &'static [&'static str],
    ) -> Result<LaneEngine<'a, 'l>, DeviceError> {
        Ok(LaneEngine {
            lane: self.lane,
            device: self.shared.device.info().id,
            budget: Arc::clone(self.shared.device.budget()),
            loaded: self.load(text, kernels)?,
            launched: Rc::clone(&self.launched),
            later: Rc::clone(&self.later),
        })
    }
}
