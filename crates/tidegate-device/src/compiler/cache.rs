//! Compiled programs, kept in memory and in a folder, each compiled once.
//!
//! Whoever asks for a program while it is read or compiled waits for that one, and other programs go on.
//! Memory holds the programs used last; what falls out is still in the folder.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::key::Key;
use super::store::Store;
use super::{CompileError, Compiled, Compiler, options};
use crate::threads::Threads;

/// Programs that memory holds; one is some tens of kilobytes.
const NUM_PROGRAMS_MAX: u64 = 512;

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
    /// By the key's text: a hash alone could give another program.
    programs: Cache<String, Arc<Compiled>>,
    counters: Mutex<ImageCounters>,
    is_warm: AtomicBool,
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
            programs: Cache::builder()
                .max_capacity(NUM_PROGRAMS_MAX)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
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
        let mut is_known = true;
        let program = inner.programs.try_get_with_by_ref(&key.text, || {
            is_known = false;
            match inner.read(&key) {
                Some(read) => Ok(read),
                None => inner.compile(&key, name, source, architecture, extra),
            }
        });
        if is_known {
            inner.counters.lock().memory_hits += 1;
        }
        program.map_err(Arc::unwrap_or_clone)
    }

    /// Returns the compiled program if memory or the folder has it; never compiles, and never waits
    /// for a compilation.
    pub fn peek(&self, source: &str, architecture: &str, extra: &[&str]) -> Option<Arc<Compiled>> {
        let inner = &*self.0;
        let key = inner.key(source, architecture, extra);
        if let Some(known) = inner.programs.get(&key.text) {
            inner.counters.lock().memory_hits += 1;
            return Some(known);
        }
        let read = inner.read(&key)?;
        inner.programs.insert(key.text, Arc::clone(&read));
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

impl fmt::Debug for ImageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageCache")
            .field("version", &self.0.version)
            .field("counters", &self.counters())
            .field("disk_trouble", &self.disk_trouble())
            .finish_non_exhaustive()
    }
}
