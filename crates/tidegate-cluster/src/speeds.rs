//! How fast executors were at a kind of work, and the parts that they get of the next.
//!
//! A kind of work is what happens to the rows of a table until they leave a stage, without its constants.
//! Executors tell of each stage that reads one share alone how many rows it read, and how long that took: rows
//! that statistics or filters of the scan left out are none. A part is an executor's speed among all; one that is not known yet has the speed
//! of the others' cores. Parts stay as they are until they are off by a seventh: a part that moves leaves
//! cached columns behind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
};
use parking_lot::Mutex;

use crate::local::shared_table;
use crate::members::Usable;

/// Kinds of work that are remembered.
const KINDS_MAX: usize = 1_000;
/// Shares whose executors have not told of them, at the most.
const GIVEN_MAX: usize = 10_000;
/// Seconds below which a share tells nothing.
const SECONDS_MIN: f64 = 0.1;
/// How long a speed is believed: an executor whose part is nothing is not seen again.
const BELIEVED: Duration = Duration::from_secs(600);
/// Runs before a speed is believed, since the first one reads what nobody has cached, and before an executor's
/// part may be more than twice that of its cores.
const RUNS_BELIEVED: u32 = 2;
const RUNS_MIN: u32 = 3;
/// How far parts may be off before they are changed.
const OFF_MAX: f64 = 1.0 / 7.0;
/// What weights are parts of.
const WHOLE: f64 = 1e6;

/// What is known of the speeds of a cluster's executors.
#[derive(Debug, Default)]
pub(crate) struct Speeds(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    kinds: HashMap<u64, Kind>,
    given: BTreeMap<u64, Given>,
    next: u64,
}

/// A kind of work.
#[derive(Debug, Default)]
struct Kind {
    speeds: HashMap<String, Speed>,
    /// The parts that were given last.
    parts: Vec<(String, f64)>,
    /// When, in shares given since the start.
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Rows in a second.
    per_second: f64,
    runs: u32,
    seen: Instant,
}

/// A share that an executor was given.
#[derive(Debug)]
struct Given {
    kind: u64,
    executor: String,
}

impl Speeds {
    /// Returns the weights of executors for a kind of work.
    pub(crate) fn weights(&self, kind: u64, executors: &[Usable]) -> Vec<u64> {
        let mut known = self.0.lock();
        let used = known.next;
        let weights = match known.kinds.get_mut(&kind) {
            Some(kind) => {
                kind.used = used;
                kind.parts(executors)
            }
            None => by_cores(executors),
        };
        let weight = |part: f64| (part * WHOLE).max(1.0) as u64;
        weights.into_iter().map(weight).collect()
    }

    /// Returns how fast executors were next to their cores, all kinds of work together: 1 is as fast as all
    /// of them; `None` for one of which that is not known.
    pub(crate) fn relative(&self, executors: &[(&str, u64)]) -> Vec<Option<f64>> {
        let known = self.0.lock();
        // Sums of logarithms, and how many.
        let mut sums = vec![(0.0, 0_u32); executors.len()];
        for kind in known.kinds.values() {
            let speed =
                |(name, _): &(&str, u64)| kind.speeds.get(*name).map(|speed| speed.per_second);
            let speeds: Vec<Option<f64>> = executors.iter().map(speed).collect();
            let both = speeds.iter().zip(executors);
            let both =
                both.filter_map(|(speed, (_, cores))| Some((speed.as_ref()?, *cores as f64)));
            let (speed, cores) = both.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            if speeds.iter().flatten().count() < 2 || cores == 0.0 {
                continue;
            }
            for (sum, (own, (_, own_cores))) in sums.iter_mut().zip(speeds.iter().zip(executors)) {
                if let (Some(own), 1..) = (own, *own_cores) {
                    sum.0 += (own / *own_cores as f64 / (speed / cores)).ln();
                    sum.1 += 1;
                }
            }
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| (sum / f64::from(count)).exp());
        sums.into_iter().map(mean).collect()
    }

