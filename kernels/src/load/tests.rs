//! What arrives on a device is what was taken, however it is cut, by how many threads it is written and
//! whatever fails; the device's own thread encodes nothing.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema};
use parking_lot::{Condvar, Mutex};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_device::{Cost, DeviceError, DeviceId, SimulatedDevice, SimulatedSpec, Threads};
use tidegate_pipeline::Expr;

use super::{Clock, Dock, Filled, Intake, Load, Order};
use crate::backend::RunError;
use crate::encode::{EncodedColumn, Encoder, Narrowing, encode};
use crate::engine::{ResidentChunk, ResidentColumn};
use crate::program::{Slot, slot_kind};
use crate::stored::ColumnDictionary;
use crate::strings::Dictionary;

/// Takes all columns of a batch.
fn intake(batch: &RecordBatch) -> Arc<Intake> {
    let slots = batch.columns().iter().enumerate();
    let slots = slots.map(|(index, array)| Slot {
        kind: slot_kind(array.data_type()).unwrap(),
        expr: Expr::column(index, array.data_type().clone()).unwrap(),
    });
    let slots: Vec<Slot> = slots.collect();
    Arc::new(Intake {
        dictionaries: slots.iter().map(|_| ColumnDictionary::new()).collect(),
        slots,
        parameters: Vec::new(),
    })
}

