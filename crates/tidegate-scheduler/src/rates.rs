//! Learned speed of host and devices, for each shape of pipeline.
//!
//! [`Rates`] starts from a calibration of this machine, learns from every run and morsel by
//! exponential smoothing, and is kept across processes. A shape without measurements starts from
//! what was measured of all shapes on the same device; a device without measurements starts from
//! its declared rates, and is doubted.

mod calibrate;
mod shape;
mod smooth;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate_device::{DeviceInfo, DeviceKind, DeviceRates};

use crate::place::RegionForm;

pub use calibrate::{host_seconds_per_row, measure};
pub use shape::ShapeKey;
use smooth::Smoothed;
use store::Store;

/// How much slower than declared a device is counted of which nothing was ever measured, and one
/// that was measured under other shapes only.
const DOUBT_UNMEASURED: f64 = 4.0;
const DOUBT_OTHER_SHAPE: f64 = 2.0;

/// What loading a row for a device is taken to cost, in host seconds per row, until it was measured:
/// reading is about half of what a host partition does with a row.
const LOAD_SHARE: f64 = 0.5;

/// Seconds that compiling the kernels of a shape is taken to need until it was seen.
///
/// NVRTC 13 for a group-by: 0.25 to 0.65 s of a core of the development machine.
const COMPILE_SECONDS: f64 = 0.4;

/// Shapes that are remembered; the ones that were not used for longest go first.
const SHAPES_MAX: usize = 1024;

/// Time between two writes of the book.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How fast a device is taken to be for one shape. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRate {
    /// To read a row on the host for a device.
    pub load_seconds_per_row: f64,
    /// To move a byte, either way; to a device encoding it included.
    pub transfer_seconds_per_byte: f64,
    /// To move a byte to a device that lies in pinned memory as the device stores it.
    pub pinned_seconds_per_byte: f64,
    /// To run the program over a row that is on the device.
    pub kernel_seconds_per_row: f64,
    /// What a launch costs before its first row.
    pub launch_seconds: f64,
    /// How much slower to count it than that: 1 once the shape was measured here.
    pub doubt: f64,
}

impl DeviceRate {
    /// Returns the rows that a launch may take to be done within `seconds`; at least one.
    pub fn rows_within(&self, seconds: f64) -> u64 {
        let rows = seconds / self.kernel_seconds_per_row.max(f64::MIN_POSITIVE);
        (rows as u64).max(1)
    }

    /// Returns the rate for rows in pinned memory, which need not be read.
    pub fn from_pinned(self) -> Self {
        Self {
            load_seconds_per_row: 0.0,
            transfer_seconds_per_byte: self.pinned_seconds_per_byte,
            ..self
        }
    }
}

