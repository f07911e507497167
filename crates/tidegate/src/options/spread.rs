//! The settings of statements that run over several executors; they do nothing where there are none.

use super::{Setting, parse_bytes};

/// Which statements run over several executors: `tidegate.spread`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpreadMode {
    /// Those that read enough, see [`SpreadOptions::above`].
    #[default]
    Auto,
    /// None.
    Never,
    /// Each that can.
    Always,
}

/// What runs over several executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadOptions {
    /// Which statements.
    pub mode: SpreadMode,
    /// Bytes that a statement must read to run over several executors under [`SpreadMode::Auto`].
    pub above: u64,
    /// The names of the executors to use; empty for all.
    pub executors: Vec<String>,
    /// How many times a statement runs again that lost an executor before any row had left.
    pub retries: usize,
}

impl Default for SpreadOptions {
    fn default() -> Self {
        Self {
            mode: SpreadMode::Auto,
            above: 64 << 20,
            executors: Vec::new(),
            retries: 3,
        }
    }
}

/// The most that `tidegate.retries` may be.
const RETRIES_MAX: usize = 10;

pub(super) const SETTINGS: [Setting; 4] = [
    Setting {
        name: "spread",
        help: "statements that run over the executors of a cluster: auto (those that read more \
               than tidegate.spread_above), never or always (each that can); EXPLAIN shows the \
               stages, or why a statement stays on the scheduler",
    },
    Setting {
        name: "spread_above",
        help: "bytes that a statement must read to run over several executors, such as 64MB",
    },
    Setting {
        name: "executors",
        help: "names of the executors to use, such as 'e1, e2'; empty for all",
    },
    Setting {
        name: "retries",
        help: "how many times a statement runs again that lost an executor before any of its rows \
               had left, from 0 to 10",
    },
];

impl SpreadOptions {
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let text = match name {
            "spread" => match self.mode {
                SpreadMode::Auto => "auto".into(),
                SpreadMode::Never => "never".into(),
                SpreadMode::Always => "always".into(),
            },
            "spread_above" => self.above.to_string(),
            "executors" if self.executors.is_empty() => return None,
            "executors" => self.executors.join(", "),
            "retries" => self.retries.to_string(),
            _ => return None,
        };
        Some(text)
    }

    /// Sets a setting; `None` if it is none of these, an error with what was expected.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
        match name {
            "spread" => {
                self.mode = match value.to_ascii_lowercase().as_str() {
                    "auto" => SpreadMode::Auto,
                    "never" => SpreadMode::Never,
                    "always" => SpreadMode::Always,
                    _ => return Some(Err("auto, never or always")),
                }
            }
            "spread_above" => match parse_bytes(value) {
                Some(bytes) => self.above = bytes,
                None => return Some(Err("a size such as 64MB, or 0")),
            },
            "executors" => {
                let names = value.split(',').map(str::trim);
                let names = names.filter(|name| !name.is_empty());
                self.executors = names.map(str::to_string).collect();
            }
            "retries" => match value.parse() {
                Ok(retries) if retries <= RETRIES_MAX => self.retries = retries,
                _ => return Some(Err("a number from 0 to 10")),
            },
            _ => return None,
        }
        Some(Ok(()))
    }
}
