//! Steps of a script or of the prompt: statements are run, commands obeyed, failures told.

mod command;
mod edit;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::args::{Format, MaxRows, Source};
use crate::console;
use crate::destination::Destination;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::run::Runner;
use crate::script::{Script, Step, What, is_leave};
use crate::signals::{Heard, Signal, Signals};

use command::Expansion;
pub(crate) use command::{Argument, Command, argument, names, parse};

/// What `\d` runs.
const TABLES: &str = "SHOW TABLES";

/// How steps ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// A step failed, and that was told.
    Failed,
    /// A signal ended a step.
    Stopped(Signal),
    /// The user is done, or nobody reads the results any more.
    Leave,
    /// Results cannot be written any more, and that was told.
    Unwritable,
}

/// A session, how its answers are shown, and what was run before.
pub(crate) struct Shell {
    pub(crate) runner: Runner,
    signals: Signals,
    /// The last text with statements.
    last: String,
    /// The format to go back to from the expanded one.
    unexpanded: Format,
    /// Files that are being read, each by the one before it.
    depth: usize,
    /// Lines of the screen, if there is one.
    screen_lines: Option<usize>,
    /// What is taller than the screen is shown by a pager.
    is_paged: bool,
}

/// Files that may read each other.
const DEPTH_MAX: usize = 16;

/// Runs scripts in order until a step fails, or to the end if `keep_going`; returns the exit status.
/// All are read and cut before the first step runs.
pub(crate) async fn scripts(
    runner: Runner,
    scripts: impl Iterator<Item = Script>,
    keep_going: bool,
) -> u8 {
    let mut shell = Shell::new(runner, Heard::InterruptOrTerminate);
    let mut status = DONE;
    let mut queue = Vec::new();
    for script in scripts {
        match script.steps() {
            Ok(steps) => queue.push((script, steps)),
            Err(message) => {
                console::error(message, None);
                status = FAILED;
                if !keep_going {
                    return status;
                }
            }
        }
    }
    for (script, steps) in &queue {
        match shell.run_steps(script, steps, keep_going, true).await {
            Outcome::Done => {}
            Outcome::Leave => return status,
            Outcome::Stopped(signal) => return signal.status(),
            Outcome::Unwritable => return FAILED,
            Outcome::Failed if keep_going => status = FAILED,
            Outcome::Failed => return FAILED,
        }
    }
    status
}

impl Shell {
    pub(crate) fn new(runner: Runner, heard: Heard) -> Self {
        Self {
            runner,
            signals: Signals::new(heard),
            last: String::new(),
            unexpanded: Format::Table,
            depth: 0,
            screen_lines: None,
            is_paged: true,
        }
    }

    /// Takes the size of the screen; results that go there may be shown by a pager.
    pub(crate) fn resize(&mut self, screen_lines: Option<usize>) {
        self.screen_lines = screen_lines;
        if !matches!(self.runner.destination, Destination::File(_)) {
            self.runner.redirect(self.unredirected());
        }
    }

    fn unredirected(&self) -> Destination {
        unredirected(self.screen_lines, self.is_paged)
    }

    /// Forgets signals that came while nothing ran.
    pub(crate) fn forget_signals(&mut self) {
        while self.signals.pending().is_some() {}
    }

    /// Does what was typed.
    pub(crate) async fn answer(&mut self, text: &str) -> Outcome {
        let script = Script::typed(text);
        match script.steps() {
            Ok(steps) => {
                if steps
                    .iter()
                    .any(|step| matches!(step.what, What::Statement(_)))
                {
                    self.last = text.to_string();
                }
                let tells_place = steps.len() > 1;
                self.run_steps(&script, &steps, false, tells_place).await
            }
            Err(message) => {
                console::error(message, None);
                Outcome::Failed
            }
        }
    }

