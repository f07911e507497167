//! The physical optimizer rule that finds regions and decides how each runs.
//!
//! It must come last, after every rule of DataFusion's: what it wraps keeps its properties, and what
//! it cannot say stays as it was, with every reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_kernels::PipelineDevice;
use tidegate_pipeline::Pipeline;
use tidegate_pipeline::program::inexact_decision;
use tidegate_scheduler::{
    Choice, ClaimPolicy, Place, PlacementMode, Reason, RecordedRegion, Replay, ResidentScan,
    ScanKey,
};

use crate::error::{Error, ErrorKind};
use crate::files::guard::guarded_scan;
use crate::leaf::parquet::cached::{fills_host_tier, wrapped_scan};
use crate::leaf::parquet::files::HostCache;
use crate::leaf::parquet::pages::runtime_filter_ids;
use crate::leaf::{Leaf, LeafOptions, leaf_of};
use crate::lower::plan::{claims_order, plain_columns};
use crate::lower::{Lowered, lower_additive, lower_atomic, rounds, rounds_over_groups};
use crate::node_rule::{NodeRule, over_changed};
use crate::options::{
    CacheMode, DeviceList, FloatSums, HostEngineMode, RegionForms, ReplayedPlacement,
    TidegateOptions,
};
use crate::region::atomic::can_route;
use crate::region::join_keys::JoinKeys;
use crate::region::{
    Form, HostEngine, HostFoldExec, PipelineExec, Program, Region, folds_without_rows,
    host_partitions,
};
use crate::rewrite::exact_sums::with_exact_sums;
use crate::runtime::Runtime;
use crate::sorts::host_sorts;
use crate::spilling::{compact_written, count_repeated, count_windows};
use crate::windows::{host_windows, merge_sliding};

mod alone;
mod computed;
mod first_rows;
mod gathered;
mod halves;
mod noted;
mod ordered;
mod replay;
mod scans;

use first_rows::parts_in_order;
use gathered::gathered_groups;
use halves::Halves;
use noted::noted_keys;
use replay::Recording;
use scans::map_scans;

/// Wraps every region of a plan in a [`PipelineExec`].
#[derive(Debug)]
pub struct PlacePipelines {
    runtime: Arc<Runtime>,
}

impl PlacePipelines {
    /// Makes the rule over a process's devices.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime }
    }
}

impl PhysicalOptimizerRule for PlacePipelines {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = TidegateOptions::of(config);
        let leaf_options = LeafOptions::of(config);
        let memory_limit = self.runtime.admission().limits().expected_bytes_max;
        let cache = HostCache::of(&self.runtime);
        let fills = fills_host_tier(&cache, &options, memory_limit);
        let plan = NodeRule("parts_in_order", parts_in_order).optimize(plan, config)?;
        let plan = map_scans(&plan, &computed::without_expressions)?;
        let plan = map_scans(&plan, &|scan| {
            let guarded = guarded_scan(scan, options.max_page_size);
            let scan = guarded.as_ref().unwrap_or(scan);
            let cached = fills.and_then(|fills| wrapped_scan(scan, &cache, fills));
            cached.or(guarded)
        })?;
        let (plan, join_keys) = match options.host_engine {
            HostEngineMode::Off => (plan, Vec::new()),
            HostEngineMode::Auto => noted_keys(&plan)?,
        };
        let placer = Placer {
            runtime: &self.runtime,
            devices: self.runtime.devices_of(options.devices.as_ref()),
            recording: Recording::of(&self.runtime, &options)?,
            options,
            leaf_options,
            join_keys,
        };
        let plan = match placer.wants_ordered_sums() {
            true => with_exact_sums(&plan, &|plan| placer.alone(plan).is_some())?,
            false => plan,
        };
        let placed = placer.place(&plan)?;
        let placed = gathered_groups(&placed, config)?;
        if placer.wants_ordered_sums() {
            placer.refuse_unordered_sums(&plan, &placed)?;
        }
        let placed = match placer.options.host_engine {
            HostEngineMode::Off => placed,
            HostEngineMode::Auto => {
                let placed = NodeRule("host_windows", host_windows).optimize(placed, config)?;
                NodeRule("host_sorts", host_sorts).optimize(placed, config)?
            }
        };
        let placed = NodeRule("merge_sliding", merge_sliding).optimize(placed, config)?;
        let placed = NodeRule("count_windows", count_windows).optimize(placed, config)?;
        let placed = NodeRule("count_repeated", count_repeated).optimize(placed, config)?;
        NodeRule("compact_written", compact_written).optimize(placed, config)
    }

    fn name(&self) -> &str {
        "place_pipelines"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Placer<'a> {
    runtime: &'a Runtime,
    /// The devices that the session uses.
    devices: Vec<Arc<dyn PipelineDevice>>,
    /// The query that is replayed.
    recording: Option<Recording>,
    options: TidegateOptions,
    leaf_options: LeafOptions,
    /// The keys that joins note for scans of their probe sides.
    join_keys: Vec<Arc<JoinKeys>>,
}

