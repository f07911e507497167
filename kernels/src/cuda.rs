//! The CUDA backend: a pipeline's own kernel, compiled for the device and launched over chunks.
//!
//! A fold's batches are encoded by threads of the host, straight to where the device copies them from
//! (`dock`); once all was sent, the device's thread launches the kernel over them:
//! [`Execution`](crate::execution::Execution) says how. What is asked of a run are futures on the device's
//! thread, one after the other (`steps`). Where one waits for rows, or for kernels that are compiled
//! elsewhere, the thread does what others ask for.

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
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::ArrayRef;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{BoxFuture, join_all};
use tidegate_device::compiler::{CompileError, Compiled, ImageCache, WarmUp};
use tidegate_device::cuda::{CudaDevice, DeviceBuffer, Lane, Mark, ReadBack};
use tidegate_device::{
    Cost, DeviceError, DeviceInfo, FaultPlan, MemoryBudget, Reservation, Threads,
};
use tidegate_pipeline::{Interpreter, Pipeline, Unsupported};

use crate::backend::{PipelineDevice, PipelineRun, RunError, Sample};
use crate::compiling::{CompileQueue, Waiting};
use crate::engine::Machine;
use crate::execution::Programs;
use crate::load::{Clock, encoders};
use crate::program::{DeviceProgram, Generated, Part, ProgramOptions, parts_of, warm_up_source};
use crate::stored::{ColumnDictionary, Moving, PinnedColumn, Promoted, StoredColumn, Told};
use crate::stream::{StreamKernel, StreamWork, UnderWay};

use loaded::{Loaded, LoadedSources};

pub use crate::program::declared_program;
pub use engine::LaneEngine;
pub(crate) use user::UserLane;

/// A GPU that runs pipelines.
#[derive(Clone)]
pub struct CudaPipelineDevice {
    shared: Arc<Shared>,
    /// Whoever may ask for something.
    user: Arc<User>,
    /// Float sums have the same bits whatever the order of rows and folds.
    ordered: bool,
}

/// Who may ask something of a device. When the last is gone nothing is compiled any more: what still waits
/// for it ends.
struct User(Arc<Shared>);

impl User {
    fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.compiling.close();
    }
}

