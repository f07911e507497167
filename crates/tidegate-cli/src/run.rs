//! One statement: run, shown, and timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate::Session;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args::{Format, MaxRows, OutputArgs};
use crate::destination::Destination;
use crate::failure::Failure;
use crate::render::{self, Shown, Style};
use crate::{console, signals};

/// How long a statement that was told to stop is waited for.
const STOP_MAX: Duration = Duration::from_secs(2);
/// A session, and how its answers are shown.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    pub(crate) session: Session,
    /// Where statements run.
    workers: Handle,
    pub(crate) style: Style,
    pub(crate) destination: Destination,
    /// A result in a binary format was written to the destination.
    is_taken: Arc<AtomicBool>,
    pub(crate) timing: bool,
    pub(crate) placement: bool,
    pub(crate) quiet: bool,
    pub(crate) stop: Stop,
}

/// Which signals end a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C; a request to terminate ends the process.
    Interrupt,
    /// Either ends the statement, and the process in good order.
    InterruptOrTerminate,
}

impl Runner {
    /// Makes a runner; `maxrows` holds unless the command line says how many rows to show.
    pub(crate) fn new(
        session: Session,
        workers: &Handle,
        output: &OutputArgs,
        maxrows: Option<usize>,
    ) -> Self {
        Self {
            session,
            workers: workers.clone(),
            style: Style {
                format: output.format,
                maxrows: output.maxrows.unwrap_or(MaxRows(maxrows)).0,
            },
            destination: Destination::Stdout,
            is_taken: Arc::default(),
            timing: output.timing && !output.quiet,
            placement: output.placement && !output.quiet,
            quiet: output.quiet,
            stop: Stop::Interrupt,
        }
    }

    /// Sends results somewhere else from now on.
    pub(crate) fn redirect(&mut self, destination: Destination) {
        self.destination = destination;
        self.is_taken = Arc::default();
    }

    /// Runs a statement until it ends or a signal asks it to.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Failure> {
        let task = self.spawn(sql);
        match self.stop {
            Stop::Interrupt => self.finish(task, signals::interrupt()).await,
            Stop::InterruptOrTerminate => {
                self.finish(task, signals::interrupt_or_terminate()).await
            }
        }
    }

    /// Starts a statement on a task of its own: it can be given up wherever it is, and a panic in it
    /// is the end of the task alone.
    fn spawn(&self, sql: &str) -> JoinHandle<Result<Answer, Failure>> {
        let (runner, sql) = (self.clone(), sql.to_string());
        self.workers.spawn(async move { runner.answer(&sql).await })
    }

    async fn finish(
        &self,
        mut task: JoinHandle<Result<Answer, Failure>>,
        stop: impl Future<Output = signals::Signal>,
    ) -> Result<(), Failure> {
        let answer = tokio::select! {
            joined = &mut task => joined.unwrap_or_else(|error| Err(Failure::join(&error)))?,
            signal = stop => {
                task.abort();
                if timeout(STOP_MAX, task).await.is_err() && !self.quiet {
                    console::note("the statement has not stopped yet; it may go on for a while");
                }
                return Err(Failure::Stopped(signal));
            }
        };
        self.tell(&answer);
        Ok(())
    }

    /// Tells what there is to know about an answer beside the answer.
    fn tell(&self, answer: &Answer) {
        if answer.shown.hidden > 0 && !self.quiet {
            let hidden = console::rows(answer.shown.hidden).replacen(' ', " more ", 1);
            console::note(format_args!(
                "… {hidden}; --maxrows or \\maxrows shows more of them"
            ));
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
}

impl Runner {
    async fn answer(&self, sql: &str) -> Result<Answer, Failure> {
        let session = &self.session;
        let last = || session.last_report().map(|report| report.id);
        let before = last();
        let start = Instant::now();
        let stream = session.execute(sql).await?;
        if !stream.schema().fields().is_empty() {
            self.check_format()?;
        }
        let mut output = self.destination.open();
        let shown = render::render(stream, self.style, &mut output).await?;
        let took = start.elapsed();
        output.end().map_err(Failure::output)?;
        // SET and CREATE have no place to tell of.
        let is_news = |id| shown.columns > 0 && Some(id) != before;
        let report = session.last_report().filter(|report| is_news(report.id));
        Ok(Answer {
            shown,
            took,
            placement: report.map(|report| report.to_string()),
        })
    }

    /// Refuses a binary format for a terminal, and for a second result.
    fn check_format(&self) -> Result<(), Failure> {
        let format = self.style.format;
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