/// Columns of every width, with NULLs and without, of which the last has a value that no sample meets.
fn table(rows: usize, seed: u64) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(seed);
    let mut integers = |low: i64, high: i64| -> Vec<i64> {
        (0..rows).map(|_| random.random_range(low..=high)).collect()
    };
    let nulls = integers(0, 9);
    let some = |values: Vec<i64>| -> Int64Array {
        let values = values.iter().zip(&nulls);
        values
            .map(|(value, null)| (*null != 3).then_some(*value))
            .collect()
    };
    let wide = integers(-(1 << 62), 1 << 62);
    let wide = wide.iter().map(|value| i128::from(*value) << 20);
    let strings = integers(0, 40);
    let strings = strings.iter().map(|value| format!("string {value}"));
    let mut hidden = integers(0, 200);
    if let Some(odd) = hidden.get_mut(40) {
        *odd = 1 << 40;
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(integers(7, 7))),
        Arc::new(some(integers(-100, 155))),
        Arc::new(Int64Array::from(integers(-30_000, 30_000))),
        Arc::new(some(integers(i64::MIN, i64::MAX))),
        Arc::new(Float64Array::from_iter_values(
            integers(0, 1 << 50).iter().map(|value| *value as f64 / 3.0),
        )),
        Arc::new(Decimal128Array::from_iter_values(wide)),
        Arc::new(StringArray::from_iter_values(strings)),
        Arc::new(Int64Array::from(hidden)),
    ];
    let fields = columns.iter().enumerate();
    let fields = fields
        .map(|(index, array)| Field::new(format!("c{index}"), array.data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
}

/// Returns the batch in three batches, one of which may be empty.
fn cut(batch: &RecordBatch) -> Vec<RecordBatch> {
    let ends = [
        0,
        batch.num_rows() / 3,
        batch.num_rows() / 2,
        batch.num_rows(),
    ];
    let pieces = ends.windows(2);
    pieces
        .map(|ends| batch.slice(ends[0], ends[1] - ends[0]))
        .collect()
}

/// Encodes a column as a whole, by the codes that are known.
fn whole(intake: &Intake, index: usize, batches: &[RecordBatch]) -> EncodedColumn {
    let mut known: Dictionary = intake.dictionaries[index].strings.read().clone();
    let slot = &intake.slots[index];
    encode(slot, &[], batches, &mut known, Narrowing::Width).unwrap()
}

/// Returns the value of a row as its bytes and whether it is there, from memory that begins at 0.
fn value_of(memory: &[u8], column: &ResidentColumn, row: usize) -> (Vec<u8>, bool) {
    let width = column.width as usize;
    let at = column.values as usize + row * width;
    let raw = &memory[at..at + width];
    let value = if width == 16 {
        raw.to_vec()
    } else {
        let mut word = [0; 8];
        word[..width].copy_from_slice(raw);
        let word = i64::from_le_bytes(word);
        let value = word.wrapping_mul(column.factor).wrapping_add(column.base);
        value.to_le_bytes().to_vec()
    };
    let byte = column.validity as usize + row / 8;
    let is_valid = column.validity == 0 || memory[byte] >> (row % 8) & 1 == 1;
    (value, is_valid)
}

/// Checks that the chunks in memory are the rows of these columns.
fn check_arrived(memory: &[u8], chunks: &[ResidentChunk], columns: &[EncodedColumn], rows: usize) {
    let total: u64 = chunks.iter().map(|chunk| chunk.num_rows).sum();
    assert_eq!(total as usize, rows);
    for (index, expected) in columns.iter().enumerate() {
        let words = (expected.width != 16).then(|| expected.words());
        let mut row = 0;
        for chunk in chunks {
            let column = &chunk.columns[index];
            assert_eq!(column.values % 256, 0);
            for in_chunk in 0..chunk.num_rows as usize {
                let (value, is_valid) = value_of(memory, column, in_chunk);
                assert_eq!(is_valid, expected.is_valid(row), "column {index} row {row}");
                let same = match &words {
                    Some(words) => value == words[row].to_le_bytes(),
                    None => value == expected.values[16 * row..16 * row + 16],
                };
                assert!(same, "column {index} row {row}");
                row += 1;
            }
        }
    }
}

/// Puts pieces together, in memory that nobody has cleared.
fn memory_of(load: &Load, pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut memory = vec![0xa5; load.bytes() as usize];
    for (piece, bytes) in load.pieces().iter().zip(pieces) {
        memory[piece.offset..piece.offset + piece.bytes].copy_from_slice(bytes);
    }
    memory
}

#[test]
fn rows_arrive_however_they_are_cut() {
    for rows in [0, 1, 31, 32, 33, 2_000, 20_011] {
        let batch = table(rows, rows as u64);
        let batches = cut(&batch);
        for slot_bytes in [512, 4 << 10, 100_000, 4 << 20] {
            let intake = intake(&batch);
            let (load, pieces) = intake.encode(&batches, slot_bytes).unwrap();
            let sizes = load.pieces().iter().map(|piece| piece.bytes);
            assert!(sizes.max().is_none_or(|size| size <= slot_bytes));
            let columns: Vec<EncodedColumn> = (0..batch.num_columns())
                .map(|index| whole(&intake, index, &batches))
                .collect();
            let memory = memory_of(&load, &pieces);
            check_arrived(&memory, &load.chunks(0), &columns, rows);
            for (facts, column) in load.facts().iter().zip(&columns) {
                assert_eq!(*facts, column.facts, "{rows} rows by {slot_bytes}");
            }
        }
    }
}

#[test]
fn a_small_morsel_is_one_copy_and_a_large_one_several_good_ones() {
    let few = table(5_000, 1);
    let (load, _) = intake(&few).encode(&[few], 4 << 20).unwrap();
    assert_eq!(load.pieces().len(), 1);
    let values = Int64Array::from_iter_values((0..1 << 20).map(|row| row * 7919));
    let schema = Schema::new(vec![Field::new("v", values.data_type().clone(), true)]);
    let many = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values)]).unwrap();
    let (load, _) = intake(&many).encode(&[many], 4 << 20).unwrap();
    let sizes: Vec<usize> = load.pieces().iter().map(|piece| piece.bytes).collect();
    assert!((6..=8).contains(&sizes.len()), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size >= 1 << 20), "{sizes:?}");
}

#[test]
fn no_columns_and_constants_are_rows_all_the_same() {
    let batch = table(100_000, 5).project(&[0]).unwrap();
    let (load, pieces) = intake(&batch).encode(&[batch], 4 << 20).unwrap();
    assert_eq!((load.bytes(), pieces), (0, vec![vec![]]));
    assert_eq!(load.chunks(0)[0].num_rows, 100_000);
    assert_eq!(load.facts()[0].range.low, 7);
    let none = Load::of_rows(Vec::new(), 3 << 20, 4 << 20);
    assert_eq!(none.chunks(0).len(), 3);
}

