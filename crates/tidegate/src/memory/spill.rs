//! Where statements spill: files in a folder that only this process uses.
//!
//! The first file that is spilled makes the folder `tidegate-spill-PID-NUMBER` in the temporary folder,
//! and the last file that goes takes it away, so a process that never spills needs no temporary folder.
//! The process holds a lock on the file `lock` in its folder. The system releases that lock however the
//! process ends, so a folder whose lock can be taken has no owner: [`remove_leftovers`] removes it.
//!
//! A file is open only while it is read or written: thousands of spilled files need no more file
//! descriptors than there are threads.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use parking_lot::Mutex;

use super::room::free_bytes;
use crate::error::{Error, ErrorKind};

/// How the names of folders for spilled files begin.
const PREFIX: &str = "tidegate-spill-";

/// The file in such a folder that its process has locked.
const LOCK: &str = "lock";

/// Bytes that are read from a spilled file at once.
const READ_BYTES: usize = 128 << 10;

/// How old a folder without a lock must be to count as left over: its process died while making it.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Numbers the folders of a process.
static NEXT_FOLDER: AtomicU64 = AtomicU64::new(0);

/// Temporary folders in which this process has looked for what others left.
static LOOKED_AT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The spilled files of a session's statements, and how many bytes they may have. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct SpillSpace {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: AtomicU64,
    used: AtomicU64,
    place: Mutex<Place>,
}

#[derive(Debug)]
struct Place {
    root: PathBuf,
    folder: Weak<SpillFolder>,
}

/// A locked folder of this process; it goes with the last that needs it.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    path: PathBuf,
    next_file: AtomicU64,
    _lock: File,
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        // What stays is removed by the next process.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl SpillSpace {
    /// Spills into `root`, or the system's folder for temporary files, at most so many bytes. Removes
    /// what processes that have ended left there; makes nothing.
    pub(crate) fn new(root: Option<PathBuf>, limit: u64) -> Self {
        let root = root.unwrap_or_else(std::env::temp_dir);
        if LOOKED_AT.lock().insert(root.clone()) {
            remove_leftovers(&root);
        }
        Self {
            shared: Arc::new(Shared {
                limit: AtomicU64::new(limit),
                used: AtomicU64::new(0),
                place: Mutex::new(Place {
                    root,
                    folder: Weak::new(),
                }),
            }),
        }
    }

    /// Returns the temporary folder, which may not exist.
    pub(crate) fn root(&self) -> PathBuf {
        self.shared.place.lock().root.clone()
    }

    /// Spills what is spilled from now on into another temporary folder.
    pub(crate) fn set_root(&self, root: PathBuf) {
        *self.shared.place.lock() = Place {
            root,
            folder: Weak::new(),
        };
    }

    /// Returns the most bytes that may be spilled.
    pub(crate) fn limit(&self) -> u64 {
        self.shared.limit.load(Ordering::Relaxed)
    }

    /// Lets statements spill at most so many bytes from now on.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.shared.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the folder of this process, and makes it unless it is there.
    ///
    /// # Errors
    /// Fails if the temporary folder cannot be made or written.
    pub(crate) fn folder(&self) -> Result<Arc<SpillFolder>, Error> {
        let mut place = self.shared.place.lock();
        if let Some(folder) = place.folder.upgrade() {
            return Ok(folder);
        }
        let made = SpillFolder::make_in(&place.root).map_err(|error| {
            let message = format!(
                "the statement must spill, and the temporary folder {} cannot be used: {error}; \
                 choose another one (--temp-dir, SessionBuilder::temp_dir), or raise \
                 tidegate.memory_limit so that nothing is spilled",
                place.root.display()
            );
            Error::with_source(ErrorKind::Io, message, SpillFailure(error))
        })?;
        let folder = Arc::new(made);
        place.folder = Arc::downgrade(&folder);
        Ok(folder)
    }
}

impl TempFileFactory for SpillSpace {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let folder = self.folder()?;
        let number = folder.next_file.fetch_add(1, Ordering::Relaxed);
        let path = folder.path.join(number.to_string());
        options()
            .create_new(true)
            .write(true)
            .open(&path)
            .map_err(|error| failed("make", &path, 0, error))?;
        Ok(Arc::new(Spilled(Arc::new(SpilledBytes {
            path,
            bytes: AtomicU64::new(0),
            space: Arc::clone(&self.shared),
            _folder: folder,
        }))))
    }
}