    /// Notes that an executor is given a share; returns the share's number.
    pub(crate) fn give(&self, kind: u64, executor: &str) -> u64 {
        let mut known = self.0.lock();
        known.next += 1;
        let number = known.next;
        let executor = executor.to_string();
        known.given.insert(number, Given { kind, executor });
        if known.given.len() > GIVEN_MAX {
            known.given.pop_first();
        }
        number
    }

    /// Notes how many rows an executor read of a share, and how long that took.
    pub(crate) fn learn(&self, number: u64, executor: &str, rows: u64, seconds: f64) {
        let mut known = self.0.lock();
        let Some(given) = known.given.remove(&number) else {
            return;
        };
        // A time that is no number is none either.
        let is_told = seconds.is_finite() && seconds >= SECONDS_MIN && rows > 0;
        if given.executor != executor || !is_told {
            return;
        }
        if known.kinds.len() >= KINDS_MAX && !known.kinds.contains_key(&given.kind) {
            let oldest = known.kinds.iter().min_by_key(|(_, kind)| kind.used);
            if let Some(oldest) = oldest.map(|(kind, _)| *kind) {
                known.kinds.remove(&oldest);
            }
        }
        let used = known.next;
        let kind = known.kinds.entry(given.kind).or_default();
        kind.used = used;
        kind.learn(given.executor, rows as f64 / seconds);
    }
}

impl Kind {
    fn learn(&mut self, executor: String, per_second: f64) {
        let seen = Instant::now();
        let speed = self.speeds.entry(executor).or_insert(Speed {
            per_second,
            runs: 0,
            seen,
        });
        speed.per_second = (speed.per_second + per_second) / 2.0;
        speed.runs += 1;
        speed.seen = seen;
    }

    /// Returns the executors' parts, which together are 1.
    fn parts(&mut self, executors: &[Usable]) -> Vec<f64> {
        let parts = self.parts_now(executors);
        let named = |(name, _): &(String, f64), executor: &Usable| *name == executor.name;
        let before = &self.parts;
        let is_same = before.len() == executors.len()
            && before
                .iter()
                .zip(executors)
                .all(|(part, of)| named(part, of));
        let is_near =
            |(before, now): (&(String, f64), &f64)| (now / before.1 - 1.0).abs() <= OFF_MAX;
        if is_same && before.iter().zip(&parts).all(is_near) {
            return before.iter().map(|(_, part)| *part).collect();
        }
        let names = executors.iter().map(|executor| executor.name.clone());
        self.parts = names.zip(parts.iter().copied()).collect();
        parts
    }

    fn parts_now(&self, executors: &[Usable]) -> Vec<f64> {
        let by_cores = by_cores(executors);
        let speed = |executor: &Usable| {
            let speed = self.speeds.get(&executor.name)?;
            let is_believed = speed.runs >= RUNS_BELIEVED && speed.seen.elapsed() < BELIEVED;
            is_believed.then_some(*speed)
        };
        let speeds: Vec<Option<Speed>> = executors.iter().map(speed).collect();
        let (mut speed_known, mut cores_known) = (0.0, 0.0);
        for (speed, cores) in speeds.iter().zip(&by_cores) {
            if let Some(speed) = speed {
                speed_known += speed.per_second;
                cores_known += cores;
            }
        }
        if cores_known == 0.0 {
            return by_cores;
        }
        let of_core = speed_known / cores_known;
        let guess = |(speed, cores): (&Option<Speed>, &f64)| match speed {
            Some(speed) => speed.per_second,
            None => cores * of_core,
        };
        let parts = normal(speeds.iter().zip(&by_cores).map(guess).collect());
        let bounded = parts.iter().zip(speeds.iter().zip(&by_cores));
        let bounded = bounded.map(|(part, (speed, cores))| match speed {
            Some(speed) if speed.runs >= RUNS_MIN => *part,
            _ => part.min(2.0 * cores),
        });
        normal(bounded.collect())
    }
}

