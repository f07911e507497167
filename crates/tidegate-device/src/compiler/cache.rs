//! Compiled programs, kept in memory and in a folder, each compiled once.
//!
//! A key has a cell of its own, whose lock is held while its program is read or compiled: whoever
//! asks for it meanwhile waits for that one, and other keys go on. Memory holds the programs used
//! last; what falls out is still in the folder.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use parking_lot::Mutex;

use super::key::Key;
use super::store::Store;
use super::{CompileError, Compiled, Compiler, options};
use crate::threads::Threads;

/// Programs that memory holds; one is some tens of kilobytes.
const NUM_PROGRAMS_MAX: usize = 512;

/// What a cache did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImageCounters {
    /// Programs found in memory, also those that another request was compiling.
    pub memory_hits: u64,
    /// Programs read from the folder.
    pub disk_hits: u64,
    /// Programs compiled, failures included.
    pub compiled: u64,
    /// Time spent compiling, summed over threads.
    pub compile_seconds: f64,
}

/// A cache of compiled programs, for any number of threads. Clones share it.
#[derive(Clone)]
pub struct ImageCache(Arc<Inner>);

type Compile = dyn Fn(&str, &str, &str, &[&str]) -> Result<Compiled, CompileError> + Send + Sync;

struct Inner {
    version: (u32, u32),
    compile: Box<Compile>,
    threads: Threads,
    store: Option<Store>,
    cells: Mutex<Cells>,
    counters: Mutex<ImageCounters>,
    is_warm: AtomicBool,
}

/// A program, or why there is none, once that is known.
type Cell = Mutex<Option<Result<Arc<Compiled>, CompileError>>>;

#[derive(Default)]
struct Cells {
    /// By the key's text: a hash alone could give another program.
    by_key: HashMap<String, (Arc<Cell>, u64)>,
    /// Counts requests, to tell which program was used last.
    clock: u64,
}

impl ImageCache {
    /// Makes a cache over a compiler, in memory alone or with a folder. The folder is made when it
    /// is first needed.
    pub fn new(compiler: Compiler, folder: Option<PathBuf>) -> Self {
        let (version, threads) = (compiler.version(), compiler.threads().clone());
        let compile = move |name: &str, source: &str, architecture: &str, extra: &[&str]| {
            compiler.compile(name, source, architecture, extra)
        };
        Self::over(version, threads, Box::new(compile), folder)
    }

    pub(super) fn over(
        version: (u32, u32),
        threads: Threads,
        compile: Box<Compile>,
        folder: Option<PathBuf>,
    ) -> Self {
        Self(Arc::new(Inner {
            version,
            compile,
            threads,
            store: folder.map(Store::new),
            cells: Mutex::default(),
            counters: Mutex::default(),
            is_warm: AtomicBool::new(false),
        }))
    }

    /// Returns the compiled program: from memory, from the folder, or compiled now, which blocks. A
    /// program that another thread is compiling is waited for.
    ///
    /// # Errors
    /// Those of [`Compiler::compile`]; they are not kept, and the next request tries again.
    pub fn get(
        &self,
        name: &str,
        source: &str,
        architecture: &str,
        extra: &[&str],
    ) -> Result<Arc<Compiled>, CompileError> {
        let inner = &*self.0;
        let key = inner.key(source, architecture, extra);
        let cell = inner.cells.lock().cell(&key);
        let mut known = cell.lock();
        if let Some(outcome) = &*known {
            inner.counters.lock().memory_hits += 1;
            return outcome.clone();
        }
        if let Some(read) = inner.read(&key) {
            *known = Some(Ok(Arc::clone(&read)));
            return Ok(read);
        }
        let outcome = inner.compile(&key, name, source, architecture, extra);
        *known = Some(outcome.clone());
        if outcome.is_err() {
            inner.cells.lock().forget(&key, &cell);
        }
        outcome
    }

    /// Returns the compiled program if memory or the folder has it; never compiles, and never waits
    /// for a compilation.
    pub fn peek(&self, source: &str, architecture: &str, extra: &[&str]) -> Option<Arc<Compiled>> {
        let inner = &*self.0;
        let key = inner.key(source, architecture, extra);
        let known_cell = inner.cells.lock().find(&key);
        if let Some(cell) = known_cell {
            let compiled = cell.try_lock()?.clone()?.ok()?;
            inner.counters.lock().memory_hits += 1;
            return Some(compiled);
        }
        let read = inner.read(&key)?;
        let cell = inner.cells.lock().cell(&key);
        if let Some(mut known) = cell.try_lock() {
            *known = Some(Ok(Arc::clone(&read)));
        }
        Some(read)
    }

