//! The bar of a query that takes longer than a moment: on standard error, gone before rows are shown.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use tidegate::QueryProgress;

use crate::destination::{Destination, Output};
use crate::{console, environment};

/// How long a query runs before there is a bar.
const QUIET: Duration = Duration::from_secs(1);

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(125);

/// Steps of the bar.
const STEPS: u64 = 1_000;

/// Whether somebody may look at a bar.
pub(crate) fn is_welcome() -> bool {
    io::stderr().is_terminal() && environment::colours()
}

/// The bar of one statement. Clones are the same bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    began: Instant,
    bar: Option<ProgressBar>,
    /// Rows are being shown where the bar would be.
    is_over: bool,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            began: Instant::now(),
            bar: None,
            is_over: false,
        })))
    }

    /// Waits until the bar is due: after a moment at first, then at every tick.
    pub(crate) async fn until_next(&self) {
        let quiet = QUIET.saturating_sub(self.0.lock().began.elapsed());
        tokio::time::sleep(quiet.max(TICK)).await;
    }

    /// Shows how far the statement has come.
    pub(crate) fn draw(&self, progress: &QueryProgress) {
        let mut state = self.0.lock();
        if state.is_over || state.began.elapsed() < QUIET {
            return;
        }
        let began = state.began;
        let bar = state.bar.get_or_insert_with(|| bar(progress));
        bar.set_position(
            progress
                .share()
                .map_or(0, |share| (share * STEPS as f64) as u64),
        );
        bar.set_message(message(progress, began.elapsed()));
        bar.tick();
    }

    /// Takes the bar away for good.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.is_over = true;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Opens a destination; if that is the terminal, the bar goes before the first row comes.
    pub(crate) fn before(&self, destination: &Destination) -> Box<dyn Output> {
        let output = destination.open();
        match destination.is_terminal() {
            true => Box::new(Behind {
                bar: self.clone(),
                output,
            }),
            false => output,
        }
    }
}

fn bar(progress: &QueryProgress) -> ProgressBar {
    let template = match progress.rows_total {
        Some(1..) => "{bar:24} {wide_msg}",
        _ => "{spinner} {wide_msg}",
    };
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
    // The templates are right: a test draws them.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn message(progress: &QueryProgress, elapsed: Duration) -> String {
    let mut parts = Vec::new();
    if let Some(share) = progress.share() {
        parts.push(format!("{:.0} %", share * 100.0));
    }
    let read = console::count(usize::try_from(progress.rows_read).unwrap_or(usize::MAX));
    parts.push(match progress.rows_total {
        Some(total @ 1..) => {
            let total = console::count(usize::try_from(total).unwrap_or(usize::MAX));
            format!("{read} of {total} rows")
        }
        _ => format!("{read} rows"),
    });
    if progress.bytes_read > 0 {
        parts.push(HumanBytes(progress.bytes_read).to_string());
    }
    if progress.device_morsels > 0 && progress.rows_read > 0 {
        let share = progress.device_rows as f64 / progress.rows_read as f64;
        parts.push(format!(
            "{:.0} % on device, {} of {} morsels",
            share * 100.0,
            progress.device_morsels,
            progress.device_morsels + progress.host_morsels
        ));
    }
    parts.push(format!("{} s", elapsed.as_secs()));
    if let Some(left) = progress.seconds_left() {
        parts.push(format!("about {} s left", left.ceil()));
    }
    parts.join(", ")
}

/// Takes the bar away before anything is written.
struct Behind {
    bar: Bar,
    output: Box<dyn Output>,
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bar.end();
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Output for Behind {
    fn end(&mut self) -> io::Result<()> {
        self.output.end()
    }
}

#[cfg(test)]
mod tests;