    /// Runs steps until one fails, or to the end if `keep_going`.
    fn run_steps<'a>(
        &'a mut self,
        script: &'a Script,
        steps: &'a [Step],
        keep_going: bool,
        tells_place: bool,
    ) -> BoxFuture<'a, Outcome> {
        async move {
            let mut outcome = Outcome::Done;
            for step in steps {
                let place = tells_place.then(|| script.place(step));
                match self.run_step(step, place.as_deref()).await {
                    Outcome::Done => {}
                    Outcome::Failed if keep_going => outcome = Outcome::Failed,
                    end => return end,
                }
            }
            outcome
        }
        .boxed()
    }

    async fn run_step(&mut self, step: &Step, place: Option<&str>) -> Outcome {
        // It came after the end of the step before.
        if let Some(signal) = self.signals.pending() {
            console::error(Failure::Stopped(signal), place);
            return Outcome::Stopped(signal);
        }
        match &step.what {
            What::Statement(statement) if is_leave(statement.text()) => Outcome::Leave,
            What::Statement(statement) => self.run_statement(statement.text(), place).await,
            What::Command(line) => match parse(line) {
                Some(Ok(command)) => self.obey(command, place).await,
                Some(Err(message)) => failed(message, place),
                None => failed(format!("{line} is not a command"), place),
            },
        }
    }

    async fn run_statement(&mut self, sql: &str, place: Option<&str>) -> Outcome {
        match self.runner.run(sql, &mut self.signals).await {
            Ok(()) => Outcome::Done,
            // The pager was left before it was shown everything.
            Err(Failure::OutputClosed)
                if matches!(self.runner.destination, Destination::Screen { .. }) =>
            {
                Outcome::Done
            }
            Err(Failure::OutputClosed) => Outcome::Leave,
            Err(failure) => {
                let text = failure.to_string();
                // What shows the statement need not name it.
                let shows_it = text.contains('\n');
                console::error(
                    text,
                    place.filter(|place| !(shows_it && place.starts_with("in: "))),
                );
                match failure {
                    Failure::Stopped(signal) => Outcome::Stopped(signal),
                    Failure::Output(_) => Outcome::Unwritable,
                    _ => Outcome::Failed,
                }
            }
        }
    }

    async fn obey(&mut self, command: Command, place: Option<&str>) -> Outcome {
        match command {
            Command::Quit => return Outcome::Leave,
            Command::Help => console::note(command::help()),
            Command::Describe(None) => return self.run_statement(TABLES, place).await,
            Command::Describe(Some(name)) => {
                return self.run_statement(&format!("DESCRIBE {name}"), place).await;
            }
            Command::Functions(part) => self.list_functions(part.as_deref()).await,
            Command::Include(file) => return self.include(file, place).await,
            Command::Watch(interval) => return self.watch(interval, place).await,
            Command::Edit => return self.edit(place).await,
            Command::Output(file) => return self.redirect(file.as_deref(), place),
            Command::Set(None) => match self.runner.params.is_empty() {
                true => console::note("no values are set: \\set NAME VALUE sets one, for $NAME"),
                false => console::note(&self.runner.params),
            },
            Command::Set(Some((name, value))) => {
                if let Err(message) = self.runner.params.set(&name, &value) {
                    return failed(message, place);
                }
            }
            Command::Unset(name) => {
                if !self.runner.params.unset(&name) {
                    return failed(format!("there is no value of the name {name}"), place);
                }
            }
            shown => self.show(shown),
        }
        Outcome::Done
    }

    /// Changes how results are shown.
    fn show(&mut self, command: Command) {
        let runner = &mut self.runner;
        let told = match command {
            Command::Timing(on) => {
                runner.timing = on.unwrap_or(!runner.timing);
                format!("timing is {}", on_or_off(runner.timing))
            }
            Command::Placement(on) => {
                runner.placement = on.unwrap_or(!runner.placement);
                format!("placement is {}", on_or_off(runner.placement))
            }
            Command::Progress(on) => {
                runner.progress = on.unwrap_or(!runner.progress);
                format!("progress is {}", on_or_off(runner.progress))
            }
            Command::Pager(on) => {
                let is_on = self.is_paged;
                let on = on.unwrap_or(!is_on);
                self.is_paged = on;
                if !matches!(runner.destination, Destination::File(_)) {
                    runner.redirect(unredirected(self.screen_lines, on));
                }
                format!("pager is {}", on_or_off(on))
            }
            Command::Expanded(when) => {
                let is_on = runner.style.format == Format::Expanded;
                if !is_on {
                    self.unexpanded = runner.style.format;
                }
                let when = when.unwrap_or(if is_on { Expansion::Off } else { Expansion::On });
                let format = match when {
                    Expansion::On => Format::Expanded,
                    Expansion::Off => self.unexpanded,
                    Expansion::Auto => Format::Table,
                };
                runner.style = runner.style.with_format(format);
                runner.style.expands = when == Expansion::Auto;
                match when {
                    Expansion::Auto => "rows wider than the terminal are expanded".to_string(),
                    _ => format!("format is {format}"),
                }
            }
            Command::Format(format) => {
                runner.style = runner
                    .style
                    .with_format(format.unwrap_or(runner.style.format));
                format!("format is {}", runner.style.format)
            }
            Command::MaxRows(rows) => {
                runner.style.maxrows = rows.map_or(runner.style.maxrows, |MaxRows(rows)| rows);
                match runner.style.maxrows {
                    Some(rows) => format!("tables show {rows} rows"),
                    None => "tables show all rows".to_string(),
                }
            }
            _ => return,
        };
        self.tell(told);
    }

    async fn list_functions(&self, part: Option<&str>) {
        let names = self.runner.names().await.functions;
        let part = part.unwrap_or_default().to_lowercase();
        let found: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| name.to_lowercase().contains(&part))
            .collect();
        match found.is_empty() {
            true => console::note(format_args!("no function's name contains '{part}'")),
            false => console::note(found.join(" ")),
        }
    }

    fn redirect(&mut self, file: Option<&Path>, place: Option<&str>) -> Outcome {
        let Some(file) = file else {
            self.runner.redirect(self.unredirected());
            self.tell("results go to standard output");
            return Outcome::Done;
        };
        match Destination::file(file) {
            Ok(destination) => {
                self.runner.redirect(destination);
                self.tell(format_args!("results go to {}", file.display()));
                Outcome::Done
            }
            Err(error) => failed(format!("cannot write {}: {error}", file.display()), place),
        }
    }

    /// Runs the steps of a file until one fails.
    async fn include(&mut self, file: PathBuf, place: Option<&str>) -> Outcome {
        if self.depth == DEPTH_MAX {
            let name = file.display();
            return failed(
                format!("{name} is not read: {DEPTH_MAX} files read each other"),
                place,
            );
        }
        let script = Script::read(&Source::File(file));
        let steps = match script.steps() {
            Ok(steps) => steps,
            Err(message) => return failed(message, place),
        };
        self.depth += 1;
        let outcome = self.run_steps(&script, &steps, false, true).await;
        self.depth -= 1;
        outcome
    }

    /// Runs the last text again and again, until it fails or the user presses Ctrl-C.
    async fn watch(&mut self, interval: Duration, place: Option<&str>) -> Outcome {
        let script = Script::typed(&self.last);
        let steps = match script.steps() {
            Ok(steps) if !steps.is_empty() => steps,
            Ok(_) => return failed("there is no statement to watch yet: run one first", place),
            Err(message) => return failed(message, place),
        };
        loop {
            match self
                .run_steps(&script, &steps, false, steps.len() > 1)
                .await
            {
                Outcome::Done => {}
                end => return end,
            }
            tokio::select! {
                biased;
                signal = self.signals.next() => return match signal {
                    Signal::Hangup => Outcome::Stopped(signal),
                    _ => Outcome::Done,
                },
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// Has the last text edited, and does what comes back.
    async fn edit(&mut self, place: Option<&str>) -> Outcome {
        let edited = match edit::edit(&self.last) {
            Ok(edited) => edited,
            Err(message) => return failed(message, place),
        };
        self.tell(edited.trim_end());
        let script = Script::typed(&edited);
        match script.steps() {
            Ok(steps) => {
                self.last.clone_from(&edited);
                self.run_steps(&script, &steps, false, steps.len() > 1)
                    .await
            }
            Err(message) => failed(message, place),
        }
    }

    fn tell(&self, text: impl std::fmt::Display) {
        if !self.runner.quiet {
            console::note(text);
        }
    }
}

fn failed(message: impl std::fmt::Display, place: Option<&str>) -> Outcome {
    console::error(message, place);
    Outcome::Failed
}

/// Returns where results go unless a file was named.
fn unredirected(screen_lines: Option<usize>, is_paged: bool) -> Destination {
    match screen_lines {
        Some(num_lines) if is_paged => Destination::Screen { num_lines },
        _ => Destination::Stdout,
    }
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
