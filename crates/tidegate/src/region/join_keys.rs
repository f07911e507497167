//! The keys of a hash join's build side, kept as bits for the scans of its probe side.
//!
//! A hash join tells the scans of its probe side which keys it has, as a dynamic filter that looks a key up in
//! the join's table. Where the key is one integer, a [`JoinKeysExec`] above the build side notes the keys that
//! pass by; once the side has ended, a key is looked up in a bitmap instead. Both say the same of a key.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions, Statistics,
};
use futures::StreamExt;
use parking_lot::Mutex;

/// More keys than this are not noted: rows that pass them all are the rule then.
const KEYS_MAX: usize = 1 << 24;

/// Bits of a bitmap, whatever the keys are.
const BITS_MIN: u64 = 1 << 26;

/// Bits of a bitmap for each key, above that.
const BITS_PER_KEY: u64 = 64;

/// The keys of one join's build side.
pub(crate) struct JoinKeys {
    /// The join's dynamic filter.
    filter: u64,
    state: Mutex<State>,
}

enum State {
    /// Some partitions have not ended.
    Noting {
        ended: Vec<bool>,
        keys: Vec<Vec<i64>>,
        num_keys: usize,
        memory: Option<MemoryReservation>,
    },
    /// All have.
    Known(Arc<KeyBits>),
    /// There are too many keys, or too little memory.
    GivenUp,
}

/// A set of integers, a bit each.
pub(crate) struct KeyBits {
    least: i64,
    num_bits: u64,
    words: Vec<u64>,
    _memory: Option<MemoryReservation>,
}

impl KeyBits {
    /// Makes the set; `None` if its integers lie too far apart.
    fn new(keys: &[Vec<i64>], memory: Option<MemoryReservation>) -> Option<Self> {
        let all = || keys.iter().flatten();
        let (Some(least), Some(greatest)) = (all().min(), all().max()) else {
            return Some(Self {
                least: 0,
                num_bits: 0,
                words: Vec::new(),
                _memory: memory,
            });
        };
        let num_keys: usize = keys.iter().map(Vec::len).sum();
        let num_bits = u64::try_from(i128::from(*greatest) - i128::from(*least) + 1).ok()?;
        if num_bits > BITS_MIN.max(num_keys as u64 * BITS_PER_KEY) {
            return None;
        }
        let mut words = vec![0_u64; usize::try_from(num_bits.div_ceil(64)).ok()?];
        if let Some(memory) = &memory {
            memory.try_resize(words.len() * 8).ok()?;
        }
        for key in all() {
            let bit = key.wrapping_sub(*least) as u64;
            if let Some(word) = words.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
        }
        Some(Self {
            least: *least,
            num_bits,
            words,
            _memory: memory,
        })
    }

    /// Returns 1 if the set has the integer, else 0.
    #[inline]
    pub(crate) fn contains(&self, key: i64) -> u8 {
        let bit = key.wrapping_sub(self.least) as u64;
        if bit >= self.num_bits {
            return 0;
        }
        let word = self.words.get((bit / 64) as usize).copied().unwrap_or(0);
        (word >> (bit % 64) & 1) as u8
    }
}

impl fmt::Debug for JoinKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinKeys")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

impl JoinKeys {
    fn new(filter: u64, partitions: usize) -> Self {
        Self {
            filter,
            state: Mutex::new(State::Noting {
                ended: vec![false; partitions],
                keys: vec![Vec::new(); partitions],
                num_keys: 0,
                memory: None,
            }),
        }
    }

    /// Returns the dynamic filter that says the same.
    pub(crate) fn filter(&self) -> u64 {
        self.filter
    }

    /// Returns the keys, once all of them have come by.
    pub(crate) fn known(&self) -> Option<Arc<KeyBits>> {
        match &*self.state.lock() {
            State::Known(bits) => Some(Arc::clone(bits)),
            State::Noting { .. } | State::GivenUp => None,
        }
    }

    /// Notes keys of a partition.
    fn note(&self, partition: usize, values: &[i64], nulls: Option<&ArrayRef>, ctx: &TaskContext) {
        let mut state = self.state.lock();
        let State::Noting {
            keys,
            num_keys,
            memory,
            ..
        } = &mut *state
        else {
            return;
        };
        let memory = memory
            .get_or_insert_with(|| MemoryConsumer::new("JoinKeysExec").register(ctx.memory_pool()));
        *num_keys += values.len();
        let has_room = *num_keys <= KEYS_MAX && memory.try_grow(values.len() * 8).is_ok();
        let Some(of) = keys.get_mut(partition).filter(|_| has_room) else {
            *state = State::GivenUp;
            return;
        };
        match nulls {
            None => of.extend_from_slice(values),
            Some(array) => {
                let valid = values.iter().enumerate();
                of.extend(
                    valid
                        .filter(|(row, _)| array.is_valid(*row))
                        .map(|(_, key)| *key),
                );
            }
        }
    }

