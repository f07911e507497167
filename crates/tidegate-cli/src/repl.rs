//! The prompt: statements until a semicolon, commands on one line, history, Ctrl-C.

mod command;
mod line;

use std::panic;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tidegate::Session;
use tidegate::statements::{self, Statement};

use crate::app::{DONE, FAILED};
use crate::args::{MaxRows, OutputArgs};
use crate::failure::Failure;
use crate::run::Runner;
use crate::{console, environment, panics};
use command::{Command, HELP};
use line::LineRules;

/// Rows of a table that the prompt shows, unless told otherwise.
const PROMPT_ROWS: usize = 40;
/// Lines of history that are kept.
const HISTORY_LINES: usize = 10_000;

type LineEditor = Editor<LineRules, FileHistory>;

/// Whether the prompt comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Prompt,
    Leave,
}

/// Reads and answers until the user leaves; returns the exit status.
pub(crate) async fn run(session: Session, output: &OutputArgs) -> u8 {
    let mut editor = match editor() {
        Ok(editor) => editor,
        Err(error) => {
            console::error(
                format_args!("cannot read from this terminal: {error}"),
                None,
            );
            return FAILED;
        }
    };
    let mut runner = Runner::new(session, output, Some(PROMPT_ROWS));
    runner.timing = !output.quiet;
    if !output.quiet {
        let version = env!("CARGO_PKG_VERSION");
        console::note(format_args!(
            "tidegate {version}. Statements end with a semicolon, \\? lists commands, \\q leaves."
        ));
    }
    let mut history = History::load(&mut editor);
    loop {
        match editor.readline("tidegate> ") {
            Ok(text) => {
                history.add(&mut editor, text.trim_end());
                if answer(&mut runner, &text).await == Then::Leave {
                    return DONE;
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return DONE,
            Err(error) => {
                console::error(
                    format_args!("cannot read from this terminal: {error}"),
                    None,
                );
                return FAILED;
            }
        }
    }
}

fn editor() -> rustyline::Result<LineEditor> {
    let config = Config::builder().max_history_size(HISTORY_LINES)?.build();
    let mut editor = LineEditor::with_config(config)?;
    editor.set_helper(Some(LineRules));
    Ok(editor)
}

/// Does what was typed: a command, or statements.
async fn answer(runner: &mut Runner, text: &str) -> Then {
    match command::parse(text) {
        Some(Ok(command)) => obey(runner, command).await,
        Some(Err(message)) => {
            console::error(message, None);
            Then::Prompt
        }
        None => run_typed(runner, text).await,
    }
}

/// Runs the statements of a text.
async fn run_typed(runner: &Runner, text: &str) -> Then {
    match cut(text) {
        Ok(statements) => run_all(runner, &statements).await,
        Err(message) => {
            console::error(message, None);
            Then::Prompt
        }
    }
}

/// Cuts text into statements on this thread, where a panic would end the prompt.
fn cut(text: &str) -> Result<Vec<Statement>, String> {
    match panic::catch_unwind(|| statements::locate(text)) {
        Ok(statements) => statements.map_err(|error| error.to_string()),
        Err(_) => Err(Failure::Panic(panics::take()).to_string()),
    }
}

/// Runs statements until one fails; of several, says which.
async fn run_all(runner: &Runner, statements: &[Statement]) -> Then {
    for statement in statements {
        match runner.interruptible(statement.text()).await {
            Ok(()) => {}
            Err(Failure::OutputClosed) => return Then::Leave,
            Err(failure) => {
                let place = format!("in: {}", statement.excerpt());
                console::error(
                    failure,
                    Some(place.as_str()).filter(|_| statements.len() > 1),
                );
                return Then::Prompt;
            }
        }
    }
    Then::Prompt
}

async fn obey(runner: &mut Runner, command: Command) -> Then {
    match command {
        Command::Quit => return Then::Leave,
        Command::Help => console::note(HELP),
        Command::Describe(None) => return run_typed(runner, "SHOW TABLES").await,
        Command::Describe(Some(name)) => {
            return run_typed(runner, &format!("DESCRIBE {name}")).await;
        }
        Command::Timing(on) => {
            runner.timing = on.unwrap_or(!runner.timing);
            console::note(format_args!("timing is {}", on_or_off(runner.timing)));
        }
        Command::Placement(on) => {
            runner.placement = on.unwrap_or(!runner.placement);
            console::note(format_args!("placement is {}", on_or_off(runner.placement)));
        }
        Command::Format(format) => {
            runner.style = runner
                .style
                .with_format(format.unwrap_or(runner.style.format));
            console::note(format_args!("format is {}", runner.style.format));
        }
        Command::MaxRows(rows) => {
            runner.style.maxrows = rows.map_or(runner.style.maxrows, |MaxRows(rows)| rows);
            match runner.style.maxrows {
                Some(rows) => console::note(format_args!("tables show {rows} rows")),
                None => console::note("tables show all rows"),
            }
        }
    }
    Then::Prompt
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// The file in which lines outlive the process. Where it cannot be written, they do not.
struct History {
    file: Option<PathBuf>,
}

impl History {
    fn load(editor: &mut LineEditor) -> Self {
        let file = environment::history_file();
        if let Some(file) = &file {
            if let Some(folder) = file.parent() {
                // A folder that cannot be made shows when the first line is added.
                let _ = std::fs::create_dir_all(folder);
            }
            // There is none before the first line.
            let _ = editor.load_history(file);
        }
        Self { file }
    }

    fn add(&mut self, editor: &mut LineEditor, text: &str) {
        if text.is_empty() || !matches!(editor.add_history_entry(text), Ok(true)) {
            return;
        }
        let Some(file) = &self.file else { return };
        if let Err(error) = editor.append_history(file) {
            console::note(format_args!(
                "history is not kept in {}: {error}",
                file.display()
            ));
            self.file = None;
        }
    }
}
