//! The rates on disk: one small file for each machine that shares the folder.
//!
//! It is a cache: what cannot be read is missing, what cannot be written is not written.

use std::fs;
use std::path::PathBuf;
use std::process;

use serde::{Deserialize, Serialize};

use super::Book;
use super::shape::fnv1a;

/// Rises with every change of what is written.
const VERSION: u32 = 2;

/// Bytes that a book may have; more is none of ours.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
struct Written<B> {
    version: u32,
    machine: String,
    book: B,
}

/// Where a book is kept.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    machine: String,
}

impl Store {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            machine: machine(),
        }
    }

    fn path(&self) -> PathBuf {
        let machine = fnv1a(self.machine.as_bytes());
        self.folder.join(format!("rates-{machine:016x}.json"))
    }

    /// Reads the book, if there is one of this version and machine.
    pub(super) fn read(&self) -> Option<Book> {
        let path = self.path();
        if fs::metadata(&path).ok()?.len() > BYTES_MAX {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        let written: Written<Book> = serde_json::from_str(&text).ok()?;
        let ours = written.version == VERSION && written.machine == self.machine;
        (ours && written.book.is_sound()).then_some(written.book)
    }

    /// Writes the book beside and renames it, so that nobody reads half of one.
    pub(super) fn write(&self, book: &Book) {
        let written = Written {
            version: VERSION,
            machine: self.machine.clone(),
            book,
        };
        let Ok(text) = serde_json::to_string(&written) else {
            return;
        };
        let path = self.path();
        let beside = path.with_extension(format!("{}.new", process::id()));
        let done = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&beside, text))
            .and_then(|()| fs::rename(&beside, &path));
        if done.is_err() {
            // Nobody misses it.
            let _ = fs::remove_file(&beside);
        }
    }
}

impl Book {
    fn is_sound(&self) -> bool {
        let devices = self.devices.values();
        let mut of_devices = devices.flat_map(|device| {
            let modelled = [device.transfer, device.kernel];
            let fixed = [device.launch, device.compile];
            modelled.into_iter().chain(fixed)
        });
        let of_shapes = self.shapes.values().flat_map(|shape| {
            let on_devices = [
                &shape.kernel,
                &shape.transfer,
                &shape.finish,
                &shape.compile,
            ];
            let on_devices = on_devices
                .into_iter()
                .flat_map(|rates| rates.values().copied());
            on_devices.chain([shape.host, shape.load, shape.state, shape.peak])
        });
        self.host.is_sound()
            && of_devices.all(|rate| rate.is_sound())
            && of_shapes.into_iter().all(|rate| rate.is_sound())
    }
}

/// Names this machine: its system, name and cores.
fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} {} {} {cores}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        name.trim()
    )
}