impl Placer<'_> {
    fn place(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<PipelineExec>() {
            return Ok(Arc::clone(plan));
        }
        if let Some(region) = self.alone(plan) {
            return Ok(region);
        }
        if is_candidate(plan) {
            self.additive(plan)
        } else if plan.children().is_empty() {
            Ok(self.filtered_scan(plan).unwrap_or_else(|| Arc::clone(plan)))
        } else {
            self.place_inputs(plan)
        }
    }

    /// Returns the atomic region of a plan that a device should answer alone.
    fn alone(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        (self.may_want_atomic() && may_be_atomic(plan))
            .then(|| self.atomic(plan))
            .flatten()
    }

    /// Puts the host engine above a scan that a join or a top-k filters while it runs.
    fn filtered_scan(&self, scan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        if runtime_filter_ids(scan).is_empty() {
            return None;
        }
        let program = program(lower_additive(scan).ok()?);
        let engine = HostEngine::of_scan(scan, &program, &self.join_keys, &self.options);
        HostFoldExec::over_filtered_scan(scan, &engine)
    }

    fn place_inputs(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        over_changed(plan, |input| self.place(input))
    }

    fn may_want_atomic(&self) -> bool {
        let asked = match self.options.regions {
            RegionForms::Atomic => true,
            RegionForms::Additive => false,
            // What is not asked for must pay.
            RegionForms::Auto => !self.replays_pattern(),
        };
        asked && self.options.placement != PlacementMode::Host && !self.devices.is_empty()
    }

    fn replays_pattern(&self) -> bool {
        let replayed = &self.options.replay_placement;
        matches!(replayed, Some(ReplayedPlacement::Pattern(_)))
    }

    /// Returns whether devices hold shares of what is read.
    fn is_spread(&self, leaf: &dyn Leaf) -> bool {
        let reads_all_of = |scan: &ScanKey| leaf.reads_all_of(scan);
        self.runtime.cache().is_spread(&reads_all_of)
    }

    /// Returns the device that should answer alone: one that holds all that is read, else the first.
    fn first_or_holder(
        &self,
        devices: Vec<Arc<dyn PipelineDevice>>,
        pipeline: &Pipeline,
        leaf: &dyn Leaf,
    ) -> Option<Arc<dyn PipelineDevice>> {
        let reads_all_of = |scan: &ScanKey| leaf.reads_all_of(scan);
        let cache = self.runtime.cache();
        let holds = |device: &Arc<dyn PipelineDevice>| {
            let id = device.info().id;
            !device.is_lost() && ResidentScan::find(cache, id, pipeline, &reads_all_of).is_some()
        };
        let holder = match devices.len() {
            0 | 1 => None,
            _ => devices.iter().position(holds),
        };
        devices.into_iter().nth(holder.unwrap_or(0))
    }

    fn wants_ordered_sums(&self) -> bool {
        self.options.float_sums == FloatSums::Ordered
    }

    fn device_is_requested(&self) -> bool {
        let placement = self.options.placement;
        let without_host = |list: &DeviceList| !list.has_host();
        matches!(placement, PlacementMode::Device | PlacementMode::Strict)
            || self.options.devices.as_ref().is_some_and(without_host)
    }

    /// Returns why a device should answer all of a region, if it should.
    fn why_atomic(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        lowered: &Lowered,
        leaf: &dyn Leaf,
        device: &Arc<dyn PipelineDevice>,
    ) -> Option<Reason> {
        let pipeline = &lowered.pipeline;
        if self.options.regions == RegionForms::Atomic || self.device_is_requested() {
            return Some(Reason::DeviceRequested);
        }
        let (cache, id) = (self.runtime.cache(), device.info().id);
        let reads_all_of = |scan: &ScanKey| leaf.reads_all_of(scan);
        let Some(resident) = ResidentScan::find(cache, id, pipeline, &reads_all_of) else {
            return self.why_alone(plan, lowered, device);
        };
        let rates = self.runtime.dispatch().rates();
        let is_faster = resident.is_faster(rates, pipeline, device, host_partitions());
        is_faster.then_some(Reason::Resident)
    }

    /// Returns how a region's leaf is cut: what an aggregate reads is in no order.
    fn leaf_options(&self, pipeline: &Pipeline) -> LeafOptions {
        self.leaf_options.in_any_order(pipeline.aggregates())
    }

    /// Makes an atomic region of `plan`, if that is possible without any reason against it.
    fn atomic(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let began = Instant::now();
        let lowered = lower_atomic(plan).ok()?;
        if !lowered.pipeline.aggregates() || !can_route(plan.output_partitioning()) {
            return None;
        }
        let ordered = self.wants_ordered_sums() && rounds(&lowered.pipeline);
        if ordered && rounds_over_groups(&lowered.pipeline) {
            return None;
        }
        let leaf = leaf_of(&lowered.leaf, self.leaf_options(&lowered.pipeline)).ok()?;
        let willing = self.willing(&lowered, &mut Vec::new());
        // One device alone answers a region. An array that is made is best made by all of them, and what
        // is spread over them lies on none as a whole.
        let for_all =
            willing.len() > 1 && !ordered && (leaf.is_generated() || self.is_spread(leaf.as_ref()));
        if !leaf.rereads() || (for_all && self.options.regions == RegionForms::Auto) {
            return None;
        }
        let (device, why) = if ordered {
            let device = willing.iter().find_map(|device| device.ordered())?;
            (device, Reason::DeviceRequested)
        } else if let Some(recording) = &self.recording {
            let is_whole = |region: &RecordedRegion| matches!(region, RecordedRegion::Whole(_));
            match recording.take(&lowered.pipeline, is_whole)? {
                RecordedRegion::Whole(Place::Device(id)) => {
                    let mut willing = willing.into_iter();
                    let device = willing.find(|device| device.info().id == id)?;
                    (device, Reason::Replayed)
                }
                // It was asked of a device, which did not answer.
                _ => {
                    let engine = HostEngine::Off;
                    let reasons = vec![Reason::Replayed];
                    let region = Region::on_host(Some(program(lowered)), engine, reasons);
                    let region = PipelineExec::on_host(Arc::clone(plan), region);
                    return Some(Arc::new(region.ok()?));
                }
            }
        } else {
            let device = self.first_or_holder(willing, &lowered.pipeline, leaf.as_ref())?;
            let why = self.why_atomic(plan, &lowered, leaf.as_ref(), &device)?;
            (device, why)
        };
        let planned = Arc::clone(&lowered.leaf);
        let region = Region {
            form: Form::Atomic,
            program: Some(program(lowered)),
            reasons: Vec::new(),
            host_engine: HostEngine::Off,
            devices: vec![device],
            mode: self.options.placement,
            ordered,
            choice: Choice::Always(why),
            policy: ClaimPolicy::DeviceOnly,
            cache: Arc::clone(self.runtime.cache()),
            dispatch: Arc::clone(self.runtime.dispatch()),
            counters: Arc::default(),
            promotes: self.options.cache == CacheMode::Auto,
            device_slots: self.options.device_slots,
            planned_in: began.elapsed(),
        };
        Some(Arc::new(PipelineExec::atomic(
            Arc::clone(plan),
            planned,
            leaf,
            region,
        )))
    }

    fn additive(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let began = Instant::now();
        let halves = Halves::of(plan)?;
        let chain = halves.as_ref().map_or(plan, |halves| &halves.partial);
        let lowered = match lower_additive(chain) {
            Ok(lowered) => lowered,
            Err(reasons) => {
                let not_lowered = reasons
                    .into_vec()
                    .into_iter()
                    .map(Reason::NotLowered)
                    .collect();
                let host = self.place_inputs(plan)?;
                return self.on_host(host, None, HostEngine::Off, not_lowered);
            }
        };
        let mut reasons = Vec::new();
        reasons.extend(claims_order(chain).map(|why| Reason::NotLowered(why.into())));
        let leaf = match leaf_of(&lowered.leaf, self.leaf_options(&lowered.pipeline)) {
            Ok(leaf) => Some(leaf),
            Err(why) => {
                reasons.push(Reason::NotLowered(why));
                None
            }
        };
        let devices = self.willing(&lowered, &mut reasons);
        let replay = self.replay_of(&lowered.pipeline, &mut reasons);
        self.weigh(&lowered, replay.is_some(), &mut reasons);
        let planned = Arc::clone(&lowered.leaf);
        let program = program(lowered);
        let engine = HostEngine::plan(chain, &planned, &program, &self.join_keys, &self.options);
        match leaf {
            Some(leaf) if reasons.is_empty() => {
                let mut region = self.shared_region(program, devices, replay, began.elapsed());
                region.host_engine = engine;
                let placed = Arc::new(PipelineExec::additive(chain, &planned, leaf, region)?);
                match halves {
                    Some(halves) => halves.finish(placed),
                    None => Ok(placed),
                }
            }
            _ => match halves {
                Some(halves) if engine.runs() || folds_without_rows(&halves.partial, &program) => {
                    let partial = Arc::clone(&halves.partial);
                    halves.finish(self.on_host(partial, Some(program), engine, reasons)?)
                }
                _ => self.on_host(Arc::clone(plan), Some(program), engine, reasons),
            },
        }
    }

    fn shared_region(
        &self,
        program: Program,
        devices: Vec<Arc<dyn PipelineDevice>>,
        replay: Option<Replay>,
        planned_in: Duration,
    ) -> Region {
        let requested = self.device_is_requested();
        let is_new = replay.is_none() && self.recording.is_some();
        let (choice, policy) = match replay {
            Some(replay) => (
                Choice::Always(Reason::Replayed),
                ClaimPolicy::Replay(replay),
            ),
            None if requested => (
                Choice::Always(Reason::DeviceRequested),
                ClaimPolicy::DeviceOnly,
            ),
            None => {
                let host_partitions = host_partitions();
                (
                    Choice::EarliestFinish { host_partitions },
                    ClaimPolicy::Shared,
                )
            }
        };
        Region {
            form: Form::Additive,
            program: Some(program),
            reasons: is_new.then_some(Reason::NotRecorded).into_iter().collect(),
            host_engine: HostEngine::Off,
            devices,
            mode: self.options.placement,
            ordered: false,
            choice,
            policy,
            cache: Arc::clone(self.runtime.cache()),
            dispatch: Arc::clone(self.runtime.dispatch()),
            counters: Arc::default(),
            promotes: self.options.cache == CacheMode::Auto,
            device_slots: self.options.device_slots,
            planned_in,
        }
    }

    /// Returns the devices that run the program; notes why there is none.
    fn willing(
        &self,
        lowered: &Lowered,
        reasons: &mut Vec<Reason>,
    ) -> Vec<Arc<dyn PipelineDevice>> {
        if self.runtime.devices().is_empty() {
            reasons.push(Reason::NoDevice(self.runtime.why_no_device().to_string()));
            return Vec::new();
        }
        if let (true, Some(list)) = (self.devices.is_empty(), &self.options.devices) {
            reasons.push(Reason::NotListed(list.to_string()));
            return Vec::new();
        }
        if let Some(why) = inexact_decision(&lowered.pipeline) {
            reasons.push(Reason::DeviceRefused(why.to_string()));
            return Vec::new();
        }
        self.runtime.calibrate();
        let mut willing = Vec::new();
        let mut refusals = Vec::new();
        for device in &self.devices {
            let refused = device.refusals(&lowered.pipeline);
            if refused.is_empty() {
                willing.push(Arc::clone(device));
            }
            refusals.extend(refused.into_iter().map(Reason::DeviceRefused));
        }
        if willing.is_empty() {
            refusals.sort();
            refusals.dedup();
            reasons.extend(refusals);
        }
        willing
    }

    /// Returns what is replayed of an additive region; notes if that is the host alone.
    fn replay_of(&self, pipeline: &Pipeline, reasons: &mut Vec<Reason>) -> Option<Replay> {
        if let Some(ReplayedPlacement::Pattern(pattern)) = &self.options.replay_placement {
            return Some(Replay::Pattern(pattern.clone()));
        }
        match self.recording.as_ref()?.take(pipeline, |_| true)? {
            RecordedRegion::Shared(recorded) => Some(Replay::Recorded(recorded)),
            RecordedRegion::Whole(Place::Host) => {
                reasons.push(Reason::Replayed);
                None
            }
            RecordedRegion::Whole(Place::Device(_)) => None,
        }
    }

    /// Notes why the host is asked for, or is the better place for the region as a whole.
    fn weigh(&self, lowered: &Lowered, replays: bool, reasons: &mut Vec<Reason>) {
        if self.options.placement == PlacementMode::Host {
            reasons.push(Reason::HostRequested);
        }
        let free_to_choose =
            self.options.placement == PlacementMode::Auto && !self.device_is_requested();
        if free_to_choose && !replays && !lowered.pipeline.aggregates() {
            reasons.push(Reason::RowsReturn);
        }
    }

    fn on_host(
        &self,
        host: Arc<dyn ExecutionPlan>,
        program: Option<Program>,
        engine: HostEngine,
        reasons: Vec<Reason>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.options.placement == PlacementMode::Strict {
            let why: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            return Err(Error::new(
                ErrorKind::Device,
                format!(
                    "tidegate.placement = 'strict': {} cannot run on a device: {}; \
                     SET tidegate.placement = 'device' to let it fall back to the host",
                    host.name(),
                    why.join("; ")
                ),
            )
            .into());
        }
        Ok(Arc::new(PipelineExec::on_host(
            host,
            Region::on_host(program, engine, reasons),
        )?))
    }
}

