//! One statement: run, shown, and timed.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use futures::TryStreamExt;
use tidegate::statements::{StreamedCopy, streamed_copy};
use tidegate::{Names, QueryProgress};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args::{Format, MaxRows, OutputArgs};
use crate::console;
use crate::destination::Destination;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::params::Params;
use crate::progress::{self, Bar};
use crate::render::{self, HasSchema, Shown, Style};
use crate::signals::Signals;

/// How long a statement that was told to stop is waited for.
const STOP_MAX: Duration = Duration::from_secs(2);
/// How long the names for completion are waited for.
const NAMES_MAX: Duration = Duration::from_secs(2);

/// What runs statements, and how its answers are shown.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    pub(crate) engine: Arc<dyn Engine>,
    /// Values that statements name.
    pub(crate) params: Params,
    /// Where statements run.
    workers: Handle,
    pub(crate) style: Style,
    pub(crate) destination: Destination,
    /// A result in a binary format was written to the destination.
    is_taken: Arc<AtomicBool>,
    pub(crate) timing: bool,
    pub(crate) placement: bool,
    pub(crate) quiet: bool,
    /// Whether long queries show how far they have come.
    pub(crate) progress: bool,
}

impl Runner {
    /// Makes a runner; `maxrows` holds unless the command line says how many rows to show.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        workers: &Handle,
        output: &OutputArgs,
        maxrows: Option<usize>,
    ) -> Self {
        Self {
            engine,
            params: Params::default(),
            workers: workers.clone(),
            style: Style {
                format: output.format,
                maxrows: output.maxrows.unwrap_or(MaxRows(maxrows)).0,
                expands: false,
            },
            destination: Destination::Stdout,
            is_taken: Arc::default(),
            timing: output.timing && !output.quiet,
            placement: output.placement && !output.quiet,
            quiet: output.quiet,
            progress: !output.quiet && !output.no_progress && progress::is_welcome(),
        }
    }

    /// Sends results somewhere else from now on.
    pub(crate) fn redirect(&mut self, destination: Destination) {
        self.destination = destination;
        self.is_taken = Arc::default();
    }

    /// Lists the names that statements can use; none if that takes long, or panics.
    pub(crate) async fn names(&self) -> Names {
        let engine = Arc::clone(&self.engine);
        let names = self.workers.spawn(async move { engine.names().await });
        match timeout(NAMES_MAX, names).await {
            Ok(Ok(names)) => names,
            _ => Names::default(),
        }
    }

    /// Runs a statement until it ends or a signal asks it to.
    pub(crate) async fn run(&self, sql: &str, signals: &mut Signals) -> Result<(), Failure> {
        let bar = self.progress.then(Bar::new);
        let task = self.spawn(sql, bar.clone());
        let done = self.finish(task, bar.as_ref(), signals).await;
        if let Some(bar) = &bar {
            bar.end();
        }
        self.tell(&done?);
        Ok(())
    }

    /// Starts a statement on a task of its own: it can be given up wherever it is, and a panic in it
    /// is the end of the task alone.
    fn spawn(&self, sql: &str, bar: Option<Bar>) -> JoinHandle<Result<Answer, Failure>> {
        let (runner, sql) = (self.clone(), sql.to_string());
        self.workers
            .spawn(async move { runner.answer(&sql, bar).await })
    }

    async fn finish(
        &self,
        mut task: JoinHandle<Result<Answer, Failure>>,
        bar: Option<&Bar>,
        signals: &mut Signals,
    ) -> Result<Answer, Failure> {
        loop {
            tokio::select! {
                joined = &mut task => {
                    return joined.unwrap_or_else(|error| Err(Failure::join(&error)));
                }
                signal = signals.next() => {
                    task.abort();
                    if let Some(bar) = bar {
                        bar.end();
                    }
                    if timeout(STOP_MAX, task).await.is_err() && !self.quiet {
                        console::note("the statement has not stopped yet; it may go on for a while");
                    }
                    return Err(Failure::Stopped(signal));
                }
                progress = self.next_progress(bar), if bar.is_some() => {
                    if let (Some(bar), Some(progress)) = (bar, progress) {
                        bar.draw(&progress);
                    }
                }
            }
        }
    }

    /// Waits until a bar may be drawn again, and asks for what it shows.
    async fn next_progress(&self, bar: Option<&Bar>) -> Option<QueryProgress> {
        bar?.until_next().await;
        self.engine.progress().await
    }

    /// Tells what there is to know about an answer beside the answer.
    fn tell(&self, answer: &Answer) {
        if answer.shown.hidden > 0 && !self.quiet {
            let hidden = console::rows(answer.shown.hidden).replacen(' ', " more ", 1);
            console::note(format_args!(
                "… {hidden}; --maxrows or \\maxrows shows more of them"
            ));
        }
        if answer.shown.hidden_columns > 0 && !self.quiet {
            console::note(format_args!(
                "… {} of {} columns are not shown; \\x or --format expanded shows all",
                answer.shown.hidden_columns, answer.shown.columns
            ));
        }
        if let Some(note) = answer.left_out.as_ref().filter(|_| !self.quiet) {
            console::note(note);
        }
        if self.timing {
            let took = answer.took.as_secs_f64();
            match answer.shown.columns {
                0 => console::note(format_args!("done in {took:.3} s")),
                _ => {
                    let rows = console::rows(answer.shown.rows);
                    console::note(format_args!("{rows} in {took:.3} s"));
                }
            }
        }
        if self.placement
            && let Some(report) = &answer.placement
        {
            console::note(report.trim_end());
        }
    }
}