#[test]
fn a_column_that_stays_lies_in_one_stretch() {
    let batch = table(30_001, 3);
    let intake = intake(&batch);
    for index in 0..batch.num_columns() {
        let batches = cut(&batch);
        let arrays: Vec<ArrayRef> = batches
            .iter()
            .map(|cut| cut.column(index).clone())
            .collect();
        let strings = &intake.dictionaries[index].strings;
        let kind = intake.slots[index].kind;
        let encoder = Encoder::new(kind, &arrays, strings, Narrowing::Width).unwrap();
        let mut load = Load::of_column(encoder, 8 << 10);
        let mut pieces = load.fill_all();
        if !load.fits() {
            load = load.refitted();
            pieces = load.fill_all();
        }
        assert!(load.fits());
        assert_eq!(load.chunks(0).len(), 1);
        assert_eq!(load.chunks(0)[0].columns[0], load.column(0).unwrap());
        let memory = memory_of(&load, &pieces);
        let column = whole(&intake, index, &batches);
        check_arrived(&memory, &load.chunks(0), &[column], batch.num_rows());
    }
}

/// A simulated device's dock: its memory and its slots are the host's.
struct Pier {
    device: SimulatedDevice,
    threads: Threads,
    clock: Clock,
    slots: Arc<Slots>,
    slot_bytes: usize,
    num_sent: AtomicUsize,
    num_copied: Arc<AtomicUsize>,
    /// Threads that took slots to encode.
    encoders: Mutex<HashSet<ThreadId>>,
    /// Where copies were done.
    copiers: Arc<Mutex<HashSet<ThreadId>>>,
}

struct Slots {
    free: Mutex<Vec<Vec<u8>>>,
    changed: Condvar,
    num_made: AtomicUsize,
    num_max: usize,
}

struct HostSlot {
    bytes: Vec<u8>,
    home: Arc<Slots>,
}

impl Deref for HostSlot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for HostSlot {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for HostSlot {
    fn drop(&mut self) {
        self.home.free.lock().push(std::mem::take(&mut self.bytes));
        self.home.changed.notify_one();
    }
}

/// Device memory, and whether all copies to it were done.
#[derive(Default)]
struct HostMemory {
    bytes: Mutex<Vec<u8>>,
    failure: Mutex<Option<DeviceError>>,
}

/// A copy on its way; dropped before it was done it has failed.
struct Copying(Arc<HostMemory>, bool);

impl Drop for Copying {
    fn drop(&mut self) {
        if !self.1 {
            *self.0.failure.lock() = Some(refused());
        }
    }
}

/// Calls what it holds when it is dropped, also by a lost device.
struct CalledOnce(Option<Box<dyn FnOnce() + Send>>);

impl Drop for CalledOnce {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

fn refused() -> DeviceError {
    DeviceError::Refused {
        device: DeviceId(0),
        what: "copy".into(),
        why: "a test".into(),
    }
}

impl Pier {
    fn new(spec: SimulatedSpec, num_slots: usize, slot_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            device: SimulatedDevice::new(DeviceId(0), spec).unwrap(),
            threads: Threads::new("test", 4),
            clock: Clock::default(),
            slots: Arc::new(Slots {
                free: Mutex::default(),
                changed: Condvar::new(),
                num_made: AtomicUsize::new(0),
                num_max: num_slots,
            }),
            slot_bytes,
            num_sent: AtomicUsize::new(0),
            num_copied: Arc::default(),
            encoders: Mutex::default(),
            copiers: Arc::default(),
        })
    }

    /// Loads a batch and waits for it.
    fn load(
        self: &Arc<Self>,
        batch: &RecordBatch,
        intake: &Arc<Intake>,
    ) -> Result<Filled<Self>, RunError> {
        let (sender, filled) = mpsc::channel();
        let then = move |outcome| sender.send(outcome).unwrap();
        Order::begin(self, intake, cut(batch), || true, then);
        filled.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Waits until the device has done what it was asked for, or is lost.
    fn synchronize(&self) {
        let _ = futures::executor::block_on(self.device.submit(Cost::default(), || ()));
    }

    /// All slots come back, also those that others are about to give back.
    fn check_slots(&self) {
        let began = Instant::now();
        while self.slots.free.lock().len() < self.slots.num_made.load(Ordering::Acquire) {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "slots are missing"
            );
            thread::sleep(Duration::from_millis(1));
        }
        assert!(self.slots.num_made.load(Ordering::Acquire) <= self.slots.num_max);
    }
}

impl Dock for Pier {
    type Slot = HostSlot;
    type Memory = HostMemory;

