//! From CUDA C++ to code for one architecture: NVRTC found at run time, and a cache of what it
//! compiled.
//!
//! A [`Compiler`] is one opened NVRTC. Compiling needs neither a driver nor a device. An
//! [`ImageCache`] compiles each program once: it looks in memory, then in a folder, and asks the
//! compiler last. NVRTC's own cache is turned off, so that this one is the only one.

mod cache;
mod key;
mod nvrtc;
mod options;
mod store;
mod threads;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::threads::Threads;

pub use cache::{ImageCache, ImageCounters, WarmUp};
use nvrtc::{Nvrtc, Program};
pub use options::QUICKLY;

/// A program, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// A cubin; PTX if the architecture is a virtual one.
    pub image: Vec<u8>,
    /// What the compiler said: warnings, and the registers and spills of each kernel.
    pub log: String,
}

/// Why there is no compiled program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    /// There is no NVRTC at this place that can be used.
    #[error("cannot use NVRTC at {}: {why}", place.display())]
    Unavailable {
        /// Where it was looked for.
        place: PathBuf,
        /// What came of that.
        why: String,
    },
    /// The compiler did not take the program.
    #[error("{name} does not compile: {why}\n{log}")]
    Rejected {
        /// The program's name.
        name: String,
        /// NVRTC's name for the error.
        why: String,
        /// What the compiler said.
        log: String,
    },
}

/// An opened NVRTC. Clones share it, and any number of threads may compile at once.
#[derive(Clone)]
pub struct Compiler {
    nvrtc: Arc<Nvrtc>,
    threads: Threads,
}

impl Compiler {
    /// Opens NVRTC at a path, or by a name that the system's loader knows.
    ///
    /// # Errors
    /// [`CompileError::Unavailable`].
    pub fn open(place: &Path) -> Result<Self, CompileError> {
        Nvrtc::open(place)
            .map(|nvrtc| Self {
                nvrtc: Arc::new(nvrtc),
                threads: threads::threads(),
            })
            .map_err(|why| CompileError::Unavailable {
                place: place.to_path_buf(),
                why,
            })
    }

    /// Returns NVRTC's version, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.nvrtc.version
    }

    /// Returns where NVRTC was opened.
    pub fn place(&self) -> &Path {
        &self.nvrtc.place
    }

    /// Returns the architecture to compile for a device of this compute capability: its own, such
    /// as `sm_90`, or, for one newer than this NVRTC knows, the newest virtual one, such as
    /// `compute_90`, whose PTX the driver then compiles.
    pub fn architecture(&self, capability: (u32, u32)) -> String {
        options::architecture(capability, &self.nvrtc.architectures)
    }

    /// Returns the threads that compile: what follows from a compilation may be done there too.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Compiles CUDA C++ for `architecture` with the project's options and `extra` ones. Blocks for
    /// tens of milliseconds, the first time for some more.
    ///
    /// # Errors
    /// [`CompileError::Rejected`], with the compiler's log.
    pub fn compile(
        &self,
        name: &str,
        source: &str,
        architecture: &str,
        extra: &[&str],
    ) -> Result<Compiled, CompileError> {
        let nvrtc = Arc::clone(&self.nvrtc);
        let (of_name, source) = (name.to_owned(), source.to_owned());
        let options = options::list(nvrtc.version, architecture, &source, extra);
        let is_virtual = options::is_virtual(architecture);
        let compile = move || compile(&nvrtc, &of_name, &source, &options, is_virtual);
        if threads::is_one() {
            return compile();
        }
        self.threads.wait_for(compile).unwrap_or_else(|why| {
            Err(CompileError::Rejected {
                name: name.to_owned(),
                why,
                log: String::new(),
            })
        })
    }
}

fn compile(
    nvrtc: &Nvrtc,
    name: &str,
    source: &str,
    options: &[String],
    is_virtual: bool,
) -> Result<Compiled, CompileError> {
    let rejected = |why: String, log: String| CompileError::Rejected {
        name: name.to_owned(),
        why,
        log,
    };
    let program =
        Program::new(nvrtc, name, source).map_err(|failure| rejected(failure, String::new()))?;
    let outcome = program.compile(options);
    let log = program.log();
    if let Err(failure) = outcome {
        return Err(rejected(failure, log));
    }
    let image = if is_virtual {
        program.ptx()
    } else {
        program.cubin()
    };
    match image {
        Ok(image) => Ok(Compiled { image, log }),
        Err(failure) => Err(rejected(failure, log)),
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "NVRTC {major}.{minor} at {}", self.place().display())
    }
}

#[cfg(test)]
mod tests;