    /// Says that a partition has ended.
    fn end(&self, partition: usize) {
        let mut state = self.state.lock();
        let State::Noting {
            ended,
            keys,
            memory,
            ..
        } = &mut *state
        else {
            return;
        };
        if let Some(ended) = ended.get_mut(partition) {
            *ended = true;
        }
        if !ended.contains(&false) {
            let bits = KeyBits::new(keys, memory.take());
            *state = bits.map_or(State::GivenUp, |bits| State::Known(Arc::new(bits)));
        }
    }

    fn give_up(&self) {
        *self.state.lock() = State::GivenUp;
    }
}

/// A join that notes its keys, and where.
pub(crate) type Noted = (Arc<dyn ExecutionPlan>, Arc<JoinKeys>);

/// Notes the keys of a join's build side, and passes its rows on.
#[derive(Debug)]
pub(crate) struct JoinKeysExec {
    input: Arc<dyn ExecutionPlan>,
    key: PhysicalExprRef,
    keys: Arc<JoinKeys>,
}

impl JoinKeysExec {
    /// Returns a join that notes its keys, with them, if it has one key that is an integer and one of the dynamic
    /// filters that scans have.
    pub(crate) fn noting(join: &Arc<dyn ExecutionPlan>, filters: &[u64]) -> Result<Option<Noted>> {
        let Some(hash) = join.downcast_ref::<HashJoinExec>() else {
            return Ok(None);
        };
        let ([(left, right)], [build, probe]) = (hash.on(), &join.children()[..]) else {
            return Ok(None);
        };
        let key_type = left.data_type(&build.schema())?;
        if !is_key(&key_type) || right.data_type(&probe.schema())? != key_type {
            return Ok(None);
        }
        let produced = join.dynamic_expressions_produced();
        let mut produced = produced.iter().filter_map(|filter| filter.expression_id());
        let Some(filter) = produced.find(|id| filters.contains(id)) else {
            return Ok(None);
        };
        let partitions = build.output_partitioning().partition_count();
        let keys = Arc::new(JoinKeys::new(filter, partitions));
        let noting = Self {
            input: Arc::clone(build),
            key: Arc::clone(left),
            keys: Arc::clone(&keys),
        };
        let children = vec![
            Arc::new(noting) as Arc<dyn ExecutionPlan>,
            Arc::clone(probe),
        ];
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let noting = Arc::clone(join).replace_children(children, options)?;
        Ok(Some((noting, keys)))
    }
}

/// Returns whether keys of a type are integers of at most 64 bits.
fn is_key(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int32 | DataType::Int64 | DataType::Date32
    )
}

/// Notes the keys of a batch.
fn note(
    batch: &RecordBatch,
    key: &PhysicalExprRef,
    keys: &JoinKeys,
    partition: usize,
    ctx: &TaskContext,
) {
    let values = key.evaluate(batch);
    let values = values.and_then(|values| values.into_array(batch.num_rows()));
    let integers = values.and_then(|values| match values.data_type() {
        // Arrow has no cast from days to 64 bits.
        DataType::Date32 => Ok(cast(&cast(&values, &DataType::Int32)?, &DataType::Int64)?),
        _ => Ok(cast(&values, &DataType::Int64)?),
    });
    match integers {
        Ok(array) => match array.as_primitive_opt::<Int64Type>() {
            Some(integers) => {
                let nulls = (integers.null_count() > 0).then_some(&array);
                keys.note(partition, integers.values(), nulls, ctx);
            }
            None => keys.give_up(),
        },
        // The join raises what there is to raise.
        Err(_) => keys.give_up(),
    }
}

impl DisplayAs for JoinKeysExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinKeysExec: {}", self.key)
    }
}

impl ExecutionPlan for JoinKeysExec {
    fn name(&self) -> &str {
        "JoinKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        visit(&self.key)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("JoinKeysExec has one input");
        };
        // With other partitions than were counted it would not be known when all keys have come.
        let partitions =
            |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
        if partitions(&input) != partitions(&self.input) {
            self.keys.give_up();
        }
        Ok(Arc::new(Self {
            input,
            key: Arc::clone(&self.key),
            keys: Arc::clone(&self.keys),
        }))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // The scans' filters are no longer this join's.
        let keys = JoinKeys::new(self.keys.filter, 0);
        keys.give_up();
        Ok(Arc::new(Self {
            input: Arc::clone(&self.input),
            key: Arc::clone(&self.key),
            keys: Arc::new(keys),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, Arc::clone(&ctx))?;
        let schema = rows.schema();
        let (key, keys) = (Arc::clone(&self.key), Arc::clone(&self.keys));
        let noted = futures::stream::unfold(rows, move |mut rows| {
            let (key, keys, ctx) = (Arc::clone(&key), Arc::clone(&keys), Arc::clone(&ctx));
            async move {
                let batch = rows.next().await;
                match &batch {
                    Some(Ok(batch)) => note(batch, &key, &keys, partition, &ctx),
                    Some(Err(_)) => keys.give_up(),
                    None => keys.end(partition),
                }
                batch.map(|batch| (batch, rows))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, noted)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input_stats {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("JoinKeysExec has one input"),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