fn by_cores(executors: &[Usable]) -> Vec<f64> {
    normal(
        executors
            .iter()
            .map(|executor| executor.cores as f64)
            .collect(),
    )
}

fn normal(parts: Vec<f64>) -> Vec<f64> {
    let sum: f64 = parts.iter().sum();
    parts.into_iter().map(|part| part / sum).collect()
}

/// What a plan does with its leaves.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// The kinds of work of the leaves, by their addresses.
    of_leaves: HashMap<usize, u64>,
    /// The leaves of one partition to which a node of their stage owes that rows which belong together are in one
    /// partition: no exchange brings them there.
    whole: HashSet<usize>,
}

impl Kinds {
    /// Finds those of a plan.
    ///
    /// # Errors
    /// None for plans that were made.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut kinds = Self::default();
        kinds.add(plan, 0, false)?;
        Ok(kinds)
    }

    /// Tells whether a leaf must be read by one task.
    pub(crate) fn is_whole(&self, leaf: &Arc<dyn ExecutionPlan>) -> bool {
        match self.of_leaves.contains_key(&address(leaf)) {
            true => self.whole.contains(&address(leaf)),
            false => leaf.output_partitioning().partition_count() == 1,
        }
    }

    /// Returns the kind of a leaf's work.
    pub(crate) fn get(&self, leaf: &Arc<dyn ExecutionPlan>) -> u64 {
        let known = self.of_leaves.get(&address(leaf)).copied();
        known.unwrap_or_else(|| hash((shared_table(leaf), leaf.name())))
    }

    fn add(&mut self, node: &Arc<dyn ExecutionPlan>, above: u64, is_whole: bool) -> Result<()> {
        let above = if ends_stage(node) { 0 } else { above };
        let own = hash((above, node.name(), words(node)?));
        let inputs = node.children();
        if inputs.is_empty() {
            let names: Vec<String> = node
                .schema()
                .fields()
                .iter()
                .map(|f| f.name().clone())
                .collect();
            let kind = hash((own, shared_table(node), names));
            self.of_leaves.insert(address(node), kind);
            if is_whole && node.output_partitioning().partition_count() == 1 {
                self.whole.insert(address(node));
            }
        }
        let is_whole = is_whole && !ends_stage(node) && !node.is::<RepartitionExec>();
        let needs = node.input_distribution_requirements();
        for (place, input) in inputs.into_iter().enumerate() {
            let needs = needs.child_distribution(place);
            let wants = !matches!(needs, None | Some(Distribution::UnspecifiedDistribution));
            // The side that a join holds is sent to all of its tasks.
            let is_held = place == 0 && holds_a_side(node);
            self.add(input, own, (is_whole || wants) && !is_held)?;
        }
        Ok(())
    }
}

/// Tells whether a node is a join that holds the rows of its left side whole.
fn holds_a_side(node: &Arc<dyn ExecutionPlan>) -> bool {
    let hash = node.downcast_ref::<HashJoinExec>();
    hash.is_some_and(|join| *join.partition_mode() == PartitionMode::CollectLeft)
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
}

fn address(node: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(node).cast::<()>() as usize
}

/// Returns the number of what is known by a value.
pub(crate) fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Tells whether what is below a node is of another stage, or may be.
fn ends_stage(node: &Arc<dyn ExecutionPlan>) -> bool {
    let spreads = node.downcast_ref::<RepartitionExec>();
    spreads.is_some_and(|node| matches!(node.partitioning(), Partitioning::Hash(..)))
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
}

/// Writes what a node computes, without its constants.
fn words(node: &Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let calls = aggregate.aggr_expr().iter();
        words.extend(calls.map(|call| call.fun().name().to_string()));
    }
    node.apply_expressions(&mut |expr| {
        expr.apply(|expr| {
            words.push(word(expr));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(words)
}

fn word(expr: &Arc<dyn PhysicalExpr>) -> String {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return column.name().to_string();
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return call.name().to_string();
    }
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => binary.op().to_string(),
        None => format!("of {}", expr.children().len()),
    }
}

#[cfg(test)]
mod tests;