/// What the device's runs have in common.
pub(crate) struct Shared {
    pub(crate) device: CudaDevice,
    images: ImageCache,
    architecture: String,
    pub(crate) options: ProgramOptions,
    programs: Programs,
    loaded: LoadedSources,
    compiling: CompileQueue<Image>,
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
        let threads = images.threads().clone();
        let compile = {
            let (images, architecture) = (images.clone(), architecture.clone());
            move |text: &str| images.get(SOURCE_NAME, text, &architecture, &[])
        };
        let shared = Arc::new(Shared {
            device,
            images,
            architecture,
            options,
            programs: Programs::default(),
            loaded: LoadedSources::default(),
            encoders: encoders(),
            encoding: Clock::default(),
            folding: Clock::default(),
            compiling: CompileQueue::new(threads, compile, COMPILING_MAX),
            _warm_up: warm_up,
        });
        Self {
            user: Arc::new(User(Arc::clone(&shared))),
            shared,
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
    pub fn engine<'l>(
        &self,
        lane: &Lane<'l>,
        program: &DeviceProgram,
    ) -> Result<LaneEngine<'l>, DeviceError> {
        let machine = self.machine(lane);
        block_on(machine.engine(&program.text, program.kernel_names()))
    }

    /// Returns the device's thread as a machine.
    pub fn machine<'l>(&self, lane: &Lane<'l>) -> LaneMachine<'l> {
        LaneMachine::new(&self.shared, *lane, Arc::default())
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
            Ok(_) => {
                let declared = self.shared.declared_program(&pipeline);
                declared.err().map(|why| why.to_string())
            }
        };
        lost.into_iter().chain(unable).collect()
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.shared.device.reserve(bytes)
    }

    fn open(&self, pipeline: Arc<Pipeline>) -> Result<Box<dyn PipelineRun>, RunError> {
        self.shared.device.check_alive()?;
        Ok(Box::new(run::CudaRun::new(
            &self.user,
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
        run::compile(&self.user, pipeline, &self.run_options(), sample)
    }

    fn ordered(&self) -> Option<Arc<dyn PipelineDevice>> {
        Some(Arc::new(Self {
            shared: Arc::clone(&self.shared),
            user: Arc::clone(&self.user),
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

    fn with_stream(
        &self,
        _: Cost,
        memory: Reservation,
        kernels: Vec<StreamKernel>,
        work: StreamWork,
    ) -> UnderWay {
        user::run(&self.shared, memory, kernels, work)
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
    fn declared_program(
        &self,
        pipeline: &Arc<Pipeline>,
    ) -> Result<Arc<DeviceProgram>, Unsupported> {
        self.programs.declared(pipeline, &self.options)
    }

    /// Returns the kernels of a source if they are loaded.
    fn loaded(&self, text: &str) -> Option<Arc<Loaded>> {
        self.loaded.find(text)
    }

    /// Returns what comes of compiling a source; at once if that is known.
    fn compiled(&self, text: &Arc<str>) -> impl Future<Output = Image> + use<> {
        let known = self.images.peek(text, &self.architecture, &[]);
        let (sender, compiled) = oneshot::channel();
        match known {
            // Who waits for it is below.
            Some(image) => drop(sender.send(Some(Ok(image)))),
            None => {
                let then = move |image: Option<&Image>| {
                    // Nobody may wait for it any more.
                    let _ = sender.send(image.cloned());
                };
                self.compiling.ask(text, Box::new(then));
            }
        }
        async move {
            let image = compiled.await.ok().flatten();
            image.unwrap_or_else(|| Err(uncompiled()))
        }
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

/// What is known of a source whose compiler panicked, or was not begun before the device was given up.
fn uncompiled() -> CompileError {
    CompileError::Rejected {
        name: SOURCE_NAME.to_owned(),
        why: "the compiler did not come to its end".to_owned(),
        log: String::new(),
    }
}

/// The device's thread as a machine. What waits for its kernels is a task, so that the thread does other
/// work meanwhile.
pub struct LaneMachine<'l> {
    shared: Arc<Shared>,
    lane: Lane<'l>,
    /// The moment before the first launch whose time was not asked for.
    launched: Rc<RefCell<Option<Mark>>>,
    /// Who hears of the fold under way when its flags were read; `None` if nobody does, or it is to come.
    later: Rc<RefCell<Option<Later>>>,
    /// Tells when kernels are waited for.
    waiting: Arc<Waiting>,
    /// How many of those who wait for kernels there are, and how long there were some.
    num_waiting: Cell<usize>,
    waited: Cell<Duration>,
}

/// Somebody who waits for kernels, until this is dropped.
struct WaitsForKernels<'a, 'l> {
    machine: &'a LaneMachine<'l>,
    began: Instant,
}

impl<'a, 'l> WaitsForKernels<'a, 'l> {
    fn begin(machine: &'a LaneMachine<'l>) -> Self {
        if machine.num_waiting.replace(machine.num_waiting.get() + 1) == 0 {
            machine.waiting.set(true);
        }
        Self {
            machine,
            began: Instant::now(),
        }
    }
}

impl Drop for WaitsForKernels<'_, '_> {
    fn drop(&mut self) {
        let left = self.machine.num_waiting.get() - 1;
        self.machine.num_waiting.set(left);
        if left == 0 {
            // Those who wait together began together.
            self.machine
                .waited
                .update(|waited| waited + self.began.elapsed());
            self.machine.waiting.set(false);
        }
    }
}

impl<'l> LaneMachine<'l> {
    fn new(shared: &Arc<Shared>, lane: Lane<'l>, waiting: Arc<Waiting>) -> Self {
        Self {
            shared: Arc::clone(shared),
            lane,
            launched: Rc::default(),
            later: Rc::default(),
            waiting,
            num_waiting: Cell::new(0),
            waited: Cell::default(),
        }
    }

    /// Returns the device's thread.
    pub(crate) fn lane(&self) -> &Lane<'l> {
        &self.lane
    }

    /// Returns how long kernels were waited for.
    fn waited(&self) -> Duration {
        self.waited.get()
    }

    async fn load(
        &self,
        text: &str,
        kernels: &'static [&'static str],
    ) -> Result<Arc<Loaded>, DeviceError> {
        match self.shared.loaded(text) {
            Some(loaded) => Ok(loaded),
            None => self.load_parts(text, &parts_of(text, kernels)).await,
        }
    }

    /// Compiles the parts of a source, at once, and loads its kernels.
    async fn load_parts(&self, text: &str, parts: &[Part<'_>]) -> Result<Arc<Loaded>, DeviceError> {
        let texts = parts.iter().map(|part| Arc::from(part.text.as_str()));
        let mut compiling = join_all(texts.map(|text: Arc<str>| self.shared.compiled(&text)));
        let images = match (&mut compiling).now_or_never() {
            Some(images) => images,
            None => {
                let _waits = WaitsForKernels::begin(self);
                compiling.await
            }
        };
        // Another run may have loaded them meanwhile.
        match self.shared.loaded(text) {
            Some(loaded) => Ok(loaded),
            None => self.shared.load(&self.lane, text, parts, images),
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

    /// Has `later` hear of the fold that comes if its flags are read later.
    fn tell_later(&self, later: Later) {
        *self.later.borrow_mut() = Some(later);
    }

    /// Returns whether that will be; if not, nobody hears of it.
    fn is_told_later(&self) -> bool {
        self.later.take().is_none()
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

impl<'l> Machine for LaneMachine<'l> {
    type Buffer = DeviceBuffer;
    type Engine = LaneEngine<'l>;

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

    async fn engine(
        &self,
        text: &str,
        kernels: &'static [&'static str],
    ) -> Result<LaneEngine<'l>, DeviceError> {
        let loaded = self.load(text, kernels).await?;
        Ok(LaneEngine {
            lane: self.lane,
            device: self.shared.device.info().id,
            budget: Arc::clone(self.shared.device.budget()),
            loaded,
            launched: Rc::clone(&self.launched),
            later: Rc::clone(&self.later),
        })
    }
}