/// What is known about a statement when its result has been written.
#[derive(Debug)]
struct Answer {
    shown: Shown,
    took: Duration,
    placement: Option<String>,
    left_out: Option<String>,
}

impl Runner {
    async fn answer(&self, sql: &str, bar: Option<Bar>) -> Result<Answer, Failure> {
        let engine = &self.engine;
        let before = engine.last_query();
        let start = Instant::now();
        let filled = self.params.fill(sql);
        if let Some(copy) = streamed_copy(&filled) {
            return self.answer_copy(&copy, bar).await;
        }
        let stream = engine.execute(&filled).await?;
        if !stream.schema_ref().fields().is_empty() {
            self.check_format(self.style.format)?;
        }
        let mut output = match &bar {
            Some(bar) => bar.before(&self.destination),
            None => self.destination.open(),
        };
        let shown =
            render::render(stream, self.style, self.destination.width(), &mut output).await?;
        let took = start.elapsed();
        output.end().map_err(Failure::output)?;
        let told = engine.last_told().filter(|told| Some(told.id) != before);
        let (placement, left_out) = match told {
            // SET and CREATE have no place to tell of.
            Some(told) => ((shown.columns > 0).then_some(told.placement), told.left_out),
            None => (None, engine.left_out(&filled).await),
        };
        Ok(Answer {
            shown,
            took,
            placement,
            left_out,
        })
    }

    /// Runs a COPY to standard output: the file that it writes goes there.
    async fn answer_copy(
        &self,
        copy: &StreamedCopy<'_>,
        bar: Option<Bar>,
    ) -> Result<Answer, Failure> {
        if !self.engine.writes_here() {
            let message = "COPY to standard output would write to that of the server: --format csv -c \"SELECT …\" \
                           writes rows here";
            return Err(Failure::Format(message.into()));
        }
        if let Ok(format) = Format::from_str(copy.format(), true) {
            self.check_format(format)?;
        }
        let start = Instant::now();
        let folder = tempfile::tempdir().map_err(Failure::Output)?;
        let path = folder.path().join("rows").with_extension(copy.format());
        let rows = self
            .engine
            .execute(&copy.to_file(&path.display().to_string()))
            .await?;
        rows.try_collect::<Vec<_>>().await?;
        let mut file = File::open(&path).map_err(Failure::Output)?;
        let mut output = match &bar {
            Some(bar) => bar.before(&self.destination),
            None => self.destination.open(),
        };
        io::copy(&mut file, &mut output).map_err(Failure::output)?;
        output.end().map_err(Failure::output)?;
        Ok(Answer {
            shown: Shown::default(),
            took: start.elapsed(),
            placement: None,
            left_out: None,
        })
    }

    /// Refuses a binary format for a terminal, and for a second result.
    fn check_format(&self, format: Format) -> Result<(), Failure> {
        if !format.is_binary() {
            return Ok(());
        }
        if self.destination.is_terminal() {
            let message = format!(
                "{format} is not for a terminal: write to a file with \\o FILE at the prompt, or \
                 redirect standard output"
            );
            return Err(Failure::Format(message));
        }
        if self.is_taken.swap(true, Ordering::Relaxed) {
            let message = format!(
                "{format} holds one result, and this is the second: run one statement, or use \
                 COPY (...) TO 'file'"
            );
            return Err(Failure::Format(message));
        }
        Ok(())
    }
}

impl Style {
    /// Shows results in another format.
    pub(crate) fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }
}