fn program(lowered: Lowered) -> Program {
    Program {
        pipeline: Arc::new(lowered.pipeline),
        bindings: lowered.bindings,
    }
}

/// Returns whether an atomic region could start here.
fn may_be_atomic(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<AggregateExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
}

/// Returns whether a node is the root of something that a device might run: an aggregate's first
/// half, or a filter or computed projection in a chain over a scan.
fn is_candidate(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let whole_over_one = *aggregate.mode() == AggregateMode::Single;
        let first_half = *aggregate.mode() == AggregateMode::Partial;
        let whole_over_many = *aggregate.mode() == AggregateMode::SinglePartitioned;
        return first_half || whole_over_one || whole_over_many;
    }
    let mut computes = false;
    let mut node = plan;
    loop {
        if node.is::<FilterExec>() {
            computes = true;
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            computes |= plain_columns(projection.expr().iter().map(|named| &named.expr)).is_none();
        } else if !node.is::<CooperativeExec>() && !is_round_robin(node) {
            let scan = node.children().is_empty()
                && !node.is::<EmptyExec>()
                && !node.is::<PlaceholderRowExec>();
            return computes && scan;
        }
        match node.children().as_slice() {
            [input] => node = input,
            _ => return false,
        }
    }
}

fn is_round_robin(plan: &Arc<dyn ExecutionPlan>) -> bool {
    use datafusion::physical_plan::Partitioning;
    plan.downcast_ref::<RepartitionExec>()
        .is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_)))
}

#[cfg(test)]
mod tests;
