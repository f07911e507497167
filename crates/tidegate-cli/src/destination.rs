//! Where results go: standard output, a file, or a pager when they are taller than the screen.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use console::Term;
use parking_lot::Mutex;

use crate::environment;

/// Bytes of results that are written at a time.
const OUTPUT_BYTES: usize = 1 << 16;

/// Lines of the screen that the next prompt and what is told beside a result take.
const LINES_BESIDE: usize = 4;

/// A terminal that says it is narrower does not know its size.
const COLUMNS_MIN: usize = 20;

/// Where the results of statements go.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// Standard output.
    Stdout,
    /// Standard output, through a pager where a result has more lines than the screen.
    Screen {
        /// Lines of the screen.
        num_lines: usize,
    },
    /// A file; every result is appended.
    File(Arc<Mutex<File>>),
}

impl Destination {
    /// Makes a file, or empties it.
    ///
    /// # Errors
    /// Those of making a file.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        Ok(Self::File(Arc::new(Mutex::new(File::create(path)?))))
    }

    /// Returns whether a person reads what is written.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout | Self::Screen { .. } => io::stdout().is_terminal(),
            Self::File(_) => false,
        }
    }

    /// Returns the columns of the terminal that a person reads, if there is one.
    pub(crate) fn width(&self) -> Option<usize> {
        let size = self.is_terminal().then(|| Term::stdout().size_checked());
        let (_, columns) = size.flatten()?;
        Some(usize::from(columns)).filter(|columns| *columns >= COLUMNS_MIN)
    }

    /// Opens the destination for one result.
    pub(crate) fn open(&self) -> Box<dyn Output> {
        match self {
            Self::Stdout => Box::new(BufWriter::with_capacity(OUTPUT_BYTES, io::stdout())),
            Self::Screen { num_lines } => Box::new(Screen::new(*num_lines)),
            Self::File(file) => {
                let file = Arc::clone(file);
                Box::new(BufWriter::with_capacity(OUTPUT_BYTES, Shared(file)))
            }
        }
    }
}

/// What one result is written to.
pub(crate) trait Output: Write + Send {
    /// Ends the result: waits until its reader has seen it.
    fn end(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl<W: Write + Send> Output for BufWriter<W> {}

struct Shared(Arc<Mutex<File>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().flush()
    }
}

/// Keeps a result until it is known whether the screen holds it.
struct Screen {
    held: Vec<u8>,
    num_lines: usize,
    num_lines_max: usize,
    state: Shown,
}

enum Shown {
    /// Nothing is shown yet.
    Held,
    Paged(Child),
    /// There is no pager.
    Plain,
    /// The user has seen enough.
    Left,
}

impl Screen {
    fn new(num_lines: usize) -> Self {
        Self {
            held: Vec::new(),
            num_lines: 0,
            num_lines_max: num_lines.saturating_sub(LINES_BESIDE),
            state: Shown::Held,
        }
    }

    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = match &mut self.state {
            Shown::Paged(pager) => match &mut pager.stdin {
                Some(pipe) => pipe.write_all(bytes),
                None => Ok(()),
            },
            Shown::Left => return Err(io::ErrorKind::BrokenPipe.into()),
            _ => io::stdout().write_all(bytes),
        };
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe)
            && let Shown::Paged(pager) = &mut self.state
        {
            // The pager is left by its own key; the prompt comes back when it has gone.
            pager.wait()?;
            self.state = Shown::Left;
        }
        written
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !matches!(self.state, Shown::Held) {
            self.show(bytes)?;
            return Ok(bytes.len());
        }
        self.num_lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.held.extend_from_slice(bytes);
        if self.num_lines > self.num_lines_max {
            self.state = pager().map_or(Shown::Plain, Shown::Paged);
            let held = std::mem::take(&mut self.held);
            self.show(&held)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Screen {
    fn end(&mut self) -> io::Result<()> {
        if matches!(self.state, Shown::Held) {
            let held = std::mem::take(&mut self.held);
            io::stdout().write_all(&held)?;
        }
        if let Shown::Paged(pager) = &mut self.state {
            drop(pager.stdin.take());
            pager.wait()?;
        }
        io::stdout().flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A statement that failed half way leaves what it has shown on the screen.
        let _ = self.end();
    }
}

/// Starts the user's pager, or `less`; none where it cannot be started.
fn pager() -> Option<Child> {
    let words = environment::pager().unwrap_or_else(|| "less -SRFX".into());
    let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
    let (program, arguments) = words.split_first()?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .ok()
}
