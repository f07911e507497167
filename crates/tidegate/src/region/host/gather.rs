//! Groups of all partitions of a region, gathered: where there are many, they leave no partition as states,
//! but meet as records, which are merged into values.
//!
//! All inputs fold first. Once one of them has to let states leave, for lack of memory or because rows were
//! declined, all do, and the final aggregate merges them. Otherwise, when the last input has ended and one
//! of them made records, all make records of what they have left, and outputs merge partitions of records.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use parking_lot::Mutex;
use tidegate_kernels::host::{Declined, HostProgram, Merge, PARTITIONS, Partition, SharedStrings};
use tokio::sync::{mpsc, watch};

use super::fold::{PartitionFold, no_state};

/// Bytes of records that are merged at once, if a partition does not have more: their groups fit the
/// second level of cache.
const MERGED_BYTES: usize = 256 << 10;

/// Bytes of groups and of the batches that leave of them, for each byte of records.
const BYTES_PER_RECORD_BYTE: usize = 6;

/// How far the gathering is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Inputs fold their rows.
    Folding,
    /// All have ended, and make records of the groups that they have left.
    Recording,
    /// All groups are records, which are put together.
    Collecting,
    /// Outputs merge them.
    Merging,
    /// States leave for the final aggregate.
    States,
}

/// What inputs and outputs of an execution share.
pub(super) struct Gather {
    strings: Arc<SharedStrings>,
    num_inputs: usize,
    num_outputs: usize,
    phase: watch::Sender<Phase>,
    books: Mutex<Books>,
    partitions: OnceLock<Vec<Mutex<Vec<Partition>>>>,
    /// Partitions that are merged at once.
    at_once: AtomicUsize,
    /// The next partition to be merged.
    next: AtomicUsize,
}

struct Books {
    ended: usize,
    some_made_records: bool,
    recorded: usize,
    /// The bytes of all records.
    bytes: usize,
    records: Vec<Vec<Partition>>,
    /// The memory of the records, and of what they are merged into.
    memory: Vec<MemoryReservation>,
}

impl Gather {
    pub(super) fn new(
        program: &HostProgram,
        (num_inputs, num_outputs): (usize, usize),
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        let memory = MemoryConsumer::new("HostGroupsExec").register(pool);
        Self {
            strings: program.shared_strings(),
            num_inputs,
            num_outputs,
            phase: watch::Sender::new(Phase::Folding),
            books: Mutex::new(Books {
                ended: 0,
                some_made_records: false,
                recorded: 0,
                bytes: 0,
                records: Vec::new(),
                memory: vec![memory],
            }),
            partitions: OnceLock::new(),
            at_once: AtomicUsize::new(1),
            next: AtomicUsize::new(0),
        }
    }

    /// Returns the strings of all records.
    pub(super) fn strings(&self) -> &Arc<SharedStrings> {
        &self.strings
    }

    /// Returns whether inputs may begin to make records.
    pub(super) fn is_folding(&self) -> bool {
        *self.phase.borrow() == Phase::Folding
    }

    /// Returns whether it is open how groups leave.
    pub(super) fn is_undecided(&self) -> bool {
        !matches!(*self.phase.borrow(), Phase::Merging | Phase::States)
    }

    /// Has all groups leave as states; nothing else was decided yet.
    pub(super) fn leave_as_states(&self) {
        self.go_on(|phase| match phase {
            Phase::Folding | Phase::Recording => Some(Phase::States),
            Phase::Collecting | Phase::Merging | Phase::States => None,
        });
    }

    fn go_on(&self, next: impl Fn(Phase) -> Option<Phase>) {
        self.phase.send_if_modified(|phase| match next(*phase) {
            Some(next) => {
                *phase = next;
                true
            }
            None => false,
        });
    }

    /// Waits for a phase that fulfils a condition, and returns it.
    async fn phase(&self, is_it: impl Fn(Phase) -> bool) -> Phase {
        let mut phase = self.phase.subscribe();
        // The sender is here, so that there is no end.
        match phase.wait_for(|phase| is_it(*phase)).await {
            Ok(phase) => *phase,
            Err(_) => Phase::States,
        }
    }

    /// Waits until it is decided how groups leave; returns whether they are merged here.
    pub(super) async fn merges(&self) -> bool {
        let is_it = |phase| matches!(phase, Phase::Merging | Phase::States);
        self.phase(is_it).await == Phase::Merging
    }

    /// Notes that an input has ended, and waits for the others; returns whether groups become records.
    async fn ended(&self, makes_records: bool) -> bool {
        {
            let mut books = self.books.lock();
            books.ended += 1;
            books.some_made_records |= makes_records;
            if books.ended == self.num_inputs {
                let next = match books.some_made_records {
                    true => Phase::Recording,
                    false => Phase::States,
                };
                self.go_on(|phase| (phase == Phase::Folding).then_some(next));
            }
        }
        self.phase(|phase| phase != Phase::Folding).await != Phase::States
    }