    fn threads(&self) -> &Threads {
        &self.threads
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn slot(&self) -> Result<HostSlot, DeviceError> {
        self.encoders.lock().insert(thread::current().id());
        let home = Arc::clone(&self.slots);
        let mut free = self.slots.free.lock();
        loop {
            if let Some(bytes) = free.pop() {
                return Ok(HostSlot { bytes, home });
            }
            if self.slots.num_made.load(Ordering::Acquire) < self.slots.num_max {
                self.slots.num_made.fetch_add(1, Ordering::AcqRel);
                let bytes = vec![0xa5; self.slot_bytes];
                return Ok(HostSlot { bytes, home });
            }
            self.device.check_alive()?;
            let patience = Duration::from_millis(1);
            self.slots.changed.wait_for(&mut free, patience);
        }
    }

    fn memory(&self, bytes: u64) -> HostMemory {
        HostMemory {
            bytes: Mutex::new(vec![0; bytes as usize]),
            ..HostMemory::default()
        }
    }

    fn send(&self, memory: &Arc<HostMemory>, offset: usize, slot: HostSlot, bytes: usize) {
        let mut copying = Copying(Arc::clone(memory), false);
        let (copiers, num_copied) = (Arc::clone(&self.copiers), Arc::clone(&self.num_copied));
        self.num_sent.fetch_add(1, Ordering::AcqRel);
        let copy = move || {
            let to = &mut copying.0.bytes.lock()[offset..offset + bytes];
            to.copy_from_slice(&slot[..bytes]);
            copiers.lock().insert(thread::current().id());
            copying.1 = true;
            num_copied.fetch_add(1, Ordering::AcqRel);
        };
        let cost = Cost {
            copy_bytes: bytes as u64,
            rows: 0,
        };
        drop(self.device.submit(cost, copy));
    }

    fn behind_copies(&self, then: Box<dyn FnOnce() + Send>) {
        let then = CalledOnce(Some(then));
        drop(self.device.submit(Cost::default(), move || drop(then)));
    }

    fn failure(&self, memory: &HostMemory) -> Option<DeviceError> {
        memory.failure.lock().clone()
    }
}

fn quick() -> SimulatedSpec {
    SimulatedSpec::with_memory(1 << 30)
}

#[test]
fn the_devices_thread_encodes_nothing_and_few_slots_do() {
    let pier = Pier::new(quick(), 3, 16 << 10);
    let batch = table(20_000, 9);
    let intake = intake(&batch);
    let loads: Vec<_> = (0..6)
        .map(|_| {
            let (sender, filled) = mpsc::channel();
            let then = move |outcome| sender.send(outcome).unwrap();
            Order::begin(&pier, &intake, cut(&batch), || true, then);
            filled
        })
        .collect();
    for filled in loads {
        let Filled {
            load,
            memory,
            seconds,
        } = filled
            .recv_timeout(Duration::from_secs(60))
            .unwrap()
            .unwrap();
        assert!(seconds >= 0.0);
        pier.synchronize();
        assert_eq!(pier.failure(&memory), None);
        let batches = cut(&batch);
        let columns: Vec<EncodedColumn> = (0..batch.num_columns())
            .map(|index| whole(&intake, index, &batches))
            .collect();
        check_arrived(
            &memory.bytes.lock(),
            &load.chunks(0),
            &columns,
            batch.num_rows(),
        );
    }
    pier.check_slots();
    let (encoders, copiers) = (pier.encoders.lock(), pier.copiers.lock());
    assert!(encoders.len() > 1 && encoders.is_disjoint(&copiers));
    assert!(!encoders.contains(&thread::current().id()));
    assert_eq!(copiers.len(), 1);
}

/// The device's thread is held until all is encoded and sent, as it is while it launches another fold: what
/// was loaded is not handed over before the copies were done.
#[test]
fn nothing_is_handed_over_before_its_copies_were_done() {
    // Slots for all pieces of both passes: while the device is held, none comes back.
    let pier = Pier::new(quick(), 1_024, 16 << 10);
    let batch = table(20_000, 9);
    let intake = intake(&batch);
    let (load, _) = intake.encode(&cut(&batch), 16 << 10).unwrap();
    let num_pieces = load.pieces().iter().filter(|piece| piece.bytes > 0).count();
    let (go_on, held) = mpsc::channel::<()>();
    drop(pier.device.submit(Cost::default(), move || held.recv()));
    let (sender, filled) = mpsc::channel();
    let num_copied = Arc::clone(&pier.num_copied);
    let then = move |outcome: Result<Filled<Pier>, RunError>| {
        let done = num_copied.load(Ordering::Acquire);
        sender.send((outcome.is_ok(), done)).unwrap();
    };
    Order::begin(&pier, &intake, cut(&batch), || true, then);
    // A value that no sample meets has it sent twice.
    let began = Instant::now();
    while pier.num_sent.load(Ordering::Acquire) < num_pieces || !pier.threads.are_idle() {
        assert!(filled.try_recv().is_err(), "copies are still to be done");
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "encoding does not end"
        );
        thread::sleep(Duration::from_millis(1));
    }
    assert!(filled.try_recv().is_err(), "copies are still to be done");
    drop(go_on);
    let (is_ok, done) = filled.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(is_ok);
    assert_eq!(done, pier.num_sent.load(Ordering::Acquire));
}

