//! The log of a server: lines on standard error, written by a thread of its own.
//!
//! Whoever has something to say puts a line into a bounded queue and goes on, however slowly standard
//! error is read. What finds no room there is left out, and counted: the log says how much is missing
//! as soon as it moves again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::LogFormat;

/// Lines that wait to be written.
const LINES_MAX: usize = 8 << 10;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// How long the end waits for what was said.
const END_MAX: Duration = Duration::from_secs(1);

/// What the writer is told.
enum Told {
    Line(Vec<u8>),
    /// Answer here once all before it is written.
    End(SyncSender<()>),
}

/// Where lines are put. Clones are the same queue.
#[derive(Clone, Debug)]
struct Lines {
    queue: SyncSender<Told>,
    /// Lines that found no room since the last that did.
    num_missing: Arc<AtomicU64>,
}

/// Writes what is left when it is dropped, as far as standard error takes it within a second.
#[derive(Debug)]
#[must_use = "the end of the log may be lost without it"]
pub(crate) struct Log(Lines);

/// Starts the log of the process.
///
/// # Errors
/// What is wrong, if the process has a log already or no thread is to be had.
pub(crate) fn start(format: LogFormat, level: LevelFilter) -> Result<Log, String> {
    let lines = Lines::start(io::stderr(), format).map_err(|error| error.to_string())?;
    let log = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .with_max_level(level);
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| error.to_string())?;
    Ok(Log(lines))
}

impl Lines {
    /// Starts the thread that writes.
    fn start(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<Self> {
        let (queue, told) = sync_channel(LINES_MAX);
        let lines = Self {
            queue,
            num_missing: Arc::default(),
        };
        let num_missing = Arc::clone(&lines.num_missing);
        thread::Builder::new()
            .name("log".into())
            .spawn(move || write(out, &told, &num_missing, format))?;
        Ok(lines)
    }
}

impl Write for Lines {
    /// Takes a whole line, or leaves it out.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.queue.try_send(Told::Line(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.num_missing.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let end = Instant::now() + END_MAX;
        let (written, is_written) = sync_channel(1);
        let mut told = Told::End(written);
        while let Err(TrySendError::Full(again)) = self.0.queue.try_send(told) {
            if Instant::now() >= end {
                return;
            }
            told = again;
            thread::sleep(Duration::from_millis(5));
        }
        // Whether it came in time or not, the process ends.
        let _ = is_written.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Writes lines until nobody can put any into the queue.
fn write(mut out: impl Write, told: &Receiver<Told>, num_missing: &AtomicU64, format: LogFormat) {
    let mut bytes = Vec::new();
    while let Ok(first) = told.recv() {
        let mut next = Some(first);
        let mut ended = None;
        while let Some(told_now) = next.take() {
            match told_now {
                Told::Line(line) => bytes.extend(line),
                Told::End(written) => ended = Some(written),
            }
            if bytes.len() < WRITE_BYTES && ended.is_none() {
                next = told.try_recv().ok();
            }
        }
        let missing = num_missing.swap(0, Ordering::Relaxed);
        if missing > 0 {
            bytes.extend(gap(missing, format).into_bytes());
        }
        // Nobody is left to tell that the log cannot be written.
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
        bytes.clear();
        if let Some(ended) = ended {
            // Whoever waited may have gone.
            let _ = ended.send(());
        }
    }
}

/// Says how many lines are missing here.
fn gap(missing: u64, format: LogFormat) -> String {
    let message = "lines of the log were dropped: standard error was read too slowly";
    match format {
        LogFormat::Json => {
            format!("{{\"level\":\"WARN\",\"message\":\"{message}\",\"lines\":{missing}}}\n")
        }
        LogFormat::Text => format!("WARN {message} lines={missing}\n"),
    }
}

#[cfg(test)]
mod tests;
