//! The settings of statements that run over several executors; they do nothing where there are none.

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

/// How rows are compressed on their way between the processes of a cluster: `tidegate.exchange_compression`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExchangeCompression {
    /// Not within one machine, else by LZ4.
    #[default]
    Auto,
    /// Not at all: for links faster than about 1 GB/s.
    None,
    /// By LZ4.
    Lz4,
    /// By Zstandard: for slow links.
    Zstd,
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
    /// How rows are compressed between processes.
    pub compression: ExchangeCompression,
}

impl Default for SpreadOptions {
    fn default() -> Self {
        Self {
            mode: SpreadMode::Auto,
            above: 64 << 20,
            executors: Vec::new(),
            retries: 3,
            compression: ExchangeCompression::Auto,
        }
    }
}