#[test]
fn a_copy_that_fails_fails_the_load_and_keeps_nothing() {
    let pier = Pier::new(quick(), 2, 16 << 10);
    let batch = table(20_000, 4);
    let intake = intake(&batch);
    for launch in [1, 2, 9] {
        let plan = format!("launch:{launch}=fail").parse().unwrap();
        pier.device.plan_faults(plan);
        let loaded = pier.load(&batch, &intake);
        pier.synchronize();
        let failure = match &loaded {
            Ok(filled) => pier.failure(&filled.memory),
            Err(RunError::Device(error)) => Some(error.clone()),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(failure, Some(refused()), "launch {launch}");
        drop(loaded);
        pier.check_slots();
    }
    pier.device.plan_faults("launch:1000=fail".parse().unwrap());
    let loaded = pier.load(&batch, &intake).unwrap();
    pier.synchronize();
    assert_eq!(pier.failure(&loaded.memory), None);
}

#[test]
fn a_lost_device_ends_all_loads_with_all_slots_back() {
    let pier = Pier::new(quick(), 2, 16 << 10);
    let batch = table(20_000, 4);
    let intake = intake(&batch);
    pier.device.plan_faults("launch:5=lost".parse().unwrap());
    let outcomes: Vec<_> = (0..4).map(|_| pier.load(&batch, &intake)).collect();
    assert!(pier.device.is_lost());
    assert!(matches!(outcomes[3], Err(RunError::Device(_))));
    drop(outcomes);
    pier.check_slots();
}

#[test]
fn what_nobody_wants_any_more_is_void() {
    let pier = Pier::new(quick(), 1, 4 << 10);
    let batch = table(50_000, 4);
    let intake = intake(&batch);
    let is_wanted = Arc::new(AtomicBool::new(true));
    let (sender, filled) = mpsc::channel();
    let then = move |outcome| sender.send(outcome).unwrap();
    // The device does nothing until it is let go on, so the one slot does not come back.
    let (go_on, held) = mpsc::channel::<()>();
    drop(pier.device.submit(Cost::default(), move || held.recv()));
    let wanted = Arc::clone(&is_wanted);
    let is_still = move || wanted.load(Ordering::Acquire);
    Order::begin(&pier, &intake, cut(&batch), is_still, then);
    is_wanted.store(false, Ordering::Release);
    drop(go_on);
    let outcome = filled.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(matches!(outcome, Err(RunError::Void)));
    pier.check_slots();
}

#[test]
fn a_thread_that_panics_is_heard_of() {
    let pier = Pier::new(quick(), 2, 16 << 10);
    let batch = table(100, 4);
    let mut short = Intake {
        slots: intake(&batch).slots.clone(),
        parameters: Vec::new(),
        dictionaries: Vec::new(),
    };
    short.dictionaries.push(ColumnDictionary::new());
    let outcome = pier.load(&batch, &Arc::new(short));
    let error = outcome.err().unwrap().to_string();
    assert!(error.contains("could not be encoded"), "{error}");
}

#[test]
fn each_moment_counts_once() {
    let clock = Clock::default();
    let began = Instant::now();
    thread::sleep(Duration::from_millis(2));
    let first = clock.tell(began);
    let second = clock.tell(began);
    assert!(first >= 0.002);
    assert!(first + second <= began.elapsed().as_secs_f64());
}