/// What is remembered, as it is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Book {
    /// A row on one host partition, over all shapes.
    host: Smoothed,
    devices: BTreeMap<String, DeviceEntry>,
    shapes: BTreeMap<ShapeKey, ShapeEntry>,
    /// Counts uses of shapes, to tell which is oldest.
    uses: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct DeviceEntry {
    transfer: Smoothed,
    /// A byte that is moved from pinned memory as it lies there.
    #[serde(default)]
    pinned: Smoothed,
    kernel: Smoothed,
    #[serde(default)]
    launch: Smoothed,
    /// Compiling the kernels of a shape for the first time.
    #[serde(default)]
    compile: Smoothed,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ShapeEntry {
    host: Smoothed,
    /// The host engine ran what `host` was learned of, and not DataFusion's operators.
    #[serde(default)]
    on_host_engine: bool,
    load: Smoothed,
    kernel: BTreeMap<String, Smoothed>,
    /// A claimed byte on its way to a device, encoding included.
    #[serde(default)]
    transfer: BTreeMap<String, Smoothed>,
    /// Bringing a device's state back.
    #[serde(default)]
    finish: BTreeMap<String, Smoothed>,
    /// Getting kernels ready in a process that has not got them, whether they are compiled or were kept.
    #[serde(default)]
    compile: BTreeMap<String, Smoothed>,
    /// Bytes of a device's state when it came back.
    state: Smoothed,
    /// The most host bytes that a statement with it held.
    #[serde(default)]
    peak: Smoothed,
    form: Option<RegionForm>,
    last_use: u64,
}

/// The rates of one process, by shape and device.
#[derive(Debug)]
pub struct Rates {
    book: Mutex<Book>,
    /// What a row takes a host partition if nothing was ever measured.
    host_start: f64,
    store: Option<Store>,
    saved: Mutex<Option<Instant>>,
}

impl Default for Rates {
    fn default() -> Self {
        Self::new(1.0 / HOST_ROWS_PER_SECOND)
    }
}

/// Rows a host partition is taken to get through in a second where nothing was measured.
///
/// A filter and group-by over Parquet on one core of the development machine: 10 to 40 million.
pub const HOST_ROWS_PER_SECOND: f64 = 2e7;

impl Rates {
    /// Makes a book that starts from this time per row of a host partition, in memory alone.
    pub fn new(host_seconds_per_row: f64) -> Self {
        Self {
            book: Mutex::default(),
            host_start: host_seconds_per_row,
            store: None,
            saved: Mutex::new(None),
        }
    }

    /// Opens the book that is kept for this machine in `folder`. What cannot be read, or was
    /// written by another version or machine, is a fresh book, which is calibrated here and now: a
    /// few milliseconds of one core.
    pub fn open(folder: Option<PathBuf>) -> Self {
        let store = folder.map(Store::new);
        let book = store.as_ref().and_then(Store::read).unwrap_or_default();
        let host_start = if book.host.is_measured() {
            1.0 / HOST_ROWS_PER_SECOND
        } else {
            host_seconds_per_row()
        };
        Self {
            book: Mutex::new(book),
            host_start,
            store,
            saved: Mutex::new(None),
        }
    }

    /// Returns what a row of this shape takes one host partition, in seconds.
    pub fn host(&self, shape: ShapeKey) -> f64 {
        let book = self.book.lock();
        let own = book.shapes.get(&shape).map(|entry| entry.host);
        own.unwrap_or_default()
            .or(book.host)
            .value_or(self.host_start)
    }

    /// Returns whether a host partition was ever seen to run this shape.
    pub fn host_is_measured(&self, shape: ShapeKey) -> bool {
        let book = self.book.lock();
        let own = book.shapes.get(&shape);
        own.is_some_and(|entry| entry.host.is_measured())
    }

    /// Says whether the host engine runs this shape on the host from now on, or DataFusion's operators do.
    /// What was learned of the other one is forgotten.
    pub fn host_runs_on_engine(&self, shape: ShapeKey, on_host_engine: bool) {
        let mut book = self.book.lock();
        let entry = book.entry(shape);
        if entry.on_host_engine != on_host_engine {
            entry.on_host_engine = on_host_engine;
            entry.host = Smoothed::default();
        }
    }

    /// Returns how many bytes of state a device is taken to bring back for this shape.
    pub fn state_bytes(&self, shape: ShapeKey) -> f64 {
        let book = self.book.lock();
        let own = book.shapes.get(&shape).map(|entry| entry.state);
        own.unwrap_or_default().value_or(0.0)
    }

    /// Learns how many bytes of state a device brought back; none is nothing to learn from.
    pub fn learn_state(&self, shape: ShapeKey, bytes: u64) {
        self.book.lock().entry(shape).state.learn(bytes as f64);
    }

    /// Returns how many bytes of host memory a statement with this shape is taken to need; 0 if
    /// nothing is known.
    pub fn peak(&self, shape: ShapeKey) -> u64 {
        let book = self.book.lock();
        let own = book.shapes.get(&shape).map(|entry| entry.peak);
        own.unwrap_or_default().value_or(0.0) as u64
    }

    /// Learns how many bytes of host memory a statement held at the most.
    pub fn learn_peak(&self, shape: ShapeKey, bytes: u64) {
        self.book.lock().entry(shape).peak.learn(bytes as f64);
    }

    /// Returns how fast a device is taken to be for this shape.
    pub fn device(&self, shape: ShapeKey, info: &DeviceInfo) -> DeviceRate {
        let host = self.host(shape);
        let book = self.book.lock();
        let entry = book.shapes.get(&shape);
        let key = device_key(info);
        let device = book.devices.get(&key).cloned().unwrap_or_default();
        let own = entry.and_then(|entry| entry.kernel.get(&key).copied());
        let own = own.unwrap_or_default();
        let own_transfer = entry.and_then(|entry| entry.transfer.get(&key).copied());
        let declared = &info.rates;
        let doubt = match (own.is_measured(), device.kernel.is_measured()) {
            (true, _) => 1.0,
            (false, true) => DOUBT_OTHER_SHAPE,
            (false, false) => DOUBT_UNMEASURED,
        };
        DeviceRate {
            load_seconds_per_row: entry
                .map(|entry| entry.load)
                .unwrap_or_default()
                .value_or(host * LOAD_SHARE),
            transfer_seconds_per_byte: own_transfer
                .unwrap_or_default()
                .or(device.transfer)
                .value_or(inverse(declared.copy_bytes_per_second)),
            pinned_seconds_per_byte: device
                .pinned
                .value_or(inverse(declared.copy_bytes_per_second)),
            kernel_seconds_per_row: own
                .or(device.kernel)
                .value_or(inverse(declared.rows_per_second)),
            launch_seconds: device.launch.value_or(declared.launch_seconds.max(0.0)),
            doubt,
        }
    }

    /// Returns whether anything was ever measured on a device of this kind.
    pub fn is_measured(&self, info: &DeviceInfo) -> bool {
        let book = self.book.lock();
        let device = book.devices.get(&device_key(info));
        device.is_some_and(|device| device.kernel.is_measured())
    }

    /// Starts from what was measured of a device, as [`measure`] does; what was learned from queries
    /// stays.
    pub fn calibrate(&self, info: &DeviceInfo, measured: &DeviceRates) {
        let mut book = self.book.lock();
        let device = book.devices.entry(device_key(info)).or_default();
        device
            .transfer
            .calibrate(inverse(measured.copy_bytes_per_second));
        device.kernel.calibrate(inverse(measured.rows_per_second));
        device.launch.calibrate(measured.launch_seconds);
    }

    /// Learns how long one host partition took for so many rows.
    pub fn learn_host(&self, shape: ShapeKey, rows: u64, seconds: f64) {
        let Some(each) = per_unit(rows, seconds) else {
            return;
        };
        let mut book = self.book.lock();
        book.host.learn(each);
        book.entry(shape).host.learn(each);
    }

    /// Learns how long reading so many rows for a device took.
    pub fn learn_load(&self, shape: ShapeKey, rows: u64, seconds: f64) {
        if let Some(each) = per_unit(rows, seconds) {
            self.book.lock().entry(shape).load.learn(each);
        }
    }

    /// Returns how long bringing a device's state back is taken to last, if that was ever seen.
    pub fn finish_seconds(&self, shape: ShapeKey, info: &DeviceInfo) -> Option<f64> {
        let book = self.book.lock();
        let finish = book.shapes.get(&shape)?.finish.get(&device_key(info))?;
        finish.is_measured().then(|| finish.value_or(0.0))
    }

    /// Learns how long bringing a device's state back took, without what compiling took of it: that is
    /// once only.
    pub fn learn_finish(&self, shape: ShapeKey, info: &DeviceInfo, seconds: f64) {
        let mut book = self.book.lock();
        let finish = &mut book.entry(shape).finish;
        finish.entry(device_key(info)).or_default().learn(seconds);
    }

    /// Returns how long a device is taken to need until it has its kernels for this shape.
    pub fn compile_seconds(&self, shape: ShapeKey, info: &DeviceInfo) -> f64 {
        let book = self.book.lock();
        let key = device_key(info);
        let own = book.shapes.get(&shape);
        let own = own.and_then(|entry| entry.compile.get(&key).copied());
        let device = book.devices.get(&key).map(|device| device.compile);
        own.unwrap_or_default()
            .or(device.unwrap_or_default())
            .value_or(COMPILE_SECONDS)
    }

    /// Learns how long a device needed to get its kernels for this shape.
    pub fn learn_compile(&self, shape: ShapeKey, info: &DeviceInfo, seconds: f64) {
        let mut book = self.book.lock();
        let key = device_key(info);
        let own = &mut book.entry(shape).compile;
        let own = own.entry(key.clone()).or_default();
        let is_first = !own.is_measured();
        own.learn(seconds);
        // Later ones find what was kept of the first, and tell nothing of other shapes.
        if is_first {
            book.devices.entry(key).or_default().compile.learn(seconds);
        }
    }

    /// Learns how long claimed rows of so many bytes took to be encoded and copied to a device.
    pub fn learn_transfer(&self, shape: ShapeKey, info: &DeviceInfo, bytes: u64, seconds: f64) {
        let Some(each) = per_unit(bytes, seconds) else {
            return;
        };
        let mut book = self.book.lock();
        let key = device_key(info);
        let device = book.devices.entry(key.clone()).or_default();
        device.transfer.learn(each);
        let transfer = &mut book.entry(shape).transfer;
        transfer.entry(key).or_default().learn(each);
    }

    /// Learns how long so many bytes of pinned memory took to be moved to a device.
    pub fn learn_pinned(&self, info: &DeviceInfo, bytes: u64, seconds: f64) {
        if let Some(each) = per_unit(bytes, seconds) {
            let mut book = self.book.lock();
            let device = book.devices.entry(device_key(info)).or_default();
            device.pinned.learn(each);
        }
    }

    /// Learns how long a device was busy with so many rows, for which so many claimed bytes moved,
    /// compiling left out. What the transfer and the kernel took apart is not known: both are taken to
    /// be wrong alike.
    pub fn learn_fold(
        &self,
        shape: ShapeKey,
        info: &DeviceInfo,
        rows: u64,
        bytes: u64,
        seconds: f64,
    ) {
        let rate = self.device(shape, info);
        let busy = seconds - rate.launch_seconds;
        if rows == 0 || busy <= 0.0 || !busy.is_finite() {
            return;
        }
        let transfer = bytes as f64 * rate.transfer_seconds_per_byte;
        let kernel = rows as f64 * rate.kernel_seconds_per_row;
        if transfer + kernel <= 0.0 {
            return;
        }
        let wrong_by = busy / (transfer + kernel);
        let mut book = self.book.lock();
        let device = book.devices.entry(device_key(info)).or_default();
        let moved = rate.transfer_seconds_per_byte * wrong_by;
        if bytes > 0 {
            device.transfer.learn(moved);
        }
        let each = rate.kernel_seconds_per_row * wrong_by;
        device.kernel.learn(each);
        let own = book.entry(shape);
        own.kernel.entry(device_key(info)).or_default().learn(each);
        if bytes > 0 {
            own.transfer
                .entry(device_key(info))
                .or_default()
                .learn(moved);
        }
    }

    /// Returns the form that a region of this shape took last.
    pub fn last_form(&self, shape: ShapeKey) -> Option<RegionForm> {
        self.book.lock().shapes.get(&shape)?.form
    }

    /// Remembers the form that a region of this shape takes.
    pub fn remember_form(&self, shape: ShapeKey, form: RegionForm) {
        self.book.lock().entry(shape).form = Some(form);
    }

    /// Writes the book if that was not done lately. Blocks for a small file; what cannot be written
    /// is not.
    pub fn save_if_due(&self) {
        let mut saved = self.saved.lock();
        if saved.is_none_or(|at| at.elapsed() >= SAVE_EVERY) {
            *saved = Some(Instant::now());
            drop(saved);
            self.save();
        }
    }

    /// Writes the book now, if it has a folder. What cannot be written is not.
    pub fn save(&self) {
        let Some(store) = &self.store else {
            return;
        };
        let book = self.book.lock().clone();
        store.write(&book);
    }
}

impl Drop for Rates {
    fn drop(&mut self) {
        self.save();
    }
}

impl Book {
    /// Finds or makes a shape's entry, and forgets the oldest if there are too many.
    fn entry(&mut self, shape: ShapeKey) -> &mut ShapeEntry {
        if self.shapes.len() >= SHAPES_MAX && !self.shapes.contains_key(&shape) {
            let oldest = self.shapes.iter().min_by_key(|(_, entry)| entry.last_use);
            if let Some(oldest) = oldest.map(|(&shape, _)| shape) {
                self.shapes.remove(&oldest);
            }
        }
        self.uses += 1;
        let uses = self.uses;
        let entry = self.shapes.entry(shape).or_default();
        entry.last_use = uses;
        entry
    }
}

/// Names a device by what decides how fast it is: GPUs of one name are alike, simulated devices are
/// what they were asked to be.
fn device_key(info: &DeviceInfo) -> String {
    match info.kind {
        DeviceKind::Cuda => info.name.clone(),
        DeviceKind::Simulated => format!("{} {:?}", info.name, info.rates),
    }
}

/// Returns the time for each of a rate that is above zero; nothing for one that takes no time.
fn inverse(per_second: f64) -> f64 {
    if per_second > 0.0 && per_second.is_finite() {
        1.0 / per_second
    } else {
        0.0
    }
}

fn per_unit(amount: u64, seconds: f64) -> Option<f64> {
    let each = seconds / amount as f64;
    (amount > 0 && each > 0.0 && each.is_finite()).then_some(each)
}

#[cfg(test)]
mod tests;