impl SpillFolder {
    fn make_in(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        loop {
            let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
            let path = root.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            {
                use std::os::unix::fs::DirBuilderExt;
                builder.mode(0o700);
            }
            match builder.create(&path) {
                // Of a process with this number that has ended, or in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            return Self::lock(path.clone()).inspect_err(|_| {
                // Nothing was spilled into it.
                let _ = fs::remove_dir_all(&path);
            });
        }
    }

    /// Locks a new folder. The lock file gets its name once it is locked: who finds it under that name
    /// can tell whether the process lives.
    fn lock(path: PathBuf) -> io::Result<Self> {
        let unlocked = path.join("lock.new");
        let lock = options().create_new(true).write(true).open(&unlocked)?;
        // Some network file systems have no locks: then nobody can take this one, and the folder stays.
        let _ = lock.try_lock();
        fs::rename(&unlocked, path.join(LOCK))?;
        Ok(Self {
            path,
            next_file: AtomicU64::new(0),
            _lock: lock,
        })
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Removes the folders of processes that have ended without tidying up.
fn remove_leftovers(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        // A link is not followed.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_ours && is_folder && has_no_owner(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn has_no_owner(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = fs::metadata(folder).and_then(|folder| folder.modified());
            let age = made.map(|made| SystemTime::now().duration_since(made).unwrap_or_default());
            age.is_ok_and(|age| age > ABANDONED_AFTER)
        }
        Err(_) => false,
    }
}

/// A file of spilled rows, for DataFusion.
struct Spilled(Arc<SpilledBytes>);

#[derive(Debug)]
struct SpilledBytes {
    path: PathBuf,
    bytes: AtomicU64,
    space: Arc<Shared>,
    _folder: Arc<SpillFolder>,
}

impl Drop for SpilledBytes {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.space.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl SpillFile for Spilled {
    fn path(&self) -> Option<&Path> {
        Some(&self.0.path)
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let file = Arc::clone(&self.0);
        Ok(Box::pin(stream::try_unfold(
            (file, 0),
            |(file, offset)| async move {
                let reader = Arc::clone(&file);
                let read = tokio::task::spawn_blocking(move || reader.read_at(offset));
                let chunk = read
                    .await
                    .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
                let next = offset + chunk.len() as u64;
                Ok((!chunk.is_empty()).then_some((chunk, (file, next))))
            },
        )))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let path = &self.0.path;
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(|error| failed("open", path, 0, error))?;
        Ok(Box::new(Writer {
            file,
            spilled: Arc::clone(&self.0),
        }))
    }
}

impl SpilledBytes {
    /// Reads what lies at an offset; nothing at the end. Blocks.
    fn read_at(&self, offset: u64) -> Result<Bytes> {
        let read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut chunk = Vec::with_capacity(READ_BYTES);
            file.take(READ_BYTES as u64).read_to_end(&mut chunk)?;
            Ok(Bytes::from(chunk))
        };
        read().map_err(|error| failed("read", &self.path, 0, error).into())
    }

    /// Counts bytes that are about to be written; refuses what is over the limit.
    fn count(&self, bytes: u64) -> Result<(), Error> {
        let limit = self.space.limit.load(Ordering::Relaxed);
        let used = self.space.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) <= limit {
            return Ok(());
        }
        self.space.used.fetch_sub(bytes, Ordering::Relaxed);
        let message = format!(
            "a statement wants to spill {bytes} bytes more into {}, where statements have spilled \
             {used} bytes of at most {limit} (--temp-limit, SessionBuilder::temp_limit); raise that \
             limit, or tidegate.memory_limit so that less is spilled",
            self.folder().display()
        );
        let cause = SpillFailure(io::ErrorKind::StorageFull.into());
        Err(Error::with_source(
            ErrorKind::ResourcesExhausted,
            message,
            cause,
        ))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// The cause of errors of files that statements spill to, whatever they say: this process's disk or its limits.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SpillFailure(io::Error);

struct Writer {
    file: File,
    spilled: Arc<SpilledBytes>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len() as u64;
        self.spilled.count(len).map_err(io::Error::other)?;
        // Counted before it is known whether all of them were written: some may have been.
        self.spilled.bytes.fetch_add(len, Ordering::Relaxed);
        match self.file.write_all(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let error = failed("write", &self.spilled.path, len, error);
                Err(io::Error::other(error))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Says why a spilled file could not be used.
fn failed(what: &str, path: &Path, bytes: u64, error: io::Error) -> Error {
    let folder = path.parent().unwrap_or(path);
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    if !is_full {
        let message = format!(
            "cannot {what} the file of spilled rows {}: {error}; choose another temporary folder \
             (--temp-dir, SessionBuilder::temp_dir)",
            path.display()
        );
        return Error::with_source(ErrorKind::Io, message, SpillFailure(error));
    }
    let free = match free_bytes(folder) {
        Some(free) => format!("{free} bytes are free there"),
        None => "nothing is free there".into(),
    };
    let message = format!(
        "a statement wants to spill {bytes} bytes more into {}: {error}, {free}; make room, choose \
         another temporary folder (--temp-dir, SessionBuilder::temp_dir), or raise \
         tidegate.memory_limit so that less is spilled",
        folder.display()
    );
    Error::with_source(ErrorKind::ResourcesExhausted, message, SpillFailure(error))
}

#[cfg(test)]
mod tests;