    /// Returns the threads that compile.
    pub fn threads(&self) -> &Threads {
        &self.0.threads
    }

    /// Returns what the cache did so far.
    pub fn counters(&self) -> ImageCounters {
        *self.0.counters.lock()
    }

    /// Says why the last program could not be kept in the folder, if it could not.
    pub fn disk_trouble(&self) -> Option<String> {
        self.0.store.as_ref().and_then(Store::trouble)
    }

    /// Starts NVRTC in the background, by compiling a program like those to come: code
    /// and memory that it needs for any are then there. The second and later calls do nothing; what
    /// comes of it shows when a program is compiled.
    pub fn warm_up(&self, source: String, architecture: String) -> WarmUp {
        if self.0.is_warm.swap(true, Ordering::Relaxed) {
            return WarmUp(None);
        }
        let inner = Arc::clone(&self.0);
        let (is_warm, warm) = mpsc::channel::<()>();
        self.0.threads.run(move || {
            let _is_warm = is_warm;
            let _ = (inner.compile)("warm_up.cu", &source, &architecture, &[]);
        });
        WarmUp(Some(Mutex::new(warm)))
    }
}

/// NVRTC on its way to be warm. Dropping it waits for that: a process that ends while NVRTC compiles may
/// crash there.
#[derive(Debug)]
#[must_use = "dropping it waits for the compiler"]
pub struct WarmUp(Option<Mutex<mpsc::Receiver<()>>>);

impl Drop for WarmUp {
    fn drop(&mut self) {
        if let Some(warm) = self.0.take() {
            // Nothing is sent: it ends with the other side.
            let _ = warm.into_inner().recv();
        }
    }
}

impl Inner {
    fn key(&self, source: &str, architecture: &str, extra: &[&str]) -> Key {
        let options = options::list(self.version, architecture, source, extra);
        Key::new(self.version, &options, source)
    }

    fn read(&self, key: &Key) -> Option<Arc<Compiled>> {
        let read = self.store.as_ref()?.read(key)?;
        self.counters.lock().disk_hits += 1;
        Some(Arc::new(read))
    }

    fn compile(
        &self,
        key: &Key,
        name: &str,
        source: &str,
        architecture: &str,
        extra: &[&str],
    ) -> Result<Arc<Compiled>, CompileError> {
        let started = Instant::now();
        let outcome = (self.compile)(name, source, architecture, extra);
        let mut counters = self.counters.lock();
        counters.compiled += 1;
        counters.compile_seconds += started.elapsed().as_secs_f64();
        drop(counters);
        let compiled = outcome?;
        if let Some(store) = &self.store {
            store.write(key, &compiled);
        }
        Ok(Arc::new(compiled))
    }
}

impl Cells {
    fn find(&mut self, key: &Key) -> Option<Arc<Cell>> {
        self.clock += 1;
        let (cell, used) = self.by_key.get_mut(&key.text)?;
        *used = self.clock;
        Some(Arc::clone(cell))
    }

    fn cell(&mut self, key: &Key) -> Arc<Cell> {
        if let Some(cell) = self.find(key) {
            return cell;
        }
        if self.by_key.len() >= NUM_PROGRAMS_MAX {
            self.drop_oldest();
        }
        let cell = Arc::new(Cell::default());
        let entry = (Arc::clone(&cell), self.clock);
        self.by_key.insert(key.text.clone(), entry);
        cell
    }

    fn drop_oldest(&mut self) {
        let oldest = self.by_key.iter().min_by_key(|(_, (_, used))| *used);
        if let Some(text) = oldest.map(|(text, _)| text.clone()) {
            self.by_key.remove(&text);
        }
    }

    /// Removes this cell, but not one that took its place.
    fn forget(&mut self, key: &Key, cell: &Arc<Cell>) {
        let is_it = |(held, _): &(Arc<Cell>, u64)| Arc::ptr_eq(held, cell);
        if self.by_key.get(&key.text).is_some_and(is_it) {
            self.by_key.remove(&key.text);
        }
    }
}

impl fmt::Debug for ImageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageCache")
            .field("version", &self.0.version)
            .field("counters", &self.counters())
            .field("disk_trouble", &self.disk_trouble())
            .finish_non_exhaustive()
    }
}
