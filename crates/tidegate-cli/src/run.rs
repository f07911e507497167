//! Statements, one after the other: run, shown, and timed.

use std::fs;
use std::io::{self, BufWriter, Read};
use std::time::{Duration, Instant};

use tidegate::Session;
use tidegate::statements::{self, Statement};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::app::{DONE, FAILED};
use crate::args::{Format, MaxRows, OutputArgs, Source};
use crate::failure::Failure;
use crate::render::{self, Shown, Style};
use crate::{console, signals};

/// How long a statement that was told to stop is waited for.
const STOP_MAX: Duration = Duration::from_secs(2);
/// Bytes of results that are written at a time.
const OUTPUT_BYTES: usize = 1 << 16;

/// A session, and how its answers are shown.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    pub(crate) session: Session,
    pub(crate) style: Style,
    pub(crate) timing: bool,
    pub(crate) placement: bool,
    pub(crate) quiet: bool,
}

/// Text with statements, and what to call it.
#[derive(Debug)]
pub(crate) struct Script {
    name: Option<String>,
    text: Result<String, String>,
}

impl Script {
    /// Reads a source to its end.
    pub(crate) fn read(source: &Source) -> Self {
        match source {
            Source::Text(text) => Self {
                name: None,
                text: Ok(text.clone()),
            },
            Source::File(path) => {
                let name = path.display().to_string();
                let text = fs::read(path)
                    .map_err(|error| format!("cannot read {name}: {error}"))
                    .and_then(|bytes| decode(&name, bytes));
                Self {
                    name: Some(name),
                    text,
                }
            }
            Source::Stdin => {
                let name = "standard input";
                let mut bytes = Vec::new();
                let text = match io::stdin().lock().read_to_end(&mut bytes) {
                    Ok(_) => decode(name, bytes),
                    Err(error) => Err(format!("cannot read {name}: {error}")),
                };
                Self {
                    name: Some(name.to_string()),
                    text,
                }
            }
        }
    }

    fn statements(&self) -> Result<Vec<Statement>, String> {
        let text = self.text.as_ref().map_err(String::clone)?;
        statements::locate(text).map_err(|error| match &self.name {
            Some(name) => format!("{name}: {error}"),
            None => error.to_string(),
        })
    }

    fn place(&self, statement: &Statement) -> String {
        let (line, excerpt) = (statement.line(), statement.excerpt());
        match &self.name {
            Some(name) => format!("in {name}, line {line}: {excerpt}"),
            None => format!("in: {excerpt}"),
        }
    }
}

fn decode(name: &str, bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text: byte {place} begins no character")
    })?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or_else(|| text.clone(), str::to_string))
}

/// Runs scripts in order until a statement fails, or to the end if `keep_going`; returns the exit
/// status. All are read and cut before the first statement runs.
pub(crate) async fn scripts(
    runner: &Runner,
    scripts: impl Iterator<Item = Script>,
    keep_going: bool,
) -> u8 {
    let mut status = DONE;
    let mut queue = Vec::new();
    for script in scripts {
        match script.statements() {
            Ok(statements) => queue.push((script, statements)),
            Err(message) => {
                console::error(message, None);
                status = FAILED;
                if !keep_going {
                    return status;
                }
            }
        }
    }
    for (script, statements) in &queue {
        for statement in statements {
            let failure = match runner.checked(statement).await {
                Ok(()) => continue,
                Err(failure) => failure,
            };
            match &failure {
                Failure::OutputClosed => return status,
                Failure::Stopped(signal) => {
                    console::error(&failure, Some(&script.place(statement)));
                    return signal.status();
                }
                failure => console::error(failure, Some(&script.place(statement))),
            }
            status = FAILED;
            if !keep_going || matches!(failure, Failure::Output(_)) {
                return status;
            }
        }
    }
    status
}

impl Runner {
    /// Makes a runner; `maxrows` holds unless the command line says how many rows to show.
    pub(crate) fn new(session: Session, output: &OutputArgs, maxrows: Option<usize>) -> Self {
        Self {
            session,
            style: Style {
                format: output.format,
                maxrows: output.maxrows.unwrap_or(MaxRows(maxrows)).0,
            },
            timing: output.timing && !output.quiet,
            placement: output.placement && !output.quiet,
            quiet: output.quiet,
        }
    }

    /// Runs a statement of a script.
    async fn checked(&self, statement: &Statement) -> Result<(), Failure> {
        if statement.excerpt().starts_with(['\\', '.']) {
            let message = "commands such as \\d work at the prompt only; SHOW TABLES, DESCRIBE name \
                           and the options of `tidegate --help` do the same";
            return Err(tidegate::Error::new(tidegate::ErrorKind::Sql, message).into());
        }
        let task = self.spawn(statement.text());
        self.finish(task, signals::interrupt_or_terminate()).await
    }

    /// Runs a statement until it ends or the user presses Ctrl-C.
    pub(crate) async fn interruptible(&self, sql: &str) -> Result<(), Failure> {
        self.finish(self.spawn(sql), signals::interrupt()).await
    }

    /// Starts a statement on a task of its own: it can be given up wherever it is, and a panic in it
    /// is the end of the task alone.
    fn spawn(&self, sql: &str) -> JoinHandle<Result<Answer, Failure>> {
        let (session, style, sql) = (self.session.clone(), self.style, sql.to_string());
        tokio::spawn(async move { answer(&session, style, &sql).await })
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

async fn answer(session: &Session, style: Style, sql: &str) -> Result<Answer, Failure> {
    let last = || session.last_report().map(|report| report.id);
    let before = last();
    let start = Instant::now();
    let mut output = BufWriter::with_capacity(OUTPUT_BYTES, io::stdout());
    let stream = session.execute(sql).await?;
    let shown = render::render(stream, style, &mut output).await?;
    let took = start.elapsed();
    // SET and CREATE have no place to tell of.
    let is_news = |id| shown.columns > 0 && Some(id) != before;
    let report = session.last_report().filter(|report| is_news(report.id));
    Ok(Answer {
        shown,
        took,
        placement: report.map(|report| report.to_string()),
    })
}

impl Style {
    /// Shows results in another format.
    pub(crate) fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }
}
