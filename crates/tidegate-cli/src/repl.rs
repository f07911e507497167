//! The prompt: lines are typed, completed, coloured and remembered, and the shell answers them.

mod complete;
mod line;

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tidegate::statements::redacted;

use crate::exit::{DONE, FAILED};
use crate::run::Runner;
use crate::shell::{Outcome, Shell};
use crate::signals::{Heard, Signal};
use crate::{console, environment};
use line::LineRules;

/// Rows of a table that the prompt shows, unless told otherwise.
pub(crate) const PROMPT_ROWS: usize = 40;
/// Lines of history that are kept.
const HISTORY_LINES: usize = 10_000;

type LineEditor = Editor<LineRules, FileHistory>;

/// Reads and answers until the user leaves; returns the exit status.
pub(crate) async fn run(mut runner: Runner) -> u8 {
    let mut editor = match editor() {
        Ok(editor) => editor,
        Err(error) => return unreadable(&error),
    };
    runner.timing = !runner.quiet;
    let is_quiet = runner.quiet;
    let mut shell = Shell::new(runner, Heard::OfPrompt);
    if !is_quiet {
        let version = env!("CARGO_PKG_VERSION");
        console::note(format_args!(
            "tidegate {version}. Statements end with a semicolon, \\? lists commands, \\q leaves."
        ));
    }
    let mut history = History::load(&mut editor);
    loop {
        if let Some(rules) = editor.helper_mut() {
            rules.names = shell.runner.names().await;
        }
        shell.forget_signals();
        match editor.readline("tidegate> ") {
            Ok(text) => {
                shell.resize(editor.dimensions().map(|(_, lines)| usize::from(lines)));
                history.add(&mut editor, &redacted(text.trim_end()));
                match shell.answer(&text).await {
                    Outcome::Leave => return DONE,
                    // Nobody reads what a further prompt would write.
                    Outcome::Stopped(signal @ Signal::Hangup) => return signal.status(),
                    _ => {}
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return DONE,
            Err(error) => return unreadable(&error),
        }
    }
}

fn unreadable(error: &ReadlineError) -> u8 {
    console::error(
        format_args!("cannot read from this terminal: {error}"),
        None,
    );
    FAILED
}

fn editor() -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor = LineEditor::with_config(config)?;
    editor.set_helper(Some(LineRules::new(environment::colours())));
    Ok(editor)
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
