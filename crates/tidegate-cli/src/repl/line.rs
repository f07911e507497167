//! How a line is typed: when it is complete, what Tab proposes, its colours.

use std::borrow::Cow;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::HistoryHinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Hinter};
use tidegate::Names;
use tidegate::statements::{self, HighlightKind, highlight};

use super::complete::{Completion, complete};
use crate::shell;

/// The longest line that is coloured with each key: colouring reads all of it.
const COLOURED_MAX: usize = 20_000;

/// Lets Enter go to the next line until there is a command or a whole statement, completes words and
/// paths, and colours what is typed.
#[derive(Helper, Hinter)]
pub(super) struct LineRules {
    /// What can be named.
    pub(super) names: Names,
    pub(super) colours: bool,
    #[rustyline(Hinter)]
    hinter: HistoryHinter,
    paths: FilenameCompleter,
}

impl LineRules {
    pub(super) fn new(colours: bool) -> Self {
        Self {
            names: Names::default(),
            colours,
            hinter: HistoryHinter::new(),
            paths: FilenameCompleter::new(),
        }
    }
}

impl Validator for LineRules {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(typed.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for LineRules {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        ctx: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        match complete(&self.names, &line[..cursor]) {
            Completion::Words(start, words) => Ok((start, words)),
            Completion::Path => self.paths.complete(line, cursor, ctx),
        }
    }
}

impl Highlighter for LineRules {
    fn highlight<'l>(&self, line: &'l str, _cursor: usize) -> Cow<'l, str> {
        if !self.colours || line.len() > COLOURED_MAX || shell::parse(line).is_some() {
            return Cow::Borrowed(line);
        }
        Cow::Owned(coloured(line))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        match self.colours {
            true => Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")),
            false => Cow::Borrowed(hint),
        }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        match self.colours {
            true => Cow::Owned(format!("\x1b[1;36m{prompt}\x1b[0m")),
            false => Cow::Borrowed(prompt),
        }
    }

    fn highlight_char(&self, _line: &str, _cursor: usize, kind: CmdKind) -> bool {
        self.colours && kind != CmdKind::MoveCursor
    }
}

/// Colours keywords, strings, numbers and comments.
fn coloured(line: &str) -> String {
    let mut text = String::with_capacity(line.len() * 2);
    for span in highlight(line) {
        let colour = match span.kind {
            HighlightKind::Keyword => "\x1b[1;34m",
            HighlightKind::Text => "\x1b[32m",
            HighlightKind::Number => "\x1b[35m",
            HighlightKind::Comment => "\x1b[2m",
            HighlightKind::Other => "",
        };
        text.push_str(colour);
        text.push_str(&line[span.range]);
        if !colour.is_empty() {
            text.push_str("\x1b[0m");
        }
    }
    text
}

fn is_complete(text: &str) -> bool {
    shell::parse(text).is_some() || statements::is_complete(text)
}

#[cfg(test)]
mod tests;