    /// Notes the records of an input, and waits for the others; returns whether all are merged.
    async fn recorded(&self, records: &[Partition]) -> bool {
        {
            let mut books = self.books.lock();
            books.recorded += 1;
            books.bytes += records.iter().map(Partition::memory_bytes).sum::<usize>();
            if books.recorded == self.num_inputs {
                let at_once = (PARTITIONS * MERGED_BYTES / books.bytes.max(1)).max(1);
                let at_once = at_once.min((PARTITIONS / self.num_outputs.max(1)).max(1));
                self.at_once.store(at_once, Ordering::Relaxed);
                // Groups are spread evenly: a partition with many more records has them of few groups.
                let merged = (books.bytes / PARTITIONS * 2).max(MERGED_BYTES.min(books.bytes));
                let wanted = merged * BYTES_PER_RECORD_BYTE * self.num_outputs;
                let wanted = wanted + self.strings.memory_bytes();
                let memory = books.memory.first().map(|memory| memory.try_grow(wanted));
                let next = match memory {
                    Some(Ok(())) => Phase::Collecting,
                    _ => Phase::States,
                };
                self.go_on(|phase| (phase == Phase::Recording).then_some(next));
            }
        }
        self.phase(|phase| phase != Phase::Recording).await != Phase::States
    }

    /// Puts the records of an input to the others.
    fn collect(&self, records: Vec<Partition>, memory: MemoryReservation) {
        let bytes: usize = records.iter().map(Partition::memory_bytes).sum();
        memory.resize(bytes.min(memory.size()));
        let mut books = self.books.lock();
        books.records.push(records);
        books.memory.push(memory);
        if books.records.len() < self.num_inputs {
            return;
        }
        let mut partitions: Vec<Vec<Partition>> = (0..PARTITIONS).map(|_| Vec::new()).collect();
        for records in books.records.drain(..) {
            for (partition, records) in partitions.iter_mut().zip(records) {
                partition.push(records);
            }
        }
        let partitions = partitions.into_iter().map(Mutex::new).collect();
        if self.partitions.set(partitions).is_ok() {
            self.go_on(|_| Some(Phase::Merging));
        }
    }

    /// Takes the records of the next partitions; `None` if there are no more.
    pub(super) fn claim(&self) -> Option<Vec<Partition>> {
        let at_once = self.at_once.load(Ordering::Relaxed);
        let from = self.next.fetch_add(at_once, Ordering::Relaxed);
        let partitions = self.partitions.get()?;
        let claimed = partitions.get(from..PARTITIONS.min(from + at_once))?;
        let claimed = claimed
            .iter()
            .flat_map(|partition| std::mem::take(&mut *partition.lock()));
        (from < PARTITIONS).then(|| claimed.collect())
    }

    /// Gives the memory of merged records back.
    pub(super) fn free(&self, bytes: usize) {
        let books = self.books.lock();
        let mut rest = bytes;
        for memory in books.memory.iter().skip(1) {
            let freed = rest.min(memory.size());
            memory.shrink(freed);
            rest -= freed;
        }
    }

    /// Gives all memory back if all records were merged.
    pub(super) fn free_if_merged(&self) {
        if self.next.load(Ordering::Relaxed) >= PARTITIONS {
            self.books.lock().memory.clear();
        }
    }
}

/// Runs one input: batches of states go to `states`, if states leave.
pub(super) async fn run_input(
    gather: &Gather,
    mut folding: PartitionFold,
    states: &mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    send_all(gather, &mut folding, states).await?;
    if gather.ended(folding.has_records()).await {
        match folding.record() {
            Some((records, memory)) => {
                if gather.recorded(&records).await {
                    gather.collect(records, memory);
                    return Ok(());
                }
                folding.leave(records, memory)?;
            }
            None => gather.leave_as_states(),
        }
    }
    folding.take_state()?;
    send_all(gather, &mut folding, states).await
}

/// Sends what leaves an input.
async fn send_all(
    gather: &Gather,
    folding: &mut PartitionFold,
    states: &mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    while let Some(batch) = folding.next().await? {
        gather.leave_as_states();
        if states.send(Ok(batch)).await.is_err() {
            // Nobody wants them any more.
            return Ok(());
        }
    }
    Ok(())
}

/// Records of one partition of a region that leave as states.
pub(super) struct LeavingRecords {
    merge: Merge,
    partitions: VecDeque<Partition>,
    bytes: usize,
}

impl LeavingRecords {
    pub(super) fn new(
        program: &Arc<HostProgram>,
        strings: &Arc<SharedStrings>,
        records: Vec<Partition>,
    ) -> std::result::Result<Self, Declined> {
        Ok(Self {
            merge: Merge::new(program, strings)?,
            bytes: records.iter().map(Partition::memory_bytes).sum(),
            partitions: records.into(),
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.merge.memory_bytes()
    }

    /// Returns states of about so many groups, or more; `None` if there are no more.
    pub(super) fn next(&mut self, batch_rows: usize) -> Result<Option<Vec<RecordBatch>>> {
        self.merge.restart();
        while self.merge.num_groups() < batch_rows {
            let Some(mut partition) = self.partitions.pop_front() else {
                break;
            };
            self.bytes -= partition.memory_bytes().min(self.bytes);
            while self.merge.add_some(&mut partition).map_err(no_state)? {}
        }
        if self.merge.num_groups() == 0 {
            return Ok(None);
        }
        let batches = self.merge.batches(None, batch_rows);
        Ok(Some(batches.map_err(no_state)?))
    }
}
